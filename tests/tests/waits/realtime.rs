//! `--realtime`: what threads wait for is seen, and no wait is disturbed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Outcome, Run, Sample, Samples, Slice, Summary, TestResult, Trace, alive, is_root, missing_tool,
    python, scan_packets, script, share_bound, signal, skip_if_missing, wait_until, workload,
};

/// Looks per second.
const HERTZ: f64 = 100.0;

/// The waits of `waits.c` that happen in a function of its own each, and what is waited for.
const WAITS: &[(&str, &[&str])] = &[
    ("in_sleep", &["clock_nanosleep"]),
    ("in_nanosleep", &["clock_nanosleep"]),
    ("in_poll", &["poll(socket)", "ppoll(socket)"]),
    ("in_select", &["pselect6", "select"]),
    ("in_epoll", &["epoll_wait", "epoll_pwait"]),
    ("in_recv", &["recvfrom(socket)"]),
    ("in_semaphore", &["futex(FUTEX_WAIT_BITSET)"]),
    ("in_condition", &["futex(FUTEX_WAIT_BITSET)"]),
    ("in_mutex", &["futex(FUTEX_WAIT)"]),
    ("in_pipe", &["read(pipe)"]),
    ("in_ioctl", &["ioctl(/dev/null)"]),
    ("in_child", &["wait4", "waitid"]),
];

fn realtime(command: impl Into<rsys_tests::Invocation>) -> Run {
    Run::new()
        .options(["--realtime", "--realtime-freq", "100"])
        .command(command)
}

/// The process of this name that waited longest.
fn summary_of<'a>(outcome: &'a Outcome, name: &str) -> Result<&'a Summary> {
    let waited = |summary: &&Summary| summary.waits.as_ref().map_or(0.0, |waits| waits.seconds);
    outcome
        .summaries
        .iter()
        .filter(|summary| summary.name == name)
        .max_by(|one, other| waited(one).total_cmp(&waited(other)))
        .with_context(|| format!("no process `{name}`\n{}", outcome.story()))
}

fn trace_of(outcome: &Outcome, name: &str) -> Result<Trace> {
    let summary = summary_of(outcome, name)?;
    Trace::load(&summary.path, Some(summary.clone()))
}

/// Whether a wait has its whole stack.
fn is_whole(sample: &Sample) -> bool {
    !sample.calls("[broken]") && !sample.calls("[truncated]")
}

/// Fails unless nearly all waits of all processes have whole stacks: by their time, for of a few dozen a short one may be met as its process becomes another
/// program.
fn check_completeness(outcome: &Outcome) -> Result<()> {
    let (mut all, mut broken) = (0.0, 0.0);
    for summary in &outcome.summaries {
        let Some(waits) = &summary.waits else {
            continue;
        };
        all += waits.seconds;
        if waits.complete < waits.waits {
            let samples = Trace::load(&summary.path, Some(summary.clone()))?.wait_samples()?;
            broken += seconds_of(&samples, |sample| !is_whole(sample));
        }
    }
    ensure!(all > 0.0, "no waits\n{}", outcome.story());
    ensure!(
        broken <= 0.02 * all,
        "of {broken:.3} of {all:.3} s of waits the stacks are not whole\n{}",
        outcome.story()
    );
    Ok(())
}

/// The seconds of the waits for which something holds.
fn seconds_of(samples: &Samples, holds: impl Fn(&Sample) -> bool) -> f64 {
    let held = samples.iter().filter(|sample| holds(sample));
    held.map(|sample| sample.weight).sum()
}

/// What a thread waits for.
fn label(sample: &Sample) -> &str {
    sample
        .stack
        .last()
        .map_or("", |frame| frame.function.as_str())
}

/// Fails unless each function waited for its share of the time, as the program measured it.
fn check_shares(outcome: &Outcome, trace: &Trace, functions: &[&str]) -> Result<()> {
    let samples = trace.wait_samples()?;
    let measured: Vec<(&str, f64)> = functions
        .iter()
        .map(|&name| Ok((name, outcome.number(name)?)))
        .collect::<Result<_>>()?;
    let all: f64 = measured.iter().map(|(_, seconds)| seconds).sum();
    let seen = |name: &str| -> f64 {
        let mine = samples.iter().filter(|sample| sample.calls(name));
        mine.map(|sample| sample.weight).sum()
    };
    let seen_all: f64 = measured.iter().map(|(name, _)| seen(name)).sum();
    for (name, seconds) in measured {
        let (share, expected) = (seen(name) / seen_all, seconds / all);
        let bound = share_bound(expected, all * HERTZ);
        ensure!(
            (share - expected).abs() <= bound,
            "{name} waited {:.1} % of the time, expected {:.1} % ± {:.1}",
            100.0 * share,
            100.0 * expected,
            100.0 * bound
        );
    }
    Ok(())
}

