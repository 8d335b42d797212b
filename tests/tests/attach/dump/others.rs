//! Processes that are stopped, traced, recorded, somewhere else, or no processes at all.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rsys_tests::{Run, Scratch, TestResult, signal, wait_until, workload};

use super::super::refusals::{Victim, state_of};
use super::super::{PATIENCE, Program, wait_until_recorded, wait_until_used};
use super::{Still, dump, dumped, frames, thread, threads};

/// A process that a signal has stopped is read, and stays stopped.
#[test]
fn one_that_is_stopped_stays_so() -> TestResult {
    let program = Still::start(&["spins", "naps"])?;
    signal(program.pid, libc::SIGSTOP);
    assert!(wait_until(PATIENCE, || state_of(program.pid) == "T"));
    for _ in 0..10 {
        let process = dumped(program.pid)?;
        for (name, function) in [("spins", "spins_here"), ("naps", "naps_here")] {
            let thread = thread(&process, name)?;
            assert_eq!(thread["state"], "stopped", "{thread:#}");
            let stack = frames(thread);
            assert!(stack.iter().any(|frame| frame.0 == function), "{thread:#}");
            assert_eq!(thread["stack"], "complete", "{thread:#}");
        }
        assert_eq!(state_of(program.pid), "T");
    }
    signal(program.pid, libc::SIGCONT);
    assert!(wait_until(PATIENCE, || state_of(program.pid) != "T"));
    program.end()
}

/// The kernel cuts names after 15 bytes, also within a character.
#[test]
fn names_that_are_no_text_are_names() -> TestResult {
    let program = Still::start(&["naps", "bytes"])?;
    let process = dumped(program.pid)?;
    let names: Vec<&str> = threads(&process)
        .iter()
        .filter_map(|thread| thread["name"].as_str())
        .collect();
    assert_eq!(names.len(), 3, "{process:#}");
    for name in ["main\u{fffd}", "cut\u{fffd}", "naps"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let spins = thread(&process, "cut\u{fffd}")?;
    assert!(
        frames(spins).iter().any(|frame| frame.0 == "spins_here"),
        "{spins:#}"
    );
    let recording = Run::new().attach(program.pid).start()?;
    wait_until_recorded(program.pid);
    wait_until_used(program.pid, 0.4);
    recording.signal(libc::SIGINT);
    let attached = recording.wait()?;
    attached.expect_success();
    let trace = attached.trace()?;
    trace.assert_clean();
    assert!(trace.samples()?.weight() > 10.0, "{}", attached.story());
    program.end()
}

/// The first thread has ended, and the others go on: they are read by their own numbers.
#[test]
fn one_whose_first_thread_has_ended() -> TestResult {
    let program = Still::start(&["spins", "naps", "leaves"])?;
    assert!(wait_until(PATIENCE, || state_of(program.pid) == "Z"));
    let process = dumped(program.pid)?;
    assert_eq!(process["pid"], program.pid);
    assert_eq!(threads(&process)[0]["state"], "ended", "{process:#}");
    for (name, function) in [("spins", "spins_here"), ("naps", "naps_here")] {
        let thread = thread(&process, name)?;
        let stack = frames(thread);
        assert!(stack.iter().any(|frame| frame.0 == function), "{thread:#}");
    }
    let refused = Run::new().attach(program.pid).run()?;
    refused.expect_code(125);
    assert!(
        refused.stderr.contains("first thread has ended"),
        "{}",
        refused.stderr
    );
    program.end()
}

/// What sleeps is read beside a debugger; of what runs it is said why not.
#[test]
fn one_that_a_debugger_has() -> TestResult {
    let program = Still::start(&["naps"])?;
    let tracer = workload("traces").args([program.pid.to_string()]);
    let tracing = Run::bare().command(tracer).start()?;
    tracing.wait_for("traces")?;
    let process = dumped(program.pid)?;
    assert_eq!(process["traced_by"]["pid"], tracing.pid(), "{process:#}");
    let naps = frames(thread(&process, "naps")?);
    assert!(naps.iter().any(|frame| frame.0 == "naps_here"), "{naps:?}");
    signal(tracing.pid(), libc::SIGKILL);
    tracing.wait()?.expect_signal(libc::SIGKILL);
    program.end()
}

/// The thread that a debugger traces computes.
#[test]
fn what_cannot_be_stopped_says_so() -> TestResult {
    let spins = Run::bare()
        .command(rsys_tests::script("echo ready $$; while :; do :; done"))
        .start()?;
    let pid: u32 = spins.wait_for("ready")?.parse()?;
    let tracer = workload("traces").args([pid.to_string()]);
    let tracing = Run::bare().command(tracer).start()?;
    tracing.wait_for("traces")?;
    assert!(wait_until(PATIENCE, || state_of(pid) == "R"));
    let process = dumped(pid)?;
    let why = threads(&process)[0]["no_stack_because"].as_str();
    assert!(why.is_some_and(|why| why.contains("ptrace")), "{process:#}");
    for (pid, run) in [(tracing.pid(), tracing), (pid, spins)] {
        signal(pid, libc::SIGKILL);
        run.wait()?.expect_signal(libc::SIGKILL);
    }
    Ok(())
}

/// The profiler's own functions are no part of the program's stacks.
#[test]
fn one_that_is_recorded() -> TestResult {
    let program = Program::start(&["compute", "nanosleep"])?;
    let recording = Run::new().attach(program.pid).start()?;
    wait_until_recorded(program.pid);
    for _ in 0..10 {
        let process = dumped(program.pid)?;
        assert!(threads(&process).len() >= 3, "{process:#}");
        let text = process.to_string();
        assert!(text.contains("\"computes\""), "{process:#}");
        assert!(!text.contains("librsys_agent.so"), "{process:#}");
    }
    recording.signal(libc::SIGINT);
    recording.wait()?.expect_success();
    program.end_well()?;
    Ok(())
}

/// One that cannot be read does not keep others from being printed.
#[test]
fn several_and_some_that_are_none() -> TestResult {
    let [first, second] = [Still::start(&["naps"])?, Still::start(&["spins"])?];
    let ended = Victim(Command::new("true").spawn()?);
    assert!(wait_until(PATIENCE, || state_of(ended.0.id()) == "Z"));
    let list = format!("{},{},{}", first.pid, 0x3fff_fff0, ended.0.id());
    let output = dump(&[&list, "--dump", &second.pid.to_string()])?;
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("naps_here") && text.contains("spins_here"),
        "{text}"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.matches("error:").count(), 2, "{errors}");
    for words in ["no such process", "it has ended"] {
        assert!(errors.contains(words), "{errors}");
    }
    let output = dump(&[&list, "--json"])?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let reasons = document["processes"].as_array().map_or(0, |processes| {
        processes
            .iter()
            .filter(|one| one["error"].is_string())
            .count()
    });
    assert_eq!(reasons, 2, "{document:#}");
    first.end()?;
    second.end()
}

