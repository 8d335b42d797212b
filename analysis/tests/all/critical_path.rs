//! Critical paths of iterations over ranks: synthetic jobs with faults that were planted, against what is true of them and against reruns without the fault.

use std::path::{Path, PathBuf};

use crate::common::{self, Scratch, judge, rows};
use rsys_analysis::measure::job::iterations::Options;
use rsys_analysis::ranks;
use rsys_analysis::show;
use rsys_analysis::table::Answer;
use rsys_proto::{
    Annotation, ClockReadings, Compression, Event, EventKind, Name, NamedTrack, ProcessNamespace,
    ProcessTrack, ThreadTrack, TraceWriter, TrackSequence, Value as Datum,
};
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
fn what_pytorch_was_in_is_on_the_path_and_what_has_no_call_is_unknown() {
    let event = |category: &str, name: &str, (from_us, to_us): (u64, u64), link: u64| {
        let pid = if category == "kernel" { 0 } else { 100 };
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":1,"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
            to_us - from_us
        )
    };
    let events = [
        event("user_annotation", "ProfilerStep#7", (0, 1_000), 0),
        event("python_function", "data.py(3): load", (0, 300), 0),
        event("cpu_op", "aten::mm", (300, 350), 0),
        event("cuda_runtime", "hipLaunchKernel", (310, 320), 1),
        event("kernel", "gemm", (330, 500), 1),
        event("kernel", "of nobody", (700, 900), 2),
        event("cuda_runtime", "hipDeviceSynchronize", (360, 910), 3),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let answer = ask(&[file], &[7], 1);
    let steps: Vec<(String, String, u64)> = steps(&answer, 7)
        .iter()
        .map(|step| {
            let text = |key: &str| step[key].as_str().unwrap().to_owned();
            (text("kind"), text("name"), ns(step, "duration_ns") / 1_000)
        })
        .collect();
    let expected = [
        ("host_code", "data.py(3): load", 300),
        ("host_code", "aten::mm", 10),
        ("call", "hipLaunchKernel", 10),
        ("launch", "gemm", 10),
        ("kernel", "gemm", 170),
        ("unknown", "of nobody", 200),
        ("kernel", "of nobody", 200),
        ("call", "hipDeviceSynchronize", 10),
        ("host_code", "ProfilerStep", 90),
    ];
    let expected = expected.map(|(kind, name, us)| (kind.to_owned(), name.to_owned(), us));
    assert_eq!(steps, expected);
}

/// Communication on a stream of its own takes longer than what it runs beside, and the last kernel waits for it.
#[test]
fn a_path_goes_over_to_the_stream_that_an_event_was_waited_for_in_files_of_pytorch() {
    let event = |category: &str, name: &str, (from_us, to_us): (u64, u64), stream, link| {
        let pid = if category == "kernel" { 0 } else { 100 };
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{stream},"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
            to_us - from_us
        )
    };
    let call = |name: &str, from_us: u64, link: u64| {
        event("cuda_runtime", name, (from_us, from_us + 5), 1, link)
    };
    let events = [
        event("user_annotation", "step 1", (0, 910), 1, 0),
        call("hipLaunchKernel", 0, 1),
        call("hipStreamWaitEvent", 10, 2),
        call("hipLaunchKernel", 20, 3),
        call("hipLaunchKernel", 30, 4),
        call("hipStreamWaitEvent", 40, 5),
        call("hipLaunchKernel", 50, 6),
        event("cuda_runtime", "hipDeviceSynchronize", (60, 910), 1, 7),
        event("kernel", "backward", (10, 100), 7, 1),
        event("kernel", "reduce", (100, 800), 8, 3),
        event("kernel", "backward", (100, 200), 7, 4),
        event("kernel", "adam", (800, 900), 7, 6),
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let answer = ask(&[file], &[1], 1);
    let steps: Vec<(String, u64)> = steps(&answer, 1)
        .iter()
        .filter(|step| step["kind"] == "kernel")
        .map(|step| {
            let name = step["name"].as_str().unwrap().to_owned();
            (name, ns(step, "duration_ns") / 1_000)
        })
        .collect();
    let expected = [("backward", 90), ("reduce", 700), ("adam", 100)];
    assert_eq!(steps, expected.map(|(name, us)| (name.to_owned(), us)));
}

