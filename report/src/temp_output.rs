//! An output while it is not complete.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file beside the output that goes away unless it is kept.
#[derive(Debug)]
pub struct TempOutput {
    path: Option<PathBuf>,
    /// Where to write.
    pub file: File,
}

impl TempOutput {
    /// Starts the output, and makes its folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(output: &Path) -> Result<Self> {
        let told = || format!("cannot write {}", output.display());
        let name = output
            .file_name()
            .with_context(|| format!("{} names no file", output.display()))?;
        if let Some(folder) = output
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).with_context(told)?;
        }
        let temp_output = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let path = output.with_file_name(temp_output);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .with_context(told)?;
        Ok(Self {
            path: Some(path),
            file,
        })
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When that fails; it is gone then.
    pub fn keep(mut self, output: &Path) -> Result<()> {
        if let Some(path) = &self.path {
            std::fs::rename(path, output)
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for TempOutput {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            std::fs::remove_file(path).ok();
        }
    }
}
