//! Programs notice nothing of it: no call is interrupted or shortened, nothing is left behind, also where rsys-sample is killed.

use std::process::{Command, Stdio};

use rsys_tests::TestResult;

use super::super::{ALL, Program, State};
use super::dump;

/// All kinds of threads, those that run, sleep, are born and die, looked at over and over.
#[test]
fn two_hundred_times() -> TestResult {
    let program = Program::start(ALL)?;
    let before = State::of(program.pid);
    let mut seen = 0;
    for _ in 0..200 {
        let output = dump(&[&program.pid.to_string()])?;
        assert!(output.status.success(), "{output:?}");
        seen += usize::from(String::from_utf8_lossy(&output.stdout).contains("epolls"));
    }
    // But for its first instructions, a thread is always in its function.
    assert!(seen > 100, "{seen}");
    assert_eq!(State::of(program.pid), before);
    program.end_well()?;
    Ok(())
}

/// Killed at any moment: threads that it had stopped go on.
#[test]
fn killed_at_any_moment() -> TestResult {
    let program = Program::start(ALL)?;
    let pid = program.pid.to_string();
    for round in 0..100 {
        let mut command = Command::new(rsys_tests::sampler()?);
        command.args(["--dump", &pid]).stdout(Stdio::null());
        let mut child = command.spawn()?;
        // It is somewhere else each time: as far as this many questions take us.
        for _ in 0..round * 20 {
            if child.try_wait()?.is_some() {
                break;
            }
        }
        child.kill()?;
        child.wait()?;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    assert!(status.contains("TracerPid:\t0"), "{status}");
    // All threads go on, or they would not end.
    program.end_well()?;
    Ok(())
}