/// An event of a file of PyTorch, in microseconds; operations are of streams, all others of thread 1.
fn event(
    category: &str,
    name: &str,
    (from_us, to_us): (u64, u64),
    stream: u64,
    link: u64,
) -> String {
    let is_of_gpu = ["kernel", "gpu_memcpy"].contains(&category);
    let pid = if is_of_gpu { 0 } else { 100 };
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{stream},"ts":{from_us},"dur":{},"args":{{"correlation":{link}}}}}"#,
        to_us - from_us
    )
}

/// The path of an iteration of a file with these events: kind, name and microseconds of each step.
fn path(events: &[String], iteration: u64) -> Vec<(String, String, u64)> {
    path_beside(events, iteration, &[])
}

/// [`path`], where others are asked for as well.
fn path_beside(events: &[String], iteration: u64, others: &[u64]) -> Vec<(String, String, u64)> {
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let scratch = Scratch::new();
    let file = scratch.write("rank0.trace.json", text.as_bytes());
    let wanted = [&[iteration], others].concat();
    let answer = ask(&[file], &wanted, 1);
    let steps = steps(&answer, iteration);
    let steps = steps.iter().map(|step| {
        let text = |key: &str| step[key].as_str().unwrap().to_owned();
        (text("kind"), text("name"), ns(step, "duration_ns") / 1_000)
    });
    steps.collect()
}

fn owned(steps: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let steps = steps.iter();
    steps
        .map(|(kind, name, us)| ((*kind).to_owned(), (*name).to_owned(), *us))
        .collect()
}

/// As `item()` does it: the copy waits for the kernels, and its call for the copy. What another stream has done since is beside that.
#[test]
fn a_path_goes_through_an_asynchronous_copy_that_has_held_its_call() {
    for (call, copied, is_held) in [
        ("cudaMemcpyAsync", (960, 965), true),
        ("hipMemcpyAsync", (960, 965), true),
        ("cudaMemcpyAsync", (960, 971), false),
    ] {
        let events = [
            event("user_annotation", "step 1", (0, 1_000), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (0, 5), 1, 1),
            event("cuda_runtime", "cudaLaunchKernel", (5, 10), 1, 2),
            event("cuda_runtime", "cudaLaunchKernel", (10, 15), 1, 3),
            event("cuda_runtime", call, (20, 970), 1, 4),
            event("kernel", "gemm", (10, 450), 7, 1),
            event("kernel", "gemm", (450, 950), 7, 2),
            event("kernel", "aside", (600, 968), 8, 3),
            event(
                "gpu_memcpy",
                "Memcpy DtoH (Device -> Pageable)",
                copied,
                7,
                4,
            ),
        ];
        let held = owned(&[
            ("call", "cudaLaunchKernel", 5),
            ("launch", "gemm", 5),
            ("kernel", "gemm", 440),
            ("kernel", "gemm", 500),
            ("queue", "Memcpy DtoH (Device -> Pageable)", 10),
            ("copy", "Memcpy DtoH (Device -> Pageable)", 5),
            ("call", call, 5),
            ("host_code", "step", 30),
        ]);
        assert_eq!(path(&events, 1) == held, is_held, "{call}");
    }
}

/// A call that prepares its copy while the GPU has nothing to do is the host's time up to the copy.
#[test]
fn a_call_that_its_copy_holds_has_the_time_in_front_of_it() {
    let copy = "Memcpy HtoD (Pageable -> Device)";
    let events = [
        event("user_annotation", "step 1", (0, 1_000), 1, 0),
        event("cuda_runtime", "cudaMemcpyAsync", (100, 970), 1, 1),
        event("gpu_memcpy", copy, (600, 960), 7, 1),
    ];
    let expected = owned(&[
        ("host_code", "step", 100),
        ("call", "cudaMemcpyAsync", 500),
        ("copy", copy, 360),
        ("call", "cudaMemcpyAsync", 10),
        ("host_code", "step", 30),
    ]);
    assert_eq!(path(&events, 1), expected);
}

