//! The descriptors that perf events take in the program: out of its way, and none that it would guess.

use std::collections::BTreeSet;

use anyhow::ensure;
use rsys_tests::{Outcome, Run, TestResult, script, skip_if_missing, workload};

/// A limit that many machines have, and one whose half is a round number.
const LIMITS: [u64; 2] = [1024, 20_000];

fn run(limit: u64, mode: &str) -> anyhow::Result<Outcome> {
    let program = workload("descriptors").build()?;
    let line = format!("ulimit -S -n {limit} && exec {} {mode}", program.display());
    Run::new()
        .options(["-f", "2000", "--clock", "perf"])
        .command(script(&line))
        .run()
}

fn numbers(outcome: &Outcome) -> Vec<u64> {
    let lines = outcome.expect_success().stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("fd ")?.parse().ok())
        .collect()
}

/// Whether there are perf events here at all.
fn missing_perf() -> Option<String> {
    let outcome = run(1024, "").ok()?;
    numbers(&outcome)
        .is_empty()
        .then(|| "no perf events".to_owned())
}

#[test]
fn nobody_would_guess_their_numbers() -> TestResult {
    skip_if_missing!(missing_perf());
    for limit in LIMITS {
        let mut seen = BTreeSet::new();
        for _ in 0..4 {
            let numbers = numbers(&run(limit, "")?);
            ensure!(numbers.len() >= 5, "only {numbers:?}");
            for number in numbers {
                ensure!(
                    (limit / 2..limit - limit / 4).contains(&number),
                    "{number} of {limit} is in the way"
                );
                let round = [2, 5, 10, 100].iter().any(|by| number % by == 0);
                let near_power = (number - 1..=number + 1).any(u64::is_power_of_two);
                ensure!(!round && !near_power, "{number} may be guessed");
                seen.insert(number);
            }
        }
        ensure!(seen.len() >= 12, "always the same: {seen:?}");
    }
    Ok(())
}

#[test]
fn a_program_may_close_all_and_change_its_limit() -> TestResult {
    skip_if_missing!(missing_perf());
    for mode in ["close-all", "raise", "lower"] {
        let outcome = run(1024, mode)?;
        assert!(
            outcome
                .expect_success()
                .stdout
                .ends_with(&format!("ok {mode}\n"))
        );
        // What perf does not sample any more the timer does.
        let weight = outcome.assert_counts()?.weight as f64;
        let least = if mode == "close-all" { 1200.0 } else { 800.0 };
        ensure!(
            weight > 0.85 * least,
            "{mode}: {weight}\n{}",
            outcome.story()
        );
    }
    Ok(())
}

/// As programs do that become daemons.
#[test]
fn a_program_that_closes_all_is_sampled_as_finely_again() -> TestResult {
    skip_if_missing!(missing_perf());
    let program = workload("descriptors").build()?;
    let outcome = Run::new()
        .freq(1000)
        .command(script(&format!("exec {} daemon", program.display())))
        .run()?;
    let counts = outcome.expect_success().assert_counts()?;
    let (samples, weight) = (counts.samples as f64, counts.weight as f64);
    ensure!(
        weight > 700.0 && samples > 0.75 * weight,
        "{samples} of {weight}"
    );
    Ok(())
}
