//! Records of the pieces of a large file that were sorted before, by hashes: what a file has twice may stand far apart.

use std::hash::{Hash, Hasher};

use rsys_proto::hashing::{FastHasher, FastSet};

/// Hashes that are kept, some 18 bytes each.
const MOST: usize = 1 << 19;

/// What was seen in earlier pieces.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hashes: FastSet<u64>,
    /// Of this piece, which is not compared with itself.
    next: Vec<u64>,
    is_full: bool,
}

impl Seen {
    /// Whether a record with such a key was in an earlier piece. From the next piece on it is known.
    pub(super) fn is_known(&mut self, key: &impl Hash) -> bool {
        let mut hasher = FastHasher::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let is_known = self.hashes.contains(&hash);
        if !is_known {
            self.is_full |= self.hashes.len() + self.next.len() >= MOST;
            if !self.is_full {
                self.next.push(hash);
            }
        }
        is_known
    }

    /// A piece ends.
    pub(super) fn turn(&mut self) {
        self.hashes.extend(self.next.drain(..));
    }

    /// Whether there was more than is known.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}
