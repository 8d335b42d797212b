//! Rules for programs without a GPU, and for those that wait for a loader, on records made by hand: each with a fault that was planted, and none where all is well.

use crate::common::{self, model, stack, thread};
use rsys_analysis::advice::advise;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::measure::job::collectives::Collectives;
use rsys_analysis::show::json;
use rsys_traces::model::{
    Basis, Batch, CollectiveCall, GpuRecord, HostKind, HostSlice, Model, Process, ProcessId,
    Sample, Thread, ThreadId,
};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// A program of ten seconds, in steps of ten milliseconds.
struct Program {
    model: Model,
    batch: Batch,
}

impl Program {
    fn new() -> Self {
        let mut model = model();
        model.devices.clear();
        model.processes[0].sample_period_ns = MS;
        model.processes[0].wait_frequency_hz = 300;
        Self {
            model,
            batch: Batch::default(),
        }
    }

    /// In each step, a thread does something at a place for some milliseconds, up to some others from its begin.
    fn does(
        mut self,
        thread: ThreadId,
        basis: Basis,
        place: &[&str],
        (ms, until_ms): (u64, u64),
    ) -> Self {
        let stack = stack(&mut self.model, place);
        self.batch.samples.extend((0..1_000).map(|step| Sample {
            time_ns: (10 * step + until_ms) * MS,
            weight: ms * MS,
            thread,
            stack,
            basis,
            ..Sample::default()
        }));
        self
    }

    fn runs(self, place: &[&str], ms: u64) -> Self {
        self.does(thread(0), Basis::CpuTime, place, (ms, ms))
    }

    fn waits(self, place: &[&str], ms: u64) -> Self {
        self.does(thread(0), Basis::WaitTime, place, (ms, 10))
    }

    fn advice(&self) -> Value {
        let mut measures = common::advice_measures();
        if self.model.processes.len() > 1 {
            measures.push(("collectives", Box::<Collectives>::default()));
        }
        let answers: Vec<_> = measures
            .iter_mut()
            .map(|(name, measure)| {
                measure.take(&self.batch);
                (*name, measure.answer(&self.model, "run"))
            })
            .collect();
        let advised = json(&advise(&answers, &profiling_cost(&self.model)));
        common::judge(&advised);
        advised
    }

    /// Rules that found something, with their places.
    fn found(&self) -> Vec<(String, String)> {
        let advised = self.advice();
        let findings = advised["findings"].as_array().cloned().unwrap_or_default();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("").to_owned();
        let found = findings.iter();
        found
            .map(|one| (text(one, "rule"), text(one, "place")))
            .collect()
    }
}

fn finding(rule: &str, place: &str) -> (String, String) {
    (rule.to_owned(), place.to_owned())
}

const STEP: [&str; 2] = ["main@train.py", "step@train.py"];

