//! Versions and builds of HIP that are not here, played by a stand-in: what a tracer gets from them is recorded rightly.

use anyhow::ensure;
use rsys_tests::simgpu::{Machine, Stack, library_program, standin_hip};
use rsys_tests::{Outcome, Run, TestResult, skip_if_missing};

/// Runs calls of the stand-in, with these variables.
fn run(variables: &[(&str, &str)], words: &[&str]) -> anyhow::Result<Outcome> {
    let stack = Stack::Debian12;
    let mut program = library_program(stack, "hip_standin", &[])?
        .arg(standin_hip()?)
        .args(words);
    for (name, value) in variables {
        program = program.env(name, value);
    }
    let machine = Machine::new(stack)?;
    Run::new()
        .options(["-I", "rocm", "--launch-stacks", "--min-samples", "1"])
        .command(machine.run(program))
        .run()
}

/// Builds without stack protectors leave something else in the record where the tracer's functions are looked for.
#[test]
fn calls_are_recorded_whatever_lies_in_the_record() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    const V5: &str = "50731921";
    const V7: &str = "70253211";
    const NEW: &str = "90100000";
    for (version, place, dirty, is_found) in [
        (V7, "1536", "", true),
        (V7, "1536", "0", true),
        (V5, "856", "0 3 7", true),
        // More than one word in a row, among the arguments.
        (V7, "1536", "0-3 10-30", true),
        // Single ones, and the very places.
        (V7, "1536", "0 110 120 130 150", true),
        (V7, "1536", "0 192 193", true),
        // Nothing can be measured.
        (V7, "1536", "0-511", true),
        (V5, "856", "0-511", true),
        // Versions that nobody knows are measured.
        (NEW, "1704", "", true),
        (NEW, "1704", "0", true),
        (NEW, "1704", "0-4 60 110 150 180", true),
        // Where that fails, they are left alone, which is said.
        (NEW, "1704", "0-511", false),
        (NEW, "1704", "0 150-152", false),
    ] {
        let what = format!("{version} at {place}, touched {dirty}");
        let outcome = run(
            &[
                ("STANDIN_VERSION", version),
                ("STANDIN_PLACE", place),
                ("STANDIN_DIRTY", dirty),
            ],
            &["launch:20", "sync"],
        )?;
        ensure!(
            outcome.expect_success().stdout.contains("done"),
            "{what}\n{}",
            outcome.story()
        );
        let trace = outcome.trace_of("hip_standin")?;
        let count = |text: &str| trace.number(&format!("select count(*) from slice where {text}"));
        let (calls, kernels) = (
            count("category = 'hip' and name = 'hipLaunchKernel'")?,
            count("category = 'kernel'")?,
        );
        ensure!(
            kernels == 20 && calls == if is_found { 20 } else { 0 },
            "{what}: {calls} calls, {kernels} kernels\n{}",
            outcome.story()
        );
        let said = outcome.stderr.contains("HIP's calls are not recorded");
        ensure!(said != is_found, "{what}\n{}", outcome.story());
        let calibration = trace.metadata()?.text("hip calibration")?;
        ensure!(
            calibration.starts_with("failed") != is_found,
            "{what}: {calibration}"
        );
    }
    Ok(())
}
