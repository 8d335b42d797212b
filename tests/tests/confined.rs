//! Programs that confine themselves with seccomp: what they do not call, nobody calls for them.

use rsys_tests::{Run, TestResult, workload};

fn weight_inside(args: &[&str], clock: &str) -> anyhow::Result<f64> {
    let outcome = Run::new()
        .freq(1000)
        .options(["--clock", clock])
        .command(workload("confined").args(args))
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        format!("ok {}\n", args[0]),
        "{args:?} by {clock}"
    );
    Ok(outcome.assert_counts()?.weight as f64)
}

#[test]
fn threads_come_and_go_under_a_filter_that_kills() -> TestResult {
    for clock in ["timer", "perf"] {
        for mode in ["prctl", "seccomp"] {
            // 200 ms before; then the threads that were there go on, and the first.
            let weight = weight_inside(&[mode], clock)?;
            assert!(weight > 500.0, "{mode} by {clock}: {weight}");
        }
    }
    Ok(())
}

#[test]
fn a_filter_that_forbids_the_return_from_handlers() -> TestResult {
    for clock in ["timer", "perf"] {
        for mode in ["prctl", "seccomp"] {
            // Nothing may be sampled once the filter holds.
            let weight = weight_inside(&[mode, "no-sigreturn"], clock)?;
            assert!((150.0..300.0).contains(&weight), "{mode}: {weight}");
        }
    }
    Ok(())
}

/// A clock whose period cannot be changed any more must not go wrong for ever.
#[test]
fn a_filter_that_refuses_leaves_the_rate() -> TestResult {
    let outcome = Run::new().freq(1000).command(workload("refused")).run()?;
    let weight = outcome.expect_success().assert_counts()?.weight as f64;
    let expected = 1000.0 * outcome.number("cpu")?;
    assert!(
        (weight / expected - 1.0).abs() < 0.02,
        "{weight} periods, expected {expected:.0}"
    );
    Ok(())
}