#[test]
fn a_healthy_program_has_three_lines() {
    let program = Program::new()
        .runs(&STEP, 9)
        .waits(&["main@train.py", "read@[kernel]"], 1);
    assert_eq!(program.found(), []);
    let notes = program.advice()["notes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let notes: Vec<&str> = notes.iter().filter_map(Value::as_str).collect();
    let is_there = |start: &str| notes.iter().any(|note| note.starts_with(start));
    assert!(
        is_there("nothing stands out: train (process 10) ran for 9.991 s"),
        "{notes:?}"
    );
    assert!(is_there("most CPU time: step"), "{notes:?}");
    assert!(
        is_there("most waiting of the main thread: read in main (train.py:1), 10 %"),
        "{notes:?}"
    );
    assert!(
        !notes.iter().any(|note| note.contains("not judged")),
        "{notes:?}"
    );
}

#[test]
fn waits_of_the_main_thread_have_their_line_and_kind() {
    for (place, rule, told) in [
        (
            &["main@train.py", "load@train.py", "read@[kernel]"],
            "data_wait",
            "load (train.py:2)",
        ),
        (
            &["main@train.py", "load_batch@train.py", "futex@[kernel]"],
            "data_wait",
            "load_batch (train.py:2)",
        ),
        (
            &["main@train.py", "serve@app.py", "clock_nanosleep@[kernel]"],
            "main_wait",
            "serve (app.py:2)",
        ),
    ] {
        let program = Program::new().runs(&STEP, 4).waits(place, 6);
        assert_eq!(program.found(), [finding(rule, told)]);
        let saves_ns = program.advice()["findings"][0]["saves_ns"].as_u64();
        assert_eq!(saves_ns, Some(6_000 * MS));
    }
    // Who waits for a child has it work.
    let program = Program::new().runs(&STEP, 4);
    assert_eq!(
        program
            .waits(&["main@train.py", "wait4@[kernel]"], 6)
            .found(),
        []
    );
}

#[test]
fn a_timer_is_no_wait_for_data() {
    for (calls, rule) in [
        (["select@/opt/lib", "epoll_wait@[kernel]"], "main_wait"),
        (["sock_recv@/opt/lib", "poll@[kernel]"], "data_wait"),
    ] {
        let place = ["main@train.py", calls[0], calls[1]];
        let program = Program::new().runs(&STEP, 4).waits(&place, 6);
        let found: Vec<String> = program.found().into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(found, [rule], "{calls:?}");
    }
}

#[test]
fn a_worker_without_work_is_no_finding() {
    let worker = "worker (pool.py)@/usr/lib/python3.11/multiprocessing/pool.py";
    let idle = ["main@train.py", worker, "read@[kernel]"];
    for (place, expected) in [
        (&idle[..], 0),
        // What it was given to do waits.
        (
            &["main@train.py", worker, "load@train.py", "read@[kernel]"],
            1,
        ),
    ] {
        let found = Program::new().runs(&STEP, 4).waits(place, 6).found();
        assert_eq!(found.len(), expected, "{found:?}");
    }
}

#[test]
fn waits_that_were_not_recorded_are_missed() {
    for (ms, expected) in [
        (4, vec![finding("waits_not_recorded", "")]),
        (9, Vec::new()),
    ] {
        let mut program = Program::new().runs(&STEP, ms);
        program.model.processes[0].wait_frequency_hz = 0;
        assert_eq!(program.found(), expected);
    }
}

#[test]
fn imports_and_collected_garbage_are_told() {
    let import = "_find_and_load (<frozen importlib._bootstrap>)";
    for (place, ms, rule) in [
        (["main@train.py", import, "exec@/opt/python"], 3, "imports"),
        (
            [
                "main@train.py",
                "step@train.py",
                "gc_collect_main@/opt/python",
            ],
            1,
            "garbage_collector",
        ),
    ] {
        let program = Program::new().runs(&STEP, 10 - ms).runs(&place, ms);
        let found: Vec<String> = program.found().into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(found, [rule]);
    }
}

#[test]
fn threads_without_a_processor_are_told() {
    let mut program = Program::new().runs(&STEP, 6);
    program.batch.host.extend((0..1_000).map(|step| HostSlice {
        start_ns: (10 * step + 6) * MS,
        end_ns: (10 * step + 10) * MS,
        kind: HostKind::Runnable,
        thread: thread(0),
        ..HostSlice::default()
    }));
    assert_eq!(program.found(), [finding("no_processor", "")]);
    program.batch.host.truncate(400);
    assert_eq!(program.found(), []);
}

#[test]
fn one_thread_that_does_all_is_told_where_several_are_meant_to() {
    for (other_ms, expected) in [(0, 1), (5, 0)] {
        let mut program = Program::new().runs(&STEP, 10);
        program.model.threads.push(Thread {
            process: ProcessId::new(0),
            tid: 12,
            ..Thread::default()
        });
        for other in [1, 2] {
            let work = (other_ms, 10);
            program = program.does(thread(other), Basis::CpuTime, &["work@/opt/app"], work);
        }
        let found = program.found();
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().all(|(rule, _)| rule == "one_busy_thread"));
    }
}

