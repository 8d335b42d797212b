//! Runs in which nothing is sampled: the command has its trace all the same, and the closing lines name the true cause.

use rsys_tests::{Invocation, Outcome, Run, TestResult, script, workload};

/// The first sample comes at a random time within a period: at this rate, a process of some milliseconds has one in a few of 1,000 runs.
const SELDOM_HZ: u32 = 1;

/// The line that says why there is nothing, and everything else for the failure message.
fn reason(outcome: &Outcome) -> String {
    let found = outcome.stderr.lines().find_map(|line| {
        let line = line.strip_prefix("rsys: ")?;
        line.strip_prefix("no samples: ")
            .or_else(|| line.strip_prefix("no trace: "))
    });
    found
        .unwrap_or_else(|| panic!("no reason is named\n{}", outcome.story()))
        .to_owned()
}

/// The command's own trace, which must be whole, and without samples.
fn empty_trace(outcome: &Outcome) -> TestResult {
    let trace = outcome.trace()?;
    trace.assert_clean();
    assert!(trace.samples()?.count() == 0, "{}", outcome.story());
    outcome.assert_counts()?;
    Ok(())
}

#[test]
fn a_command_that_only_waits_has_a_trace_and_is_told_of_realtime() -> TestResult {
    let outcome = Run::new().freq(SELDOM_HZ).command("sleep 0.2").run()?;
    empty_trace(outcome.expect_success())?;
    let line = ": 0 samples (0 weighted), 1 thread, 0 dropped, pid ";
    assert!(outcome.stderr.contains(line), "{}", outcome.story());
    let text = reason(&outcome);
    assert!(
        text.contains("CPU time, too little") && text.contains("--realtime"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_command_that_is_killed_before_its_first_sample_is_told_so() -> TestResult {
    for (signal, name) in [(libc::SIGKILL, "SIGKILL"), (libc::SIGSEGV, "SIGSEGV")] {
        let line = format!("kill -{signal} $$");
        let outcome = Run::new().freq(SELDOM_HZ).command(script(&line)).run()?;
        outcome.expect_signal(signal);
        empty_trace(&outcome)?;
        let text = reason(&outcome);
        assert!(text.contains(&format!("killed by {name} before")), "{text}");
    }
    Ok(())
}

#[test]
fn an_event_that_hardly_happened_is_named() -> TestResult {
    let program = workload("rate").args(["--seconds", "0.5"]);
    let outcome = Run::new()
        .options(["--overflow", "page-faults:1000000"])
        .command(program)
        .run()?;
    empty_trace(outcome.expect_success())?;
    let text = reason(&outcome);
    assert!(
        text.contains("did page-faults happen 1000000 times")
            && text.contains("--overflow page-faults:10000"),
        "{text}"
    );
    Ok(())
}

#[test]
fn threads_that_are_left_out_are_named() -> TestResult {
    let program = workload("rate").args(["--seconds", "0.2"]);
    let outcome = Run::new()
        .freq(1000)
        .options(["--tids", "7"])
        .command(program)
        .run()?;
    empty_trace(outcome.expect_success())?;
    let text = reason(&outcome);
    assert!(
        text.contains("of threads that --tids leaves out, and none"),
        "{text}"
    );
    Ok(())
}

#[test]
fn work_in_a_program_without_our_environment_is_no_lack_of_work() -> TestResult {
    let program = workload("rate").build()?;
    let command =
        Invocation::new("env").args(["-i", &program.display().to_string(), "--seconds", "1"]);
    let outcome = Run::new().freq(100).command(command).run()?;
    assert!(outcome.expect_success().number("cpu")? > 0.9);
    let text = reason(&outcome);
    assert!(
        !text.contains("too little") && text.contains("see the warnings above"),
        "{text}"
    );
    assert!(
        outcome
            .stderr
            .contains("was started with an emptied environment"),
        "{}",
        outcome.story()
    );
    Ok(())
}

#[test]
fn a_static_command_is_the_reason_itself() -> TestResult {
    let program = workload("rate")
        .flags(["-O2", "-static"])
        .args(["--seconds", "0.1"]);
    let outcome = Run::new().command(program).run()?;
    assert!(outcome.expect_success().number("cpu")? > 0.09);
    let text = reason(&outcome);
    assert!(
        text.contains("statically linked") && !text.contains("musl") && !text.contains("env -i"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_waiting_shell_does_not_hide_what_its_children_did() -> TestResult {
    let program = workload("rate").build()?;
    let line = format!("'{}' --seconds 0.5; true", program.display());
    let outcome = Run::new().freq(10).command(script(&line)).run()?;
    outcome.expect_success().assert_counts()?;
    assert!(
        !outcome.stderr.contains("no samples"),
        "{}",
        outcome.story()
    );
    assert!(outcome.trace_of("rate")?.samples()?.count() > 1);
    Ok(())
}