fn waits_of_one_build(flags: &[&str], results: &str) -> Result<()> {
    let program = workload("waits").flags(flags).args(["--scale", "0.5"]);
    let outcome = realtime(program).run()?;
    outcome.expect_success();
    ensure!(
        outcome.number("interrupted")? == 0.0 && outcome.number("early")? == 0.0,
        "waits are disturbed\n{}",
        outcome.story()
    );
    ensure!(
        result_lines(&outcome) == results,
        "calls return something else than `{results}`\n{}",
        outcome.story()
    );
    outcome.assert_counts()?;
    check_completeness(&outcome)?;
    let trace = trace_of(&outcome, "waits")?;
    trace.assert_clean();
    let functions: Vec<&str> = WAITS.iter().map(|(name, _)| *name).collect();
    check_shares(&outcome, &trace, &functions)?;
    let slices = trace.wait_timeline()?;
    let samples = trace.wait_samples()?;
    for (name, labels) in WAITS {
        for sample in samples.iter().filter(|sample| sample.calls(name)) {
            ensure!(sample.calls("main"), "{name} waits in {:?}", sample.names());
        }
        // On a busy machine `fork` waits as well, and whoever touches new memory.
        let is_mine = |sample: &Sample| sample.calls(name) && labels.contains(&label(sample));
        let mine = seconds_of(&samples, is_mine);
        let others = seconds_of(&samples, |sample| sample.calls(name) && !is_mine(sample));
        ensure!(
            others <= 0.1 * mine,
            "{name} waits {mine:.3} s for {labels:?}, {others:.3} for others"
        );
        let is_within = |inner: &Slice, outer: &Slice| {
            inner.track == outer.track
                && inner.depth > outer.depth
                && inner.start_ns >= outer.start_ns
                && inner.end_ns() <= outer.end_ns()
        };
        // The innermost: functions of the C library bear the same names.
        let waits = slices.iter().filter(|slice| {
            let mut all = slices.iter();
            labels.contains(&slice.name.as_str())
                && all.any(|outer| outer.name == *name && is_within(slice, outer))
                && !slices.iter().any(|inner| is_within(inner, slice))
        });
        let waits = waits.count();
        ensure!(waits == 1, "{name} waits {waits} times");
    }
    let helper = samples.iter().any(|sample| sample.thread == "helper");
    ensure!(helper, "the thread that only waits is not there");
    Ok(())
}

/// Where the return address, or the way to the frame, is in a register for the time of the system call.
#[test]
fn waits_behind_a_register_have_their_callers() -> TestResult {
    let outcome = realtime(workload("register_waits").flags(["-O2", "-g"])).run()?;
    outcome.expect_success();
    check_completeness(&outcome)?;
    let samples = trace_of(&outcome, "register_waits")?.wait_samples()?;
    let functions = &["in_vfork", "in_described", "in_undescribed", "in_realigned"];
    for function in functions {
        let share = samples.share_where(|sample| sample.calls(function));
        let even = 1.0 / functions.len() as f64;
        assert!(
            share > 0.5 * even,
            "{function}: {share}\n{}",
            outcome.story()
        );
    }
    // Everything is in `main`: no wait of the command has lost its callers. Before it the program waits for its start.
    let in_any = |sample: &Sample| functions.iter().any(|name| sample.calls(name));
    let all = seconds_of(&samples, in_any);
    let in_main = seconds_of(&samples, |sample| in_any(sample) && sample.calls("main"));
    assert!(in_main > 0.99 * all, "{}", outcome.story());
    Ok(())
}

/// What the calls returned.
fn result_lines(outcome: &Outcome) -> String {
    let lines = outcome.stdout.lines();
    let results: Vec<_> = lines.filter(|line| line.starts_with("result ")).collect();
    results.join("; ")
}

