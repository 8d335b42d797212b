//! A file without a name for packed rows of which there are more than should be in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Such a file. Several threads may add to it and read from it.
#[derive(Debug)]
pub struct RowFile {
    file: File,
    end: AtomicU64,
    is_full: AtomicBool,
    /// The first reading that failed.
    failure: Mutex<Option<io::Error>>,
}

impl RowFile {
    /// Adds to this file, which is empty and used by no one else.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self {
            file,
            end: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Adds bytes. Returns where the first is; `None` if there is no room for them.
    pub fn append(&self, bytes: &[u8]) -> Option<u64> {
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        let first = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let is_written = self.file.write_all_at(bytes, first).is_ok();
        self.is_full.fetch_or(!is_written, Ordering::Relaxed);
        is_written.then_some(first)
    }

    /// The bytes from one place up to another; of a file that cannot be read any more, none.
    pub fn read(&self, begin: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; end.saturating_sub(begin) as usize];
        if let Err(error) = self.file.read_exact_at(&mut bytes, begin) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            return Vec::new();
        }
        bytes
    }

    /// Why what was read is not what was added, if so.
    pub fn failure(&self) -> Option<io::Error> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}
