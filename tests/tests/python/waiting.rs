//! `--realtime` with Python: the line that waits is named, and who waits for the interpreter's lock.

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Frame, Interpreter, Outcome, Run, Sample, Samples, Scratch, TestResult, Trace, answer, is_root,
    missing_tool, python, pythons, skip_if_missing,
};
use serde_json::Value;

const WAITS: &str = "python_waits.py";
/// What a thread waits for that waits until it may run Python.
const LOCK: &str = "the interpreter's lock (GIL)";
/// The functions of the workload that wait, each on a thread that the kernel knows by its name, and what they wait for.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("in_sleep", &["clock_nanosleep", "pselect6", "select"]),
    ("in_naps", &["clock_nanosleep", "pselect6", "select"]),
    ("in_queue", &["futex"]),
    ("in_lock", &["futex"]),
    ("in_condition", &["futex"]),
    ("in_recv", &["recvfrom(socket)"]),
    ("in_select", &["pselect6", "select", "poll"]),
    (
        "in_child",
        &["wait4", "waitid", "read(pipe)", "vfork", "clone", "poll"],
    ),
    ("in_asyncio", &["epoll_wait", "epoll_pwait"]),
    ("in_ctypes", &["clock_nanosleep"]),
    ("in_callback", &["clock_nanosleep", "pselect6", "select"]),
    ("in_pool", &["futex"]),
    ("in_worker", &["clock_nanosleep", "pselect6", "select"]),
];

fn realtime(command: rsys_tests::Invocation) -> Run {
    Run::new()
        .options(["--realtime", "--realtime-freq", "100"])
        .command(command)
}

/// The trace of the Python process that waited longest.
fn trace_of(outcome: &Outcome) -> Result<Trace> {
    let waited = |summary: &rsys_tests::Summary| {
        let waits = summary.waits.as_ref();
        waits.map_or(0.0, |waits| waits.seconds)
    };
    let summaries = outcome.summaries.iter();
    let summary = summaries
        .filter(|summary| summary.name.starts_with("python"))
        .max_by(|one, other| waited(one).total_cmp(&waited(other)));
    let summary = summary.with_context(|| format!("no Python process\n{}", outcome.story()))?;
    Trace::load(&summary.path, Some(summary.clone()))
}

fn is_python(frame: &Frame) -> bool {
    let file = frame.function.rsplit_once(" (").map(|(_, file)| file);
    file.is_some_and(|file| file.ends_with(".py)") || file.starts_with('<'))
}

fn is_interpreter(frame: &Frame) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    file.starts_with("libpython3") || file.starts_with("python3")
}

/// The line of the innermost frame of a file, if it is in this function.
fn line_in(sample: &Sample, function: &str, file: &str) -> Option<i64> {
    let of_file = format!("({file})");
    let mut frames = sample.stack.iter().rev();
    let frame = frames.find(|frame| frame.function.ends_with(&of_file))?;
    frame.function.contains(function).then_some(frame.address)
}

fn leaf(sample: &Sample) -> &str {
    sample.names().last().copied().unwrap_or_default()
}

/// The seconds of samples for which something holds.
fn seconds(samples: &Samples, holds: impl Fn(&Sample) -> bool) -> f64 {
    let held = samples.iter().filter(|sample| holds(sample));
    held.map(|sample| sample.weight).sum()
}

/// Where a thread waits in its function, and whether at its line. As it starts, it waits for the lock before it has a frame of the file.
fn place_of_wait(outcome: &Outcome, name: &str) -> Result<impl Fn(&Sample) -> Option<bool>> {
    let line = outcome.number(&format!("{name}_line"))? as i64;
    let thread = name.to_owned();
    let function = match name {
        "in_callback" => "compare".to_owned(),
        name => name.to_owned(),
    };
    Ok(move |sample: &Sample| match sample.thread == thread {
        true => line_in(sample, &function, WAITS).map(|found| found == line),
        false => None,
    })
}