#[test]
fn ranks_that_are_late_in_turn_are_one_finding() {
    let mut program = Program::new().runs(&STEP, 9);
    program.model.processes[0].rank = Some(0);
    for rank in [1, 2] {
        program.model.processes.push(Process {
            pid: 10 + rank,
            rank: Some(u64::from(rank)),
            boot_id: "b00t".to_owned(),
            ..Process::default()
        });
    }
    let [name, communicator] =
        ["MPI_Barrier", "world"].map(|text| program.model.texts.intern(text));
    for step in 0..1_000 {
        program
            .batch
            .collectives
            .extend((0..3).map(|rank| CollectiveCall {
                start_ns: (10 * step + if step % 3 == rank { 8 } else { 4 }) * MS,
                end_ns: (10 * step + 9) * MS,
                link: 1 + 3 * step + rank,
                process: ProcessId::new(rank as usize),
                thread: thread(rank as usize),
                name,
                communicator,
                sequence: Some(step),
                rank: Some(rank),
                ranks: Some(3),
                is_blocking: true,
                ..CollectiveCall::default()
            }));
    }
    let found = program.found();
    let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(rules, ["ranks_in_turn"], "{found:?}");
    let saves_ms = program.advice()["findings"][0]["saves_ns"]
        .as_u64()
        .unwrap_or(0)
        / MS;
    assert!((3_990..=4_000).contains(&saves_ms), "{saves_ms}");
}

const GET: [&str; 4] = [
    "main@train.py",
    "get (queue.py)@/usr/lib/python3.11/queue.py",
    "wait (threading.py)@/usr/lib/python3.11/threading.py",
    "futex(FUTEX_WAIT)@[kernel]",
];

/// A main thread that works for three milliseconds of each step, and waits at a place for the others.
fn loop_that_waits(place: &[&str]) -> Program {
    Program::new().runs(&STEP, 3).waits(place, 7)
}

#[test]
fn a_main_thread_that_waits_for_its_loader_names_it() {
    let nap = [
        "run@train.py",
        "prepare@train.py",
        "clock_nanosleep@[kernel]",
    ];
    let codes = ["run@train.py", "decode@train.py"];
    for (basis, place, told) in [
        (
            Basis::WaitTime,
            &nap[..],
            "thread 11, which does prepare (train.py:2)",
        ),
        (
            Basis::CpuTime,
            &codes,
            "thread 11, which does decode (train.py:2)",
        ),
    ] {
        let program = loop_that_waits(&GET).does(thread(1), basis, place, (9, 10));
        assert_eq!(
            program.found(),
            [finding("loader_wait", "main (train.py:1)")]
        );
        let advice = program.advice();
        assert_eq!(advice["findings"][0]["evidence"]["loader"], told);
        assert_eq!(advice["findings"][0]["saves_ns"], 7_000 * MS);
    }
}

/// With a GPU that is busy for the first milliseconds of each step.
fn with_gpu(mut program: Program, busy_ms: u64) -> Program {
    program.model.devices = model().devices;
    let name = program.model.texts.intern("hipLaunchKernel");
    for step in 0..1_000 {
        let (at_ns, link) = (10 * step * MS, step + 1);
        program.batch.host.push(HostSlice {
            start_ns: at_ns + MS / 4,
            end_ns: at_ns + MS / 3,
            link,
            thread: thread(0),
            name,
            ..HostSlice::default()
        });
        program.batch.gpu.push(GpuRecord {
            start_ns: at_ns + MS / 3,
            end_ns: at_ns + busy_ms * MS,
            link,
            ..GpuRecord::default()
        });
    }
    program
}

#[test]
fn a_gpu_that_waits_for_a_loader_names_it() {
    let codes = ["run@train.py", "decode@train.py"];
    let program = Program::new().runs(&STEP, 2).waits(&GET, 7);
    let program = program.does(thread(1), Basis::CpuTime, &codes, (9, 10));
    let program = with_gpu(program, 3);
    let found = program.found();
    assert_eq!(found, [finding("loader_wait", "main (train.py:1)")]);
    let advice = program.advice();
    let told = "thread 11, which does decode (train.py:2)";
    assert_eq!(advice["findings"][0]["evidence"]["loader"], told);
    // Healthy: the GPU has work all the time.
    let program = Program::new().runs(&STEP, 9).waits(&GET, 1);
    let program = program.does(thread(1), Basis::CpuTime, &codes, (9, 10));
    assert_eq!(with_gpu(program, 10).found(), []);
}

