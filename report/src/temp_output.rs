//! An output while it is not complete.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A file beside the output that goes away unless it is kept. A device or a pipe is written at once.
#[derive(Debug)]
pub struct TempOutput {
    /// The file, and what it is to be called; none where the output itself is written.
    draft: Option<(PathBuf, PathBuf)>,
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
        let mut options = OpenOptions::new();
        options.write(true);
        if is_stream(output) {
            let file = options.open(output).with_context(told)?;
            return Ok(Self { draft: None, file });
        }
        // Of a link, what it leads to is replaced.
        let goal = output.canonicalize();
        let goal = goal.unwrap_or_else(|_| output.to_path_buf());
        let name = goal
            .file_name()
            .with_context(|| format!("{} names no file", output.display()))?;
        if let Some(folder) = goal
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).with_context(told)?;
        }
        let draft = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let draft = goal.with_file_name(draft);
        let file = options.create(true).truncate(true);
        let file = file.open(&draft).with_context(told)?;
        Ok(Self {
            draft: Some((draft, goal)),
            file,
        })
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When that fails; it is gone then.
    pub fn keep(mut self) -> Result<()> {
        if let Some((draft, goal)) = &self.draft {
            let told = || format!("cannot write {}", goal.display());
            // A file system of another machine may say only at a close that it has no room; that of any descriptor will do.
            let file = self.file.try_clone().with_context(told)?;
            match nix::unistd::close(file) {
                Err(nix::errno::Errno::EINTR) => {}
                closed => closed.with_context(told)?,
            }
            std::fs::rename(draft, goal).with_context(told)?;
        }
        self.draft = None;
        Ok(())
    }
}

/// Whether an output is there and no file: a device, a pipe.
fn is_stream(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|about| !about.is_file() && !about.is_dir())
}

impl Drop for TempOutput {
    fn drop(&mut self) {
        if let Some((draft, _)) = self.draft.take() {
            std::fs::remove_file(draft).ok();
        }
    }
}

/// Says so when an output is a folder, or is already there and is not to be replaced.
///
/// # Errors
/// Then.
pub fn refuse_existing(path: &Path, force: bool) -> Result<()> {
    if path.is_dir() {
        bail!("{} is a folder", path.display());
    }
    // A link that leads nowhere is there, too.
    let is_there = path.symlink_metadata().is_ok() && !is_stream(path);
    if is_there && !force {
        bail!(
            "{} is already there; name another output, or replace it with --force",
            path.display()
        );
    }
    Ok(())
}

/// Writes a whole output.
///
/// # Errors
/// When that fails.
pub fn put(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = TempOutput::new(path)?;
    file.file
        .write_all(content)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.keep()
}
