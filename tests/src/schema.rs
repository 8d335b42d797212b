//! Perfetto's published schema, as its Python package has it: it knows fields that the trace processor of the tests is too old for.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::needs::must_not_skip;
use crate::paths::{judge_dir, workspace_dir};

/// The fields in (the first 100,000 packets of) a trace that the schema does not have.
///
/// # Errors
/// When a packet cannot be read, or the schema is not there where all must be.
pub(crate) fn unknown_fields(trace: &Path) -> Result<Vec<String>> {
    if let Some(why) = missing_schema() {
        println!("not compared: {why}");
        return Ok(Vec::new());
    }
    let found = ask("unknown", trace)?;
    Ok(found
        .lines()
        .map(|line| format!("unknown to the schema: {line}"))
        .collect())
}

/// The process ids in the order in which a trace asks for its processes to be shown; none when it does not ask.
///
/// # Errors
/// When a packet cannot be read, or the schema is not there.
pub(crate) fn order_of_processes(trace: &Path) -> Result<Vec<i64>> {
    let found = ask("order", trace)?;
    found
        .lines()
        .map(|pid| pid.parse().with_context(|| format!("`{pid}` is no pid")))
        .collect()
}

/// Why traces cannot be compared with the schema, if they cannot.
#[must_use]
pub fn missing_schema() -> Option<String> {
    let is_missing = !package().is_dir() && !must_not_skip();
    is_missing.then(|| "no published schema: `cargo xtask test` fetches it".to_owned())
}

fn package() -> PathBuf {
    judge_dir().join("schema")
}

fn ask(what: &str, trace: &Path) -> Result<String> {
    let done = Command::new("python3")
        .arg(workspace_dir().join("tests/judge/schema.py"))
        .arg(what)
        .arg(trace)
        .env("PYTHONPATH", package())
        .output()
        .context("cannot start `python3`, which reads traces by the schema")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.success(),
        "{} is not a trace by the schema: {said}",
        trace.display()
    );
    Ok(String::from_utf8(done.stdout)?)
}
