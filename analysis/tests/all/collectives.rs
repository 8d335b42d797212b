//! Collectives over ranks: answers that are known, and jobs that never ran with faults that were planted.

use std::path::{Path, PathBuf};

use crate::common::{Scratch, row, rows};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::collectives::Collectives;
use rsys_analysis::ranks;
use rsys_analysis::table::Answer;
use rsys_synthetic::{Cause, Fault, HostClock, Job, simulate};
use rsys_traces::model::{
    Activity, Batch, CollectiveCall, GpuRecord, HostKind, HostSlice, Model, Process, ProcessId,
    ThreadId,
};
use rsys_traces::read::BytesRead;
use serde_json::Value;

const MICROSECOND: u64 = 1_000;

/// A collective of some ranks: operation, bytes, number, and begin and end on each rank in microseconds.
type Told<'t> = (&'t str, u64, u64, &'t [(u64, u64, u64)]);

/// Ranks, each on a host of its own whose clock is ahead by some microseconds, and what they did.
fn answer(ranks: usize, told: &[Told<'_>], ahead: impl Fn(u64) -> u64) -> Answer {
    let mut model = Model::default();
    for rank in 0..ranks as u64 {
        model.processes.push(Process {
            pid: 100 + rank as u32,
            rank: Some(rank),
            host: format!("node{rank}"),
            boot_id: if ahead(rank) == 0 {
                "b00t".to_owned()
            } else {
                format!("b00t{rank}")
            },
            ..Process::default()
        });
    }
    let mut batch = Batch::default();
    let mut link = 0;
    for (name, bytes, sequence, times) in told {
        for &(rank, start, end) in *times {
            link += 2;
            let start_ns = (1_000 + start + ahead(rank)) * MICROSECOND;
            let end_ns = (1_000 + end + ahead(rank)) * MICROSECOND;
            let (process, thread) = (ProcessId::new(rank as usize), ThreadId::new(rank as usize));
            batch.collectives.push(CollectiveCall {
                start_ns: start_ns - 10,
                end_ns: start_ns - 5,
                link,
                process,
                thread,
                name: model.texts.intern(name),
                communicator: model.texts.intern("c0"),
                data_type: model.texts.intern("bfloat16"),
                sequence: Some(*sequence),
                bytes: *bytes,
                rank: Some(rank),
                ranks: Some(ranks as u64),
                // Messages are those of ranks 0 and 1.
                peer: matches!(*name, "ncclSend" | "ncclRecv").then(|| 1 - rank),
                ..CollectiveCall::default()
            });
            for (kind, slice_link, at) in [
                (HostKind::Runtime, link + 1, start_ns - 9),
                (HostKind::Collective, link, start_ns - 10),
            ] {
                batch.host.push(HostSlice {
                    start_ns: at,
                    end_ns: start_ns - 5,
                    link: slice_link,
                    process,
                    thread,
                    kind,
                    ..HostSlice::default()
                });
            }
            batch.gpu.push(GpuRecord {
                start_ns,
                end_ns,
                link: link + 1,
                process,
                activity: Activity::Comm,
                ..GpuRecord::default()
            });
        }
    }
    let mut collectives = Collectives::default();
    collectives.take(&batch);
    collectives.answer(&model, "test")
}

/// The begin and end of each rank, which wait for so long, of a collective that takes so long and begins at `at`.
fn waits(at: u64, latency: u64, waits: [u64; 4]) -> Vec<(u64, u64, u64)> {
    let longest = *waits.iter().max().unwrap();
    let ranks = (0..).zip(waits);
    ranks
        .map(|(rank, wait)| (rank, at + longest - wait, at + longest + latency))
        .collect()
}

/// Two sizes of one class, and one of another; ranks begin late by anything.
#[test]
fn bandwidth_by_size_is_that_of_the_rank_that_did_not_wait() {
    const MIB: u64 = 1 << 20;
    let times = [
        waits(0, 100, [0, 500, 20, 300]),
        waits(1_000, 300, [900, 0, 10, 10]),
        waits(4_000, 2_000, [0, 1, 2, 3]),
        waits(9_000, 50, [0, 1, 2, 3]),
    ];
    let told = [
        ("ncclAllReduce", 2 * MIB, 0, times[0].as_slice()),
        ("ncclAllReduce", 6 * MIB, 1, times[1].as_slice()),
        ("ncclAllReduce", 64 * MIB, 2, times[2].as_slice()),
        // Nothing is moved that is known.
        ("ncclAllReduce", 0, 3, times[3].as_slice()),
    ];
    let answer = answer(4, &told, |_| 0);
    let bandwidths = rows(&answer, "bandwidths");
    assert_eq!(bandwidths.len(), 2, "{bandwidths:#?}");
    for (size, count, bytes, moved_us) in [
        ("up to 16 MiB", 2, 8 * MIB, 400),
        ("up to 256 MiB", 1, 64 * MIB, 2_000),
    ] {
        let row = row(&bandwidths, "size", size);
        assert_eq!(row["count"], count, "{row}");
        assert_eq!(row["whole_bytes"], bytes, "{row}");
        assert_eq!(row["moved_ns"], moved_us * MICROSECOND, "{row}");
        let algorithm = bytes as f64 / (moved_us as f64 / 1e6);
        for (key, expected) in [
            ("algorithm_bytes_per_s", algorithm),
            ("bus_bytes_per_s", algorithm * 1.5),
        ] {
            let off = row[key].as_f64().unwrap() / expected - 1.0;
            assert!(off.abs() < 1e-9, "{key}: {row}");
        }
    }
    let small = row(&bandwidths, "size", "up to 16 MiB");
    assert_eq!(small["start_skew_mean_ns"], 700_000.0, "{small}");
}

#[test]
fn known_collectives_have_known_numbers() {
    const MIB: u64 = 1 << 20;
    let times = [
        waits(0, 106, [200, 190, 120, 0]),
        waits(1_000, 100, [2, 2, 1, 0]),
        waits(2_000, 202, [400, 0, 350, 350]),
    ];
    let told = [
        ("ncclAllReduce", 2 * MIB, 0, times[0].as_slice()),
        ("ncclAllGather", MIB / 2, 1, times[1].as_slice()),
        ("ncclReduceScatter", MIB / 2, 2, times[2].as_slice()),
    ];
    let answer = answer(4, &told, |_| 0);
    let operations = rows(&answer, "operations");
    for (name, latency, skew, algorithm, bus) in [
        ("ncclAllReduce", 106, 200, 18.4257, 27.6386),
        ("ncclAllGather", 100, 2, 19.5313, 14.6484),
        ("ncclReduceScatter", 202, 400, 9.6689, 7.2517),
    ] {
        let row = row(&operations, "operation", name);
        assert_eq!(
            row["latency_min_mean_ns"],
            f64::from(latency) * 1e3,
            "{row}"
        );
        assert_eq!(row["start_skew_max_ns"], skew * MICROSECOND, "{row}");
        for (key, value) in [("algorithm_gib_s", algorithm), ("bus_gib_s", bus)] {
            assert!(
                (row[key].as_f64().unwrap() - value).abs() < 1e-4,
                "{key}: {row}"
            );
        }
        let gb = row["algorithm_gb_s"].as_f64().unwrap();
        assert!((gb / algorithm - 1.073_741_824).abs() < 1e-4, "{row}");
    }
    let ranks = rows(&answer, "ranks");
    for (rank, wait, last) in [(0, 602, 0), (1, 192, 1), (2, 471, 0), (3, 350, 2)] {
        let row = ranks.iter().find(|row| row["rank"] == rank).unwrap();
        assert_eq!(row["wait_ns"], wait * MICROSECOND, "{row}");
        assert_eq!(row["last"], last, "{row}");
    }
    // Before the first collective nothing is known; in the second, rank 3 was 1 µs later than the next; in the third, rank 1 by 350.
    let blame =
        |rank: u64| ranks.iter().find(|row| row["rank"] == rank).unwrap()["blame_ns"].clone();
    assert_eq!(
        (blame(3), blame(1)),
        (Value::from(MICROSECOND), Value::from(350 * MICROSECOND))
    );
}

#[test]
fn a_rank_that_missed_the_first_collective_is_matched_by_number() {
    let all = waits(0, 100, [50, 0, 50, 50]);
    let second = waits(1_000, 100, [0, 70, 70, 70]);
    let told = [
        ("ncclAllReduce", 4096, 0, &all[1..]),
        ("ncclAllReduce", 4096, 1, second.as_slice()),
        (
            "ncclAllReduce",
            4096,
            2,
            &waits(2_000, 100, [0, 60, 60, 60]),
        ),
    ];
    let answer = answer(4, &told, |_| 0);
    let communicators = rows(&answer, "communicators");
    assert_eq!(communicators[0]["incomplete"], 1);
    assert_eq!(communicators[0]["matched"], 2);
    let ranks = rows(&answer, "ranks");
    let last = |rank: u64| ranks.iter().find(|row| row["rank"] == rank).unwrap()["last"].clone();
    assert_eq!([last(0), last(1)], [Value::from(2), Value::from(0)]);
}

#[test]
fn what_ranks_tell_differently_is_refused() {
    let times = waits(0, 100, [50, 0, 50, 50]);
    let told = [
        ("ncclAllReduce", 4096, 0, &times[..2]),
        ("ncclAllGather", 4096, 0, &times[2..]),
        // Twice under one number.
        ("ncclAllReduce", 4096, 1, times.as_slice()),
        ("ncclAllReduce", 4096, 1, times.as_slice()),
    ];
    let answer = answer(4, &told, |_| 0);
    let communicators = rows(&answer, "communicators");
    assert_eq!(communicators[0]["contradictory"], 2);
    assert_eq!(communicators[0]["matched"], 0);
    assert!(
        answer.notes.iter().any(|note| note.contains("not matched")),
        "{:?}",
        answer.notes
    );
}

#[test]
fn messages_are_matched_by_both_ranks_and_their_direction() {
    let told: [Told<'_>; 5] = [
        ("ncclSend", 4096, 0, &[(0, 0, 50)]),
        ("ncclRecv", 4096, 0, &[(1, 20, 50)]),
        ("ncclSend", 4096, 1, &[(0, 100, 150)]),
        ("ncclRecv", 4096, 1, &[(1, 110, 150)]),
        // The other direction has numbers of its own; nobody receives.
        ("ncclSend", 4096, 0, &[(1, 200, 250)]),
    ];
    let answer = answer(2, &told, |_| 0);
    let mut pairs = rows(&answer, "communicators");
    pairs.sort_by_key(|row| row["present"].as_u64());
    let counts: Vec<_> = pairs
        .iter()
        .map(|row| (row["matched"].as_u64(), row["incomplete"].as_u64()))
        .collect();
    assert_eq!(
        counts,
        [(Some(0), Some(1)), (Some(2), Some(0))],
        "{pairs:?}"
    );
    let ranks = rows(&answer, "ranks");
    assert!(ranks.iter().all(|row| row["blame_ns"] == 0), "{ranks:?}");
    let waits = ranks.iter().map(|row| row["message_wait_ns"].clone());
    // What the send took longer than the receive.
    let expected = [30 * MICROSECOND, 0];
    assert_eq!(waits.collect::<Vec<_>>(), expected, "{ranks:?}");
}

#[test]
fn who_is_late_on_another_host_is_known_by_durations() {
    let times: Vec<_> = (0..20)
        .map(|number| waits(10_000 * number, 3_000, [1_000, 1_000, 990, 0]))
        .collect();
    let told: Vec<Told<'_>> = (0..)
        .zip(&times)
        .map(|(number, times)| ("ncclAllReduce", 4096, number, times.as_slice()))
        .collect();
    // Clocks say nothing: what they leave open is as much as the collective takes.
    let answer = answer(4, &told, |rank| rank * 5_000);
    let instances = rows(&answer, "instances");
    let is_certain = |row: &Value| row["verdict"] == "certain";
    assert!(!instances.iter().any(is_certain), "{instances:?}");
    let stragglers = rows(&answer, "stragglers");
    assert_eq!(stragglers.len(), 1, "{stragglers:?}");
    assert_eq!(stragglers[0]["rank"], 3);
    // In front of the first nothing is known.
    assert_eq!(stragglers[0]["blame_ns"], 19 * 990 * MICROSECOND);
}

#[test]
fn ranks_of_incomplete_collectives_are_compared() {
    let times: Vec<_> = (0..20)
        .map(|number| waits(10_000 * number, 100, [1_000, 1_000, 1_000, 0]))
        .collect();
    // Rank 0 has no trace.
    let told: Vec<Told<'_>> = (0..)
        .zip(&times)
        .map(|(number, times)| ("ncclAllReduce", 4096, number, &times[1..]))
        .collect();
    let answer = answer(4, &told, |_| 0);
    assert_eq!(rows(&answer, "communicators")[0]["incomplete"], 20);
    let stragglers = rows(&answer, "stragglers");
    assert_eq!(stragglers.len(), 1, "{stragglers:?}");
    assert_eq!(stragglers[0]["rank"], 3);
    let ranks = rows(&answer, "ranks");
    // Who is missing may have come later still.
    assert!(ranks.iter().all(|row| row["last"] == 0), "{ranks:?}");
    let what_if = rows(&answer, "what_if");
    assert!(
        what_if[0]["saved_ns"].as_u64() >= Some(18_000 * MICROSECOND),
        "{what_if:?}"
    );
    assert!(rows(&answer, "operations").is_empty());
}

#[test]
fn a_clock_that_is_off_makes_no_straggler() {
    let times: Vec<Vec<_>> = (0..50)
        .map(|number| waits(1_000 * number, 100, [9, 3, 6, 0]))
        .collect();
    let told: Vec<Told<'_>> = (0..)
        .zip(&times)
        .map(|(number, times)| ("ncclAllReduce", 4096, number, times.as_slice()))
        .collect();
    let answer = answer(4, &told, |rank| if rank == 2 { 1_000 } else { 0 });
    let ranks = rows(&answer, "ranks");
    let of_rank = |rank: u64| ranks.iter().find(|row| row["rank"] == rank).unwrap();
    assert_eq!(of_rank(2)["last"], 0);
    assert!(rows(&answer, "stragglers").is_empty());
    let clocks = rows(&answer, "clocks");
    let uncertainty = clocks[1]["uncertainty_ns"].as_u64().unwrap();
    assert!(
        (90..=110).contains(&(uncertainty / MICROSECOND)),
        "{clocks:?}"
    );
    let instances = rows(&answer, "instances");
    assert!(
        instances.iter().all(|row| row["last_rank"] != 2),
        "{instances:?}"
    );
}

/// The traces of a job.
fn written(job: &Job, scratch: &Scratch) -> Vec<PathBuf> {
    let truth = scratch.write("truth.json", b"");
    let folder = truth.parent().map(Path::to_path_buf).unwrap();
    rsys_synthetic::write(job, &folder).unwrap();
    let files = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    files.sort();
    files
}

fn ask(job: &Job) -> Answer {
    let scratch = Scratch::new();
    let files = written(job, &scratch);
    ranks::collectives(&files, &BytesRead::default(), 2).0
}

/// A job of a size that varies, on hosts whose wall clocks are wrong and drift.
fn job(number: u64) -> Job {
    let ranks = [2, 4, 8, 8, 16][(number % 5) as usize];
    let clock = |host: i64| HostClock {
        wall_error_ns: host * 1_000_000 * (number as i64 % 3 - 1),
        drift_ppb: host * 500 * (number as i64 % 5 - 2),
    };
    Job {
        ranks,
        ranks_per_host: [4, 8, 2][(number % 3) as usize],
        iterations: 20,
        group: [1, 2, 4][(number % 3) as usize].min(ranks),
        jitter: 5 + number % 20,
        seed: number + 1,
        clocks: (0..8).map(clock).collect(),
        ..Job::default()
    }
}

/// The word for a cause in the answer.
fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::LongKernel => "longer_kernels",
        Cause::LowClock => "slow_clock",
        Cause::SlowLoader | Cause::GarbageCollection | Cause::PageFaults => "host_code",
        Cause::OffProcessor => "off_processor",
        Cause::Lock | Cause::Sleep => "host_wait",
        Cause::SlowLink => "copies",
        Cause::HostSync => "runtime_call",
        Cause::UnevenWork => "more_kernels",
    }
}

