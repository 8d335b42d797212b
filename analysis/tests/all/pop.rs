//! Efficiencies of jobs whose factors are known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::{Scratch, batch, judge, model, rows};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::pop::Pop;
use rsys_analysis::pass_counted;
use rsys_analysis::show::json;
use rsys_analysis::table::Answer;
use rsys_synthetic::mpi::{MpiCause, MpiFault, MpiJob, Pattern, When, simulate, write};
use rsys_traces::model::{
    Activity, Batch, Device, DeviceId, GpuRecord, HostKind, HostSlice, Model, Process, ProcessId,
    Thread, ThreadId,
};
use rsys_traces::read::BytesRead;

/// The efficiencies of a region by their keys.
fn shares(answer: &Answer, region: &str) -> BTreeMap<String, f64> {
    let rows = rows(answer, "pop").into_iter();
    let of_region = rows.filter(|row| row["region"] == region);
    let shares = of_region.filter_map(|row| {
        let key = row["key"].as_str()?.to_owned();
        Some((key, row["share"].as_f64()?))
    });
    shares.collect()
}

fn near(found: f64, expected: f64, within: f64, what: &str) {
    assert!(
        (found - expected).abs() <= within,
        "{what}: {found} for {expected}"
    );
}

/// Each efficiency is the product of those below it.
fn are_products(shares: &BTreeMap<String, f64>) {
    for (whole, parts) in [
        (
            "parallel_efficiency",
            &["mpi_parallel_efficiency", "device_offload_efficiency"][..],
        ),
        (
            "mpi_parallel_efficiency",
            &["mpi_load_balance", "mpi_communication_efficiency"],
        ),
        (
            "mpi_load_balance",
            &["mpi_load_balance_in", "mpi_load_balance_out"],
        ),
        (
            "gpu_parallel_efficiency",
            &[
                "gpu_load_balance",
                "gpu_communication_efficiency",
                "gpu_orchestration_efficiency",
            ],
        ),
    ] {
        let known: Vec<f64> = parts
            .iter()
            .filter_map(|key| shares.get(*key))
            .copied()
            .collect();
        let Some(found) = shares.get(whole).filter(|_| !known.is_empty()) else {
            continue;
        };
        near(known.iter().product(), *found, 1e-12, whole);
    }
}

fn ask(job: &MpiJob) -> (Answer, Vec<(u64, u64)>) {
    let scratch = Scratch::new();
    let folder = scratch.write("root", b"").with_file_name("job");
    let outcome = simulate(job);
    write(job, &outcome, &folder).unwrap();
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let files = files.map(|entry| entry.path());
    let files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    let mut measures = vec![Box::<Pop>::default() as Box<dyn Measure>];
    let model = pass_counted(&files, &mut measures, &BytesRead::default(), 2);
    (measures[0].answer(&model, "run"), outcome.times_of_ranks())
}

/// Half a point.
const WITHIN: f64 = 0.005;

/// Compares an answer with the truth of a job.
fn judge_job(job: &MpiJob) -> BTreeMap<String, f64> {
    let (answer, truth) = ask(job);
    judge(&json(&answer));
    let shares = shares(&answer, "the run");
    are_products(&shares);
    let outside: Vec<f64> = truth.iter().map(|(all, mpi)| (all - mpi) as f64).collect();
    let elapsed = truth.iter().map(|(all, _)| *all).max().unwrap_or(0) as f64;
    let mean = outside.iter().sum::<f64>() / outside.len() as f64;
    let max = outside.iter().copied().fold(0.0, f64::max);
    let hosts = outside.chunks(job.ranks_per_host as usize);
    let hosts = hosts.map(|of_host| of_host.iter().sum::<f64>() / of_host.len() as f64);
    let max_host = hosts.fold(0.0, f64::max);
    let what = format!("{:?} of {} ranks", job.pattern, job.ranks);
    for (key, expected) in [
        ("parallel_efficiency", mean / elapsed),
        ("mpi_load_balance", mean / max),
        ("mpi_load_balance_in", max_host / max),
        ("mpi_load_balance_out", mean / max_host),
        ("mpi_communication_efficiency", max / elapsed),
    ] {
        near(shares[key], expected, WITHIN, &format!("{what}: {key}"));
    }
    assert!(
        !shares.contains_key("device_offload_efficiency"),
        "{shares:?}"
    );
    shares
}

