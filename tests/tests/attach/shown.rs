//! What is said while a process is attached to.

use rsys_tests::{Run, TestResult};

use super::{Program, wait_until_recorded};

#[test]
fn what_cannot_be_recorded_late_is_told() -> TestResult {
    let program = Program::start(&["compute"])?;
    let run = Run::new()
        .options(["-I", "roctracer"])
        .attach(program.pid)
        .start()?;
    wait_until_recorded(program.pid);
    run.signal(libc::SIGTERM);
    let outcome = run.wait()?;
    outcome.expect_success();
    let said = &outcome.stderr;
    assert!(said.contains("attached to pid"), "{said}");
    assert!(
        said.contains("not recorded of a process that runs already"),
        "{said}"
    );
    program.end_well()?;
    Ok(())
}
