//! Critical paths of iterations over ranks: synthetic jobs with faults that were planted, against what is true of them and against reruns without the fault.

mod mpi;
mod pytorch;

use std::path::{Path, PathBuf};

use crate::common::{self, Scratch, judge, rows};
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::ranks;
use rsys_analysis::show;
use rsys_analysis::table::Answer;
use rsys_synthetic::{Cause, Fault, HostClock, Job};
use rsys_traces::read::BytesRead;
use serde_json::Value;

const AMOUNT_NS: u64 = 8_000_000;

fn ask(files: &[PathBuf], wanted: &[u64], jobs: usize) -> Answer {
    let options = Options::default();
    let read = BytesRead::default();
    let of_file = |file: &Path| ranks::critical_path_parts(file, &options, &read, 1);
    ranks::critical_path_of(files, wanted, jobs, of_file).0
}

fn asked(job: &Job, wanted: &[u64]) -> Answer {
    let scratch = Scratch::new();
    ask(&common::written(job, &scratch), wanted, 2)
}

fn job(faults: Vec<Fault>) -> Job {
    Job {
        ranks: 6,
        ranks_per_host: 6,
        iterations: 12,
        faults,
        ..Job::default()
    }
}

fn fault(cause: Cause) -> Fault {
    Fault {
        rank: 2,
        cause,
        amount_ns: AMOUNT_NS,
        every: 5,
    }
}

