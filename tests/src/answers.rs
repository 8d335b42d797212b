//! Questions to `rsys-report`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::paths::report;

/// The answer of `rsys-report QUESTION --json`.
///
/// # Errors
/// When there is none, or none of the version of JSON that tests know.
pub fn answer(question: &str, inputs: &[PathBuf]) -> Result<Value> {
    let output = Command::new(report()?)
        .args([question, "--json"])
        .args(inputs)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{question}: {said}");
    let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| said)?;
    ensure!(answer["schema_version"] == 1, "{answer}");
    Ok(answer)
}
