//! Why GPUs were idle, as `rsys-report gaps` says it, against what programs and simulated GPUs know of themselves.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, Truth, code_object, hip_program, library_program};
use rsys_tests::{
    Invocation, Outcome, Run, Scratch, TestResult, answer, missing_tool, python, script,
    skip_if_missing, workload, workspace_dir,
};
use serde_json::Value;

const MACHINE: &str = "
[clock]
drift_ppm = 90.0
[[kernel]]
name = 'slow'
microseconds = 20000
[[kernel]]
name = 'spin'
microseconds = 300
";

rsys_tests::on_every_stack! {
    causes_have_the_time_that_they_took;
}

/// Begin and end of a time.
type Span = (u64, u64);

/// When a GPU was idle, by the ground truth: between its first operation and its last.
fn idle(truth: &Truth, pid: u32, gpu: usize) -> Vec<Span> {
    let kernels = truth
        .dispatches()
        .filter(|one| (one.pid, one.gpu) == (pid, gpu));
    let copies = truth
        .copies()
        .filter(|one| (one.pid, one.gpu) == (pid, gpu));
    let mut busy: Vec<Span> = kernels.map(|one| (one.start_ns, one.end_ns)).collect();
    busy.extend(copies.map(|one| (one.start_ns, one.end_ns)));
    busy.sort_unstable();
    let (mut idle, mut now_ns) = (Vec::new(), u64::MAX);
    for (start_ns, end_ns) in busy {
        if start_ns > now_ns {
            idle.push((now_ns, start_ns));
        }
        now_ns = match now_ns {
            u64::MAX => end_ns,
            now_ns => now_ns.max(end_ns),
        };
    }
    idle
}

/// How much of a span the GPU was idle.
fn idle_in(idle: &[Span], (begin_ns, end_ns): Span) -> u64 {
    let parts = idle
        .iter()
        .map(|one| (one.0.max(begin_ns), one.1.min(end_ns)));
    parts
        .map(|(begin_ns, end_ns)| end_ns.saturating_sub(begin_ns))
        .sum()
}

/// Lines of the program with this word in front, as words.
fn lines<'o>(outcome: &'o Outcome, word: &'o str) -> impl Iterator<Item = Vec<&'o str>> {
    let lines = outcome
        .stdout
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    lines.filter(move |words| words.first() == Some(&word))
}

fn span(words: &[&str]) -> Result<Span> {
    let [.., begin, end] = words else {
        anyhow::bail!("no span: {words:?}");
    };
    Ok((begin.parse()?, end.parse()?))
}

/// What is known of a reason.
#[derive(Debug, Default)]
struct Known {
    /// How long the GPU was idle for it.
    idle_ns: u64,
    /// How long the program waited for a processor meanwhile, if only before or behind what it did.
    delay_ns: u64,
}

/// The idle time that the program and the ground truth know for each reason.
fn expected(outcome: &Outcome, truth: &Truth, pid: u32) -> Result<BTreeMap<String, Known>> {
    // The runtimes use GPUs for themselves, too, which they do not tell: before the first operation nothing counts.
    let timeline = answer("timeline", &outcome.files())?;
    let first_ns = timeline["runs"][0]["devices"][0]["start_ns"].as_u64();
    let first_ns = first_ns.with_context(|| timeline.to_string())?;
    let mut idle = idle(truth, pid, 0);
    idle.iter_mut().for_each(|one| one.0 = one.0.max(first_ns));
    let mut expected: BTreeMap<String, Known> = BTreeMap::new();
    let mut add = |reason: &str, span: Span| {
        let known = expected.entry(reason.to_owned()).or_default();
        known.idle_ns += idle_in(&idle, span);
    };
    for words in lines(outcome, "span") {
        add(words[1], span(&words)?);
    }
    // Each launch on the GPU and the kernel that it became.
    let mut starts: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for name in ["spin", "awaits", "follows", "short_kernel"] {
        let of_name = truth.kernels_named(name);
        let of_name = of_name.filter(|one| (one.pid, one.gpu) == (pid, 0));
        let mut spans: Vec<Span> = of_name.map(|one| (one.start_ns, one.end_ns)).collect();
        spans.sort_unstable();
        spans.reverse();
        starts.insert(name, spans);
    }
    let mut last_end_ns = Vec::new();
    for words in lines(outcome, "launched") {
        let next = starts.get_mut(words[1]).and_then(Vec::pop);
        let (start_ns, end_ns) = next.with_context(|| format!("{words:?} did not run"))?;
        add(words[1], (words[2].parse()?, start_ns));
        last_end_ns.push(end_ns);
    }
    for (words, end_ns) in lines(outcome, "waited").zip(last_end_ns) {
        add("waited", (end_ns, span(&words)?.1));
    }
    for words in lines(outcome, "delayed") {
        let known = expected.entry(words[1].to_owned()).or_default();
        known.delay_ns += words[2].parse::<u64>()?;
    }
    Ok(expected)
}

