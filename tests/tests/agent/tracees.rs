//! Programs that have their parent trace them (`ptrace(PTRACE_TRACEME)`): it is rsys-sample, and lets them go on.

use rsys_tests::{Run, TestResult, workload};

#[test]
fn programs_that_want_to_be_traced_go_on() -> TestResult {
    for (who, clock) in [
        ("main", "auto"),
        ("main", "timer"),
        ("main", "perf"),
        ("thread", "auto"),
        ("brief", "auto"),
        ("exec", "auto"),
    ] {
        let program = workload("traced").flags(["-O1", "-g", "-pthread"]);
        let outcome = Run::new()
            .freq(300)
            .options(["--clock", clock])
            .command(program.args([who]))
            .run()?;
        outcome.expect_code(3);
        assert_eq!(outcome.stdout, "handled 1\n", "{who} {clock}");
        outcome.assert_counts()?;
        let samples: u64 = outcome.summaries.iter().map(|one| one.weighted).sum();
        assert!(samples > 60, "{who} {clock}: {}", outcome.story());
    }
    Ok(())
}