fn lines_of_waits(interpreter: &Interpreter) -> TestResult {
    let what = interpreter.to_string();
    let outcome = realtime(interpreter.workload(WAITS).arg("1")).run()?;
    outcome.expect_success().assert_counts()?;
    let trace = trace_of(&outcome)?;
    trace.assert_clean();
    let samples = trace.wait_samples()?;
    let (mut all, mut truth, mut right) = (0.0, 0.0, 0.0);
    for (name, labels) in FUNCTIONS {
        let place = place_of_wait(&outcome, name)?;
        let waited = seconds(&samples, |sample| place(sample).is_some());
        let at_line = seconds(&samples, |sample| place(sample) == Some(true));
        // What the thread itself says: waits without their stacks or their Python have no place. Nor have short ones between two looks.
        let own = outcome.number(&format!("{name}_ns"))? * 1e-9;
        let least = if *name == "in_naps" { 0.6 } else { 0.85 };
        ensure!(
            at_line >= 0.95 * waited && at_line >= least * own && own >= 0.7,
            "{what}: {name} waited {waited:.3} s, {at_line:.3} of them at its line, by its own clock {own:.3}"
        );
        // It is taken between waits.
        let for_lock = seconds(&samples, |sample| {
            place(sample).is_some() && leaf(sample) == LOCK
        });
        ensure!(
            for_lock <= 0.25 * waited,
            "{what}: {name} waited {for_lock:.3} of {waited:.3} s for the lock"
        );
        let is_label = |leaf: &str| labels.iter().any(|label| leaf.starts_with(label));
        let labelled = seconds(&samples, |sample| {
            place(sample).is_some() && is_label(leaf(sample))
        });
        ensure!(
            labelled + for_lock >= 0.95 * waited,
            "{what}: {name} waited {labelled:.3} of {waited:.3} s for {labels:?}"
        );
        (all, truth, right) = (all + waited, truth + own, right + at_line);
    }
    eprintln!(
        "{what}: {right:.3} of {all:.3} s of waiting are at their lines, {truth:.3} by the program"
    );
    ensure!(
        right >= 0.99 * all && right >= 0.95 * truth,
        "{what}: {right:.3} of {all:.3} s are at their lines, {truth:.3} by the program"
    );
    let contenders: &[&str] = match interpreter.is_free_threaded() {
        true => &[],
        false => &["in_burn", "in_turns"],
    };
    for name in contenders {
        let place = place_of_wait(&outcome, name)?;
        let is_at_line = |sample: &Sample| place(sample) == Some(true);
        // From when it is first seen there: as it starts, it waits elsewhere, on a busy machine for long.
        let at_line = samples.iter().filter(|sample| is_at_line(sample));
        let first_ns = at_line.map(|sample| sample.time_ns).min();
        let waited = seconds(&samples, |sample| {
            sample.thread == *name && first_ns.is_some_and(|first| sample.time_ns >= first)
        });
        let at_line = seconds(&samples, is_at_line);
        let for_lock = seconds(&samples, |sample| {
            is_at_line(sample) && leaf(sample) == LOCK
        });
        ensure!(
            at_line >= 0.05 && at_line >= 0.7 * waited && for_lock >= 0.95 * at_line,
            "{what}: {name} waited {waited:.3} s, {at_line:.3} at its line, {for_lock:.3} for the lock"
        );
    }
    // C that Python has called, and Python that C calls back, stand where they do in samples of the CPU.
    for sample in samples.iter().filter(|sample| sample.calls("qsort_r")) {
        let names = sample.names();
        let place = |part: &str| names.iter().position(|name| name.contains(part));
        ensure!(
            place("in_callback (") < place("qsort_r") && place("qsort_r") < place("compare ("),
            "{what}: {names:?}"
        );
    }
    let hidden = |sample: &Sample| {
        let stack = sample.stack.iter().skip(1);
        sample.stack.iter().any(is_python) && stack.into_iter().any(is_interpreter)
    };
    ensure!(
        seconds(&samples, hidden) <= 0.01 * all,
        "{what}: the interpreter's own functions are shown"
    );
    let metadata = trace.metadata()?;
    let count = |key: &str| metadata.get(key)?.as_int().context("a number");
    // A thread that begins or ends has frames of one kind a moment before those of the other: a few frames of one look.
    ensure!(
        count("python_broken_waits")? == 0
            && count("python_unpaired_wait_frames")? * 20 <= count("waits")?,
        "{what}: {metadata:?}"
    );
    Ok(())
}

