//! `--realtime`: waits are as long as they were, by the program's own clocks.

use anyhow::{Result, ensure};
use rsys_tests::{
    Outcome, Run, Sample, Scratch, TestResult, is_root, missing_tool, skip_if_missing, workload,
};

/// Why no records of context switches are taken, if none are.
fn no_switches(outcome: &Outcome) -> Result<Option<&'static str>> {
    let intervals = outcome.trace()?.metadata()?.int("off_cpu_intervals");
    let has_any = intervals.is_ok_and(|count| count > 0);
    Ok((!has_any).then_some("perf events, which are not permitted here"))
}

fn paced(options: &[&str], rounds: &str, sleep_us: &str, cpu_us: &str) -> Result<Outcome> {
    let program = workload("paced_waits").args([rounds, sleep_us, cpu_us]);
    let outcome = Run::new()
        .options(["--realtime"])
        .options(options)
        .command(program)
        .run()?;
    outcome.expect_success().assert_counts()?;
    Ok(outcome)
}

/// Fails unless all waits together took as long as the program says, and at least this share of them is in `slow`. What it waits in `settle`, where the first
/// look may come late, counts for nothing.
fn judge(outcome: &Outcome, tolerance: f64, least: f64) -> TestResult {
    let trace = outcome.trace()?;
    trace.assert_clean();
    let (blocked, away) = (outcome.number("blocked")?, outcome.number("away")?);
    let samples = trace.wait_samples()?;
    let seconds = |wanted: &dyn Fn(&Sample) -> bool| -> f64 {
        let these = samples.iter().filter(|one| !one.calls("settle"));
        let these = these.filter(|one| wanted(one));
        these.map(|one| one.weight).sum()
    };
    // Before `main` the program waits for its start, too, on a busy machine for long.
    let all = seconds(&|_| true);
    let in_main = seconds(&|one| one.calls("main"));
    let slow = seconds(&|one| one.calls("slow"));
    ensure!(
        all >= blocked * (1.0 - tolerance) && in_main <= away * (1.0 + tolerance) + 0.03,
        "waits of {all:.4} s, {in_main:.4} in `main`, the program was blocked for {blocked:.4} to {away:.4}"
    );
    ensure!(
        slow > least * blocked && slow <= away * (1.0 + tolerance) && in_main - slow <= 0.03,
        "waits of {slow:.4} s in `slow` of {in_main:.4} in `main`, the program was blocked there for {blocked:.4} to {away:.4}"
    );
    Ok(())
}

/// With CPU time between them, which looks alone would count as waits or lose; and which share of the waits is at its place at least. Where the looks find no
/// processor for a while, short waits are at none.
const PACES: [([&str; 3], f64); 3] = [
    (["1500", "500", "500"], 0.0),
    (["200", "5000", "3000"], 0.5),
    (["20", "50000", "20000"], 0.75),
];

#[test]
fn the_kernels_switches_say_how_long_a_wait_was() -> TestResult {
    for ([rounds, sleep_us, cpu_us], least) in PACES {
        let outcome = paced(&[], rounds, sleep_us, cpu_us)?;
        skip_if_missing!(no_switches(&outcome)?);
        judge(&outcome, 0.03, least)?;
    }
    Ok(())
}

#[test]
fn without_them_its_counters_do() -> TestResult {
    for ([rounds, sleep_us, cpu_us], least) in PACES {
        let outcome = paced(&["--context-switches", "off"], rounds, sleep_us, cpu_us)?;
        ensure!(no_switches(&outcome)?.is_some(), "{}", outcome.story());
        judge(&outcome, 0.06, least)?;
    }
    Ok(())
}

/// There each thread has a ring of its own, which is opened when the thread is found.
#[test]
fn on_a_machine_of_many_processors_the_switches_say_so_too() -> TestResult {
    let not_root = (!is_root()).then(|| "only root can pretend to have more processors".to_owned());
    skip_if_missing!(not_root.or_else(|| missing_tool("unshare")));
    let scratch = Scratch::new("many-processors")?;
    let many = scratch.path().join("possible");
    std::fs::write(&many, "0-255\n")?;
    let mount = format!(
        "mount --bind {} /sys/devices/system/cpu/possible && exec \"$@\"",
        many.display()
    );
    let ([rounds, sleep_us, cpu_us], least) = PACES[1];
    let program = workload("paced_waits").args([rounds, sleep_us, cpu_us]);
    let outcome = Run::new()
        .under(["unshare", "--mount", "sh", "-c", &mount, "sh"])
        .options(["--realtime"])
        .command(program)
        .run()?;
    outcome.expect_success().assert_counts()?;
    skip_if_missing!(no_switches(&outcome)?);
    judge(&outcome, 0.03, least)
}
