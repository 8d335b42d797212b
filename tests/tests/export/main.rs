//! `rsys-report export`: what a run holds is in each format, as the format's own tools read it.

mod choices;
mod databases;
mod kineto;
mod others;
mod read_back;
mod readers;
mod stacks;
mod tables;
mod tracelens;
mod training;
mod viewers;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, Scratch, report, workspace_dir};
use serde_json::Value;

const STACK: Stack = Stack::Debian12;

/// Two ranks on GPUs, each with kernels, copies, fills, samples and waits.
fn job() -> Result<&'static [PathBuf; 2]> {
    static JOB: OnceLock<(Scratch, [PathBuf; 2])> = OnceLock::new();
    static ONCE: Mutex<()> = Mutex::new(());
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, files)) = JOB.get() {
        return Ok(files);
    }
    let folder = Scratch::new("export-job")?;
    let mut files = [PathBuf::new(), PathBuf::new()];
    for (rank, file) in files.iter_mut().enumerate() {
        let machine = Machine::new(STACK)?.gpus(2);
        let program = hip_program(STACK, "hip_ops")?.args(["work", "100", "20"]);
        let program = program.env("RANK", rank.to_string()).env("WORLD_SIZE", "2");
        let options = ["-I", "rocm", "--realtime", "-f", "500"];
        let outcome = Run::new()
            .options(options)
            .command(machine.run(program))
            .run()?;
        outcome.expect_success();
        *file = folder.path().join(format!("rank-{rank}.proto"));
        // The simulator has a trace as well.
        let mut summaries = outcome.summaries.iter();
        let summary = summaries.find(|summary| summary.name == "hip_ops");
        fs::copy(&summary.context("a trace of hip_ops")?.path, &*file)?;
    }
    Ok(&JOB.get_or_init(|| (folder, files)).1)
}

fn run(words: &[&str], paths: &[&Path]) -> Result<Output> {
    let output = Command::new(report()?).args(words).args(paths).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!said.contains("panicked"), "{said}");
    Ok(output)
}

/// Exports files; what it says.
fn export(inputs: &[&Path], to: &str, output: &Path, options: &[&str]) -> Result<()> {
    let path = output.to_string_lossy();
    let words = [&["export", "--to", to, "-o", &path], options].concat();
    let done = run(&words, inputs)?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{words:?}: {said}");
    ensure!(done.stdout.is_empty(), "{words:?}");
    Ok(())
}

/// The rows of a query.
fn rows(inputs: &[&Path], sql: &str) -> Result<Vec<Value>> {
    let mut words = vec!["query", "--json", "--no-cache"];
    let with: Vec<String> = inputs[1..]
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    for path in &with {
        words.extend(["--with", path]);
    }
    let done = run(&words, &[inputs[0], Path::new(sql)])?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{sql}: {said}");
    let answer: Value = serde_json::from_slice(&done.stdout)?;
    answer["rows"].as_array().cloned().context("rows")
}

/// Rows are equal; if not, the first that is different.
fn same(expected: &[Value], found: &[Value]) -> Result<()> {
    let pairs = expected.iter().zip(found);
    if let Some((expected, found)) = pairs.clone().find(|(expected, found)| expected != found) {
        anyhow::bail!("{expected}\nbut\n{found}");
    }
    ensure!(
        expected.len() == found.len(),
        "{} rows, but {}",
        expected.len(),
        found.len()
    );
    Ok(())
}

fn number(inputs: &[&Path], sql: &str) -> Result<u64> {
    let rows = rows(inputs, sql)?;
    let row = rows.first().and_then(Value::as_object).context("a row")?;
    let value = row.values().next().and_then(Value::as_u64);
    value.with_context(|| format!("{sql}: {row:?}"))
}

/// What a script among the judges says of a file.
fn judged(script: &str, file: &Path) -> Result<Value> {
    let script = workspace_dir().join("tests/judge").join(script);
    let done = Command::new("python3").arg(script).arg(file).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn unpacked(path: &Path) -> Result<Value> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}
