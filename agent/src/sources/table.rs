//! Words by number, without locks: for a number that few threads use at once.

use std::sync::atomic::{AtomicU64, Ordering};

const PROBES: usize = 16;

#[derive(Debug)]
struct Entry {
    /// 0 in a free entry.
    number: AtomicU64,
    word: AtomicU64,
}

/// `ENTRIES` words, each in one of a few places near its number's home.
#[derive(Debug)]
pub struct Table<const ENTRIES: usize> {
    entries: [Entry; ENTRIES],
}

impl<const ENTRIES: usize> Table<ENTRIES> {
    /// Without any.
    pub const fn new() -> Self {
        Table {
            entries: [const {
                Entry {
                    number: AtomicU64::new(0),
                    word: AtomicU64::new(0),
                }
            }; ENTRIES],
        }
    }

    fn places(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let home = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        (0..PROBES).filter_map(move |step| self.entries.get(home.wrapping_add(step) % ENTRIES))
    }

    fn find(&self, number: u64) -> Option<&Entry> {
        self.places(number)
            .find(|entry| entry.number.load(Ordering::Acquire) == number)
    }

    /// The word of a number, or 0.
    #[inline]
    pub fn get(&self, number: u64) -> u64 {
        self.find(number)
            .map_or(0, |entry| entry.word.load(Ordering::Relaxed))
    }

    /// Sets the word of a number; 0 frees its place. Returns whether there was room.
    #[inline]
    pub fn set(&self, number: u64, word: u64) -> bool {
        match self.find(number) {
            Some(entry) => {
                entry.word.store(word, Ordering::Relaxed);
                if word == 0 {
                    entry.number.store(0, Ordering::Release);
                }
                true
            }
            None if word == 0 => true,
            None => self.claim(number, word),
        }
    }

    fn claim(&self, number: u64, word: u64) -> bool {
        let claimed = self.places(number).find(|entry| {
            entry
                .number
                .compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        if let Some(entry) = claimed {
            entry.word.store(word, Ordering::Relaxed);
        }
        claimed.is_some()
    }

    /// Frees all places.
    pub fn clear(&self) {
        for entry in &self.entries {
            entry.word.store(0, Ordering::Relaxed);
            entry.number.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_numbers_until_they_are_freed() {
        let table: Table<64> = Table::new();
        let kept: Vec<u64> = (1..200)
            .filter(|number| table.set(*number, number * 3))
            .collect();
        assert!(kept.len() > 16 && kept.len() <= 64, "{}", kept.len());
        for number in &kept {
            assert_eq!(table.get(*number), number * 3);
            assert!(table.set(*number, 0));
            assert_eq!(table.get(*number), 0);
        }
        assert!(table.set(7, 1));
        table.clear();
        assert_eq!(table.get(7), 0);
    }
}
