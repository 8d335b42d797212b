//! Servers that have nothing to do but to wait, each time for a while.

use rsys_tests::{Run, TestResult, signal, workload};

use super::{State, wait_until_recorded};

/// There is one thread, which waits in epoll_wait with a time limit: it can be entered, and each wait takes the time that it should.
#[test]
fn one_thread_that_waits_with_a_time_limit() -> TestResult {
    for limit in ["100", "1500"] {
        let program = workload("idle_server").flags(["-O1", "-g"]);
        let run = Run::bare().command(program.args([limit])).start()?;
        let pid: u32 = run.wait_for("ready")?.parse()?;
        let before = State::of(pid);
        for _ in 0..10 {
            let attached = Run::new().attach(pid).start()?;
            wait_until_recorded(pid);
            attached.signal(libc::SIGINT);
            attached.wait()?.expect_success();
            assert_eq!(State::of(pid), before);
        }
        signal(pid, libc::SIGTERM);
        let outcome = run.wait()?;
        outcome.expect_success();
        println!("{}", outcome.stdout);
        assert_eq!(outcome.number("faults")?, 0.0, "{}", outcome.story());
        assert!(outcome.number("waits")? > 0.0, "{}", outcome.story());
    }
    Ok(())
}
