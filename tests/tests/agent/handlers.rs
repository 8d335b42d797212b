//! Handlers of the program's that record, wherever they interrupt a thread: nobody waits for himself.

use rsys_tests::{Run, TestResult, workload};

fn with_header(name: &str) -> rsys_tests::Workload {
    let include = rsys_tests::workspace_dir().join("user/include");
    workload(name).flags(["-O2", "-pthread", &format!("-I{}", include.display())])
}

/// Interrupts children as `recording_handlers.c` says; returns how far it came.
fn interrupted(options: &[&str], arguments: &[&str]) -> anyhow::Result<f64> {
    let program = with_header("recording_handlers").args(arguments);
    let outcome = Run::new().options(options).command(program).run()?;
    outcome.expect_success();
    assert_eq!(outcome.number("hung")?, 0.0, "{}", outcome.story());
    assert_eq!(outcome.number("failed")?, 0.0, "{}", outcome.story());
    outcome.number("interrupted")
}

/// Options, what is done, and the stride between the instructions that are interrupted.
const STEPPED: [(&[&str], &str, u32); 2] =
    [(&[], "range", 41), (&["-I", "mutex-locks"], "lock", 67)];

fn at_every(stride_of: impl Fn(u32) -> u32) -> TestResult {
    for (options, what, stride) in STEPPED {
        let stride = stride_of(stride);
        let arguments = ["--what", what, "--stride", &stride.to_string()];
        let steps = interrupted(options, &arguments)?;
        // The first record in a process makes shared memory.
        assert!(steps > 1000.0, "{what}: only {steps} instructions");
    }
    Ok(())
}

#[test]
fn a_handler_may_record_after_any_instruction() -> TestResult {
    at_every(|stride| stride)
}

#[test]
#[ignore = "takes two minutes"]
fn a_handler_may_record_after_every_instruction() -> TestResult {
    at_every(|_| 1)
}

#[test]
fn a_timer_may_record_at_any_time() -> TestResult {
    for (options, what) in [(&[][..], "range"), (&["-I", "mutex-locks"], "lock")] {
        let arguments = [
            "--how",
            "alarm",
            "--what",
            what,
            "--children",
            "120",
            "--from",
            "10",
            "--stride",
            "5",
        ];
        interrupted(options, &arguments)?;
    }
    Ok(())
}

/// The C library unwinds such a thread through whatever was interrupted.
#[test]
fn handlers_may_end_their_thread() -> TestResult {
    for how in ["exit", "cancel"] {
        for options in [&[][..], &["-f", "1000"]] {
            let program = with_header("ended_threads").args([how, "60"]);
            let outcome = Run::new().options(options).command(program).run()?;
            let cleaned = outcome.expect_success().number("cleaned")?;
            assert_eq!(cleaned, 60.0, "{how} {options:?}");
        }
    }
    Ok(())
}

/// Each jump loses what it interrupted, and nothing behind it.
#[test]
fn handlers_may_jump_out_of_a_record() -> TestResult {
    let program = with_header("jumping_handler").args(["300"]);
    let outcome = Run::new().command(program).run()?;
    let marks = outcome.expect_success().number("after")?;
    let kept = outcome
        .trace()?
        .number("select count(*) from slice where name = 'after'")?;
    assert_eq!(kept as f64, marks, "{}", outcome.story());
    Ok(())
}