#[test]
fn jobs_of_mpi_have_their_factors() {
    for pattern in Pattern::ALL {
        for (ranks, fault) in [(8, None), (32, Some(5))] {
            let job = MpiJob {
                pattern,
                ranks,
                iterations: 10,
                fault: fault.map(|rank| MpiFault {
                    rank,
                    cause: MpiCause::SlowCode,
                    amount_ns: 3_000_000,
                    when: When::Every(1),
                }),
                ..MpiJob::default()
            };
            judge_job(&job);
        }
    }
}

#[test]
fn a_large_job_has_its_factors_and_imbalance_is_no_communication() {
    let job = MpiJob {
        pattern: Pattern::BulkSynchronous,
        ranks: 1_024,
        ranks_per_host: 64,
        iterations: 2,
        ..MpiJob::default()
    };
    let even = judge_job(&job);
    let slow = judge_job(&MpiJob {
        fault: Some(MpiFault {
            rank: 700,
            cause: MpiCause::ExtraCode,
            amount_ns: job.compute_ns,
            when: When::Every(1),
        }),
        ..job
    });
    let (before, after) = (even["mpi_load_balance"], slow["mpi_load_balance"]);
    assert!(before > 0.9 && after < 0.6, "{before} {after}");
    // One rank in 64 of its host: it is its host, not the hosts.
    assert!(slow["mpi_load_balance_in"] < 0.6, "{slow:?}");
    assert!(slow["mpi_load_balance_out"] > 0.9, "{slow:?}");
}

const MS: u64 = 1_000_000;

/// Two ranks on a host with a GPU each, from 0 to 100 ms: the first rank 20 ms in MPI and 30 ms in HIP, the second 40 and 20. Their GPUs compute 40 and 20 ms, and copy 10 and 30 more.
fn two_ranks(with_mpi: bool, with_calls: bool) -> (Model, Batch) {
    let mut model = model();
    model.processes[0].rank = Some(0);
    model.processes.push(Process {
        pid: 12,
        rank: Some(1),
        boot_id: "b00t".to_owned(),
        ..Process::default()
    });
    model.threads.push(Thread {
        process: ProcessId::new(1),
        tid: 12,
        ..Thread::default()
    });
    model.devices.push(Device {
        process: ProcessId::new(1),
        ordinal: 1,
        is_physical: true,
        ..Device::default()
    });
    let [init, sum, end, launch, step] = [
        "MPI_Init",
        "MPI_Allreduce",
        "MPI_Finalize",
        "hipDeviceSynchronize",
        "step 1",
    ]
    .map(|name| model.texts.intern(name));
    let records = batch(|batch| {
        // Process and thread, in MPI, in HIP, computing, copying.
        for (rank, thread, mpi, hip, compute, copy) in
            [(0, 0, 20, 30, 40, 10), (1, 2, 40, 20, 20, 30)]
        {
            let slice = |kind, name, from_ms: u64, to_ms: u64| HostSlice {
                kind,
                name,
                start_ns: (10 + from_ms) * MS,
                end_ns: (10 + to_ms) * MS,
                process: ProcessId::new(rank),
                thread: ThreadId::new(thread),
                ..HostSlice::default()
            };
            if with_mpi {
                batch.host.extend([
                    HostSlice {
                        start_ns: 0,
                        ..slice(HostKind::Collective, init, 0, 0)
                    },
                    slice(HostKind::Collective, sum, 50, 50 + mpi),
                    slice(HostKind::Collective, end, 100, 105),
                ]);
            }
            if with_calls {
                batch.host.push(slice(HostKind::Runtime, launch, 0, hip));
            }
            // The first half is a step.
            batch.host.push(slice(HostKind::Range, step, 0, 50));
            let record = |activity, from_ms: u64, to_ms: u64| GpuRecord {
                start_ns: (10 + from_ms) * MS,
                end_ns: (10 + to_ms) * MS,
                process: ProcessId::new(rank),
                device: DeviceId::new(rank),
                activity,
                ..GpuRecord::default()
            };
            batch.gpu.push(record(Activity::Compute, 0, compute));
            batch
                .gpu
                .push(record(Activity::Copy, compute, compute + copy));
            // Both at once are computation.
            batch.gpu.push(record(Activity::Comm, 0, compute));
        }
    });
    (model, records)
}

