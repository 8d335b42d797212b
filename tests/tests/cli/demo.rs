//! `--demo`: what somebody sees who has just installed rsys.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::ensure;
use rsys_tests::simgpu::{Stack, ops};
use rsys_tests::{Run, Scratch, TestResult, skip_if_missing, target_dir};

const PYTHON: &str = "/usr/bin/python3";

fn missing_python() -> Option<String> {
    (!fs::exists(PYTHON).unwrap_or(false)).then(|| format!("{PYTHON} is missing"))
}

/// A run of it in which nothing but Python is found, and so nothing can be fetched.
fn demo(scratch: &Scratch) -> anyhow::Result<Run> {
    symlink(PYTHON, scratch.path().join("python3"))?;
    Ok(Run::new()
        .options(["--demo"])
        .env("PATH", scratch.path())
        .without_command())
}

#[test]
fn python_stands_beside_c_in_named_threads() -> TestResult {
    skip_if_missing!(missing_python());
    let scratch = Scratch::new("demo")?;
    let outcome = demo(&scratch)?.run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    ensure!(
        outcome.stdout.contains("trains nothing"),
        "{}",
        outcome.story()
    );
    let loaders = trace.shares_of("loader")?;
    // Shares are of names in front of a parenthesis; behind these two stands `(train.py)`.
    for function in ["decode_images ", "augment ", "inflate"] {
        ensure!(
            loaders.total_share(function) > 0.05,
            "{function}: {:?}",
            loaders.top(10)
        );
    }
    Ok(())
}

#[test]
fn a_gpu_is_simulated_where_there_is_a_runtime() -> TestResult {
    skip_if_missing!(missing_python());
    skip_if_missing!(Stack::Debian12.missing());
    let simulator = target_dir().join("release/rsys-simgpu");
    skip_if_missing!((!simulator.exists()).then(|| "the simulated GPU is not built".to_owned()));
    let scratch = Scratch::new("demo")?;
    let run = demo(&scratch)?.env("LD_LIBRARY_PATH", Stack::Debian12.libraries());
    let outcome = run.run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    ensure!(outcome.stdout.contains("SIMULATED"), "{}", outcome.story());
    // 200 steps: an upload and 20 kernels in each, and a download for each of 8 checkpoints.
    let (kernels, copies) = (ops(&trace, "kernel")?.len(), ops(&trace, "copy")?.len());
    ensure!((kernels, copies) == (4000, 208), "{}", outcome.story());
    Ok(())
}

#[test]
fn a_command_beside_it_is_refused() -> TestResult {
    let outcome = Run::new().options(["--demo"]).command("true").run()?;
    outcome.expect_code(2);
    ensure!(
        outcome
            .stderr
            .contains("--demo records a program of its own"),
        "{}",
        outcome.story()
    );
    Ok(())
}