#[test]
fn who_cannot_have_ended_the_waits_is_no_loader() {
    let beat = ["run@train.py", "beat@train.py", "clock_nanosleep@[kernel]"];
    let idle = [&GET[..1], &["serve@train.py"], &GET[1..]].concat();
    for (place, ms) in [
        // One wait from the first step to the last; and one that waits for work itself.
        (&beat[..], 10),
        (&idle[..], 9),
    ] {
        let program = loop_that_waits(&GET).does(thread(1), Basis::WaitTime, place, (ms, 10));
        assert_eq!(program.found(), [], "{place:?}");
    }
    // Works only while the main thread waits, as threads do among which work is divided.
    let share = ["run@train.py", "share@train.py"];
    let program = loop_that_waits(&GET)
        .does(thread(1), Basis::WaitTime, &idle, (3, 3))
        .does(thread(1), Basis::CpuTime, &share, (6, 10));
    assert_eq!(program.found(), []);
    // Healthy: the queue is never empty for long.
    let program = Program::new().runs(&STEP, 9).waits(&GET, 1);
    let work = ["run@train.py", "decode@train.py"];
    let program = program.does(thread(1), Basis::CpuTime, &work, (9, 9));
    assert_eq!(program.found(), []);
}

/// Those that divide work wait for its parts, whoever has them.
#[test]
fn who_divides_work_waits_for_no_loader() {
    let map = [
        "main@train.py",
        "result_iterator (_base.py)@/usr/lib/python3.11/concurrent/futures/_base.py",
        "result (_base.py)@/usr/lib/python3.11/concurrent/futures/_base.py",
        "wait (threading.py)@/usr/lib/python3.11/threading.py",
        "futex(FUTEX_WAIT)@[kernel]",
    ];
    let imap = [
        "main@train.py",
        "next (pool.py)@/usr/lib/python3.11/multiprocessing/pool.py",
        "wait (threading.py)@/usr/lib/python3.11/threading.py",
        "futex(FUTEX_WAIT)@[kernel]",
    ];
    // `while not done.wait(0.1): progress()`
    let event = [&GET[..1], &GET[2..]].concat();
    let timed = [
        "main@train.cpp",
        "pthread_cond_clockwait@/usr/lib/libc.so.6",
        "futex(FUTEX_WAIT)@[kernel]",
    ];
    let codes = ["run@train.py", "decode@train.py"];
    for wait in [&map[..], &imap, &event, &timed] {
        let program = loop_that_waits(wait).does(thread(1), Basis::CpuTime, &codes, (9, 10));
        let found = program.found();
        assert!(found.iter().all(|one| one.0 != "loader_wait"), "{found:?}");
    }
    // One whose own script says that it loads does not say so of what it calls.
    let mut script = map;
    script[0] = "main (build_dataset.py)@build_dataset.py";
    let program = loop_that_waits(&script).does(thread(1), Basis::CpuTime, &codes, (9, 10));
    assert!(program.found().iter().all(|one| one.0 != "loader_wait"));
}

/// A pool of native threads in which the main thread has a share, and is done sooner than the other.
#[test]
fn a_worker_that_waits_for_its_share_is_no_loader() {
    let condition = [
        "main@train.cpp",
        "join_all@train.cpp",
        "pthread_cond_wait@/usr/lib/libc.so.6",
        "futex(FUTEX_WAIT)@[kernel]",
    ];
    let idle = [&["serve@train.cpp"], &condition[2..]].concat();
    let share = ["serve@train.cpp", "share@train.cpp"];
    let of = |waits: bool| {
        let program = loop_that_waits(&condition);
        let program = program.does(thread(1), Basis::CpuTime, &share, (9, 10));
        match waits {
            true => program.does(thread(1), Basis::WaitTime, &idle, (1, 1)),
            false => program,
        }
    };
    let is_told = |program: Program| program.found().iter().any(|one| one.0 == "loader_wait");
    assert!(!is_told(of(false)) && !is_told(of(true)));
}

