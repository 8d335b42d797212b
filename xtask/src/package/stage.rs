//! The files that all packages hold.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::install;

/// An installation in a folder of its own.
#[derive(Debug, Default)]
pub struct Stage {
    /// Its prefix.
    pub folder: PathBuf,
    /// Places of files below it, without debug symbols.
    pub files: Vec<PathBuf>,
    /// Places of debug symbols.
    pub symbols: Vec<PathBuf>,
}

impl Stage {
    /// Installs what is built into `folder`, which is made anew.
    pub fn make(built: &Path, folder: &Path) -> Result<Self> {
        empty(folder)?;
        let places = install::install(built, folder, install::Extras::default())?;
        let is_symbols = |place: &PathBuf| place.iter().any(|part| part == ".debug");
        let (symbols, files) = places.into_iter().partition(is_symbols);
        Ok(Self {
            folder: folder.to_path_buf(),
            files,
            symbols,
        })
    }

    /// Copies files below `root`, each to the place that `to` gives for its place here, if any.
    pub fn copy(
        &self,
        places: &[PathBuf],
        root: &Path,
        to: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Result<()> {
        for place in places {
            if let Some(to) = to(place) {
                put(&self.folder.join(place), &root.join(to))?;
            }
        }
        Ok(())
    }
}

/// Copies a file with its permissions, and makes the folders above it.
pub fn put(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no folder")?)?;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Writes a file, and makes the folders above it.
pub fn write(to: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    fs::create_dir_all(to.parent().context("no folder")?)?;
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

/// Makes a folder with nothing in it.
pub fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
