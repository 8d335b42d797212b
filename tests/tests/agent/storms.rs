//! Storms, many times in a row: no hang, no crash, no record lost that is not counted.
//!
//! The instances are small, so that the whole file takes about two minutes. Every trace is counted packet by packet; the
//! last of each storm also goes to the trace processor. What takes longer is ignored unless asked for:
//! `cargo test --release -p rsys-tests --test storms -- --include-ignored --test-threads 1` runs each storm twenty times in a row.

use std::thread;
use std::time::Duration;

use rsys_tests::{Invocation, Outcome, Run, TestResult, Trace, scan_packets, signal, workload};

const TIMES: usize = 20;

/// Runs the same again and again; `check` sees each outcome.
fn storm(run: &Run, times: usize, check: impl Fn(&Outcome) -> TestResult) -> TestResult {
    for round in 1..=times {
        let outcome = run.run()?;
        outcome.expect_success().assert_counts()?;
        check(&outcome)?;
        if round == times {
            outcome.all_clean()?;
        }
    }
    Ok(())
}

/// Weighted samples and dropped records together must account for the CPU time that was used.
fn all_time_is_accounted_for(outcome: &Outcome, hertz: f64, tolerance: f64) -> TestResult {
    let weighted: u64 = outcome
        .summaries
        .iter()
        .map(|summary| summary.weighted)
        .sum();
    let expected = hertz * outcome.number("cpu")?;
    let accounted = (weighted + outcome.dropped()) as f64;
    assert!(
        accounted > (1.0 - tolerance) * expected,
        "{accounted} of {expected:.0} samples are accounted for\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn ten_thousand_short_threads() -> TestResult {
    let program: Invocation = workload("threads")
        .args(["--count", "10000", "--us", "20"])
        .into();
    storm(&Run::new().freq(1000).command(program), TIMES, |outcome| {
        assert_eq!(outcome.number("done")?, 10_000.0);
        Ok(())
    })
}

#[test]
fn short_threads_of_other_kinds() -> TestResult {
    let detached: Invocation = workload("threads")
        .args(["--count", "2000", "--us", "50", "--detached", "1"])
        .into();
    storm(
        &Run::new()
            .freq(4000)
            .options(["--clock", "perf"])
            .command(detached),
        3,
        |_| Ok(()),
    )?;
    let many: Invocation = workload("threads")
        .args(["--count", "1024", "--at-once", "256", "--us", "2000"])
        .into();
    storm(&Run::new().freq(1000).command(many), 3, |outcome| {
        all_time_is_accounted_for(outcome, 1000.0, 0.1)
    })
}

#[test]
fn many_forks() -> TestResult {
    let some: Invocation = workload("forks")
        .args(["--count", "60", "--ms", "5"])
        .into();
    let run = Run::new().freq(1000).options(["--min-samples", "1"]);
    storm(&run.command(some), TIMES, |outcome| {
        assert_eq!(outcome.number("done")?, 60.0);
        assert!(
            outcome.files().len() > 50,
            "{} traces of 61 processes\n{}",
            outcome.files().len(),
            outcome.story()
        );
        Ok(())
    })
}

/// Five hundred children of one process, so many times in a row.
fn five_hundred_forks(times: usize) -> TestResult {
    for mode in ["fork", "vfork"] {
        let program = workload("forks").args(["--count", "500", "--ms", "5", "--mode", mode]);
        let run = Run::new().freq(1000).options(["--min-samples", "1"]);
        let run = run.command(program);
        for _ in 0..times {
            let outcome = run.run()?;
            assert_eq!(outcome.expect_success().number("done")?, 500.0);
            outcome.assert_counts()?;
            assert!(
                outcome.files().len() > 450,
                "{mode}: {} traces of 501 processes",
                outcome.files().len()
            );
        }
    }
    Ok(())
}

#[test]
fn five_hundred_forks_at_once() -> TestResult {
    five_hundred_forks(1)
}

#[test]
#[ignore = "takes minutes"]
fn five_hundred_forks_twenty_times() -> TestResult {
    five_hundred_forks(TIMES)
}

#[test]
fn libraries_come_and_go() -> TestResult {
    let program: Invocation = workload("dlstorm").args(["--cycles", "200"]).into();
    // Two threads of 100 ms: by the timer clock, each loses what it uses after its last tick of 4 ms.
    for (clock, times, tolerance) in [("auto", TIMES, 0.1), ("timer", 5, 0.2)] {
        storm(
            &Run::new()
                .freq(4000)
                .options(["--clock", clock])
                .command(program.clone()),
            times,
            |outcome| all_time_is_accounted_for(outcome, 4000.0, tolerance),
        )?;
    }
    Ok(())
}

#[test]
fn libraries_that_are_gone_have_names() -> TestResult {
    let outcome = Run::new()
        .freq(4000)
        .command(workload("dlstorm").args(["--cycles", "200"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let share = trace.shares()?.total_share("plugin_inner");
    assert!(
        share > 0.15,
        "plugin_inner has a share of {share}: {:?}",
        trace.shares()?.top(10)
    );
    Ok(())
}

#[test]
fn a_program_using_sigprof_itself() -> TestResult {
    let program: Invocation = workload("sigprof_user").args(["--seconds", "0.15"]).into();
    storm(&Run::new().freq(1000).command(program), TIMES, |_| Ok(()))
}

#[test]
fn deep_recursion() -> TestResult {
    let program: Invocation = workload("deeprec")
        .args(["--depth", "10000", "--seconds", "0.2"])
        .into();
    storm(&Run::new().freq(2000).command(program), TIMES, |outcome| {
        all_time_is_accounted_for(outcome, 2000.0, 0.1)
    })
}

#[test]
fn kill_at_random_moments() -> TestResult {
    let program: Invocation = workload("threads")
        .args(["--count", "1000000", "--us", "300"])
        .into();
    let run = Run::new().freq(4000).command(program);
    let mut moment = 12_345_u64;
    for round in 0..TIMES {
        let running = run.start()?;
        let pid = running.target_pid()?;
        // The moment is the point of this test: no event stands for it.
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros((moment >> 33) % 250_000));
        assert!(signal(pid, libc::SIGKILL));
        let outcome = running.wait()?;
        outcome.expect_signal(libc::SIGKILL).assert_counts()?;
        if round == TIMES - 1 {
            outcome.all_clean()?;
        }
    }
    Ok(())
}

/// Kills the profiler at so many moments, the first 40 ms after its start and each so much later than the one before.
fn kill_the_profiler(times: u64, step_ms: u64) -> TestResult {
    let program: Invocation = workload("threads")
        .args(["--count", "1000000", "--us", "300"])
        .into();
    let run = Run::new().freq(4000).command(program);
    for round in 0..times {
        let running = run.start()?;
        let pid = running.target_pid()?;
        thread::sleep(Duration::from_millis(40 + step_ms * round));
        running.signal(libc::SIGKILL);
        let outcome = running.wait()?;
        signal(pid, libc::SIGKILL);
        for file in outcome.files() {
            let found = scan_packets(&file)?;
            if found.packets > 0 {
                Trace::load(&file, None)?.assert_valid_prefix();
            }
        }
    }
    Ok(())
}

#[test]
fn kill_the_profiler_at_random_moments() -> TestResult {
    kill_the_profiler(5, 90)
}

#[test]
#[ignore = "takes a minute"]
fn kill_the_profiler_twenty_times() -> TestResult {
    kill_the_profiler(TIMES as u64, 23)
}
