//! What a file of the cache was made of.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::iter::once;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rsys_traces::model::further_communication;
use rsys_traces::read::further_parts;

/// Bytes hashed at the start and the end of each file.
const LOOK_BYTES: u64 = 1 << 16;

/// The version of what is written. To be changed with the form of any file of the cache.
const FORMAT: u32 = 1;

/// What something was made of: traces as they were, and the program that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity(String);

impl Identity {
    /// These files as they are now, asked under this name; `None` if one cannot be read.
    pub(crate) fn of(files: &[PathBuf], label: &str) -> Option<Self> {
        let program = std::env::current_exe().and_then(std::fs::metadata).ok()?;
        let mut text = format!(
            "{FORMAT} {} {} {}.{:09} {label:?} {:?}\n",
            env!("CARGO_PKG_VERSION"),
            program.size(),
            program.mtime(),
            program.mtime_nsec(),
            further_communication(),
        );
        let with_parts = |file: &PathBuf| once(file.clone()).chain(further_parts(file));
        for file in files.iter().flat_map(with_parts) {
            let line = look(&file).ok()?;
            // Notes and tables name files as they were named.
            writeln!(text, "{line} {file:?}").ok()?;
        }
        Some(Self(text))
    }

    /// As text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// What tells a file from another, or from itself at another time.
fn look(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    let bytes = about.size();
    let mut hasher = DefaultHasher::new();
    for at in [0, bytes.saturating_sub(LOOK_BYTES)] {
        let mut part = vec![0; LOOK_BYTES.min(bytes) as usize];
        file.read_exact_at(&mut part, at)?;
        part.hash(&mut hasher);
    }
    Ok(format!(
        "{bytes} {}.{:09} {:016x}",
        about.mtime(),
        about.mtime_nsec(),
        hasher.finish()
    ))
}

/// A name for what is asked of files: equal for equal ones.
pub(super) fn name(files: &[PathBuf], label: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (files, label).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_file_shows() {
        let path = std::env::temp_dir().join(format!("rsys-identity-{}", std::process::id()));
        let files = [path.clone()];
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            Identity::of(&files, "x").expect("an identity")
        };
        let time = std::time::SystemTime::UNIX_EPOCH;
        let at_same_time = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            let file = File::options().write(true).open(&path).expect("a file");
            file.set_modified(time).expect("a time");
            Identity::of(&files, "x").expect("an identity")
        };
        let (one, other) = (at_same_time(b"abc"), at_same_time(b"abd"));
        assert_ne!(one, other, "the content");
        assert_eq!(one, at_same_time(b"abc"));
        assert_ne!(one, of(b"abc"), "the time");
        assert_ne!(of(b"abc"), of(b"abcd"), "the length");
        assert_ne!(Identity::of(&files, "x"), Identity::of(&files, "y"));
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(Identity::of(&files, "x"), None);
    }
}
