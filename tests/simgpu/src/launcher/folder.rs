//! The folder of one simulated machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};

const PREFIX: &str = "rsys-simgpu-";

/// A folder in the system's place for temporary files; removed in the end.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes it, and removes those of launchers that were killed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let parent = env::temp_dir();
        let parent = parent.canonicalize().unwrap_or(parent);
        remove_orphans(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!(
                "rsys-simgpu: cannot remove {}: {error}",
                self.path.display()
            );
        }
    }
}

fn remove_orphans(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok())
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // Somebody else's, or one that is being removed: not our business.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}
