//! Programs that have their parent trace them (`ptrace(PTRACE_TRACEME)`): rsys-sample lets them go on, and no other parent has to.

use rsys_tests::{Run, TestResult, script, workload};

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

#[test]
fn children_of_a_shell_that_want_to_be_traced_are_not_stopped_by_samples() -> TestResult {
    let program = workload("traced")
        .flags(["-O1", "-g", "-pthread"])
        .build()?;
    for (who, clock) in [("asks", "auto"), ("asks", "perf"), ("by_number", "timer")] {
        let line = format!("{} {who}; echo $?", program.display());
        let outcome = Run::new()
            .freq(1000)
            .options(["--clock", clock])
            .command(script(&line))
            .run()?;
        assert_eq!(outcome.expect_success().stdout, "handled 0\n3\n", "{who}");
        let said = outcome.stderr.contains("(PTRACE_TRACEME)");
        assert!(said, "{}", outcome.story());
    }
    Ok(())
}

/// The first thread that a process makes gives its maker finer clocks, where it still has any.
#[test]
fn children_of_the_program_that_want_to_be_traced_are_not_stopped_either() -> TestResult {
    let program = workload("traced").flags(["-O1", "-g", "-pthread"]);
    let outcome = Run::new()
        .freq(300)
        .command(program.args(["forked"]))
        .run()?;
    outcome.expect_code(3);
    assert_eq!(outcome.stdout, "handled 0\n", "{}", outcome.story());
    Ok(())
}
