//! However a program ends, its trace is there, and the end is passed on.

use std::time::Duration;

use anyhow::Context;
use rsys_tests::{
    Outcome, Run, TestResult, alive, children_of, scan_packets, signal, wait_until, workload,
};

/// How much of the end of a run may be missing after a violent death: 0.2 s, in weighted samples at 1000 Hz.
const LOST_AT_MOST: f64 = 200.0;

/// The program burns 300 ms before it ends.
const BURNED_BEFORE: f64 = 300.0;

#[track_caller]
fn assert_survived(outcome: &Outcome) -> TestResult {
    outcome.assert_counts()?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    let weight = trace.samples()?.weight();
    assert!(
        weight > BURNED_BEFORE - LOST_AT_MOST,
        "only {weight} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn exit_codes_are_passed_on() -> TestResult {
    for way in ["exit", "_exit", "quick_exit", "exit_group", "threads"] {
        for code in [0, 1, 42, 255] {
            let program = workload("ends").args([way, &code.to_string()]);
            let outcome = Run::new().freq(1000).command(program).run()?;
            outcome.expect_code(code);
            assert_survived(&outcome).context(way)?;
        }
    }
    Ok(())
}

#[test]
fn a_clean_end_loses_nothing() -> TestResult {
    for way in ["exit", "_exit", "exit_group"] {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("ends").args([way, "0"]))
            .run()?;
        let weight = outcome.expect_success().trace()?.samples()?.weight();
        assert!(
            weight > BURNED_BEFORE - 10.0,
            "{way}: {weight} weighted samples"
        );
    }
    Ok(())
}

#[test]
fn fatal_signals_are_passed_on() -> TestResult {
    let cases = [
        ("abort", libc::SIGABRT),
        ("segv", libc::SIGSEGV),
        ("trap", libc::SIGILL),
        ("main-leaves", libc::SIGALRM),
    ];
    for (way, number) in cases {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("ends").args([way]))
            .run()?;
        outcome.expect_signal(number);
        assert_survived(&outcome).context(way)?;
    }
    for number in [
        libc::SIGKILL,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGPROF,
    ] {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("ends").args(["kill", &number.to_string()]))
            .run()?;
        outcome.expect_signal(number);
        assert_survived(&outcome).with_context(|| format!("signal {number}"))?;
    }
    Ok(())
}

#[test]
fn exec_over_itself_keeps_both_lives() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("ends").args(["exec"]))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let weight = outcome.all_clean()?.weight();
    assert!(
        weight > 2.0 * BURNED_BEFORE - LOST_AT_MOST,
        "{weight} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_killed_target_leaves_its_trace() -> TestResult {
    let run = Run::new()
        .freq(1000)
        .command(workload("ends").args(["wait"]))
        .start()?;
    let pid: u32 = run.wait_for("ready")?.parse()?;
    assert!(signal(pid, libc::SIGKILL));
    let outcome = run.wait()?;
    outcome.expect_signal(libc::SIGKILL);
    assert_survived(&outcome)
}

#[test]
fn signals_to_the_profiler_reach_the_target() -> TestResult {
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let run = Run::new()
            .freq(1000)
            .command(workload("ends").args(["wait"]))
            .start()?;
        let pid: u32 = run.wait_for("ready")?.parse()?;
        run.signal(number);
        let outcome = run.wait()?;
        outcome.expect_signal(number);
        assert!(!alive(pid), "the target lives on after signal {number}");
        assert_survived(&outcome)?;
    }
    Ok(())
}

#[test]
fn a_killed_child_leaves_its_trace() -> TestResult {
    let ends = workload("ends").build()?;
    let line = format!("{0} wait & {0} exit 0; wait", ends.display());
    let run = Run::new()
        .freq(1000)
        .command(rsys_tests::script(&line))
        .start()?;
    let shell = run.target_pid()?;
    // The second program ends by itself; then only the one that waits is left to kill.
    let mut left = Vec::new();
    wait_until(Duration::from_secs(30), || {
        left = children_of(shell);
        left.len() == 1 && run.wait_for("ready").is_ok()
    });
    let [victim] = left[..] else {
        panic!("children of the shell: {left:?}")
    };
    assert!(signal(victim, libc::SIGKILL));
    let outcome = run.wait()?;
    outcome.assert_counts()?;
    let weight = outcome.all_clean()?.weight();
    assert!(
        weight > 2.0 * BURNED_BEFORE - LOST_AT_MOST,
        "{weight} weighted samples\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_killed_profiler_leaves_a_valid_prefix() -> TestResult {
    let run = Run::new()
        .freq(1000)
        .command(workload("ends").args(["wait"]))
        .start()?;
    let pid: u32 = run.wait_for("ready")?.parse()?;
    // Wait until something has been written, as a user's run would have long before.
    let output = run.output().to_path_buf();
    let has_samples = || {
        let mut folders = std::fs::read_dir(&output).into_iter().flatten().flatten();
        folders.any(|folder| {
            let files = std::fs::read_dir(folder.path())
                .into_iter()
                .flatten()
                .flatten();
            files
                .map(|file| file.path())
                .any(|file| scan_packets(&file).is_ok_and(|found| found.samples > 50))
        })
    };
    assert!(
        wait_until(Duration::from_secs(30), has_samples),
        "nothing is written while the program runs"
    );
    run.signal(libc::SIGKILL);
    let outcome = run.wait()?;
    outcome.expect_signal(libc::SIGKILL);
    assert!(alive(pid), "the target died with the profiler");
    signal(pid, libc::SIGKILL);
    let files = outcome.files();
    assert_eq!(files.len(), 1, "{}", outcome.story());
    let trace = rsys_tests::Trace::load(&files[0], None)?;
    trace.assert_valid_prefix();
    assert!(trace.samples()?.count() > 50);
    Ok(())
}