/// The function in which a thread waits for its loader waits for something else for most of the time.
#[test]
fn a_wait_that_is_mostly_for_something_else_is_no_loaders() {
    let codes = ["run@train.py", "decode@train.py"];
    let nap = ["main@train.py", "clock_nanosleep@[kernel]"];
    let program = Program::new().runs(&STEP, 2).waits(&GET, 2);
    let program = program.does(thread(0), Basis::WaitTime, &nap, (6, 8));
    let program = program.does(thread(1), Basis::CpuTime, &codes, (9, 10));
    let found = with_gpu(program, 2).found();
    assert!(!found.is_empty());
    assert!(found.iter().all(|one| one.0 != "loader_wait"), "{found:?}");
}

#[test]
fn worker_processes_of_a_main_thread_are_its_loaders() {
    let pipe = [
        "main@train.py",
        "_try_get_data (dataloader.py)@/opt/lib/python3/site-packages/torch/utils/data/dataloader.py",
        "poll (connection.py)@/usr/lib/python3.11/multiprocessing/connection.py",
        "poll(pipe)@[kernel]",
    ];
    let load = [
        "_worker_loop (worker.py)@/usr/lib/python3.11/worker.py",
        "load@data.py",
    ];
    let of = |parent_pid| {
        let mut program = loop_that_waits(&pipe);
        let name = program.model.texts.intern("pt_data_worker");
        for pid in [20, 21] {
            program.model.processes.push(Process {
                pid,
                parent_pid,
                name: "train".to_owned(),
                boot_id: "b00t".to_owned(),
                ..Process::default()
            });
            let process = ProcessId::new(program.model.processes.len() - 1);
            program.model.threads.push(Thread {
                process,
                tid: pid,
                name,
            });
            let worker = thread(program.model.threads.len() - 1);
            let before = program.batch.samples.len();
            program = program.does(worker, Basis::CpuTime, &load, (8, 10));
            let own = &mut program.batch.samples[before..];
            own.iter_mut().for_each(|sample| sample.process = process);
        }
        program.advice()
    };
    let advice = of(10);
    let told = "process pt_data_worker and 1 more, which do load (data.py:2)";
    assert_eq!(
        advice["findings"][0]["evidence"]["loader"], told,
        "{advice:#}"
    );
    // Of another program.
    let advice = of(9);
    assert_eq!(advice["findings"][0]["rule"], "data_wait", "{advice:#}");
}

#[test]
fn mpi_that_was_not_recorded_is_proposed() {
    let wait = [
        "main@solver.py",
        "MPI_Allreduce@/usr/lib/libmpi.so.40",
        "progress@/usr/lib/libopen-pal.so",
    ];
    let program = Program::new().runs(&STEP, 6).runs(&wait, 4);
    assert_eq!(program.found(), [finding("mpi_not_recorded", "")]);
    // Who starts it only, and who has recorded its calls, needs no advice.
    let start = ["main@solver.py", "MPI_Init@/usr/lib/libmpi.so.40"];
    assert_eq!(Program::new().runs(&STEP, 6).runs(&start, 4).found(), []);
    let mut asked = Program::new().runs(&STEP, 6).runs(&wait, 4);
    "mpip".clone_into(&mut asked.model.processes[0].backends);
    assert_eq!(asked.found(), []);
    let mut recorded = Program::new().runs(&STEP, 6).runs(&wait, 4);
    let name = recorded.model.texts.intern("MPI_Allreduce");
    recorded.batch.host.push(HostSlice {
        end_ns: MS,
        kind: HostKind::Collective,
        thread: thread(0),
        name,
        ..HostSlice::default()
    });
    assert_eq!(recorded.found(), []);
}