#[test]
fn planted_faults_are_found_with_rank_cause_and_line() {
    const FAULTS: u64 = 220;
    let (mut ranks_right, mut causes_right, mut wrong) = (0, 0, Vec::new());
    for number in 0..FAULTS {
        let mut job = job(number);
        let rank = number * 7 % job.ranks;
        let cause = Cause::ALL[(number % 11) as usize];
        let every = 1 + number / 11 % 3;
        let amount_ns = 3_000_000 + number * 20_000;
        job.faults = vec![Fault {
            rank,
            cause,
            amount_ns,
            every,
        }];
        let answer = ask(&job);
        let found = rows(&answer, "stragglers");
        let is_rank = found.len() == 1 && found[0]["rank"] == rank;
        ranks_right += u64::from(is_rank);
        let is_cause = is_rank
            && found[0]["cause"] == word(cause)
            && cause.place().is_none_or(|(function, line)| {
                let place = found[0]["place"].as_str().unwrap_or_default();
                place.contains(&format!("{function} (train.py:{line})"))
            });
        causes_right += u64::from(is_cause);
        if !is_cause {
            wrong.push(format!(
                "{number}: rank {rank} of {} {cause:?}: {found:?}",
                job.ranks
            ));
        }
    }
    println!(
        "{FAULTS} faults: {ranks_right} ranks and {causes_right} causes right\n{}",
        wrong.join("\n")
    );
    assert!(
        ranks_right * 100 >= FAULTS * 98 && causes_right * 100 >= FAULTS * 90,
        "{wrong:#?}"
    );
}