/// The idle time of all causes of these names whose places hold one of these texts.
fn found(device: &Value, names: &[&str], places: &[&str]) -> u64 {
    let causes = device["causes"].as_array().into_iter().flatten();
    let fitting = causes.filter(|cause| {
        let place = cause["where"].as_str().unwrap_or_default();
        let name = cause["cause"].as_str().unwrap_or_default();
        names.contains(&name) && places.iter().any(|one| place.contains(one))
    });
    fitting.filter_map(|cause| cause["idle_ns"].as_u64()).sum()
}

/// The only process that used GPU 0.
fn user_of(truth: &Truth) -> Result<u32> {
    let first = truth.dispatches().next();
    Ok(first.context("nothing was executed")?.pid)
}

/// A reason, the causes that it may be told by, and what their places hold.
type Case<'c> = (&'c str, &'c [&'c str], &'c [&'c str]);

fn judge(device: &Value, expected: &BTreeMap<String, Known>, cases: &[Case<'_>]) -> TestResult {
    let idle_ns = device["idle_ns"].as_u64().context("idle_ns")?;
    // On a busy machine a thread may lose the processor between any two lines, and is then at either: for how long, the program says itself. And where it is
    // looked at late, it was off the processor before, wherever it was seen last.
    let off_processor_ns = found(device, &["host_off_processor", "host_runnable"], &[""]);
    let mut story = String::new();
    let mut off = false;
    // What the cases lack, and what of that time they have themselves.
    let (mut missing_ns, mut off_in_cases_ns) = (0, 0);
    for (reason, causes, places) in cases {
        let known = expected
            .get(*reason)
            .with_context(|| format!("no {reason}"))?;
        let expected_ns = known.idle_ns;
        let found_ns = found(device, causes, places);
        // Two percent, and what the program does between its readings of the clock and the calls.
        let tolerance_ns = expected_ns / 50 + idle_ns / 1000;
        let may_lose_processor = causes.contains(&"host_off_processor");
        let off_here_ns = match may_lose_processor {
            true => found(device, &["host_off_processor", "host_runnable"], places),
            false => 0,
        };
        let least_ns = expected_ns.saturating_sub(known.delay_ns + tolerance_ns);
        let lacks_ns = least_ns.saturating_sub(found_ns);
        let is_off = found_ns - off_here_ns > expected_ns + tolerance_ns
            || lacks_ns > expected_ns / 2 && !may_lose_processor;
        missing_ns += lacks_ns;
        off_in_cases_ns += off_here_ns;
        story += &format!(
            "{reason}: {found_ns} of {expected_ns}, delayed for {}{}\n",
            known.delay_ns,
            if is_off { " !" } else { "" }
        );
        off |= is_off;
    }
    off |= missing_ns > off_processor_ns.saturating_sub(off_in_cases_ns);
    ensure!(!off, "{story}{device:#}");
    Ok(())
}

const HOST: &[&str] = &[
    "host_code",
    "host_wait",
    "host_off_processor",
    "host_runnable",
];

fn causes_have_the_time_that_they_took(stack: Stack) -> TestResult {
    causes_have_their_time(stack, ["10", "30"])
}

/// Steps as in training loops: some tenths of a second of each cause.
#[test]
#[ignore = "takes minutes"]
fn causes_of_milliseconds_have_the_time_that_they_took() -> TestResult {
    for stack in [
        Stack::Debian12,
        Stack::Wheel54,
        Stack::Debian13,
        Stack::Unstable,
        Stack::Rocm7,
    ] {
        for (rounds, milliseconds) in [("200", "0.5"), ("150", "1"), ("100", "2"), ("60", "5")] {
            causes_have_their_time(stack, [rounds, milliseconds])
                .with_context(|| format!("{stack:?}, {milliseconds} ms"))?;
        }
    }
    for stack in [Stack::Debian12, Stack::Wheel54] {
        for arguments in [["200", "0.5"], ["150", "1"], ["100", "2"], ["60", "5"]] {
            python_functions_have_the_time_that_they_took(stack, arguments)
                .with_context(|| format!("{stack:?}, Python, {} ms", arguments[1]))?;
        }
    }
    Ok(())
}

/// The idle time that the GPU's own times and the program's clocks give to each cause, with so many rounds of so many milliseconds each.
fn causes_have_their_time(stack: Stack, arguments: [&str; 2]) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(2).config(MACHINE)?;
    let program = hip_program(stack, "hip_causes")?.args(arguments);
    let outcome = Run::new()
        .options(["-I", "rocm", "--realtime", "-f", "1000"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let truth = machine.truth()?;
    let gaps = answer("gaps", &outcome.files())?;
    let timeline = answer("timeline", &outcome.files())?;
    let device = &gaps["runs"][0]["devices"][0];
    let of_timeline = &timeline["runs"][0]["devices"][0];
    ensure!(device["idle_ns"] == of_timeline["idle_ns"], "{gaps:#}");
    let causes = device["causes"].as_array().context("causes")?;
    let sum: u64 = causes
        .iter()
        .filter_map(|cause| cause["idle_ns"].as_u64())
        .sum();
    ensure!(Some(sum) == device["idle_ns"].as_u64(), "{gaps:#}");
    let expected = expected(&outcome, &truth, user_of(&truth)?)?;
    judge(
        device,
        &expected,
        &[
            ("computes", HOST, &["computes"]),
            ("sleeps", HOST, &["sleeps"]),
            ("locks", HOST, &["locks"]),
            ("copies", &["blocking_copy"], &["hipMemcpy"]),
            ("awaits", &["event", "launch"], &["waits_for_event"]),
            ("follows", &["host_function", "launch"], &["waits_for_host"]),
            ("spin", &["launch", "queued", "runtime_call"], &["work"]),
            ("waited", &["synchronisation"], &["hipStreamSynchronize"]),
        ],
    )
}

/// A library that the program opens for itself keeps the GPU waiting within OpenMP, a call of MPI and a kernel of Kokkos.
#[test]
fn runtimes_of_parallel_programs_have_the_time_that_they_took() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(
        stack
            .missing_to_build()
            .or_else(|| missing_tool("mpicc.mpich"))
    );
    let library = workload("parallel_work")
        .compiler("mpicc.mpich")
        .flags(["-O1", "-g", "-shared", "-fPIC", "-fopenmp"])
        .build()?;
    let machine = Machine::new(stack)?.gpus(2).config(MACHINE)?;
    let program = hip_program(stack, "hip_causes")?
        .args(["5", "30"])
        .arg(library);
    let outcome = Run::new()
        .options(["-I", "rocm", "mpip", "ompt", "kokkosp", "-f", "1000"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let truth = machine.truth()?;
    let gaps = answer("gaps", &outcome.files())?;
    let device = &gaps["runs"][0]["devices"][0];
    let expected = expected(&outcome, &truth, user_of(&truth)?)?;
    judge(
        device,
        &expected,
        &[
            ("mpi", &["mpi"], &["MPI_Init"]),
            ("openmp", &["openmp"], &["within_openmp (parallel_work.c:"]),
            ("kokkos", &["kokkos"], &["axpy"]),
        ],
    )
}

/// What waits for the GPU from Python: no compiled program names the lines.
fn python_functions_have_the_time_that_they_took(stack: Stack, arguments: [&str; 2]) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config(MACHINE)?;
    let script = workspace_dir().join("tests/workloads/gpu/hip_causes.py");
    let program = Invocation::new("/usr/bin/python3")
        .arg(&script)
        .arg("libamdhip64.so.5")
        .arg(code_object("gfx90a")?)
        .args(arguments);
    let outcome = Run::new()
        .options(["-I", "rocm", "--realtime", "-f", "1000"])
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let truth = machine.truth()?;
    let gaps = answer("gaps", &outcome.files())?;
    let device = &gaps["runs"][0]["devices"][0];
    let expected = expected(&outcome, &truth, user_of(&truth)?)?;
    let of_host: [Case<'_>; 3] = [
        ("computes", HOST, &["computes (hip_causes.py:"]),
        ("sleeps", HOST, &["sleeps (hip_causes.py:"]),
        ("locks", HOST, &["locks (hip_causes.py:"]),
    ];
    // What Python finds in HIP 5.2 by itself passes the profiler by: there are no calls.
    if stack == Stack::Debian12 {
        return judge(device, &expected, &of_host);
    }
    let of_calls: [Case<'_>; 2] = [
        ("copies", &["blocking_copy"], &["hipMemcpy"]),
        ("waited", &["synchronisation"], &["hipDeviceSynchronize"]),
    ];
    judge(device, &expected, &[&of_host[..], &of_calls].concat())
}

#[test]
fn debian12_names_python_functions() -> TestResult {
    python_functions_have_the_time_that_they_took(Stack::Debian12, ["10", "30"])
}

#[test]
fn wheel54_names_python_functions() -> TestResult {
    python_functions_have_the_time_that_they_took(Stack::Wheel54, ["10", "30"])
}

/// The thread that feeds the GPU waits for the interpreter's lock: who holds it is named by its thread and its line.
fn the_holder_of_the_interpreters_lock_is_named(options: &[&str], causes: &[&str]) -> TestResult {
    let stack = Stack::Wheel54;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config(MACHINE)?;
    let program = python("gpu/lock_holder.py").args(["libamdhip64.so.5", "200"]);
    let outcome = Run::new()
        .options(["-I", "rocm"])
        .options(options)
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let holder = outcome.number("holder")?;
    let gaps = answer("gaps", &outcome.files())?;
    let device = &gaps["runs"][0]["devices"][0];
    // What the simulated GPU and the calls take by themselves is another matter.
    let outside_ns = found(device, HOST, &[""]);
    let held =
        format!("the interpreter's lock (GIL), held by thread {holder} in grinds (lock_holder.py:");
    let for_lock_ns = found(device, causes, &["the interpreter's lock (GIL)"]);
    let by_thread_ns = found(device, causes, &[&format!("held by thread {holder}")]);
    let at_line_ns = found(device, causes, &[&held]);
    // On a busy machine threads wait for the processor as well, and the lock may be free when it is looked at.
    ensure!(
        outside_ns > 20_000_000
            && for_lock_ns * 3 >= outside_ns
            && by_thread_ns * 10 >= for_lock_ns * 6
            && at_line_ns * 10 >= by_thread_ns * 5,
        "{at_line_ns} of {by_thread_ns} of {for_lock_ns} of {outside_ns}: {gaps:#}"
    );
    // It waits where it has given the lock away.
    let is_feeding = |place: &str| place.starts_with("feeds (lock_holder.py:");
    let causes = device["causes"].as_array().into_iter().flatten();
    let mut places = causes.filter_map(|cause| cause["where"].as_str());
    ensure!(
        places.any(|place| is_feeding(place) && place.contains(&held)),
        "{gaps:#}"
    );
    Ok(())
}

#[test]
fn the_holder_of_the_interpreters_lock_is_named_by_recorded_waits() -> TestResult {
    the_holder_of_the_interpreters_lock_is_named(&["mutex-locks", "-f", "1000"], &["host_wait"])
}

#[test]
fn the_holder_of_the_interpreters_lock_is_named_by_waits_seen_from_outside() -> TestResult {
    // Between two looks it is not on a processor.
    let causes = ["host_wait", "host_off_processor", "host_runnable"];
    the_holder_of_the_interpreters_lock_is_named(
        &["--realtime", "--realtime-freq", "1000"],
        &causes,
    )
}

/// A rank that comes late keeps the GPU of the other one idle, which is in a call of RCCL meanwhile.
#[test]
fn a_collective_that_another_process_holds_up_is_named() -> TestResult {
    let stack = Stack::Debian13;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(2);
    let program = library_program(stack, "rccl_held", &["rccl", "amdhip64"])?.path();
    let folder = Scratch::new("rccl-held")?;
    let line = format!(
        "{program} 1 {id} 1000 & {program} 0 {id} 1000 && wait",
        program = program.display(),
        id = folder.path().join("id").display(),
    );
    let outcome = Run::new()
        .options(["-I", "rocm", "--realtime"])
        .command(machine.run(script(&line)))
        .run()?;
    outcome.expect_success();
    let mut joins: Vec<_> = lines(&outcome, "joins").collect();
    joins.sort_unstable();
    ensure!(joins.len() == 2, "{joins:?}");
    let (pid, held): (u32, Span) = (
        joins[0][2].parse()?,
        (joins[0][3].parse()?, joins[1][3].parse()?),
    );
    let gaps = answer("gaps", &outcome.files())?;
    let devices = gaps["runs"][0]["devices"].as_array().context("devices")?;
    let device = devices.iter().find(|one| one["process"] == pid);
    let device = device.with_context(|| gaps.to_string())?;
    let causes = device["causes"].as_array().into_iter().flatten();
    let place = "ncclCommInitRank in joins (rccl_held.c:";
    let longest = causes
        .filter(|one| one["cause"] == "collective_call")
        .find(|one| {
            one["where"]
                .as_str()
                .is_some_and(|text| text.starts_with(place))
        })
        .with_context(|| format!("{device:#}"))?;
    // The call holds the thread from before the second rank comes until the two have talked.
    let numbers = ["longest_at_ns", "longest_ns"].map(|key| longest[key].as_u64().unwrap_or(0));
    let found = (numbers[0], numbers[0] + numbers[1]);
    let is_within = found.0.abs_diff(held.0) * 50 < held.1 - held.0 && found.1 >= held.1;
    ensure!(is_within, "{found:?}, not {held:?}: {device:#}");
    Ok(())
}
