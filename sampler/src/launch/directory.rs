//! The folder of the traces, made before the target starts.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use crate::os;

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

/// The link to the folder of the run that ended last, beside the folders of all runs.
const LATEST: &str = "latest";

impl OutputDirectory {
    /// Makes a folder that no other run has: where the name is taken, with a number behind it.
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn create_own(path: &Path) -> Result<Self, DirectoryError> {
        if os::is_null_device(path) {
            return Self::create(path);
        }
        let above = Self::create(path.parent().unwrap_or(path))?;
        let mut number = 1_u64;
        let mut own = path.to_path_buf();
        loop {
            match std::fs::create_dir(&own) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    let mut name = path.as_os_str().to_owned();
                    name.push(format!("-{number}"));
                    own = PathBuf::from(name);
                }
                Err(error) => {
                    above.remove_if_empty();
                    let path = own.display().to_string();
                    return Err(DirectoryError { path, error });
                }
                Ok(()) => {
                    let made = std::iter::once(own.clone()).chain(above.made);
                    return Ok(Self {
                        made: made.collect(),
                        path: own,
                    });
                }
            }
        }
    }

    /// Makes it: a run whose traces cannot be kept is better refused at once. Where a link leads to a folder that is not there, that is made.
    /// Nothing is made of `/dev/null`.
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn create(path: &Path) -> Result<Self, DirectoryError> {
        if os::is_null_device(path) {
            return Ok(Self {
                path: path.to_path_buf(),
                made: Vec::new(),
            });
        }
        let real = os::behind_dangling_links(path);
        let made = real
            .ancestors()
            .take_while(|parent| !parent.exists())
            .map(Path::to_path_buf)
            .collect();
        let access = AccessFlags::W_OK | AccessFlags::X_OK;
        std::fs::create_dir_all(&real)
            .and_then(|()| eaccess(path, access).map_err(io::Error::from))
            .map_err(|error| DirectoryError {
                path: match real == path {
                    true => path.display().to_string(),
                    false => format!("{} (a link to {})", path.display(), real.display()),
                },
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

    /// Makes the link `latest` beside the folder lead to it. What the user put there under that name stays.
    pub fn link_latest(&self) {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let link = parent.join(LATEST);
        let is_ours = link
            .symlink_metadata()
            .map_or(true, |about| about.is_symlink());
        if !is_ours || !self.path.is_dir() {
            return;
        }
        // Several runs may end at once: each name is whole, and the last one stays.
        let new = parent.join(format!(".{LATEST}.{}", std::process::id()));
        if std::os::unix::fs::symlink(name, &new).is_ok() && std::fs::rename(&new, &link).is_err() {
            std::fs::remove_file(&new).ok();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_where_links_lead() {
        let folder = std::env::temp_dir().join(format!("rsys-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        };
        link("one", "two");
        link("two", "below/three");
        link("loop", "loop");
        std::fs::write(folder.join("file"), "").unwrap();
        link("blocked", "file/x");
        let made = OutputDirectory::create(&folder.join("one/run")).unwrap();
        assert!(folder.join("below/three/run").is_dir());
        made.remove_if_empty();
        assert!(!folder.join("below").exists() && folder.join("one").is_symlink());
        for name in ["loop", "blocked"] {
            assert!(OutputDirectory::create(&folder.join(name)).is_err());
        }
        let error = OutputDirectory::create(&folder.join("blocked")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("blocked (a link to ") && text.contains("/file/x)"),
            "{text}"
        );
        OutputDirectory::create(Path::new("/dev/null")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn runs_that_start_at_once_have_folders_of_their_own() {
        let folder = std::env::temp_dir().join(format!("rsys-own-{}", std::process::id()));
        let made: Vec<_> = (0..3)
            .map(|_| OutputDirectory::create_own(&folder.join("run/now")).unwrap())
            .collect();
        for (one, name) in made.iter().zip(["now", "now-2", "now-3"]) {
            assert_eq!(one.path(), folder.join("run").join(name));
        }
        made.iter().rev().for_each(OutputDirectory::remove_if_empty);
        assert!(!folder.exists());
    }

    #[test]
    fn the_latest_run_has_a_link_unless_the_name_is_taken() {
        let output = std::env::temp_dir().join(format!("rsys-latest-{}", std::process::id()));
        let link = output.join(LATEST);
        for name in ["one", "two"] {
            OutputDirectory::create(&output.join(name))
                .unwrap()
                .link_latest();
            assert_eq!(std::fs::read_link(&link).unwrap(), Path::new(name));
        }
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(&link).unwrap();
        OutputDirectory::create(&output.join("three"))
            .unwrap()
            .link_latest();
        assert!(link.symlink_metadata().unwrap().is_dir());
        let gone = OutputDirectory::create(&output.join("four")).unwrap();
        std::fs::remove_dir(&link).unwrap();
        gone.remove_if_empty();
        gone.link_latest();
        assert!(link.symlink_metadata().is_err());
        std::fs::remove_dir_all(&output).unwrap();
    }
}