fn ns(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// The steps of an iteration, which are checked: they stand side by side from its begin to its end.
fn steps(answer: &Answer, iteration: u64) -> Vec<Value> {
    let of_it = |row: &Value| row["iteration"] == iteration;
    let whole = rows(answer, "critical_paths").into_iter().find(of_it);
    let whole = whole.unwrap_or_else(|| panic!("no iteration {iteration}"));
    let steps: Vec<Value> = rows(answer, "critical_path")
        .into_iter()
        .filter(of_it)
        .collect();
    let mut now_ns = 0;
    for step in &steps {
        assert_eq!(ns(step, "start_ns"), now_ns, "{step}");
        assert!(ns(step, "duration_ns") > 0, "{step}");
        now_ns += ns(step, "duration_ns");
    }
    assert_eq!(now_ns, ns(&whole, "duration_ns"));
    let sums = rows(answer, "critical_path_sums").into_iter();
    let sums = sums.filter(of_it).map(|row| ns(&row, "duration_ns"));
    assert_eq!(sums.sum::<u64>(), now_ns);
    steps
}

fn length_ns(answer: &Answer, iteration: u64) -> u64 {
    let whole = rows(answer, "critical_paths");
    let whole = whole.iter().find(|row| row["iteration"] == iteration);
    ns(whole.unwrap(), "duration_ns")
}

/// How much of the steps of the late rank is of a kind, and named so.
fn of_fault(steps: &[Value], kind: &str, name: &str) -> u64 {
    let its = steps.iter().filter(|step| {
        step["rank"] == 2
            && step["kind"] == kind
            && step["name"]
                .as_str()
                .is_some_and(|text| text.contains(name))
    });
    its.map(|step| ns(step, "duration_ns")).sum()
}

/// What a fault looks like on a path, and how much of that is no fault.
const LOOKS: [(Cause, &str, &str, u64); 11] = [
    (Cause::LongKernel, "kernel", "gemm_2", 5_000_000),
    (Cause::LowClock, "kernel", "gemm_", 0),
    (
        Cause::SlowLoader,
        "host_code",
        "load_batch (train.py:42)",
        2_000_000,
    ),
    (
        Cause::GarbageCollection,
        "host_code",
        "collect_garbage (train.py:71)",
        0,
    ),
    (
        Cause::OffProcessor,
        "host_off_processor",
        "not seen on a processor",
        0,
    ),
    (
        Cause::Lock,
        "host_wait",
        "futex in take_lock (train.py:63)",
        0,
    ),
    (
        Cause::Sleep,
        "host_wait",
        "clock_nanosleep in augment (train.py:57)",
        0,
    ),
    (Cause::SlowLink, "copy", "Copy host to device", 300_000),
    (
        Cause::PageFaults,
        "host_code",
        "touch_pages (train.py:80)",
        0,
    ),
    (
        Cause::HostSync,
        "call",
        "hipStreamSynchronize in log_loss (train.py:88)",
        0,
    ),
    (Cause::UnevenWork, "kernel", "gemm_", 0),
];

#[test]
fn a_planted_fault_is_on_the_path_with_its_length() {
    for (cause, kind, name, usual_ns) in LOOKS {
        // Nothing varies, so that lengths are known to the nanosecond.
        let job = Job {
            jitter: 0,
            ..job(vec![fault(cause)])
        };
        let answer = asked(&job, &[10]);
        let steps = steps(&answer, 10);
        let found_ns = of_fault(&steps, kind, name);
        let truth_ns = match cause {
            // A part of the fault is in each of the kernels that the rank has on the path.
            Cause::LowClock | Cause::UnevenWork => {
                let sums: Vec<u64> = steps
                    .iter()
                    .filter(|step| step["rank"] == 2 && step["kind"] == "kernel")
                    .map(|step| ns(step, "duration_ns"))
                    .collect();
                assert_eq!(found_ns, sums.iter().sum::<u64>());
                20_000_000 + AMOUNT_NS
            }
            _ => usual_ns + AMOUNT_NS,
        };
        // What is known from samples is as exact as these are dense.
        let off_ns = match cause {
            Cause::SlowLoader
            | Cause::GarbageCollection
            | Cause::OffProcessor
            | Cause::PageFaults => 1_000_000,
            _ => 0,
        };
        assert!(
            found_ns.abs_diff(truth_ns) <= off_ns,
            "{cause:?}: {found_ns}, {truth_ns} {steps:#?}"
        );
        let unknown = steps.iter().filter(|step| step["kind"] == "unknown");
        assert_eq!(unknown.count(), 0, "{cause:?}");
    }
}

#[test]
fn host_time_is_exact_though_samples_are_not() {
    for cause in [
        Cause::SlowLoader,
        Cause::GarbageCollection,
        Cause::PageFaults,
    ] {
        let job = Job {
            jitter: 0,
            ..job(vec![fault(cause)])
        };
        let steps = steps(&asked(&job, &[5]), 5);
        let on_host = steps.iter().filter(|step| {
            step["rank"] == 2
                && step["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("host"))
        });
        let on_host_ns: u64 = on_host.map(|step| ns(step, "duration_ns")).sum();
        assert_eq!(on_host_ns, 2_000_000 + AMOUNT_NS, "{cause:?}");
    }
}

/// What would be gained without a rank's lateness is by how much it was later than the next: as much as a rerun without the fault gains.
#[test]
fn what_a_path_says_a_fault_costs_is_what_a_rerun_gains() {
    for (cause, ..) in LOOKS {
        for seed in [1, 2] {
            let faulty = Job {
                seed,
                ..job(vec![fault(cause)])
            };
            let sound = Job {
                faults: Vec::new(),
                ..faulty.clone()
            };
            let (faulty, sound) = (asked(&faulty, &[10]), asked(&sound, &[10]));
            let with_ns = length_ns(&faulty, 10);
            let gained_ns = with_ns - length_ns(&sound, 10);
            let steps = steps(&faulty, 10);
            let blamed = steps.iter().zip(steps.iter().skip(1));
            // The late rank is the one in front of the collective.
            let blamed = blamed.filter(|(before, step)| {
                before["rank"] == 2 && step["kind"] == "collective" && step["verdict"] == "certain"
            });
            let said_ns: u64 = blamed.map(|(_, step)| ns(step, "margin_ns")).sum();
            assert!(
                gained_ns.abs_diff(said_ns) * 50 < with_ns,
                "{cause:?} {seed}: {gained_ns} {said_ns}"
            );
        }
    }
}

#[test]
fn healthy_ranks_have_paths_of_equal_lengths() {
    let job = Job {
        jitter: 0,
        ..job(Vec::new())
    };
    let answer = asked(&job, &[3, 4, 5]);
    let lengths = [3, 4, 5].map(|number| {
        let steps = steps(&answer, number);
        let kernels = steps.iter().filter(|step| step["kind"] == "kernel");
        let kernels_ns: u64 = kernels.map(|step| ns(step, "duration_ns")).sum();
        assert_eq!(kernels_ns, job.compute_ns);
        length_ns(&answer, number)
    });
    // Ranks leave a collective up to 800 ns apart, each of the four in an iteration.
    let apart_ns = lengths.iter().max().unwrap() - lengths.iter().min().unwrap();
    assert!(apart_ns < 4 * 800, "{lengths:?}");
}

#[test]
fn the_slowest_and_the_median_iteration_are_chosen() {
    let late = Fault {
        every: 7,
        ..fault(Cause::Sleep)
    };
    let answer = asked(&job(vec![late]), &[]);
    let chosen = rows(&answer, "critical_paths");
    let why: Vec<&Value> = chosen.iter().map(|row| &row["chosen"]).collect();
    assert_eq!(chosen.len(), 2, "{chosen:#?}");
    let slowest = chosen.iter().find(|row| row["chosen"] == "slowest");
    // The first one is longer, for ranks start apart: it is no measure.
    assert_eq!(slowest.unwrap()["iteration"], 7, "{why:?}");
    assert!(why.contains(&&Value::from("median")));
    judge(&show::json(&answer));
}

#[test]
fn clocks_that_are_wrong_move_no_blame() {
    let clocks = vec![
        HostClock::default(),
        HostClock {
            wall_error_ns: 1_000_000,
            drift_ppb: 0,
        },
    ];
    let job = Job {
        ranks_per_host: 3,
        clocks,
        ..job(vec![fault(Cause::Sleep)])
    };
    let answer = asked(&job, &[10]);
    let steps = steps(&answer, 10);
    assert_eq!(of_fault(&steps, "host_wait", "augment"), AMOUNT_NS);
    let crossings: Vec<&Value> = steps
        .iter()
        .filter(|step| step["kind"] == "collective")
        .collect();
    assert_eq!(crossings.len(), 4);
    for step in &crossings {
        let margin_ns = ns(step, "margin_ns");
        let uncertainty_ns = ns(step, "margin_uncertainty_ns");
        let verdict = if margin_ns > uncertainty_ns {
            "certain"
        } else {
            "inconclusive"
        };
        assert_eq!(step["verdict"], verdict);
    }
    assert_eq!(crossings[0]["verdict"], "certain");
}

#[test]
fn a_rank_without_a_trace_leaves_the_path_on_its_own_rank() {
    let job = Job {
        missing: vec![4],
        ..job(vec![fault(Cause::Sleep)])
    };
    let answer = asked(&job, &[10]);
    let steps = steps(&answer, 10);
    let ranks = steps.iter().map(|step| &step["rank"]);
    assert!(ranks.clone().all(|rank| *rank == steps[0]["rank"]));
    let unmatched = steps.iter().filter(|step| step["verdict"] == "not matched");
    assert_eq!(unmatched.count(), 4);
    let notes = answer.notes.join("\n");
    assert!(notes.contains("could not be matched"), "{notes}");
}

#[test]
fn neither_the_order_of_files_nor_jobs_matter() {
    let scratch = Scratch::new();
    let mut files = common::written(&job(vec![fault(Cause::Lock)]), &scratch);
    let text = show::json(&ask(&files, &[], 1)).to_string();
    files.reverse();
    for jobs in [1, 3] {
        assert_eq!(show::json(&ask(&files, &[], jobs)).to_string(), text);
    }
    let answer = ask(&files, &[99], 1);
    assert!(answer.is_empty);
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("iteration 99"))
    );
}