#[test]
fn the_line_that_waits_is_named_by_every_python() -> TestResult {
    for interpreter in pythons() {
        lines_of_waits(&interpreter)?;
    }
    Ok(())
}

/// Main waits for the lock again and again, which the other thread holds: nearly all of that time names the thread, and its function with line and stack.
#[test]
fn the_holder_of_the_lock_is_told_with_the_wait_by_every_python() -> TestResult {
    for interpreter in pythons() {
        if interpreter.is_free_threaded() {
            continue;
        }
        let what = interpreter.to_string();
        let busy = interpreter.workload("lock_habits.py").args(["busy", "0.7"]);
        let outcome = realtime(busy).options(["--realtime-freq", "500"]).run()?;
        outcome.expect_success().assert_counts()?;
        let trace = trace_of(&outcome)?;
        trace.assert_clean();
        let waited = |which: &str| {
            trace.number(&format!(
                "select sum(s.dur) from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
                 where s.name = \"{LOCK}\" and t.is_main_thread and {which}",
            ))
        };
        let of = |key: &str| format!("extract_arg(s.arg_set_id, 'debug.{key}')");
        let all = waited("true")?;
        let named = waited(&format!(
            "{} in (select tid from thread where upid = t.upid and not is_main_thread) and {} != 0",
            of("holder_tid"),
            of("lock"),
        ))?;
        let placed = waited(&format!(
            "{} glob 'grinds (lock_habits.py:*' and {} glob 'grinds (lock_habits.py) <- *run (threading.py)*'",
            of("holder"),
            of("holder_stack"),
        ))?;
        eprintln!("{what}: {named} of {all} ns name the holder, {placed} its place");
        ensure!(
            all > 50_000_000 && named * 100 >= all * 95 && placed * 100 >= all * 90,
            "{what}: {named} of {all} ns name the holder, {placed} its place"
        );
    }
    Ok(())
}

#[test]
fn threads_that_take_the_place_of_others_are_seen() -> TestResult {
    let outcome = realtime(python("python_relay.py").arg("12").arg("0.15")).run()?;
    outcome.expect_success();
    let trace = trace_of(&outcome)?;
    let samples = trace.wait_samples()?;
    for number in 0..12 {
        let name = format!("runner-{number}");
        let waited = seconds(&samples, |sample| {
            sample.thread == name && sample.calls("clock_nanosleep")
        });
        ensure!(waited > 0.0, "{name} was not seen");
    }
    Ok(())
}

#[test]
fn the_line_that_waits_is_named_in_a_virtual_environment() -> TestResult {
    let folder = Scratch::new("venv")?;
    let made = std::process::Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(folder.path())
        .status();
    let is_made = made.is_ok_and(|status| status.success());
    skip_if_missing!((!is_made).then_some("no virtual environment can be made"));
    let interpreter = Interpreter::at(folder.path().join("bin/python"));
    lines_of_waits(&interpreter.context("it does not start")?)
}

#[test]
fn the_answers_name_the_line_and_the_lock() -> TestResult {
    let outcome = realtime(python(WAITS).arg("0.5")).run()?;
    outcome.expect_success();
    let inputs: Vec<_> = outcome
        .summaries
        .iter()
        .map(|summary| summary.path.clone())
        .collect();
    let answer = answer("functions", &inputs)?;
    let waits = answer["waits"].as_array().context("no waits")?;
    for (name, label) in [
        ("in_queue", "futex(FUTEX_WAIT_BITSET)"),
        ("in_asyncio", "epoll_wait"),
        ("in_burn", LOCK),
    ] {
        let line = outcome.number(&format!("{name}_line"))?;
        let is_there = |row: &&Value| {
            let function = row["function"].as_str().unwrap_or_default();
            function == format!("{name} ({WAITS})")
                && row["line"].as_f64() == Some(line)
                && row["waited_for"].as_str() == Some(label)
        };
        let waited = waits.iter().find(is_there).map(|row| &row["wait_ns"]);
        ensure!(waited.is_some(), "{name}: {label}: {waits:#?}");
    }
    Ok(())
}

