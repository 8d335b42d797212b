//! Opening a trace in the real user interface.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::judge::web_dir;
use crate::paths::{judge_dir, target_dir, workspace_dir};

/// Opens a trace in Perfetto's UI in a headless browser, selects all of it so that the flame graph shows, and keeps a
/// picture as `target/screenshots/NAME.png`, and beside it `NAME.txt`, the tracks in the order in which they stand. Returns the picture's
/// path.
///
/// # Errors
/// When the UI reports a problem with the trace, or does not show a flame graph.
pub fn screenshot(trace: &Path, name: &str) -> Result<PathBuf> {
    let picture = target_dir().join("screenshots").join(format!("{name}.png"));
    std::fs::create_dir_all(picture.parent().context("a picture without a folder")?)?;
    let done = Command::new("node")
        .arg(workspace_dir().join("tests/judge/shot.mjs"))
        .arg(web_dir()?)
        .arg(trace)
        .arg(&picture)
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()
        .context("cannot start `node`, which drives the browser")?;
    if !done.status.success() {
        let (stdout, stderr) = (
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
        );
        bail!(
            "the user interface is not content with {}\n{stdout}{stderr}",
            trace.display()
        );
    }
    Ok(picture)
}
