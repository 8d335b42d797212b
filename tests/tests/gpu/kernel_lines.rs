//! Kernels are told with the source line that they came from, where their code objects have it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, code_object_of, hip_program, runtimes_dir};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, answer, report, skip_if_missing, workspace_dir,
};

/// Of each kernel, the lines that its slices name.
type Lines = BTreeMap<String, BTreeSet<String>>;

const LINES_ONLY: &str = "-gline-tables-only";

/// Launches kernels of code objects, twenty times each.
fn run(stack: Stack, options: &[&str], kernels: &[(&Path, &str)]) -> Result<(Outcome, Lines)> {
    let machine = Machine::new(stack)?;
    let words = kernels
        .iter()
        .map(|(path, name)| format!("{}:{name}", path.display()));
    let program = hip_program(stack, "hip_modules")?.arg("20").args(words);
    let outcome = Run::new()
        .options(["-I", "rocm"])
        .options(options)
        .command(machine.run(program))
        .run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_modules")?;
    trace.assert_clean();
    let rows = trace.query(
        "select name, ifnull(extract_arg(arg_set_id, 'debug.source'), '') as source, count(*) as count
         from slice where category = 'kernel' and name glob '*_kernel*' group by 1, 2",
    )?;
    let mut lines = Lines::new();
    let mut count = 0;
    for row in rows.iter() {
        count += row.int("count")?;
        let name = row.text("name")?.to_owned();
        lines
            .entry(name)
            .or_default()
            .insert(row.text("source")?.to_owned());
    }
    ensure!(usize::try_from(count)? == 20 * kernels.len(), "{lines:?}");
    Ok((outcome, lines))
}

/// A file of `tests/workloads/gpu` with a line.
fn line(file: &str, line: u32) -> String {
    let path = workspace_dir().join("tests/workloads/gpu").join(file);
    format!("{}:{line}", path.display())
}

fn only(line: &str) -> BTreeSet<String> {
    BTreeSet::from([line.to_owned()])
}

fn kernels_name_their_lines(stack: Stack, source: &str) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let code = code_object_of("kernels.cl", "gfx90a", &[LINES_ONLY, version])?;
        let kernels = [(&*code, "short_kernel"), (&*code, "long_kernel")];
        let (outcome, lines) = run(stack, &["--gpu-source", source], &kernels)?;
        for (name, number) in [("short_kernel", 3), ("long_kernel", 4)] {
            ensure!(
                lines[name] == only(&line("kernels.cl", number)),
                "{lines:?}"
            );
        }
        is_in_answers(&outcome, "short_kernel", &line("kernels.cl", 3))?;
    }
    Ok(())
}

/// `rsys-report kernels` says so in all its forms.
fn is_in_answers(outcome: &Outcome, kernel: &str, source: &str) -> TestResult {
    let kernels = answer("kernels", &outcome.files())?;
    let rows = kernels["kernels"].as_array().context("kernels")?;
    let row = rows.iter().find(|row| row["name"] == kernel);
    let row = row.with_context(|| format!("{kernel} is not in {rows:?}"))?;
    ensure!(row["source"] == source, "{row}");
    for form in ["--csv", "--color=never"] {
        let form: &[&str] = if form == "--csv" { &[form] } else { &[] };
        let said = Command::new(report()?)
            .arg("kernels")
            .args(form)
            .args(outcome.files())
            .output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        ensure!(said.contains(source), "{said}");
    }
    Ok(())
}

#[test]
fn through_hip_5() -> TestResult {
    kernels_name_their_lines(Stack::Wheel54, "auto")
}

#[test]
fn through_hip_5_7() -> TestResult {
    kernels_name_their_lines(Stack::Debian13, "auto")
}

#[test]
fn through_hip_6() -> TestResult {
    kernels_name_their_lines(Stack::Unstable, "auto")
}

#[test]
fn through_hip_7() -> TestResult {
    kernels_name_their_lines(Stack::Rocm7, "auto")
}

#[test]
fn through_queues() -> TestResult {
    kernels_name_their_lines(Stack::Debian12, "hsa")?;
    kernels_name_their_lines(Stack::Rocm7, "hsa")
}

#[test]
fn code_without_lines_names_none() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing_to_build());
    let code = code_object("gfx90a")?;
    let (outcome, lines) = run(Stack::Debian13, &[], &[(&code, "short_kernel")])?;
    ensure!(lines["short_kernel"] == only(""), "{lines:?}");
    let kernels = answer("kernels", &outcome.files())?;
    ensure!(kernels["kernels"][0]["source"].is_null(), "{kernels}");
    Ok(())
}

/// Queues know which code object a kernel is of; HIP tells names alone, so both lines are named.
#[test]
fn kernels_of_one_name_are_not_mistaken() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing_to_build());
    let one = code_object_of("kernels.cl", "gfx90a", &[LINES_ONLY])?;
    let other = code_object_of("other_kernels.cl", "gfx90a", &[LINES_ONLY])?;
    let kernels = [(&*one, "short_kernel"), (&*other, "short_kernel")];
    let both = [line("kernels.cl", 3), line("other_kernels.cl", 5)];
    let (_, lines) = run(Stack::Debian13, &["--gpu-source", "hsa"], &kernels)?;
    ensure!(
        lines["short_kernel"] == BTreeSet::from(both.clone()),
        "{lines:?}"
    );
    let (_, lines) = run(Stack::Debian13, &[], &kernels)?;
    ensure!(
        lines["short_kernel"] == only(&both.join(" or ")),
        "{lines:?}"
    );
    Ok(())
}

/// Where `cargo xtask runtimes triton` has put Triton.
fn triton() -> PathBuf {
    runtimes_dir().join("triton")
}

#[test]
#[ignore = "needs `cargo xtask runtimes triton`, which is large"]
fn kernels_of_triton_name_their_python_line() -> TestResult {
    ensure!(triton().join(".complete").is_file(), "Triton is missing");
    let scratch = Scratch::new("triton")?;
    let code = scratch.path().join("add.hsaco");
    let script = workspace_dir().join("tests/workloads/gpu/triton_kernel.py");
    let compiled = Command::new("python3")
        .arg(&script)
        .args(["gfx90a".as_ref(), code.as_os_str()])
        .env("PYTHONPATH", triton().join("lib"))
        .env("TRITON_CACHE_DIR", scratch.path())
        .output()?;
    ensure!(compiled.status.success(), "{compiled:?}");
    let place = line("triton_kernel.py", 11);
    for stack in [
        Stack::Wheel54,
        Stack::Debian13,
        Stack::Unstable,
        Stack::Rocm7,
    ] {
        for source in ["auto", "hsa"] {
            let kernels = [(&*code, "add_kernel")];
            let (outcome, lines) = run(stack, &["--gpu-source", source], &kernels)?;
            ensure!(lines["add_kernel"] == only(&place), "{stack:?}: {lines:?}");
            is_in_answers(&outcome, "add_kernel", &place)?;
        }
    }
    Ok(())
}
