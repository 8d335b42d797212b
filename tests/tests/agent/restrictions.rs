//! Programs that take the time stamp counter or their system calls from themselves by `prctl`.

use anyhow::{Context, ensure};
use rsys_tests::{Invocation, Outcome, Run, TestResult, run_plain, workload};

const MODES: [&str; 3] = ["tsc", "dispatch", "range"];

fn restricted(words: &[&str]) -> Invocation {
    Invocation::from(workload("restricted").args(words))
}

/// The words that a kernel from before Linux 5.11 refuses make the bare program fail as well.
fn is_supported(mode: &str) -> anyhow::Result<bool> {
    let outcome = run_plain(restricted(&[mode, "prctl"]))?;
    if outcome.stderr.contains("restrict_by") {
        println!("skipped: this kernel has no {mode}");
        return Ok(false);
    }
    outcome.expect_success();
    Ok(true)
}

/// The marks of all processes, as the closing lines count them.
fn marks_of(outcome: &Outcome) -> u64 {
    let remarks = outcome.summaries.iter().map(|summary| &summary.remarks);
    remarks
        .filter_map(|remarks| {
            let number = remarks.strip_suffix(" marks")?.rsplit(' ').next()?;
            number.parse::<u64>().ok()
        })
        .sum()
}

fn profiled(options: &[&str], words: &[&str]) -> anyhow::Result<Outcome> {
    Run::new()
        .options(["-I", "roctx"])
        .options(options)
        .command(restricted(words))
        .run()
}

#[test]
fn the_program_catches_what_it_catches_without_us() -> TestResult {
    for mode in MODES {
        if !is_supported(mode)? {
            continue;
        }
        let perf = ["-f", "1000", "--clock", "perf", "-C", "page-faults"];
        for (how, options) in [("prctl", &["-f", "100"][..]), ("syscall", &perf)] {
            let bare = run_plain(restricted(&[mode, how]))?;
            let outcome = profiled(options, &[mode, how])?;
            assert_eq!(
                outcome.expect_success().stdout,
                bare.expect_success().stdout,
                "{mode} by {how}, {options:?}"
            );
            outcome.assert_counts()?;
            let marks = if mode == "tsc" { 120 } else { 330 };
            assert_eq!(marks_of(&outcome), marks, "{mode}: {}", outcome.story());
        }
    }
    Ok(())
}

#[test]
fn what_is_not_sampled_is_said() -> TestResult {
    if !is_supported("dispatch")? {
        return Ok(());
    }
    let outcome = profiled(&["-f", "1000"], &["dispatch", "prctl"])?;
    let said = "1 thread was not sampled while the program handled the system calls itself";
    ensure!(outcome.stderr.contains(said), "{}", outcome.story());
    // Before and after it, in the thread that is made there, and in the child.
    let trace = outcome.trace_of("restricted")?;
    let shares = trace.shares()?;
    let (compute, thread) = (shares.total_share("compute"), shares.total_share("thread"));
    ensure!(
        compute > 0.3 && thread > 0.1,
        "compute {compute}, thread {thread}"
    );
    Ok(())
}

#[test]
fn without_the_counter_sampling_goes_on() -> TestResult {
    if !is_supported("tsc")? {
        return Ok(());
    }
    let outcome = profiled(&["-f", "1000"], &["tsc", "prctl"])?;
    let metadata = outcome.trace_of("restricted")?.metadata()?;
    let coverage = metadata.get("coverage_percent")?.as_float();
    let coverage = coverage.context("no number")?;
    ensure!(
        (90.0..110.0).contains(&coverage),
        "{coverage} % of its time"
    );
    Ok(())
}

#[test]
fn ends_are_those_without_us() -> TestResult {
    for (mode, end) in [
        ("dispatch", "exec"),
        ("dispatch", "fatal"),
        ("range", "fatal"),
        ("tsc", "fatal"),
    ] {
        if !is_supported(mode)? {
            continue;
        }
        let bare = run_plain(restricted(&[mode, "prctl", end]))?;
        let outcome = profiled(&["-f", "1000"], &[mode, "prctl", end])?;
        assert_eq!(
            (outcome.status, outcome.stdout.as_str()),
            (bare.status, bare.stdout.as_str()),
            "{mode} {end}"
        );
    }
    Ok(())
}
