//! Time that no tick falls into: short processes, and threads that nobody announces.

use std::fs;

use rsys_tests::{Outcome, Run, Scratch, TestResult, script, workload};

fn weighted(outcome: &Outcome, name: &str) -> f64 {
    let mine = outcome
        .summaries
        .iter()
        .filter(|summary| summary.name == name);
    mine.map(|summary| summary.weighted as f64).sum()
}

/// Many processes of 5 ms each: most of them see one tick, or none.
fn short_processes(frequency: u32, way: &str, count: u32) -> TestResult {
    let scratch = Scratch::new("brief")?;
    let sum = scratch.path().join("sum");
    let program = workload("brief").build()?;
    let line = format!(
        "i=0; while [ $i -lt {count} ]; do {} 0.005 {way}; i=$((i+1)); done",
        program.display()
    );
    let outcome = Run::new()
        .freq(frequency)
        .env("BRIEF_SUM", &sum)
        .command(script(&line))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let text = fs::read_to_string(&sum)?;
    let used: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    assert_eq!(used.len(), count as usize, "{}", outcome.story());
    let rate = f64::from(frequency);
    // What the loader does before we are there is not ours to sample; what the program does in `main` is.
    let least = rate * 0.005 * f64::from(count);
    let most = rate * used.iter().sum::<f64>();
    // The first expiry is anywhere in the first period: whether a process has one sample more is a coin's toss.
    let spread = 3.5 * (0.25 * f64::from(count)).sqrt();
    let weight = weighted(&outcome, "brief");
    assert!(
        weight > least - spread && weight < most + spread,
        "{way} at {frequency} Hz: {weight} weighted samples, expected {least:.0} to {most:.0} ± {spread:.0}"
    );
    Ok(())
}

#[test]
fn short_processes_count() -> TestResult {
    short_processes(100, "return", 200)?;
    for way in ["return", "exit", "_exit", "quick_exit", "thread"] {
        short_processes(300, way, 100)?;
    }
    Ok(())
}

#[test]
fn an_end_that_is_put_off_is_not_counted_twice() -> TestResult {
    // The tail is accounted for before the destructors, which burn for a while.
    let outcome = Run::new()
        .freq(1000)
        .command(workload("late").args(["0.2"]))
        .run()?;
    let cpu = outcome.expect_success().number("cpu")?;
    let trace = outcome.trace()?;
    trace.assert_clean();
    let weight = trace.samples()?.weight();
    assert!(
        (weight - 1000.0 * cpu).abs() < 0.03 * 1000.0 * cpu,
        "{weight} weighted samples of {cpu} s"
    );
    let coverage = trace.metadata()?.get("coverage_percent")?.as_float();
    // What was known at the end: the time up to the destructors alone.
    assert!(
        coverage.is_some_and(|percent| percent > 95.0),
        "{coverage:?}"
    );
    Ok(())
}

#[test]
fn raw_threads_come_and_go() -> TestResult {
    for at_once in ["4", "40"] {
        let outcome = Run::new()
            .freq(1000)
            .command(workload("raw_threads").args(["--count", "2000", "--at-once", at_once]))
            .run()?;
        outcome.expect_success().assert_counts()?;
        let trace = outcome.trace()?;
        trace.assert_clean();
        // Everybody who asks gets a clock, or is counted; who is gone gives it back.
        let metadata = trace.metadata()?;
        let (adopted, refused) = (
            metadata.int("threads_adopted")?,
            metadata.int("unattributed")?,
        );
        assert!(
            adopted + refused >= 1900 && refused < 100,
            "{adopted} adopted, {refused} refused"
        );
        assert!(outcome.number("growth_kb")? < 2048.0, "{}", outcome.story());
        assert!(outcome.number("timers")? < 60.0, "{}", outcome.story());
    }
    Ok(())
}
