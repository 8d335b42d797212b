//! What the ranks of a job leave.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// The only folder in a folder.
///
/// # Errors
/// When there is none, or more than one.
pub fn only_folder(folder: &Path) -> Result<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !path.is_symlink())
        .collect();
    anyhow::ensure!(folders.len() == 1, "not one folder: {folders:?}");
    folders.pop().context("none")
}

/// What the folder of a step says of its tasks.
///
/// # Errors
/// When it is not there, or no JSON.
pub fn job_json(step: &Path) -> Result<Value> {
    let path = step.join("job.json");
    let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_slice(&text)?)
}

/// One key of all tasks, in the order of the ranks.
#[must_use]
pub fn of_tasks<'a>(job: &'a Value, key: &str) -> Vec<&'a Value> {
    let tasks = job["ranks"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    tasks.iter().map(|task| &task[key]).collect()
}
