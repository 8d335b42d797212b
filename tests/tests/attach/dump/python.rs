//! Programs in Python: frames of both kinds in one stack, the interpreter's lock, and what py-spy says of the same threads.

use std::collections::BTreeMap;
use std::process::Command;

use rsys_tests::{
    Invocation, Run, Running, TestResult, judge_dir, python, pythons, signal, wait_until,
};
use serde_json::Value;

use super::super::PATIENCE;
use super::{dumped, thread, threads};

/// Threads of `python_waits.py` that wait at one line each.
const WAITS: [&str; 12] = [
    "in_sleep",
    "in_naps",
    "in_queue",
    "in_lock",
    "in_condition",
    "in_recv",
    "in_select",
    "in_child",
    "in_asyncio",
    "in_ctypes",
    "in_callback",
    "in_worker",
];

/// The lines that the program has said, by the names of its functions.
fn lines(run: &Running) -> BTreeMap<String, u64> {
    let printed = run.printed();
    let line = |line: &str| {
        let (name, number) = line.split_once("_line=")?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    printed.lines().filter_map(line).collect()
}

/// The lines of Python in a stack, with the last parts of their files, innermost first.
fn python_lines(thread: &Value) -> Vec<(String, u64)> {
    let frames = thread["frames"].as_array().map_or(&[][..], Vec::as_slice);
    let python = frames.iter().filter(|frame| frame["language"] == "python");
    python.map(|frame| place(frame, "file")).collect()
}

fn place(frame: &Value, file: &str) -> (String, u64) {
    let file = frame[file].as_str().unwrap_or_default();
    let last = file.rsplit('/').next().unwrap_or_default();
    (last.to_owned(), frame["line"].as_u64().unwrap_or(0))
}

fn is_there(process: &Value, name: &str) -> bool {
    thread(process, name).is_ok_and(|thread| !python_lines(thread).is_empty())
}

/// Starts the program with these times: how long each of its waits takes, and for how long it computes behind them.
fn start(program: Invocation, seconds: &[&str]) -> anyhow::Result<(Running, u32)> {
    let program = program.args(seconds).env("PYTHONUNBUFFERED", "1");
    let run = Run::bare().command(program).start()?;
    run.wait_for("in_turns_line")?;
    let pid = run.pid();
    Ok((run, pid))
}

#[test]
fn threads_are_at_their_lines() -> TestResult {
    for interpreter in pythons() {
        let program = interpreter.workload("python_waits.py");
        let path = program.path().display().to_string();
        let (run, pid) = start(program, &["1000"])?;
        let all_there = wait_until(PATIENCE, || {
            dumped(pid).is_ok_and(|process| WAITS.iter().all(|name| is_there(&process, name)))
        });
        let process = dumped(pid)?;
        assert!(all_there, "{path}: {process:#}");
        let known = lines(&run);
        for name in WAITS {
            let thread = thread(&process, name)?;
            let line = known[name];
            // The condition of its loop stands before the line in which it naps.
            let first = if name == "in_naps" { line - 1 } else { line };
            let is_there = python_lines(thread)
                .iter()
                .any(|place| place.0 == "python_waits.py" && (first..=line).contains(&place.1));
            assert!(is_there, "{path}: {name}: line {line}: {thread:#}");
        }
        let recv = thread(&process, "in_recv")?;
        assert_eq!(recv["waits_for"], "recvfrom(socket)", "{path}: {recv:#}");
        compare_with_py_spy(pid)?;
        signal(pid, libc::SIGKILL);
        run.wait()?.expect_signal(libc::SIGKILL);
    }
    Ok(())
}

/// Lines of Python are those that py-spy prints of the same process; so are threads.
fn compare_with_py_spy(pid: u32) -> TestResult {
    let command = judge_dir().join("py-spy/bin/py-spy");
    let output = Command::new(&command)
        .args(["dump", "--json", "--pid", &pid.to_string()])
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            println!("not compared: py-spy cannot read this interpreter: {said}");
            return Ok(());
        }
        Err(error) => {
            println!(
                "skipped: no py-spy ({}: {error}); run: cargo xtask test",
                command.display()
            );
            return Ok(());
        }
    };
    let theirs: Value = serde_json::from_slice(&output.stdout)?;
    let process = dumped(pid)?;
    let mut compared = 0;
    for their in theirs.as_array().map_or(&[][..], Vec::as_slice) {
        let tid = &their["os_thread_id"];
        let our = threads(&process)
            .iter()
            .find(|thread| thread["tid"] == *tid);
        let Some(our) = our.filter(|our| our["name"] != "in_naps") else {
            continue;
        };
        let frames = their["frames"].as_array().map_or(&[][..], Vec::as_slice);
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| place(frame, "filename"))
            .collect();
        // Shims of the interpreter's own are no functions of the program.
        let is_shim = |frame: &(String, u64)| frame.0 == "<shim>";
        let frames: Vec<_> = frames.into_iter().filter(|frame| !is_shim(frame)).collect();
        assert_eq!(python_lines(our), frames, "{our:#}");
        compared += 1;
    }
    assert!(compared >= WAITS.len() - 1, "{theirs:#}");
    Ok(())
}

/// Two threads that compute all the time: one has the lock, and the other one waits for it, with the first one's name.
#[test]
fn the_interpreters_lock_has_a_holder() -> TestResult {
    // It computes until both are found and it is killed.
    let (run, pid) = start(python("python_waits.py"), &["3", "1000"])?;
    let mut told = None;
    let is_told = wait_until(PATIENCE, || {
        let Ok(process) = dumped(pid) else {
            return false;
        };
        let names = ["in_burn", "in_turns"];
        let both: Vec<&Value> = names
            .iter()
            .flat_map(|name| thread(&process, name))
            .collect();
        let [one, other] = both.as_slice() else {
            return false;
        };
        let waits = |one: &Value, other: &Value| {
            one["waits_for"] == "the interpreter's lock (GIL)"
                && one["waits_for_thread"]["tid"] == other["tid"]
                && other["holds_interpreter_lock"] == true
                && python_lines(one).first().map(|place| place.0.as_str())
                    == Some("python_waits.py")
                && python_lines(other).first().map(|place| place.0.as_str())
                    == Some("python_waits.py")
        };
        let is_told = waits(one, other) || waits(other, one);
        if is_told {
            told = Some(process.clone());
        }
        is_told
    });
    let known = lines(&run);
    assert!(is_told, "{}", run.printed());
    let process = told.unwrap_or_default();
    for name in ["in_burn", "in_turns"] {
        let line = python_lines(thread(&process, name)?)[0].1;
        assert_eq!(line, known[name], "{name}");
    }
    signal(pid, libc::SIGKILL);
    run.wait()?.expect_signal(libc::SIGKILL);
    Ok(())
}