/// How long a job takes, from the end of its first collective to the end of its last one.
fn span_ns(job: &Job) -> f64 {
    let ends = simulate(job);
    let all = |place| (0..job.ranks).map(move |rank| (rank, place));
    let at = |(rank, place)| ends.end_ns(job, rank, place);
    let first = all((0, 0)).map(at).min().unwrap();
    let last = all((job.iterations - 1, job.buckets - 1))
        .map(at)
        .max()
        .unwrap();
    (last - first) as f64
}

#[test]
fn what_a_job_would_take_without_its_straggler_is_what_it_takes() {
    let mut off: Vec<f64> = Vec::new();
    for number in 0..22 {
        let mut job = job(number);
        let healthy = job.clone();
        job.faults = vec![Fault {
            rank: number * 7 % job.ranks,
            cause: Cause::ALL[(number % 11) as usize],
            amount_ns: 3_000_000 + 200_000 * number,
            every: 1 + number / 11,
        }];
        let answer = ask(&job);
        let what_if = rows(&answer, "what_if");
        let one = row(&what_if, "change", "the rank were like the others");
        assert_eq!(one["rank"], job.faults[0].rank);
        let as_it_was = one["collectives_ns"].as_f64().unwrap() / span_ns(&job) - 1.0;
        assert!(as_it_was.abs() < 0.002, "{number}: {as_it_was}");
        let predicted = one["predicted_ns"].as_f64().unwrap() / span_ns(&healthy) - 1.0;
        assert!(predicted.abs() < 0.02, "{number}: {predicted} {one}");
        off.push(predicted.abs());
    }
    let worst = off.iter().copied().fold(0.0, f64::max);
    println!(
        "{} jobs: predicted within {:.2} % of what they take without the fault",
        off.len(),
        100.0 * worst
    );
}

