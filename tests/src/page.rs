//! The page of `rsys-report html`, in a browser.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::needs::missing_tool;
use crate::paths::{Scratch, judge_dir, report, target_dir, workspace_dir};

/// An ordinary run has a page no larger than this.
const BYTES_MAX: u64 = 2_000_000;

/// What is missing to look at pages.
#[must_use]
pub fn missing_browser() -> Option<String> {
    missing_tool("chromium-headless-shell").or_else(|| missing_tool("node"))
}

/// Makes the page of a run, has it judged in a browser, and returns what was on it. Pictures are in `target/screenshots`. What the judge
/// demands is in `tests/judge/page.mjs`: above all, that the numbers on the page are those of `rsys-report --json`.
///
/// # Errors
/// When the page cannot be made, is too large, or is not content with the judge.
pub fn judged_page(files: &[PathBuf], name: &str) -> Result<Value> {
    let pictures = target_dir().join("screenshots");
    fs::create_dir_all(&pictures)?;
    let scratch = Scratch::new("html")?;
    let page = scratch.path().join("report.html");
    let made = Command::new(report()?)
        .arg("html")
        .args(files)
        .arg("-o")
        .arg(&page)
        .output()?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success() && said.is_empty(), "{said}");
    let bytes = fs::metadata(&page)?.len();
    ensure!(bytes <= BYTES_MAX, "{bytes} bytes");
    let answer = Command::new(report()?).arg("--json").args(files).output()?;
    ensure!(answer.status.success(), "{answer:?}");
    let json = scratch.path().join("answer.json");
    fs::write(&json, answer.stdout)?;
    let seen = Command::new("node")
        .arg(workspace_dir().join("tests/judge/page.mjs"))
        .args([&page, &json, &pictures.join(name)])
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()?;
    let said = String::from_utf8_lossy(&seen.stderr);
    ensure!(seen.status.success(), "{name}: {said}");
    Ok(serde_json::from_slice(&seen.stdout)?)
}
