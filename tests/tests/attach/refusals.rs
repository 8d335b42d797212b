//! What cannot be attached to says why, and what helps, in one line; and is left as it is.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use rsys_tests::{Run, TestResult, script, wait_until, workload};

use super::{PATIENCE, Program, wait_until_recorded};

/// What is said of a process, when it is refused.
#[track_caller]
fn refusal(pid: u32) -> anyhow::Result<String> {
    let outcome = Run::new().attach(pid).run()?;
    outcome.expect_code(125);
    let mut lines = outcome
        .stderr
        .lines()
        .filter(|line| line.contains("error:"));
    let line = lines.next().context("no error")?.to_owned();
    assert_eq!(lines.next(), None, "{}", outcome.stderr);
    assert!(outcome.files().is_empty(), "{:?}", outcome.files());
    Ok(line)
}

#[track_caller]
fn assert_refused(pid: u32, words: [&str; 2]) -> TestResult {
    let line = refusal(pid)?;
    for word in words {
        assert!(line.contains(word), "{line}");
    }
    Ok(())
}

/// A child that is killed when the test is over.
pub(super) struct Victim(pub(super) Child);

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(super) fn state_of(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after.chars().take(1).collect()
}

#[test]
fn no_process_and_no_thread_of_the_kernel() -> TestResult {
    assert_refused(0x3fff_fff0, ["no such process", "ps -e"])?;
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        assert_refused(2, ["thread of the kernel", "perf"])?;
    }
    Ok(())
}

#[test]
fn one_that_has_ended() -> TestResult {
    let ended = Victim(Command::new("true").spawn()?);
    let pid = ended.0.id();
    assert!(wait_until(PATIENCE, || state_of(pid) == "Z"));
    assert_refused(pid, ["it has ended", "its parent"])
}

#[test]
fn one_that_is_stopped() -> TestResult {
    let program = Program::start(&["compute"])?;
    rsys_tests::signal(program.pid, libc::SIGSTOP);
    assert!(wait_until(PATIENCE, || state_of(program.pid) == "T"));
    assert_refused(program.pid, ["stopped by a signal", "kill -CONT"])?;
    rsys_tests::signal(program.pid, libc::SIGCONT);
    program.end_well()?;
    Ok(())
}

#[test]
fn one_that_is_recorded_already() -> TestResult {
    let program = Program::start(&["compute"])?;
    let first = Run::new().attach(program.pid).start()?;
    wait_until_recorded(program.pid);
    assert_refused(program.pid, ["records it already", "Ctrl-C"])?;
    first.signal(libc::SIGINT);
    first.wait()?.expect_success();
    program.end_well()?;
    // One that was started under a profiler.
    let run = Run::new().command(script("while :; do :; done")).start()?;
    let pid = run.target_pid()?;
    wait_until_recorded(pid);
    assert_refused(pid, ["records it already", "Ctrl-C"])?;
    rsys_tests::signal(pid, libc::SIGTERM);
    run.wait()?.expect_signal(libc::SIGTERM);
    Ok(())
}

#[test]
fn one_that_a_debugger_has() -> TestResult {
    let program = Program::start(&["compute"])?;
    let tracer = workload("traces").args([program.pid.to_string()]);
    let tracing = Run::bare().command(tracer).start()?;
    tracing.wait_for("traces")?;
    assert_refused(program.pid, ["traces it already", "detach"])?;
    rsys_tests::signal(tracing.pid(), libc::SIGKILL);
    tracing.wait()?.expect_signal(libc::SIGKILL);
    program.end_well()?;
    Ok(())
}

#[test]
fn static_programs() -> TestResult {
    let program = workload("attached").flags(["-O1", "-static", "-pthread"]);
    let Ok(path) = program.build() else {
        println!("skipped: no static C library");
        return Ok(());
    };
    let mut command = Command::new(path);
    let child = Victim(command.stdout(Stdio::null()).spawn()?);
    let is_there = || {
        std::fs::read_to_string(format!("/proc/{}/comm", child.0.id()))
            .is_ok_and(|name| name.trim() == "attached")
    };
    assert!(wait_until(PATIENCE, is_there));
    assert_refused(child.0.id(), ["statically", "link it dynamically"])
}

/// Another user's, and one that made itself undumpable: not for a user without rights.
#[test]
fn what_the_user_may_not_look_at() -> TestResult {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can be two users");
        return Ok(());
    }
    const NOBODY: u32 = 65534;
    let program = Program::start(&["compute"])?;
    let mut own = Command::new("sleep");
    let own = Victim(own.arg("1000").uid(NOBODY).gid(NOBODY).spawn()?);
    let pid = own.0.id();
    let by_nobody = |pid: u32| -> anyhow::Result<String> {
        let mut command = Command::new(rsys_tests::sampler()?);
        command.args(["-p", &pid.to_string(), "-o", "/dev/null"]);
        let output = command.uid(NOBODY).gid(NOBODY).output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let said = by_nobody(program.pid)?;
    assert!(
        said.contains("another user") && said.contains("as root"),
        "{said}"
    );
    let undumpable = workload("undumpable").build()?;
    let mut command = Command::new(undumpable);
    let undumpable = Victim(
        command
            .uid(NOBODY)
            .gid(NOBODY)
            .stdout(Stdio::null())
            .spawn()?,
    );
    let file = format!("/proc/{}/maps", undumpable.0.id());
    let is_roots = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&file).is_ok_and(|file| file.uid() == 0)
    };
    assert!(wait_until(PATIENCE, is_roots));
    let said = by_nobody(undumpable.0.id())?;
    assert!(
        said.contains("undumpable") && said.contains("as root"),
        "{said}"
    );
    assert_eq!(state_of(pid), "S");
    program.end_well()?;
    Ok(())
}

#[test]
fn a_command_beside_it() -> TestResult {
    let outcome = Run::new()
        .options(["-p", "1"])
        .command(script("exit 0"))
        .run()?;
    outcome.expect_code(2);
    assert!(
        outcome.stderr.contains("takes no command"),
        "{}",
        outcome.stderr
    );
    Ok(())
}

/// A filter may kill it for a system call of ours.
#[test]
fn one_that_has_confined_itself() -> TestResult {
    for how in ["filter", "strict"] {
        let program = Run::bare()
            .command(workload("locked_in").args([how]))
            .start()?;
        let pid: u32 = program.wait_for("ready")?.parse()?;
        assert_refused(pid, ["seccomp", "start it under rsys-sample"])?;
        assert_eq!(state_of(pid), "R");
        rsys_tests::signal(pid, libc::SIGKILL);
        program.wait()?.expect_signal(libc::SIGKILL);
    }
    Ok(())
}
