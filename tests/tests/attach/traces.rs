//! What the traces of attached processes hold.

use std::path::PathBuf;

use rsys_tests::{Run, TestResult, assert_share, python};

use super::{Program, wait_until_recorded, wait_until_used};

#[test]
fn shares_are_those_of_the_program() -> TestResult {
    let program = Program::start(&["compute", "compute", "compute", "nanosleep"])?;
    let recording = Run::new().freq(250).attach(program.pid).start()?;
    wait_until_recorded(program.pid);
    // By CPU time: beside others, the threads may get little of it. These are 5000 periods.
    wait_until_used(program.pid, 20.0);
    recording.signal(libc::SIGINT);
    let outcome = recording.wait()?;
    outcome.expect_success();
    let trace = outcome.trace()?;
    trace.assert_clean();
    let shares = trace.shares_of("attached")?;
    let told = program.end_well()?;
    let (often, seldom) = (told.number("often_units")?, told.number("seldom_units")?);
    assert_share("attached", &shares, "often", often / (often + seldom));
    Ok(())
}

/// Those that were there, and those that come.
#[test]
fn threads_of_before_and_after_are_there() -> TestResult {
    let program = Program::start(&["compute", "births"])?;
    let outcome = Run::new().options(["-d", "3"]).attach(program.pid).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let samples = trace.samples()?;
    for function in ["often", "born"] {
        assert!(
            samples.iter().any(|sample| sample.calls(function)),
            "{function}: {}",
            outcome.stderr
        );
    }
    program.end_well()?;
    Ok(())
}

#[test]
fn python_frames_and_waits_are_there() -> TestResult {
    let program = Run::bare().command(python("attached.py")).start()?;
    let pid: u32 = program.wait_for("ready")?.parse()?;
    let outcome = Run::new()
        .options(["-d", "3", "--realtime"])
        .attach(pid)
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(
        trace
            .samples()?
            .iter()
            .any(|sample| sample.calls("computes (attached.py)")),
        "{}",
        outcome.stderr
    );
    assert!(
        trace
            .wait_samples()?
            .iter()
            .any(|sample| sample.calls("sleeps (attached.py)")),
        "{}",
        outcome.stderr
    );
    rsys_tests::signal(pid, libc::SIGKILL);
    program.wait()?.expect_signal(libc::SIGKILL);
    Ok(())
}

/// The rank is in the environment of the process, not in ours.
#[test]
fn a_rank_names_its_trace() -> TestResult {
    let program = rsys_tests::workload("attached").flags(["-O1", "-g", "-pthread"]);
    let run = Run::bare()
        .command(program.args(["compute"]))
        .env("OMPI_COMM_WORLD_RANK", "3")
        .env("OMPI_COMM_WORLD_SIZE", "4")
        .start()?;
    let pid: u32 = run.wait_for("ready")?.parse()?;
    let outcome = Run::new().options(["-d", "1"]).attach(pid).run()?;
    outcome.expect_success();
    let names: Vec<PathBuf> = outcome.files();
    let is_of_rank = |path: &PathBuf| path.to_string_lossy().contains("trace-3");
    assert!(names.iter().any(is_of_rank), "{names:?}");
    rsys_tests::signal(pid, libc::SIGTERM);
    run.wait()?.expect_success();
    Ok(())
}

#[test]
fn the_trace_says_that_it_was_attached() -> TestResult {
    let program = Program::start(&["compute"])?;
    let outcome = Run::new()
        .options(["-d", "1", "--min-samples", "1"])
        .attach(program.pid)
        .run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(trace.metadata()?.text("attached")?.contains("running"));
    // It is what the trace begins with.
    let first = "select ts from slice where name glob 'attached at 20*' and ts <= (select min(ts) from slice)";
    assert_eq!(
        trace.number(first)?,
        trace.number("select min(ts) from slice")?
    );
    program.end_well()?;
    Ok(())
}
