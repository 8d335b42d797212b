//! Children that a process forks while a sampler is attached are recorded as well, and have no thread of the agent that gives everything back at the end.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rsys_tests::{Invocation, Run, Scratch, TestResult, signal, wait_until};

use super::{PATIENCE, State, wait_until_recorded};

/// Forks when the first file appears. The child sleeps until the second one does, and computes from then on. Both end when the third one is there.
const FORKS: &str = "
import os, sys, time
fork, compute, end = sys.argv[1:]
def works():
    sum(range(100_000))
print('ready', os.getpid(), flush=True)
while not os.path.exists(fork): works()
child = os.fork()
if child:
    print('child', child, flush=True)
while not os.path.exists(end):
    if child or os.path.exists(compute): works()
    else: time.sleep(0.02)
if child: os.waitpid(child, 0)
";

/// Runs `look` on a child that was forked while a sampler was attached, after that has ended by the signal `leave`.
fn with_child(
    leave: libc::c_int,
    look: impl FnOnce(u32, &State, &dyn Fn() -> TestResult) -> TestResult,
) -> TestResult {
    let scratch = Scratch::new("attached-children")?;
    let file = |name: &str| scratch.path().join(name);
    let touch = |path: &Path| fs::write(path, "");
    let program = Invocation::new("python3").args(["-c", FORKS]);
    let names = ["fork", "compute", "end"].map(file);
    let program = Run::bare().command(program.args(&names)).start()?;
    let pid: u32 = program.wait_for("ready")?.parse()?;
    let before = State::of(pid);
    let run = Run::new().attach(pid).start()?;
    wait_until_recorded(pid);
    touch(&file("fork"))?;
    let child: u32 = program.wait_for("child")?.parse()?;
    wait_until_recorded(child);
    run.signal(leave);
    let outcome = run.wait()?;
    if leave == libc::SIGINT {
        outcome.expect_success();
        assert_eq!(outcome.summaries.len(), 1, "{}", outcome.story());
    }
    assert!(wait_until(PATIENCE, || State::of(pid) == before));
    let compute = || Ok(touch(&file("compute"))?);
    let looked = look(child, &before, &compute);
    touch(&file("end"))?;
    program.wait()?.expect_success();
    looked
}

#[test]
fn a_child_that_computes_is_as_before() -> TestResult {
    for leave in [libc::SIGINT, libc::SIGKILL] {
        with_child(leave, |child, before, compute| {
            compute()?;
            let is_as_before = wait_until(PATIENCE, || State::of(child) == *before);
            assert!(is_as_before, "{leave}: {:?} {before:?}", State::of(child));
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether it has noticed that the sampler has left, or not.
#[test]
fn a_child_can_be_recorded_itself() -> TestResult {
    for leave in [libc::SIGINT, libc::SIGKILL] {
        for computes in [false, true] {
            with_child(leave, |child, before, compute| {
                if computes {
                    compute()?;
                    wait_until(PATIENCE, || State::of(child) == *before);
                }
                for _ in 0..2 {
                    let run = Run::new().attach(child).start()?;
                    assert!(wait_until(PATIENCE, || State::of(child).threads_of_ours > 0));
                    wait_until_recorded(child);
                    compute()?;
                    run.signal(libc::SIGINT);
                    let outcome = run.wait()?;
                    outcome.expect_success();
                    let one = outcome.summaries.first().context("no trace")?;
                    assert_eq!(one.pid, child, "{}", outcome.story());
                    let is_as_before = wait_until(PATIENCE, || State::of(child) == *before);
                    assert!(is_as_before, "{:?} {before:?}", State::of(child));
                }
                signal(child, 0);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// One that was started for it, and whose sampler was killed.
#[test]
fn a_program_that_was_started_can_be_recorded_again() -> TestResult {
    let program = Invocation::new("python3").args(["-c", FORKS, "never", "never", "end"]);
    let run = Run::new().command(program).start()?;
    let pid: u32 = run.wait_for("ready")?.parse()?;
    run.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || State::of(pid).timers == 0));
    for _ in 0..2 {
        let again = Run::new().attach(pid).start()?;
        wait_until_recorded(pid);
        again.signal(libc::SIGINT);
        again.wait()?.expect_success();
        assert!(wait_until(PATIENCE, || State::of(pid).timers == 0));
    }
    signal(pid, libc::SIGKILL);
    Ok(())
}
