//! Programs with uses of their own for SIGTRAP, which brings perf's samples on newer kernels.

use rsys_tests::{Run, TestResult, missing_tool, script, skip_if_missing, workload};

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
fn faults_are_where_they_are_though_a_handler_blocks_traps() -> TestResult {
    let outcome = Run::new()
        .freq(4000)
        .options(["--clock", "perf"])
        .command(workload("traps").args(["masked"]))
        .run()?;
    assert_eq!(outcome.expect_success().stdout.trim(), "ok masked");
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

#[test]
fn a_program_in_a_debugger_is_left_alone() -> TestResult {
    skip_if_missing!(missing_tool("gdb"));
    let program = workload("rate").build()?;
    let line = format!(
        "gdb --batch -q -ex run -ex 'print $_exitcode' --args {} --seconds 0.2",
        program.display()
    );
    let outcome = Run::new().freq(2000).command(script(&line)).run()?;
    let outcome = outcome.expect_success();
    assert!(outcome.stdout.contains("cpu="), "{}", outcome.story());
    assert!(outcome.stdout.contains("$1 = 0"), "{}", outcome.story());
    assert!(
        outcome.stderr.contains("a debugger or Valgrind runs it"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// The debugger is not the parent of what it follows here.
#[test]
fn what_a_debugger_follows_is_left_alone() -> TestResult {
    skip_if_missing!(missing_tool("gdb"));
    let program = workload("rate").build()?;
    let line = format!(
        "gdb --batch -q -ex 'set follow-fork-mode child' -ex run -ex 'print $_exitcode' --args /bin/sh -c '{} --seconds 0.2; true'",
        program.display()
    );
    let outcome = Run::new().freq(2000).command(script(&line)).run()?;
    let outcome = outcome.expect_success();
    assert!(outcome.stdout.contains("cpu="), "{}", outcome.story());
    assert!(outcome.stdout.contains("$1 = 0"), "{}", outcome.story());
    assert!(
        outcome
            .stderr
            .contains("(rate) is not sampled: a debugger or Valgrind runs it"),
        "{}",
        outcome.story()
    );
    Ok(())
}

/// A debugger that cannot say so by what it hands down: its program stops once at the most.
#[test]
fn what_a_static_debugger_starts_is_left_alone() -> TestResult {
    let debugger = workload("tiny_gdbserver").flags(["-O2", "-static"]);
    let program = workload("rate").build()?;
    let command = debugger.args([program.display().to_string().as_str(), "--seconds", "0.2"]);
    let outcome = Run::new().freq(2000).command(command).run()?;
    let outcome = outcome.expect_success();
    assert!(outcome.stdout.contains("cpu="), "{}", outcome.story());
    let stops = outcome.stdout.lines().find_map(|line| {
        let number = line.strip_prefix("stops ")?;
        number.parse::<u32>().ok()
    });
    assert!(stops.is_some_and(|stops| stops <= 1), "{}", outcome.story());
    let told = "(rate) is not sampled: a debugger or Valgrind runs it";
    assert!(outcome.stderr.contains(told), "{}", outcome.story());
    Ok(())
}

/// Valgrind dies of a signal that it does not know, and would report what an agent does in the program.
#[test]
fn a_program_in_valgrind_is_left_alone() -> TestResult {
    skip_if_missing!(missing_tool("valgrind"));
    let program = workload("rate").build()?;
    let line = format!("valgrind {} --seconds 0.2", program.display());
    let outcome = Run::new().freq(2000).command(script(&line)).run()?;
    let outcome = outcome.expect_success();
    assert!(outcome.stdout.contains("cpu="), "{}", outcome.story());
    for part in ["ERROR SUMMARY: 0 errors", "a debugger or Valgrind runs it"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.story());
    }
    Ok(())
}