#[test]
fn waits_are_seen_where_they_are_and_not_disturbed() -> TestResult {
    let bare = Run::bare()
        .command(workload("waits").args(["--scale", "0.5"]))
        .run()?;
    let results = result_lines(bare.expect_success());
    let builds: [&[&str]; 6] = [
        &["-O0", "-g"],
        &["-O0", "-g", "-fomit-frame-pointer"],
        &["-O1", "-g", "-fno-omit-frame-pointer"],
        &["-O2", "-g"],
        &["-O2", "-g", "-fno-omit-frame-pointer"],
        &["-O3", "-march=native"],
    ];
    // They sleep most of the time.
    std::thread::scope(|scope| {
        let running = builds.map(|flags| {
            let results = &results;
            scope.spawn(move || {
                waits_of_one_build(flags, results).with_context(|| format!("{flags:?}"))
            })
        });
        running
            .into_iter()
            .try_for_each(|run| run.join().expect("no panic"))
    })?;
    Ok(())
}

#[test]
fn a_busy_program_is_not_interrupted() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .options(["--realtime", "--realtime-freq", "1000"])
        .command(workload("eintr").args(["--rounds", "10"]))
        .run()?;
    assert_eq!(
        outcome.expect_success().number("interrupted")?,
        0.0,
        "{}",
        outcome.story()
    );
    outcome.trace()?.assert_clean();
    check_completeness(&outcome)?;
    Ok(())
}

#[test]
fn python_waits_are_whole() -> TestResult {
    let outcome = realtime(python("waits.py")).run()?;
    outcome.expect_success().assert_counts()?;
    check_completeness(&outcome)?;
    let name = outcome
        .summaries
        .iter()
        .map(|summary| summary.name.clone())
        .find(|name| name.starts_with("python"))
        .context("no Python process")?;
    let trace = trace_of(&outcome, &name)?;
    trace.assert_clean();
    let samples = trace.wait_samples()?;
    let seconds = |labels: &[&str]| -> f64 {
        let main = samples
            .iter()
            .filter(|sample| sample.calls("<module> (waits.py)"));
        let waits = main.filter(|sample| {
            let leaf = sample.names().last().copied().unwrap_or_default();
            labels.iter().any(|label| leaf.starts_with(label))
        });
        waits.map(|sample| sample.weight).sum()
    };
    let all: f64 = ["in_sleep", "in_queue", "in_lock", "in_child"]
        .iter()
        .map(|name| outcome.number(name))
        .sum::<Result<f64>>()?;
    for (functions, labels) in [
        (
            &["in_sleep"][..],
            &["clock_nanosleep", "pselect6", "select"][..],
        ),
        (&["in_queue", "in_lock"], &["futex"]),
        // Where it reads from a pipe that the child has executed its program is a wait as well.
        (
            &["in_child"],
            &["wait4", "waitid", "read(pipe)", "vfork", "clone"],
        ),
    ] {
        let expected = functions
            .iter()
            .map(|name| outcome.number(name))
            .sum::<Result<f64>>()?
            / all;
        let share = seconds(labels) / all;
        assert!(
            (share - expected).abs() <= share_bound(expected, all * HERTZ),
            "{functions:?}: {share:.3} of the time, expected {expected:.3}\n{}",
            outcome.story()
        );
    }
    // A process that only waits has a trace, too.
    summary_of(&outcome, "sleep")?;
    Ok(())
}

#[test]
fn many_sleeping_threads_cost_little() -> TestResult {
    let sleepers = |threads: &str, seconds: &str| {
        let program = workload("sleepers").args(["--threads", threads, "--seconds", seconds]);
        realtime(program).run()
    };
    let cpu_of = |trace: &Trace| -> Result<f64> {
        let cpu = trace.metadata()?;
        let cpu = cpu.get("sampler_cpu_seconds")?.as_float();
        cpu.context("a number")
    };
    let outcome = sleepers("200", "2")?;
    assert_eq!(outcome.expect_success().number("early")?, 0.0);
    let trace = outcome.trace()?;
    trace.assert_clean();
    check_completeness(&outcome)?;
    let timeline = trace.wait_timeline()?;
    let dozes = timeline.iter().filter(|slice| slice.name == "doze");
    assert_eq!(dozes.count(), 200, "each thread waits once");
    let cpu = cpu_of(&trace)?;
    let waited = trace.wait_samples()?.weight();
    eprintln!("{waited:.1} s of waiting took the sampler {cpu:.3} s of CPU time");
    // Starting, finding names and writing included; two seconds of both CPUs would be 4. A slow machine needs more, for a single thread as well.
    if cpu >= 0.5 {
        let one = cpu_of(&sleepers("1", "0.5")?.trace()?)?;
        assert!(
            cpu < 20.0 * one,
            "the sampler took {cpu} s, for one thread {one}"
        );
    }
    Ok(())
}