/// Of each step communication on a stream of its own is what the optimizer waits for; all calls were made steps before.
#[test]
fn a_path_knows_calls_from_before_its_iteration() {
    let mut events = Vec::new();
    let call = |name: &str, from_us: u64, link: u64| {
        event("cuda_runtime", name, (from_us, from_us + 5), 1, link)
    };
    let (mut gpu, mut link) = (100, 0);
    for step in 0..6 {
        let at = step * 1_000;
        let name = format!("ProfilerStep#{step}");
        events.push(event("user_annotation", &name, (at, at + 990), 1, 0));
        let forward = gpu + 1_000;
        let operations = [
            ("forward", 7, (gpu, forward)),
            (
                "ncclDevKernel_AllReduce",
                20,
                (forward + 10, forward + 1_510),
            ),
            ("backward", 7, (forward + 5, forward + 805)),
            ("adam", 7, (forward + 1_520, forward + 2_000)),
        ];
        for (number, (name, stream, time)) in (0..).zip(operations) {
            let at = at + 100 * number;
            if stream == 20 || name == "adam" {
                link += 1;
                events.push(call("cudaStreamWaitEvent", at, link));
            }
            link += 1;
            events.push(call("cudaLaunchKernel", at + 10, link));
            events.push(event("kernel", name, time, stream, link));
        }
        gpu = forward + 2_005;
    }
    link += 1;
    events.push(event(
        "cuda_runtime",
        "cudaDeviceSynchronize",
        (6_010, gpu),
        1,
        link,
    ));
    for others in [&[][..], &[5], &[0]] {
        let mut sums: Vec<(String, String, u64)> = Vec::new();
        for (kind, name, us) in path_beside(&events, 2, others) {
            match sums
                .iter_mut()
                .find(|sum| (&sum.0, &sum.1) == (&kind, &name))
            {
                Some(sum) => sum.2 += us,
                None => sums.push((kind, name, us)),
            }
        }
        let expected = owned(&[
            ("collective", "ncclDevKernel_AllReduce", 610 + 1_500 + 1_500),
            ("event", "adam", 30),
            ("kernel", "adam", 3 * 480),
            ("queue", "forward", 10),
            ("kernel", "forward", 2 * 1_000),
            ("event", "ncclDevKernel_AllReduce", 20),
        ]);
        assert_eq!(sums, expected, "{others:?}");
    }
}

