//! Time that no tick falls into: short processes, and threads that nobody announces.

use std::collections::HashMap;
use std::fs;

use rsys_tests::{Outcome, Run, Scratch, Summary, TestResult, script, workload};

fn weighted(outcome: &Outcome, name: &str) -> f64 {
    let mine = outcome
        .summaries
        .iter()
        .filter(|summary| summary.name == name);
    mine.map(|summary| summary.weighted as f64).sum()
}

/// Many processes of 5 ms each: most of them see one tick, or none. `threads` says how many threads use that time each, and are still there at the end.
fn short_processes(frequency: u32, way: &str, count: u32, threads: u32) -> TestResult {
    let scratch = Scratch::new("brief")?;
    let sum = scratch.path().join("sum");
    let program = workload("brief").build()?;
    let line = format!(
        "i=0; while [ $i -lt {count} ]; do {} 0.005 {way} {threads}; i=$((i+1)); done",
        program.display()
    );
    let outcome = Run::new()
        .freq(frequency)
        .env("BRIEF_SUM", &sum)
        .options(["--min-samples", "1"])
        .command(script(&line))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let text = fs::read_to_string(&sum)?;
    let used: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    assert_eq!(used.len(), count as usize, "{}", outcome.story());
    let rate = f64::from(frequency);
    // What the loader does before we are there is not ours to sample; what the program does in `main` is.
    let lives = f64::from(count * threads.max(1));
    let least = rate * 0.005 * lives;
    let most = rate * used.iter().sum::<f64>();
    // The first expiry is anywhere in the first period: whether a process has one sample more is a coin's toss.
    let spread = 3.5 * (0.25 * lives).sqrt();
    let weight = weighted(&outcome, "brief");
    assert!(
        weight > least - spread && weight < most + spread,
        "{way} at {frequency} Hz: {weight} weighted samples, expected {least:.0} to {most:.0} ± {spread:.0}"
    );
    Ok(())
}

#[test]
fn short_processes_count() -> TestResult {
    short_processes(100, "return", 200, 0)?;
    for way in ["return", "exit", "_exit", "quick_exit", "thread"] {
        short_processes(300, way, 100, 0)?;
        short_processes(300, way, 10, 10)?;
    }
    Ok(())
}

/// Most of them end before they had anything to record into.
#[test]
fn processes_without_a_trace_count() -> TestResult {
    const COUNT: u32 = 300;
    let scratch = Scratch::new("brief")?;
    let sum = scratch.path().join("sum");
    let program = workload("brief").build()?;
    for way in ["return", "_exit", "thread"] {
        let line = format!(
            "i=0; while [ $i -lt {COUNT} ]; do {} 0.002 {way}; i=$((i+1)); done",
            program.display()
        );
        let outcome = Run::new()
            .freq(100)
            .env("BRIEF_SUM", &sum)
            .command(script(&line))
            .run()?;
        outcome.expect_success().assert_counts()?;
        let text = fs::read_to_string(&sum)?;
        let used: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        assert_eq!(used.len(), COUNT as usize, "{}", outcome.story());
        fs::remove_file(&sum)?;
        // Those that are in the trace that short processes share, and those that are in none.
        let lines = outcome.stderr.lines();
        let told = lines.filter_map(|line| {
            let (before, after) = line.split_once(" short process")?;
            let number = match after.split_once(": ") {
                Some((_, rest)) if after.contains("left no trace") => rest,
                _ => before.rsplit_once(": ")?.1,
            };
            number.split(' ').next()?.parse::<f64>().ok()
        });
        let samples: f64 = told.sum();
        let (least, most) = (0.2 * f64::from(COUNT), 100.0 * used.iter().sum::<f64>());
        let spread = 3.5 * (0.25 * f64::from(COUNT)).sqrt();
        assert!(
            samples > least - spread && samples < most + spread,
            "{way}: {samples} samples, expected {least:.0} to {most:.0} ± {spread:.0}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn an_end_that_is_put_off_is_not_counted_twice() -> TestResult {
    // The tail is accounted for when quick_exit is called, and its handlers burn for a while: a tick that comes then must not
    // tell of it again.
    const COUNT: u32 = 100;
    let program = workload("late").build()?;
    let line = format!(
        "i=0; while [ $i -lt {COUNT} ]; do {} 0.006; i=$((i+1)); done",
        program.display()
    );
    let outcome = Run::new()
        .freq(1000)
        // Two ticks and the tail are all that some have.
        .options(["--clock", "timer", "--min-samples", "1"])
        .command(script(&line))
        .run()?;
    outcome.expect_success().assert_counts()?;
    let said = outcome.stdout.lines().filter_map(|line| {
        let (pid, cpu) = line.strip_prefix("pid=")?.split_once(" cpu=")?;
        Some((pid.parse().ok()?, cpu.parse().ok()?))
    });
    let used: HashMap<u32, f64> = said.collect();
    assert_eq!(used.len(), COUNT as usize, "{}", outcome.story());
    // Before the handlers nothing is missing.
    let weight = weighted(&outcome, "late");
    let least = 6.0 * f64::from(COUNT);
    assert!(
        weight > least,
        "{weight} weighted samples, expected more than {least}"
    );
    // In each process there are at most the periods that fit into its time. Told twice, what lies between the last tick and the end would be too much wherever
    // less lies behind the last tick of the handlers: in a quarter of the processes. A few may be met after they have read the clock.
    let is_over = |summary: &&Summary| {
        let cpu = used.get(&summary.pid).copied();
        summary.name == "late" && cpu.is_none_or(|cpu| summary.weighted as f64 > 1000.0 * cpu + 1.0)
    };
    let over = outcome.summaries.iter().filter(is_over).count();
    assert!(
        over <= COUNT as usize / 20,
        "{over} processes have more than their time\n{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn coverage_is_told() -> TestResult {
    let outcome = Run::new()
        .freq(1000)
        .command(workload("rate").args(["--seconds", "0.3"]))
        .run()?;
    let metadata = outcome.expect_success().trace()?.metadata()?;
    let percent = metadata.get("coverage_percent")?.as_float();
    assert!(
        percent.is_some_and(|percent| (95.0..105.0).contains(&percent)),
        "{percent:?}"
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
            adopted + refused >= 2000 && refused < 100,
            "{adopted} adopted, {refused} refused"
        );
        assert!(outcome.number("growth_kb")? < 2048.0, "{}", outcome.story());
        assert!(outcome.number("timers")? < 60.0, "{}", outcome.story());
    }
    Ok(())
}
