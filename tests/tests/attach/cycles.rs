//! Attached and left again, over and over: the program notices nothing, and is as before.

use rsys_tests::{Run, TestResult, wait_until, workload};

use super::{ALL, PATIENCE, Program, State, code_of_ours, wait_until_recorded};

/// One cycle: attaches, waits until the program is recorded, and leaves by Ctrl-C.
fn cycle(pid: u32) -> TestResult {
    let run = Run::new().attach(pid).start()?;
    wait_until_recorded(pid);
    run.signal(libc::SIGINT);
    run.wait()?.expect_success();
    Ok(())
}

/// `cycles` of them with a program that has threads of these kinds.
fn cycles(kinds: &[&str], count: usize) -> TestResult {
    let program = Program::start(kinds)?;
    let pid = program.pid;
    let before = State::of(pid);
    for _ in 0..count {
        cycle(pid)?;
        assert_eq!(State::of(pid), before, "{kinds:?}");
        assert_eq!(code_of_ours(pid), [1, 0], "{kinds:?}");
    }
    program.end_well()?;
    Ok(())
}

#[test]
fn a_storm_of_everything() -> TestResult {
    cycles(ALL, 20)
}

#[test]
fn sleepers_alone() -> TestResult {
    cycles(
        &[
            "nanosleep",
            "poll",
            "futex",
            "futex-forever",
            "epoll",
            "read",
        ],
        20,
    )
}

/// There is no thread but the first, which waits for a signal.
#[test]
fn one_thread() -> TestResult {
    cycles(&[], 5)
}

#[test]
fn births_and_heaps() -> TestResult {
    cycles(&["births", "allocate", "load"], 20)
}

#[test]
#[ignore = "some ten minutes"]
fn a_thousand_times() -> TestResult {
    cycles(ALL, 1000)
}

/// A wait that a signal has just ended is not begun anew: the signal would not come a second time.
#[test]
fn waits_that_signals_end() -> TestResult {
    let run = Run::bare().command(workload("suspends")).start()?;
    let pid = run.wait_for("ready")?.parse()?;
    for _ in 0..3 {
        // There may be no moment at which it can be borrowed.
        Run::new().options(["-d", "0.05"]).attach(pid).run()?;
    }
    run.signal(libc::SIGTERM);
    let outcome = run.wait()?;
    outcome.expect_success();
    assert!(outcome.number("rounds")? > 0.0, "{}", outcome.story());
    Ok(())
}

/// What it takes does not grow: neither mappings nor address space.
#[test]
fn the_tenth_time_takes_no_more_than_the_second() -> TestResult {
    let program = Program::start(&["compute", "nanosleep"])?;
    let pid = program.pid;
    let taken = || -> anyhow::Result<(usize, String)> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let size = status.lines().find(|line| line.starts_with("VmSize"));
        Ok((maps.lines().count(), size.unwrap_or_default().to_owned()))
    };
    cycle(pid)?;
    cycle(pid)?;
    let second = taken()?;
    for _ in 0..8 {
        cycle(pid)?;
    }
    assert_eq!(taken()?, second);
    program.end_well()?;
    Ok(())
}

/// What is asked for by `-d` is the end, too; and a program that ends is one.
#[test]
fn a_time_and_the_programs_end_are_ends() -> TestResult {
    let program = Program::start(&["compute"])?;
    let pid = program.pid;
    Run::new()
        .options(["-d", "0.5"])
        .attach(pid)
        .run()?
        .expect_success();
    assert!(wait_until(PATIENCE, || State::of(pid).timers == 0));
    let run = Run::new().attach(pid).start()?;
    wait_until_recorded(pid);
    program.end_well()?;
    run.wait()?.expect_success();
    Ok(())
}

/// The program's user is that of each thread: ours take it on as the others do.
#[test]
fn the_program_changes_its_user_meanwhile() -> TestResult {
    const LONGEST_MS: f64 = 2000.0;
    let run = Run::bare().command(workload("changes_user")).start()?;
    let pid = run.wait_for("ready")?.parse()?;
    let profile = Run::new().options(["-d", "2.5"]).attach(pid).run()?;
    profile.expect_success();
    run.signal(libc::SIGTERM);
    let outcome = run.wait()?;
    outcome.expect_success();
    let longest_ms = outcome.number("longest_ms")?;
    assert!(longest_ms < LONGEST_MS, "{}", outcome.story());
    Ok(())
}
