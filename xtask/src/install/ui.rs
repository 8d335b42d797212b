//! The copy of the Perfetto UI that `install --ui` puts beside the programs, where `rsys-report view` finds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::{step, target_dir};

/// Where it goes, below the prefix.
const PLACE: &str = "share/rsys/ui";

/// Has the built `rsys-report` fetch the copy, unless it did before, and returns its files: their places below the prefix, and where they are.
pub(super) fn files(built: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let cache = target_dir().join("ui");
    step(
        Command::new(built.join("rsys-report"))
            .args(["view", "--ui", "fetch"])
            .env("XDG_CACHE_HOME", &cache),
    )?;
    let mut files = Vec::new();
    list(&cache.join("rsys/ui"), Path::new(PLACE), &mut files)?;
    Ok(files)
}

fn list(folder: &Path, place: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let place = place.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &place, files)?;
        } else {
            files.push((place, entry.path()));
        }
    }
    Ok(())
}
