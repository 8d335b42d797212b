//! The list of installed files.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Where the list is, below the prefix.
pub const PLACE: &str = "share/rsys/installed-files.txt";

/// Files below a prefix, and the folders that were made for them. In the list that is written, folders end in `/`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct List {
    pub files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl List {
    /// The list of these files. Folders that are not there yet will be ours, as are those of an earlier installation.
    pub fn new(prefix: &Path, files: impl IntoIterator<Item = PathBuf>, before: &Self) -> Self {
        let mut files: BTreeSet<PathBuf> = files.into_iter().collect();
        files.insert(PLACE.into());
        let folders = files.iter().flat_map(|file| file.ancestors().skip(1));
        let new = folders
            .filter(|folder| !folder.as_os_str().is_empty() && !prefix.join(folder).exists());
        let folders = new.map(Path::to_path_buf).collect::<BTreeSet<_>>();
        Self {
            folders: folders.union(&before.folders).cloned().collect(),
            files,
        }
    }

    /// Reads the list of what is installed, if anything is.
    pub fn read(prefix: &Path) -> Result<Option<Self>> {
        let file = prefix.join(PLACE);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let mut list = Self::default();
        for line in text.lines() {
            let path = Path::new(line);
            let is_below = path
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            ensure!(
                is_below,
                "{}: {line} is not below {}",
                file.display(),
                prefix.display()
            );
            match line.strip_suffix('/') {
                Some(folder) => list.folders.insert(folder.into()),
                None => list.files.insert(line.into()),
            };
        }
        Ok(Some(list))
    }

    /// Writes the list to its place.
    pub fn write(&self, prefix: &Path) -> Result<()> {
        let folders = self
            .folders
            .iter()
            .map(|folder| format!("{}/\n", folder.display()));
        let files = self
            .files
            .iter()
            .map(|file| format!("{}\n", file.display()));
        let place = prefix.join(PLACE);
        let written = place
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&place, folders.chain(files).collect::<String>()));
        written.with_context(|| format!("cannot write {}", place.display()))
    }

    /// The files that the other list lacks, and the folders in which it has no file.
    pub fn without(&self, other: &Self) -> Self {
        let is_used = |folder: &PathBuf| other.files.iter().any(|file| file.starts_with(folder));
        let unused = self.folders.iter().filter(|folder| !is_used(folder));
        Self {
            files: self.files.difference(&other.files).cloned().collect(),
            folders: unused.cloned().collect(),
        }
    }

    /// Removes the files; one that is gone already is no error.
    fn remove_files(&self, prefix: &Path) -> Result<()> {
        for file in &self.files {
            let path = prefix.join(file);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => result.with_context(|| format!("cannot remove {}", path.display()))?,
            }
        }
        Ok(())
    }

    /// Removes the files, and those of the folders that are empty then.
    pub fn remove(&self, prefix: &Path) -> Result<()> {
        self.remove_files(prefix)?;
        // What stands in a folder comes behind it in the order of names.
        for folder in self.folders.iter().rev() {
            let path = prefix.join(folder);
            match fs::remove_dir(&path) {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty
                    ) => {}
                result => result.with_context(|| format!("cannot remove {}", path.display()))?,
            }
        }
        Ok(())
    }
}