/// The trace has no call that makes a stream wait: `adam` begins right behind the communication, or some time later.
#[test]
fn an_operation_that_begins_right_behind_one_of_another_stream_has_waited_for_that() {
    let reduce = "ncclDevKernel_AllReduce";
    for (begin, launched, has_waited) in [
        (3_550, 110, true),
        (3_600, 110, false),
        (3_550, 3_500, false),
    ] {
        let events = [
            event("user_annotation", "step 1", (0, 4_700), 1, 0),
            event("cuda_runtime", "cudaLaunchKernel", (0, 5), 1, 1),
            event("cuda_runtime", "cudaLaunchKernel", (55, 60), 1, 2),
            event(
                "cuda_runtime",
                "cudaLaunchKernel",
                (launched - 10, launched),
                1,
                3,
            ),
            event(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                (launched, 4_610),
                1,
                4,
            ),
            event("kernel", "gemm", (30, 2_030), 7, 1),
            event("kernel", reduce, (2_040, 3_540), 20, 2),
            event("kernel", "adam", (begin, 4_600), 7, 3),
        ];
        let found = path(&events, 1);
        let waited = owned(&[
            ("call", "cudaLaunchKernel", 5),
            ("launch", "gemm", 25),
            ("kernel", "gemm", 2_000),
            ("event", reduce, 10),
            ("collective", reduce, 1_500),
            ("event", "adam", 10),
            ("kernel", "adam", 1_050),
            ("call", "cudaDeviceSynchronize", 10),
            ("host_code", "step", 90),
        ]);
        assert_eq!(found == waited, has_waited, "{found:?}");
        let is_on_it = found.iter().any(|step| step.0 == "collective");
        assert_eq!(is_on_it, has_waited, "{found:?}");
    }
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

/// A rank of two whose iterations each end with a call of MPI: it begins `arrives_ns` after the iteration did, and ends after 750 µs on both.
fn with_mpi(rank: u64, arrives_ns: u64) -> Vec<u8> {
    let pid = 100 + rank as u32;
    let ids = ProcessNamespace::new("b00t", pid, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    out.clock_snapshot(&ClockReadings {
        boottime_ns: 1_000,
        ..ClockReadings::default()
    });
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid,
        name: "solver",
        labels: &[format!("rank {rank}"), "host alpha".to_owned()],
        ..ProcessTrack::default()
    });
    out.thread(&ThreadTrack {
        uuid: ids.track(2),
        pid,
        tid: pid,
        name: "main",
        title: "stack",
    });
    out.track(&NamedTrack {
        uuid: ids.track(3),
        parent: Some(ids.track(2)),
        name: "calls",
        ..NamedTrack::default()
    });
    let mut calls = TrackSequence::new(out, ids.track(3));
    for (number, parent, name) in [
        (4, None, "GPU 0 \u{b7} Simulated"),
        (5, Some(4), "stream 1"),
    ] {
        out.track(&NamedTrack {
            uuid: ids.track(number),
            parent: parent.map(|parent| ids.track(parent)),
            name,
            ..NamedTrack::default()
        });
    }
    let mut stream = TrackSequence::new(out, ids.track(5));
    for step in 0..6_u64 {
        let at = 1_000_000 * (step + 1);
        let numbers = [("sequence", step), ("rank", rank), ("ranks", 2)];
        let numbers = numbers.map(|(key, number)| (key, Datum::Uint(number)));
        let texts = [("communicator", Datum::Text("world"))];
        let said = numbers.into_iter().chain(texts);
        let said = said.chain([("blocking", Datum::Bool(true))]);
        let link = [Annotation::new(
            out.intern("correlation"),
            Datum::Uint(step + 1),
        )];
        let said: Vec<_> = said
            .map(|(key, value)| Annotation::new(out.intern(key), value))
            .collect();
        for (time_ns, name, category, annotations) in [
            (at, "step", "roctx", &[][..]),
            // Nobody waits for it.
            (at + 10_000, "hipLaunchKernel", "hip", &link),
            (at + 20_000, "kernel", "kernel", &link),
            (at + arrives_ns, "MPI_Allreduce", "mpi", &said),
        ] {
            let event = Event {
                name: Name::Interned(out.intern(name)),
                category: Some(out.intern(category)),
                annotations,
                ..Event::default()
            };
            let track = match category {
                "kernel" => &mut stream,
                _ => &mut calls,
            };
            track.event(out, time_ns, EventKind::SliceBegin, &event);
            if matches!(category, "kernel" | "hip") {
                track.slice_end(out, time_ns + 10_000);
            }
        }
        calls.slice_end(out, at + 750_000);
        calls.slice_end(out, at + 760_000);
    }
    trace.finish().unwrap()
}

#[test]
fn a_path_goes_through_calls_of_mpi_to_the_rank_that_came_last() {
    let scratch = Scratch::new();
    let files = [(0, 200_000), (1, 700_000)].map(|(rank, arrives_ns)| {
        let name = format!("perfetto-trace-{rank}.proto");
        scratch.write(&name, &with_mpi(rank, arrives_ns))
    });
    let found = steps(&ask(&files, &[3], 1), 3);
    let told: Vec<_> = found
        .iter()
        .map(|step| (step["kind"].as_str().unwrap(), ns(step, "duration_ns")))
        .collect();
    let expected = [
        ("host_code", 10_000),
        ("call", 10_000),
        ("host_code", 680_000),
        ("collective", 50_000),
        ("host_code", 10_000),
    ];
    assert_eq!(told, expected, "{found:#?}");
    assert!(
        found[..3].iter().all(|step| step["rank"] == 1),
        "{found:#?}"
    );
    assert_eq!(found[3]["name"], "MPI_Allreduce");
}
