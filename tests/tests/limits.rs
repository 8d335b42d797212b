//! Resource limits: what can be sampled in spite of them is, and for the rest the reason is told.

use rsys_tests::{Run, TestResult, script, workload};

fn limited(limit: &str) -> anyhow::Result<rsys_tests::Outcome> {
    let program = workload("rate").build()?;
    let line = format!("{limit}; exec {} --seconds 0.3", program.display());
    Run::new().freq(1000).command(script(&line)).run()
}

#[test]
fn a_limit_on_files_makes_the_rings_smaller() -> TestResult {
    // In blocks of 512 bytes: 500 KiB and 100 KiB, where the rings are usually 2 MiB.
    for limit in ["ulimit -f 1000", "ulimit -f 200"] {
        let outcome = limited(limit)?;
        outcome.expect_success().assert_counts()?;
        let weight: u64 = outcome.summaries.iter().map(|one| one.weighted).sum();
        assert!(weight > 250, "{limit}: {weight}\n{}", outcome.story());
    }
    Ok(())
}

#[test]
fn a_limit_that_leaves_no_room_is_told() -> TestResult {
    let outcome = limited("ulimit -f 2")?;
    outcome.expect_success();
    // Who may raise limits is sampled all the same.
    let told =
        outcome.stderr.contains("(rate) is not sampled") && outcome.stderr.contains("ulimit -f");
    assert!(told || !outcome.summaries.is_empty(), "{}", outcome.story());
    assert!(
        !outcome.stderr.contains("too little CPU time"),
        "a wrong reason\n{}",
        outcome.story()
    );
    Ok(())
}
