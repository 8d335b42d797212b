//! The words that a runtime keeps for its tool with a region or task.
//!
//! A tool of the program's own has them to itself; ours then stand in a table beside, by their addresses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::abi::Data;
use crate::sources::table::Table;

/// Of a task's word: it is an explicit one; the lower bits are the address of the call that created it.
pub const EXPLICIT: u64 = 1 << 63;
/// Its slice is open: it runs, or has begun something that runs.
pub const OPEN: u64 = 1 << 62;
/// It is the implicit one of a thread in a region; the lower bits are the region.
pub const IMPLICIT: u64 = 1 << 61;
/// What the flags leave.
pub const VALUE: u64 = (1 << 56) - 1;

/// By the addresses of the runtime's words.
static BESIDE: Table<{ 1 << 14 }> = Table::new();
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// From now on the runtime's words belong to another tool. Before the first callback.
pub fn share() {
    IS_SHARED.store(true, Ordering::Release);
}

/// What was set, or 0.
#[inline]
pub fn get(data: Data) -> u64 {
    if data.is_null() {
        0
    } else if IS_SHARED.load(Ordering::Relaxed) {
        BESIDE.get(data.addr() as u64)
    } else {
        // SAFETY: the runtime's own word for its tool, which is ours.
        unsafe { *data }
    }
}

/// Sets a word; 0 when what it stands with is over. Where there is no room beside, it stays 0.
#[inline]
pub fn set(data: Data, word: u64) {
    if data.is_null() {
        return;
    }
    if IS_SHARED.load(Ordering::Relaxed) {
        BESIDE.set(data.addr() as u64, word);
    } else {
        // SAFETY: as above.
        unsafe { *data = word }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_tools_words_are_left_alone() {
        let mut theirs = [7_u64; 100];
        share();
        for (value, word) in theirs.iter_mut().enumerate() {
            set(word, value as u64 + 1);
        }
        for (value, word) in theirs.iter_mut().enumerate() {
            assert_eq!(get(word), value as u64 + 1);
            set(word, 0);
            assert_eq!(get(word), 0);
        }
        assert_eq!(theirs, [7; 100]);
        assert_eq!(get(std::ptr::null_mut()), 0);
    }
}