#[test]
fn many_short_waits_are_not_prolonged_or_shortened() -> TestResult {
    let program = workload("sleepers").args(["--threads", "20", "--seconds", "1", "--nap-ms", "3"]);
    let outcome = Run::new()
        .options(["--realtime", "--realtime-freq", "1000"])
        .command(program)
        .run()?;
    assert_eq!(outcome.expect_success().number("early")?, 0.0);
    outcome.trace()?.assert_clean();
    check_completeness(&outcome)
}

/// Waits until the only trace below a folder holds open slices.
fn wait_for_open_slices(folder: &Path) -> Result<()> {
    let open = || {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if scan_packets(&path).is_ok_and(|found| found.begins > found.ends) {
                    return true;
                }
            }
        }
        false
    };
    ensure!(
        wait_until(Duration::from_secs(60), open),
        "no wait is written while it lasts"
    );
    Ok(())
}

#[test]
fn waits_are_in_the_trace_of_a_killed_program() -> TestResult {
    let run = realtime(workload("sleepers").args(["--seconds", "1000"])).start()?;
    run.wait_for("ready")?;
    wait_for_open_slices(run.output())?;
    assert!(signal(run.target_pid()?, libc::SIGKILL));
    let outcome = run.wait()?;
    outcome.expect_signal(libc::SIGKILL);
    outcome.trace()?.assert_clean();
    check_completeness(&outcome)?;
    Ok(())
}

#[test]
fn waits_are_in_the_trace_of_a_killed_sampler() -> TestResult {
    let run = realtime(workload("sleepers").args(["--seconds", "1000"])).start()?;
    run.wait_for("ready")?;
    wait_for_open_slices(run.output())?;
    let target = run.target_pid()?;
    run.signal(libc::SIGKILL);
    let outcome = run.wait()?;
    assert!(alive(target), "the program goes on");
    assert!(signal(target, libc::SIGKILL));
    let trace = outcome.trace()?;
    trace.assert_valid_prefix();
    let waits = trace.wait_timeline()?;
    assert!(waits.iter().any(|slice| slice.duration_ns < 0));
    Ok(())
}

#[test]
fn programs_are_replaced_and_forked_while_threads_wait() -> TestResult {
    let line = "import os, threading, time\n\
        for _ in range(5): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n\
        for _ in range(8):\n\
        \x20   child = os.fork()\n\
        \x20   if child == 0: time.sleep(0.05); os._exit(0)\n\
        \x20   os.waitpid(child, 0)\n\
        os.execv('/bin/sleep', ['sleep', '0.3'])\n";
    let command = rsys_tests::Invocation::new("/usr/bin/python3").args(["-c", line]);
    let outcome = Run::new()
        .options(["--realtime", "--realtime-freq", "1000"])
        .command(command)
        .run()?;
    outcome.expect_success().assert_counts()?;
    check_completeness(&outcome)?;
    let trace = trace_of(&outcome, "sleep")?;
    trace.assert_clean();
    // It sleeps once. What else it waits for, as for a page of memory, is short.
    let samples = trace.wait_samples()?;
    let is_sleep = |sample: &Sample| label(sample) == "clock_nanosleep";
    let slept = seconds_of(&samples, |sample| is_sleep(sample) && is_whole(sample));
    let others = seconds_of(&samples, |sample| !is_sleep(sample) || !is_whole(sample));
    assert!(slept > others, "{slept} and {others}: {}", outcome.story());
    let slices = trace.wait_timeline()?;
    let deepest = |one: &&Slice| {
        let mut others = slices.iter();
        !others.any(|other| {
            other.track == one.track && other.start_ns == one.start_ns && other.depth > one.depth
        })
    };
    let sleeps = slices.iter().filter(deepest);
    let sleeps = sleeps.filter(|slice| slice.name == "clock_nanosleep");
    assert_eq!(sleeps.count(), 1, "{}", outcome.story());
    Ok(())
}

