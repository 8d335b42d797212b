//! The folder of the traces, made before the target starts.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

/// Why traces cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: traces cannot be written there: {error}; choose a folder with -o")]
pub struct DirectoryError {
    /// The folder.
    path: String,
    /// What the system says.
    error: io::Error,
}

/// The folder of the traces.
#[derive(Debug)]
pub struct OutputDirectory {
    path: PathBuf,
    /// What is new of it, innermost first.
    made: Vec<PathBuf>,
}

impl OutputDirectory {
    /// Makes it: a run whose traces cannot be kept is better refused at once.
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn create(path: &Path) -> Result<Self, DirectoryError> {
        let made = path
            .ancestors()
            .take_while(|parent| !parent.exists())
            .map(Path::to_path_buf)
            .collect();
        let access = AccessFlags::W_OK | AccessFlags::X_OK;
        std::fs::create_dir_all(path)
            .and_then(|()| eaccess(path, access).map_err(io::Error::from))
            .map_err(|error| DirectoryError {
                path: path.display().to_string(),
                error,
            })?;
        Ok(Self {
            path: path.to_path_buf(),
            made,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what was made and not used.
    pub fn remove_if_empty(&self) {
        for path in &self.made {
            // It refuses what is not empty.
            if std::fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
}