fn answered(with_mpi: bool, with_calls: bool) -> Answer {
    let (model, records) = two_ranks(with_mpi, with_calls);
    let mut pop = Pop::default();
    pop.take(&records);
    pop.answer(&model, "run")
}

#[test]
fn gpus_have_their_factors() {
    let answer = answered(true, true);
    let shares_of_run = shares(&answer, "the run");
    are_products(&shares_of_run);
    for (key, expected) in [
        ("parallel_efficiency", (50.0 + 40.0) / 200.0),
        ("mpi_parallel_efficiency", (80.0 + 60.0) / 200.0),
        ("mpi_load_balance", 70.0 / 80.0),
        ("mpi_communication_efficiency", 80.0 / 100.0),
        ("device_offload_efficiency", 90.0 / 140.0),
        ("gpu_parallel_efficiency", 60.0 / 200.0),
        ("gpu_load_balance", 30.0 / 40.0),
        ("gpu_communication_efficiency", 40.0 / 50.0),
        ("gpu_orchestration_efficiency", 50.0 / 100.0),
    ] {
        near(shares_of_run[key], expected, 1e-12, key);
    }
    // Both are on one host.
    assert!(!shares_of_run.contains_key("mpi_load_balance_in"));
    // In the range there is no MPI, and the second GPU computes for 20 of 50 ms.
    let of_step = shares(&answer, "step");
    are_products(&of_step);
    for (key, expected) in [
        ("mpi_parallel_efficiency", 1.0),
        ("device_offload_efficiency", 50.0 / 100.0),
        ("gpu_parallel_efficiency", 60.0 / 100.0),
        ("gpu_orchestration_efficiency", 1.0),
    ] {
        near(of_step[key], expected, 1e-12, key);
    }
}

/// Two ranks of one GPU take turns: each is in the run for 50 of 100 ms, in which the GPU is busy all the time.
#[test]
fn a_gpu_of_ranks_that_take_turns_is_busy_for_no_more_than_all_of_the_time() {
    let (mut model, _) = two_ranks(false, false);
    model.processes[0].boot_id = "b00t".to_owned();
    for device in &mut model.devices {
        (device.ordinal, device.is_physical) = (0, true);
    }
    let records = batch(|batch| {
        for rank in 0..2 {
            let record = |activity, from_ms: u64, to_ms: u64| GpuRecord {
                start_ns: (rank as u64 * 50 + from_ms) * MS,
                end_ns: (rank as u64 * 50 + to_ms) * MS,
                process: ProcessId::new(rank),
                device: DeviceId::new(rank),
                activity,
                ..GpuRecord::default()
            };
            batch.gpu.push(record(Activity::Compute, 0, 30));
            batch.gpu.push(record(Activity::Copy, 30, 50));
        }
    });
    let mut pop = Pop::default();
    pop.take(&records);
    let answer = pop.answer(&model, "run");
    assert_eq!(rows(&answer, "pop_gpus").len(), 1);
    let shares = shares(&answer, "the run");
    are_products(&shares);
    near(shares["gpu_orchestration_efficiency"], 1.0, 1e-12, "busy");
    near(shares["gpu_parallel_efficiency"], 0.6, 1e-12, "computing");
}

#[test]
fn what_was_not_recorded_says_which_option_records_it() {
    for (with_mpi, with_calls, lacks, option) in [
        (false, true, "mpi_load_balance", "-I mpip"),
        (true, false, "device_offload_efficiency", "-I rocm"),
        (false, true, "parallel_efficiency", "-I mpip"),
    ] {
        let answer = answered(with_mpi, with_calls);
        let rows = rows(&answer, "pop");
        let row = rows.iter().find(|row| row["key"] == lacks).unwrap();
        assert!(row["share"].is_null(), "{row}");
        assert!(
            row["why"].as_str().is_some_and(|why| why.contains(option)),
            "{row}"
        );
        let known = shares(&answer, "the run");
        assert!(known.contains_key("gpu_load_balance"), "{known:?}");
    }
    let mut pop = Pop::default();
    let answer = pop.answer(&Model::default(), "run");
    assert!(answer.is_empty && answer.notes.iter().any(|note| note.contains("-I mpip")));
}