#[test]
fn the_cause_is_what_took_most_in_all_not_at_once() {
    for (loader_ns, cause) in [(6_000_000, Cause::SlowLoader), (1_000_000, Cause::Lock)] {
        let fault = |cause, amount_ns, every| Fault {
            rank: 1,
            cause,
            amount_ns,
            every,
        };
        let mut job = Job {
            iterations: 40,
            ..job(7)
        };
        job.faults = vec![
            fault(Cause::SlowLoader, loader_ns, 1),
            fault(Cause::Lock, 60_000_000, 25),
        ];
        let found = rows(&ask(&job), "stragglers");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0]["cause"], word(cause), "{found:#?}");
    }
}

#[test]
fn a_second_straggler_takes_the_place_of_the_first() {
    let mut job = Job { group: 1, ..job(7) };
    let fault = |rank, amount_ns| Fault {
        rank,
        cause: Cause::SlowLoader,
        amount_ns,
        every: 1,
    };
    job.faults = vec![fault(0, 8_000_000), fault(1, 5_000_000)];
    let answer = ask(&job);
    let what_if = rows(&answer, "what_if");
    let without = |rank: u64| {
        let found = what_if.iter().find(|row| row["rank"] == rank).unwrap();
        found["saved_ns"].as_u64().unwrap() / job.iterations
    };
    // Without the second nothing is saved, without the first what it is later by.
    assert!(without(0).abs_diff(3_000_000) < 300_000, "{what_if:#?}");
    assert!(without(1) < 100_000, "{what_if:#?}");
    let alike = row(&what_if, "change", "all ranks were alike");
    assert!(
        alike["saved_ns"].as_u64().unwrap() / job.iterations > 7_000_000,
        "{alike}"
    );
}

