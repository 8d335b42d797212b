//! Programs with uses of their own for SIGTRAP, which brings perf's samples on newer kernels.

use rsys_tests::{Run, TestResult, workload};

const SIGTRAP: i32 = 5;

#[test]
fn breakpoints_and_sent_traps_are_the_programs_own() -> TestResult {
    for mode in ["handled", "ignored"] {
        let outcome = Run::new()
            .freq(2000)
            .command(workload("traps").args([mode]))
            .run()?;
        assert_eq!(outcome.expect_success().stdout.trim(), format!("ok {mode}"));
        let share = outcome.trace()?.shares()?.total_share("burn");
        assert!(share > 0.8, "{mode}: burn has a share of {share}");
    }
    Ok(())
}

#[test]
fn a_trap_that_nobody_handles_is_fatal() -> TestResult {
    for mode in ["fatal", "raised", "ignored-fatal"] {
        let outcome = Run::new()
            .freq(2000)
            .command(workload("traps").args([mode]))
            .run()?;
        outcome.expect_signal(SIGTRAP);
    }
    Ok(())
}

#[test]
fn no_trap_is_left_to_the_next_program() -> TestResult {
    let outcome = Run::new()
        .freq(4000)
        .command(workload("traps").args(["exec", "20"]))
        .run()?;
    assert_eq!(outcome.expect_success().stdout.trim(), "ok exec");
    Ok(())
}