#[test]
fn only_what_was_asked_for_of_python_is_shown() -> TestResult {
    for (choice, least_python, least_native) in [("only", 1.0, 0.0), ("off", 0.0, 1.0)] {
        let outcome = Run::new()
            .options(["--realtime", "--python", choice])
            .command(python(WAITS).arg("0.3"))
            .run()?;
        outcome.expect_success();
        let trace = trace_of(&outcome)?;
        trace.assert_clean();
        let samples = trace.wait_samples()?;
        // Not where it waits for the lock as it starts, before it has a frame.
        let is_sleep = |leaf: &str| ["clock_nanosleep", "pselect6", "select"].contains(&leaf);
        let sleeps = |sample: &Sample| sample.thread == "in_sleep" && is_sleep(leaf(sample));
        let all = seconds(&samples, sleeps);
        ensure!(all > 0.2, "{choice}: {all}");
        for (what, is_kind, least) in [
            ("Python", is_python as fn(&Frame) -> bool, least_python),
            ("the interpreter", is_interpreter, least_native),
        ] {
            let has = |sample: &Sample| sleeps(sample) && sample.stack.iter().any(is_kind);
            let part = seconds(&samples, has) / all;
            ensure!(
                (part - least).abs() < 0.1,
                "{choice}: {part:.2} show {what}"
            );
        }
    }
    Ok(())
}

#[test]
fn threads_and_processes_that_come_and_go_wait_at_their_lines() -> TestResult {
    for interpreter in pythons() {
        let what = interpreter.to_string();
        let churn = interpreter.workload("python_churn.py").arg("20");
        let outcome = realtime(churn).options(["--min-samples", "1"]).run()?;
        outcome.expect_success().assert_counts()?;
        ensure!(outcome.number("failed")? == 0.0, "{}", outcome.story());
        let (mut threads, mut forks) = ((0.0, 0.0), (0.0, 0.0));
        for summary in &outcome.summaries {
            let trace = Trace::load(&summary.path, Some(summary.clone()))?;
            trace.assert_clean();
            let samples = trace.wait_samples()?;
            for (function, sums, line) in [
                ("brief", &mut threads, "threads_line"),
                ("child", &mut forks, "forks_line"),
            ] {
                let line = outcome.number(line)? as i64;
                let at = |sample: &Sample| line_in(sample, function, "python_churn.py");
                sums.0 += seconds(&samples, |sample| at(sample).is_some());
                sums.1 += seconds(&samples, |sample| at(sample) == Some(line));
            }
            let sleeps = |sample: &Sample| {
                let leaf = leaf(sample);
                leaf == "clock_nanosleep" || leaf == "pselect6" || leaf == "select"
            };
            let all = seconds(&samples, sleeps);
            let named = seconds(&samples, |sample| {
                sleeps(sample) && sample.stack.iter().any(is_python)
            });
            ensure!(
                named >= 0.95 * all,
                "{what}: {} sleeps {all:.3} s, {named:.3} of them in Python",
                summary.name
            );
        }
        ensure!(
            threads.1 >= 0.95 * threads.0 && threads.0 > 1.0,
            "{what}: {threads:?}"
        );
        ensure!(
            forks.1 >= 0.95 * forks.0 && forks.0 > 0.8,
            "{what}: {forks:?}"
        );
    }
    Ok(())
}

/// Who may not look at a process sees no Python of it either, and nothing else changes.
#[test]
fn a_process_that_must_not_be_looked_at_shows_no_python() -> TestResult {
    // prctl(PR_SET_DUMPABLE, 0)
    let program =
        "import ctypes, time\nctypes.CDLL(None).prctl(4, 0)\ntime.sleep(0.5)\nprint('slept=1')";
    let mut run = realtime(rsys_tests::Invocation::new("/usr/bin/python3").args(["-c", program]));
    if is_root() {
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
    ensure!(outcome.number("slept")? == 1.0, "{}", outcome.story());
    ensure!(
        outcome.stderr.matches("cannot be seen").count() == 1,
        "{}",
        outcome.story()
    );
    Ok(())
}
