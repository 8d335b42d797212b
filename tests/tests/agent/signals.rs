//! The three signals that are shared with the program: whatever happens to them, the program does as without us.

use rsys_tests::{Invocation, Outcome, Run, TestResult, script, workload};

fn run(frequency: u32, clock: &str, name: &str, args: &[&str]) -> anyhow::Result<Outcome> {
    let outcome = Run::new()
        .freq(frequency)
        .options(["--clock", clock])
        .command(workload(name).args(args))
        .run()?;
    outcome.expect_success().assert_counts()?;
    Ok(outcome)
}

#[test]
fn a_sample_signal_that_nobody_sent_hurts_nobody() -> TestResult {
    for clock in ["timer", "perf"] {
        for args in [&["handler"][..], &["thread-end"], &["exec", "5"]] {
            let outcome = run(1000, clock, "strays", args)?;
            assert_eq!(outcome.stdout, format!("ok {}\n", args[0]));
        }
    }
    // They are counted.
    let outcome = run(1000, "timer", "strays", &["handler"])?;
    assert_eq!(outcome.trace()?.metadata()?.int("unattributed")?, 4);
    Ok(())
}

#[test]
fn what_waits_when_a_program_is_executed_goes_on_waiting() -> TestResult {
    // The starter of rsys-sample has blocked it, and it waits.
    let program = workload("waiting_signals").build()?;
    for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGSTKFLT] {
        for frequency in [300, 1000] {
            let command =
                workload("waiting_signals").args([number.to_string(), "again".to_owned()]);
            let outcome = Run::new()
                .freq(frequency)
                .under([
                    program.as_os_str(),
                    number.to_string().as_ref(),
                    "--".as_ref(),
                ])
                .command(command)
                .run()?;
            let expected = "blocked=1\nwaiting=1\n".repeat(2);
            assert_eq!(outcome.stdout, expected, "{number} {}", outcome.story());
            outcome.expect_signal(number);
        }
    }
    Ok(())
}

#[test]
fn a_program_without_an_agent_gets_no_signal_of_ours() -> TestResult {
    // Linked statically, in the process of a program that had an agent, and with a handler for every signal, as Go's programs are.
    let program = workload("all_signals")
        .flags(["-O2", "-static", "-pthread"])
        .build()?;
    for line in [
        format!("exec {}", program.display()),
        format!("{}; exit $?", program.display()),
    ] {
        let outcome = Run::new().freq(1000).command(script(&line)).run()?;
        assert_eq!(outcome.expect_success().number("strange")?, 0.0, "{line}");
    }
    Ok(())
}

#[test]
fn a_program_that_needs_no_library_is_left_alone() -> TestResult {
    let program = workload("own_runtime")
        .flags(["-O2", "-nostdlib", "-fno-stack-protector", "-fPIE", "-pie"])
        .build()?;
    for frequency in [100, 2000] {
        for line in [
            format!("exec {}", program.display()),
            format!("{}; exit $?", program.display()),
        ] {
            let outcome = Run::new().freq(frequency).command(script(&line)).run()?;
            outcome.expect_code(7);
            let said = outcome.stderr.contains("(own_runtime) is not sampled: ");
            assert!(said, "{}", outcome.story());
        }
        let alone = Run::new()
            .freq(frequency)
            .command(Invocation::new(&program))
            .run()?;
        alone.expect_code(7);
    }
    Ok(())
}

#[test]
fn programs_that_execute_others_under_a_fast_clock() -> TestResult {
    // Threads are interrupted thousands of times a second while one of them executes the program anew.
    let outcome = run(10_000, "perf", "strays", &["storm", "150"])?;
    assert_eq!(outcome.stdout, "ok storm\n");
    Ok(())
}

#[test]
fn crash_handlers_from_before_us_get_the_programs_faults_alone() -> TestResult {
    for on_stack in [false, true] {
        // Frame pointers that lead nowhere make our own reads fault, between the faults of the program.
        let mut run = Run::new()
            .freq(1000)
            .options(["--unwinder", "fp"])
            .command(workload("crashlib"));
        if on_stack {
            run = run.env("CRASH_ONSTACK", "1");
        }
        let outcome = run.run()?;
        assert_eq!(outcome.expect_success().stdout, "ok\n");
        let trace = outcome.trace()?;
        let mended = trace.metadata()?.int("mended_faults")?;
        // Nearly each sample has one. How many samples there are depends on the machine.
        let samples = trace.samples()?.count() as i64;
        assert!(
            mended > 0 && mended >= samples / 3,
            "only {mended} faults of ours in {samples} samples"
        );
    }
    Ok(())
}

#[test]
fn handlers_installed_past_the_c_library() -> TestResult {
    for clock in ["timer", "perf"] {
        let outcome = run(1000, clock, "raw_sigaction", &[])?;
        assert_eq!(outcome.stdout, "ok\n");
        // The samples go on: 100 × 3 ms and 100 ms.
        let weight = outcome.trace()?.samples()?.weight();
        assert!(weight > 350.0, "{weight} weighted samples by {clock}");
    }
    Ok(())
}

#[test]
fn a_program_that_takes_the_signal_away_is_told_of() -> TestResult {
    let outcome = run(1000, "timer", "raw_sigaction", &["bypass"])?;
    assert_eq!(outcome.stdout, "ok bypass\n");
    assert!(
        outcome.stderr.contains("of its CPU time") || outcome.stderr.contains("no trace"),
        "{}",
        outcome.story()
    );
    Ok(())
}