#[test]
fn storms_of_processes_and_threads_are_survived() -> TestResult {
    for command in [
        workload("forks").args([
            "--count",
            "60",
            "--ms",
            "5",
            "--at-once",
            "8",
            "--mode",
            "fork",
        ]),
        workload("threads").args(["--count", "500", "--at-once", "20", "--us", "500"]),
    ] {
        let outcome = Run::new()
            .options(["--realtime", "--realtime-freq", "1000"])
            .command(command)
            .run()?;
        outcome.expect_success().assert_counts()?;
        let judged = outcome.files();
        let judged = judged.last().context("no trace")?;
        Trace::load(judged, None)?.assert_valid_prefix();
    }
    Ok(())
}

#[test]
fn a_window_of_time_cuts_waits() -> TestResult {
    let outcome = realtime(script("sleep 1"))
        .options(["--wait", "0.4", "--duration", "0.3"])
        .run()?;
    outcome.expect_success().assert_counts()?;
    for summary in &outcome.summaries {
        let waits = summary.waits.as_ref().context("no waits")?;
        assert!(waits.seconds <= 0.3, "{waits:?}");
        trace_of(&outcome, &summary.name)?.assert_clean();
    }
    Ok(())
}

#[test]
fn a_process_that_must_not_be_looked_at_is_told_of_once() -> TestResult {
    let program = workload("waits").args(["--scale", "0.2", "--undumpable", "1"]);
    let mut run = realtime(program);
    if is_root() {
        // Root may look at everything, unless it gives that up.
        skip_if_missing!(missing_tool("setpriv"));
        run = run.under([
            "setpriv",
            "--bounding-set",
            "-sys_ptrace",
            "--inh-caps",
            "-sys_ptrace",
        ]);
    }
    let outcome = run.run()?;
    outcome.expect_success();
    assert_eq!(outcome.number("interrupted")?, 0.0);
    outcome.assert_counts()?;
    let told = outcome.stderr.matches("cannot be seen").count();
    // The forked child is another process.
    assert!((1..=2).contains(&told), "{}", outcome.story());
    let summary = outcome
        .summaries
        .iter()
        .max_by_key(|summary| summary.samples)
        .context("no summary")?;
    let waits = summary.waits.as_ref().context("no waits")?;
    assert!(waits.unreadable >= 1, "{}", outcome.story());
    assert!(summary.samples > 0, "its CPU time is seen as always");
    Ok(())
}

#[test]
fn children_that_only_wait_for_theirs_leave_no_file() -> TestResult {
    // A wrapper in a wrapper, which captures what it prints.
    let line = r#"sh -c 'said=$(sh -c "sleep 0.6; echo done"); echo "$said"'; exit 0"#;
    // Seldom sampled, for on a busy machine it takes a shell longer to start.
    let outcome = realtime(script(line)).freq(20).run()?;
    outcome.expect_success();
    assert_eq!(outcome.stdout, "done\n");
    // The command itself is there in any case; a shell that has waited for other things as well, as for memory, may be.
    let mut only_waited = 0;
    let shells = || outcome.summaries.iter().filter(|one| one.name != "sleep");
    for shell in shells() {
        let waits = Trace::load(&shell.path, Some(shell.clone()))?.wait_samples()?;
        let for_others = ["wait4", "waitid", "rt_sigsuspend", "read(pipe)"];
        let others = seconds_of(&waits, |wait| !for_others.contains(&label(wait)));
        only_waited += usize::from(shell.samples < 3 && others < 0.01);
    }
    let files = outcome.files().len();
    ensure!(
        only_waited <= 1 && shells().count() >= 1 && files == shells().count() + 1,
        "{}",
        outcome.story()
    );
    ensure!(
        outcome.stderr.contains("short process"),
        "{}",
        outcome.story()
    );
    let kept = realtime(script(line))
        .options(["--min-samples", "1"])
        .run()?;
    ensure!(kept.files().len() >= 4, "{}", kept.story());
    Ok(())
}