#[test]
fn healthy_jobs_have_no_straggler() {
    let blamed =
        (0..200).filter(|number| !rows(&ask(&job(1000 + number)), "stragglers").is_empty());
    let blamed: Vec<u64> = blamed.collect();
    println!("200 healthy jobs: {} with a straggler", blamed.len());
    assert!(blamed.is_empty(), "{blamed:?}");
}

#[test]
fn missing_late_and_restarted_ranks_blame_nobody() {
    let whole = Job {
        iterations: 30,
        ..Job::default()
    };
    for (job, told) in [
        (
            Job {
                missing: vec![5],
                ..whole.clone()
            },
            "not all ranks are in these traces",
        ),
        (
            Job {
                late: Some((3, 7)),
                ..whole.clone()
            },
            "all ranks are in these traces, and have different numbers of operations",
        ),
        (
            Job {
                restart: Some((2, 11)),
                ..whole.clone()
            },
            "",
        ),
    ] {
        let answer = ask(&job);
        assert!(rows(&answer, "stragglers").is_empty());
        assert!(
            told.is_empty() || answer.notes.iter().any(|note| note.contains(told)),
            "{:?}",
            answer.notes
        );
        let communicators = rows(&answer, "communicators");
        assert!(
            communicators.iter().all(|row| row["contradictory"] == 0),
            "{communicators:?}"
        );
        assert_eq!(
            communicators.len(),
            if job.restart.is_some() { 2 } else { 1 }
        );
    }
}

#[test]
fn neither_the_order_of_files_nor_jobs_matter() {
    let mut job = job(3);
    job.faults = vec![Fault {
        rank: 1,
        cause: Cause::Sleep,
        amount_ns: 4_000_000,
        every: 2,
    }];
    let scratch = Scratch::new();
    let mut files = written(&job, &scratch);
    let asked = |files: &[PathBuf], jobs| {
        let (answer, _) = ranks::collectives(files, &BytesRead::default(), jobs);
        rsys_analysis::show::json(&answer).to_string()
    };
    let first = asked(&files, 1);
    files.reverse();
    assert_eq!(first, asked(&files, 1));
    files.rotate_left(1);
    assert_eq!(first, asked(&files, 3));
}