#[test]
fn another_users_and_wrong_command_lines() -> TestResult {
    for words in [&["0"][..], &["1", "ls"], &["1", "-p", "1"], &["x"]] {
        let output = dump(words)?;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{words:?}: {output:?}");
    }
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can be two users");
        return Ok(());
    }
    const NOBODY: u32 = 65534;
    let program = Still::start(&["naps"])?;
    let mut command = Command::new(rsys_tests::sampler()?);
    command.args(["--dump", &program.pid.to_string()]);
    let output = command.uid(NOBODY).gid(NOBODY).output()?;
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("another user") && said.contains("as root"),
        "{said}"
    );
    program.end()
}

/// Threads have the numbers that we see, and those that they have themselves; names come from files that only the process sees.
#[test]
fn one_in_namespaces_of_its_own() -> TestResult {
    let program = workload("dumped")
        .flags(["-O1", "-g", "-pthread"])
        .build()?;
    let folder = Scratch::new("namespace")?;
    let folder = folder.path();
    let line = "mount -t tmpfs none \"$2\" && cp \"$1\" \"$2/inner\" && exec \"$2/inner\" naps";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
        .args(["sh", "-c", line, "sh"])
        .arg(program)
        .arg(folder);
    command.stdout(Stdio::piped());
    let Ok(child) = command.spawn() else {
        println!("skipped: no unshare");
        return Ok(());
    };
    let mut child = Victim(child);
    let mut inside = 0;
    let is_there = wait_until(PATIENCE, || {
        let children = rsys_tests::children_of(child.0.id());
        inside = children.first().copied().unwrap_or(0);
        let names = |pid: u32| dumped(pid).is_ok_and(|process| thread(&process, "naps").is_ok());
        inside != 0 && names(inside) || child.0.try_wait().is_ok_and(|ended| ended.is_some())
    });
    if child.0.try_wait()?.is_some() {
        println!("skipped: no namespaces for us here");
        return Ok(());
    }
    assert!(is_there);
    assert!(!folder.join("inner").exists());
    let process = dumped(inside)?;
    assert_eq!(process["pid"], inside);
    assert_eq!(process["pid_in_namespace"], 1, "{process:#}");
    let naps = thread(&process, "naps")?;
    assert_ne!(naps["tid"], naps["tid_in_namespace"], "{naps:#}");
    assert!(
        frames(naps).iter().any(|frame| frame.0 == "naps_here"),
        "{naps:#}"
    );
    Ok(())
}
