//! A file without a name for packed rows of which there are more than should be in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Such a file. Several threads may add to it and read from it.
#[derive(Debug)]
pub(in crate::measure) struct RowFile {
    file: File,
    end: AtomicU64,
    /// The first reading that failed.
    failure: Mutex<Option<io::Error>>,
}

impl RowFile {
    /// Adds to this file, which is empty and used by no one else.
    pub(in crate::measure) fn new(file: File) -> Self {
        Self {
            file,
            end: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// Adds bytes that follow each other. Returns where the first is; `None` if there is no room for them.
    pub(super) fn append(&self, pieces: &[&[u8]]) -> Option<u64> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let first = self.end.fetch_add(bytes, Ordering::Relaxed);
        let mut at = first;
        for piece in pieces {
            self.file.write_all_at(piece, at).ok()?;
            at += piece.len() as u64;
        }
        Some(first)
    }

    /// The bytes from one place up to another; of a file that cannot be read any more, none.
    pub(super) fn read(&self, begin: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; end.saturating_sub(begin) as usize];
        if let Err(error) = self.file.read_exact_at(&mut bytes, begin) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            return Vec::new();
        }
        bytes
    }

    /// Why what was read is not what was added, if so.
    pub(in crate::measure) fn failure(&self) -> Option<io::Error> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}
