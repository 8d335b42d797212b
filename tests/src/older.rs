//! Systems with an older C library than the one that we build with.

use std::path::PathBuf;

use crate::invocation::Invocation;
use crate::simgpu::stack::{entering, missing_mounts, runtimes_dir};

/// A file tree of an older system, as `cargo xtask runtimes` unpacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldSystem {
    /// glibc 2.31, Python 3.9.
    Debian11,
}

impl OldSystem {
    /// Where it is.
    #[must_use]
    pub fn folder(self) -> PathBuf {
        match self {
            Self::Debian11 => runtimes_dir().join("debian11"),
        }
    }

    /// Says so when it is not there or cannot be used here.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let folder = self.folder();
        if !folder.join(".complete").is_file() {
            return Some(format!(
                "there is no {}: `cargo xtask runtimes debian11` fetches it",
                folder.display()
            ));
        }
        missing_mounts()
    }

    /// The words that make it the root of the program behind them, where our own folders are where they are outside.
    #[must_use]
    pub fn entered(self) -> Invocation {
        entering(&self.folder())
    }
}
