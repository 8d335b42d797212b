//! As many samples as asked for, whatever the number of threads; and none of them disturbs a system call.

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Outcome, Run, Summary, TestResult, Trace, kernel_ticks_per_second, key, script,
    skip_if_missing, workload,
};

const TOLERANCE: f64 = 0.02;

/// Threads, and the CPU seconds of each.
fn rate_is_kept(hertz: u32, threads: u32, seconds: f64, clock: &str) -> TestResult {
    let program = workload("rate").args([
        "--threads",
        &threads.to_string(),
        "--seconds",
        &seconds.to_string(),
    ]);
    let outcome = Run::new()
        .freq(hertz)
        .options(["--clock", clock])
        .command(program)
        .run()?;
    outcome.expect_success().assert_counts()?;
    let weighted: u64 = outcome
        .summaries
        .iter()
        .map(|summary| summary.weighted)
        .sum();
    let expected = f64::from(hertz) * outcome.number("cpu")?;
    let off = weighted as f64 / expected - 1.0;
    assert!(
        off.abs() <= TOLERANCE,
        "{threads} threads at {hertz} Hz by {clock}: {weighted} weighted samples, expected {expected:.0} ({:+.2} %)\n{}",
        100.0 * off,
        outcome.story()
    );
    assert_eq!(outcome.dropped(), 0, "{}", outcome.story());
    Ok(())
}

#[test]
fn the_default_rate_is_300() -> TestResult {
    let program = workload("rate").args(["--threads", "2", "--seconds", "1"]);
    let outcome = Run::new().command(program).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert_eq!(trace.metadata()?.int(key::FREQUENCY_HZ)?, 300);
    let expected = 300.0 * outcome.number("cpu")?;
    assert!(
        (trace.samples()?.weight() / expected - 1.0).abs() <= TOLERANCE,
        "{}",
        outcome.story()
    );
    Ok(())
}

/// Samples of the program `rate`, and how many perf took; `None` where perf events are not permitted.
fn by_perf(outcome: &Outcome) -> Result<Option<(i64, i64)>> {
    let rate = |one: &&Summary| one.name == "rate";
    let summary = outcome.expect_success().summaries.iter().find(rate);
    let summary = summary.with_context(|| outcome.story())?;
    let metadata = Trace::load(&summary.path, Some(summary.clone()))?.metadata()?;
    let taken = (metadata.int("samples")?, metadata.int("perf_samples")?);
    Ok((metadata.int("threads_without_perf")? == 0).then_some(taken))
}

/// At one sample a tick, perf keeps a program in step with the tick from being told wrong. It costs too much for a moment, and for many processes.
#[test]
fn perf_joins_a_thread_that_uses_some_time() -> TestResult {
    let ticks = kernel_ticks_per_second();
    skip_if_missing!(
        (!(201.0..=300.0).contains(&ticks)).then_some("a kernel that ticks 250 times a second")
    );
    let program = |seconds| workload("rate").args(["--threads", "1", "--seconds", seconds]);
    let long = by_perf(&Run::new().command(program("1")).run()?)?;
    skip_if_missing!(
        long.is_none()
            .then_some("perf events, which are not permitted here")
    );
    let (samples, of_perf) = long.unwrap_or_default();
    // Which of two clocks comes first is a matter of interrupts, which may be late; without perf it is none.
    ensure!(
        2 * of_perf > samples && of_perf < samples,
        "{of_perf} of {samples}"
    );
    let child = format!(
        "{} --threads 1 --seconds 1; true",
        program("1").build()?.display()
    );
    let child = by_perf(&Run::new().command(script(&child)).run()?)?;
    ensure!(matches!(child, Some((50.., 0))), "{child:?}");
    Ok(())
}

/// Two clocks count what a short thread does, and each period ends twice.
#[test]
fn short_threads_count_once() -> TestResult {
    rate_is_kept(400, 128, 0.02, "auto")
}

#[test]
fn rate_at_100_hz() -> TestResult {
    for (threads, seconds) in [(1, 4.0), (4, 2.0), (64, 0.3), (256, 0.1)] {
        rate_is_kept(100, threads, seconds, "auto")?;
    }
    Ok(())
}

// A CPU timer is looked at when the kernel ticks: what a thread uses after its last tick is not seen. Threads that live
// for 75 ticks keep that far below the tolerance.

#[test]
fn rate_at_250_hz() -> TestResult {
    for (threads, seconds) in [(1, 2.0), (64, 0.4)] {
        rate_is_kept(250, threads, seconds, "timer")?;
    }
    Ok(())
}

#[test]
fn rate_at_1000_hz_by_timers() -> TestResult {
    for (threads, seconds) in [(1, 2.0), (4, 1.0), (64, 0.3), (256, 0.1)] {
        rate_is_kept(1000, threads, seconds, "timer")?;
    }
    Ok(())
}

#[test]
fn rate_at_1000_hz_by_perf_events() -> TestResult {
    for (threads, seconds) in [(1, 2.0), (4, 1.0), (64, 0.1), (256, 0.05)] {
        rate_is_kept(1000, threads, seconds, "perf")?;
    }
    Ok(())
}

#[test]
fn no_system_call_is_interrupted() -> TestResult {
    let bare = Run::bare().command(workload("eintr")).run()?;
    assert_eq!(
        bare.expect_success().number("interrupted")?,
        0.0,
        "without us already: {}",
        bare.stdout
    );
    for (hertz, clock) in [(300, "auto"), (1000, "timer"), (1000, "perf")] {
        let outcome = Run::new()
            .freq(hertz)
            .options(["--clock", clock])
            .command(workload("eintr"))
            .run()?;
        assert_eq!(
            outcome.expect_success().number("interrupted")?,
            0.0,
            "{hertz} Hz by {clock}:\n{}",
            outcome.stdout
        );
        assert!(
            outcome.summaries.iter().any(|summary| summary.samples > 50),
            "{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn the_clock_is_told() -> TestResult {
    for clock in ["timer", "perf"] {
        let program = workload("rate").args(["--seconds", "0.2"]);
        let outcome = Run::new()
            .freq(1000)
            .options(["-v", "--clock", clock])
            .command(program)
            .run()?;
        let trace = outcome.expect_success().trace()?;
        let told = trace.metadata()?.text(key::CLOCK)?;
        assert!(told.contains(clock), "{told} is not {clock}");
        assert!(
            outcome.stderr.contains(clock),
            "-v does not name the clock:\n{}",
            outcome.story()
        );
    }
    Ok(())
}
