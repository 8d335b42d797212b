//! Iterations of synthetic jobs whose truth is known.

use std::path::{Path, PathBuf};

use crate::common::{Scratch, row, rows, sum};
use rsys_analysis::measure::job::iterations::{Assign, Options};
use rsys_analysis::ranks;
use rsys_analysis::table::Answer;
use rsys_synthetic::{Cause, Fault, Job};
use rsys_traces::read::BytesRead;
use serde_json::Value;

/// The traces of a job.
fn written(job: &Job, scratch: &Scratch) -> Vec<PathBuf> {
    let truth = scratch.write("truth.json", b"");
    let folder = truth.parent().map(Path::to_path_buf).unwrap();
    rsys_synthetic::write(job, &folder).unwrap();
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<PathBuf> = files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "proto"))
        .collect();
    files.sort();
    files
}

fn ask(files: &[PathBuf], options: &Options, jobs: usize) -> Answer {
    ranks::overlap(files, options, &BytesRead::default(), jobs).0
}

fn faulty(cause: Cause, every: u64) -> Job {
    Job {
        ranks: 4,
        iterations: 40,
        faults: vec![Fault {
            rank: 2,
            cause,
            amount_ns: 8_000_000,
            every,
        }],
        ..Job::default()
    }
}

#[test]
fn what_was_different_in_slow_iterations_is_named() {
    for (cause, what, place) in [
        (
            Cause::SlowLoader,
            "idle: code on the host",
            "load_batch (train.py:42)",
        ),
        (
            Cause::Lock,
            "idle: the host waits",
            "take_lock (train.py:63)",
        ),
        (
            Cause::HostSync,
            "idle: return from a synchronisation",
            "log_loss (train.py:88)",
        ),
        (Cause::LongKernel, "computation", "gemm_2"),
        (Cause::SlowLink, "copies", ""),
    ] {
        let scratch = Scratch::new();
        let files = written(&faulty(cause, 10), &scratch);
        let answer = ask(&files, &Options::default(), 2);
        let slow = rows(&answer, "slow_iterations");
        // Iterations 0, 10, 20 and 30: the first one is later by what ranks are started apart.
        for number in [10, 20, 30] {
            let found = slow.iter().find(|row| row["iteration"] == number);
            let found = found.unwrap_or_else(|| panic!("{cause:?} {number}: {slow:#?}"));
            assert_eq!(found["rank"], 2, "{cause:?}");
            let first = &found["differences"][0];
            assert_eq!(first["what"], what, "{cause:?} {found:#}");
            let found_at = first["place"].as_str().unwrap();
            assert!(found_at.contains(place), "{cause:?} {found_at}");
            let more_ns = first["more_ns"].as_u64().unwrap();
            assert!(more_ns.abs_diff(8_000_000) < 900_000, "{cause:?} {more_ns}");
        }
    }
}

#[test]
fn iterations_of_a_job_have_their_truth() {
    let job = Job {
        ranks: 4,
        iterations: 30,
        ..Job::default()
    };
    let scratch = Scratch::new();
    let files = written(&job, &scratch);
    let named = |marker: &str| {
        let options = Options {
            marker: Some(marker.to_owned()),
            assign: Assign::Partition,
        };
        ask(&files, &options, 2)
    };
    let found = ask(&files, &Options::default(), 2);
    let ranks = rows(&found, "overlap_ranks");
    assert_eq!(ranks.len(), 4);
    for rank in &ranks {
        assert_eq!(
            (&rank["marker"], &rank["iterations"]),
            (&"step".into(), &30.into())
        );
        let computation = rank["computation_mean_ns"].as_u64().unwrap();
        assert!(
            computation.abs_diff(job.compute_ns) < job.compute_ns / 50,
            "{rank}"
        );
        // All on one stream.
        assert_eq!(rank["comm_hidden_share"], 0.0);
        let drift = rank["drift_most_ns"].as_f64().unwrap();
        // They wait for each other four times in each iteration.
        assert!(drift.abs() < 1e6 + 3e8, "{rank}");
        assert_eq!(rank["overlap_ratio"], 0.0);
    }
    let iterations = rows(&found, "iterations");
    assert_eq!(iterations.len(), 4 * 31);
    assert!(
        iterations
            .iter()
            .filter(|row| row["verdict"] != "outside")
            .all(|row| row["clock_mhz"] == 2100.0)
    );
    assert_eq!(rows(&found, "job_iterations").len(), 30);
    // By a kernel that is there once in each iteration, and cut by it, sums are those of the whole GPU.
    for marker in ["gemm_0", "Copy host to device"] {
        let answer = named(marker);
        for rank in rows(&answer, "overlap_ranks") {
            assert_eq!(rank["iterations"], 30, "{rank}");
            let own = |row: &&Value| row["rank"] == rank["rank"];
            let own: Vec<Value> = rows(&answer, "iterations")
                .iter()
                .filter(own)
                .cloned()
                .collect();
            for key in [
                "computation_ns",
                "exposed_comm_ns",
                "exposed_memcpy_ns",
                "idle_ns",
            ] {
                assert_eq!(sum(&own, key), rank[format!("gpu_{key}")], "{key}");
            }
        }
    }
    let calls = rows(&named("ncclAllReduce"), "overlap_ranks");
    assert_eq!(row(&calls, "marker_kind", "call")["iterations"], 120);
}

