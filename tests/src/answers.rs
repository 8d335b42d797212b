//! Questions to `rsys-report`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::paths::report;

#[path = "../../analysis/tests/all/common/schema.rs"]
mod schema;

/// The answer of `rsys-report QUESTION --json`.
///
/// # Errors
/// When there is none.
///
/// # Panics
/// When it is not as `docs/report.schema.json` says.
pub fn answer(question: &str, inputs: &[PathBuf]) -> Result<Value> {
    answer_with(question, &[], inputs)
}

/// The same with options.
///
/// # Errors
/// As above.
pub fn answer_with(question: &str, options: &[&str], inputs: &[PathBuf]) -> Result<Value> {
    let output = Command::new(report()?)
        .args([question, "--json"])
        .args(options)
        .args(inputs)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{question}: {said}");
    let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| said)?;
    judged(&answer);
    Ok(answer)
}

/// Judges an answer by `docs/report.schema.json`.
///
/// # Panics
/// When it is not as that says.
pub fn judged(answer: &Value) {
    schema::judge(answer);
}