#[test]
fn what_iterations_would_take_with_a_faster_kernel_is_what_they_take() {
    // The third kernel takes a quarter longer on all ranks, and then a fifth less of that.
    let healthy = Job {
        ranks: 8,
        iterations: 30,
        group: 2,
        ..Job::default()
    };
    let fault = |rank| Fault {
        rank,
        cause: Cause::LongKernel,
        amount_ns: healthy.compute_ns / healthy.buckets / 4,
        every: 1,
    };
    let slow = Job {
        faults: (0..healthy.ranks).map(fault).collect(),
        ..healthy.clone()
    };
    let usual_ns = |answer: &Answer| {
        let row = rows(answer, "faster_kernels")[0].clone();
        row["iteration_ns"].as_f64().unwrap()
    };
    let answers = [slow, healthy].map(|job| {
        let scratch = Scratch::new();
        ask(&written(&job, &scratch), &Options::default(), 2)
    });
    let faster = rows(&answers[0], "faster_kernels");
    let faster = row(&faster, "kernel", "gemm_2");
    let predicted_ns = faster["predicted_ns"].as_f64().unwrap();
    let off = predicted_ns / usual_ns(&answers[1]) - 1.0;
    println!("predicted within {:.2} %", 100.0 * off.abs());
    assert!(off.abs() < 0.02, "{off} {faster}");
    let saved = usual_ns(&answers[0]) - usual_ns(&answers[1]);
    assert!(
        (faster["saved_ns"].as_f64().unwrap() / saved - 1.0).abs() < 0.1,
        "{saved} {faster}"
    );
}

#[test]
fn what_iterations_would_take_without_an_idle_time_is_what_they_take() {
    let loads = Job {
        ranks: 8,
        iterations: 30,
        load_ns: 4_000_000,
        ..Job::default()
    };
    let at_once = Job {
        load_ns: 0,
        ..loads.clone()
    };
    let gaps = [loads, at_once].map(|job| {
        let scratch = Scratch::new();
        let answer = ask(&written(&job, &scratch), &Options::default(), 2);
        rows(&answer, "without_gaps")
    });
    let load = &gaps[0][0];
    assert_eq!(load["gap"], "code on the host: load_batch (train.py:42)");
    let off =
        load["predicted_ns"].as_f64().unwrap() / gaps[1][0]["iteration_ns"].as_f64().unwrap() - 1.0;
    println!("predicted within {:.2} %", 100.0 * off.abs());
    assert!(off.abs() < 0.02, "{off} {load}");
}

#[test]
fn neither_the_order_of_files_nor_jobs_matter() {
    let scratch = Scratch::new();
    let mut files = written(&faulty(Cause::Sleep, 7), &scratch);
    let asked = |files: &[PathBuf], jobs| {
        rsys_analysis::show::json(&ask(files, &Options::default(), jobs)).to_string()
    };
    let first = asked(&files, 1);
    files.reverse();
    assert_eq!(first, asked(&files, 1));
    files.rotate_left(1);
    assert_eq!(first, asked(&files, 3));
}

/// PyTorch's profiler recorded one process twice, with a pause; and two of the same number, as in containers, at once.
#[test]
fn a_rank_that_was_recorded_twice_is_one() {
    for (pause_us, ranks) in [(5_000_000, 1), (0, 2)] {
        let scratch = Scratch::new();
        let file = |recording: u64| {
            let steps = (0..4_u64).map(|step| {
                let at = 1_000_000 + recording * pause_us + step * 10_000;
                let number = 100 * recording + step;
                format!(
                    r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{number}","pid":100,"tid":1,"ts":{at},"dur":10000,"args":{{}}}},
                    {{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":5000,"args":{{"device":0,"stream":7}}}}"#,
                    at + 100
                )
            });
            let steps: Vec<String> = steps.collect();
            let document = format!(r#"{{"traceEvents":[{}]}}"#, steps.join(",\n"));
            scratch.write(&format!("{recording}.pt.trace.json"), document.as_bytes())
        };
        let answer = ask(&[file(0), file(1)], &Options::default(), 1);
        assert_eq!(rows(&answer, "overlap")[0]["ranks"], ranks, "{pause_us}");
        let has_job = answer.tables.iter().any(|one| one.key == "job_iterations");
        assert_eq!(has_job, ranks > 1);
    }
}
