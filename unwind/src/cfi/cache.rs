//! The table of rules by address, shared by all threads of a process without locks.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use super::rule::Rule;

/// One entry of a [`RuleCache`]: 32 bytes, all of them zero when it is empty.
///
/// Word 0 is the generation (upper half) and a sequence number (lower half) that is odd while a thread writes the entry; word 1
/// is the key; words 2 and 3 are the rule.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct RuleSlot([AtomicU64; 4]);

const _: () = assert!(size_of::<RuleSlot>() == 32 && align_of::<RuleSlot>() == 32);

impl RuleSlot {
    /// An empty entry. Zeroed memory is an array of them.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 4])
    }
}

/// A table of rules over memory of the caller: each key has two entries side by side where it may be. (With one, a walk over
/// two addresses that share it would read the tables for both, each time; where that happens changes with every run.)
///
/// Any number of threads, and signal handlers on top of them, may use one table at once. No thread waits: an entry that is being
/// written is a miss to readers and is left alone by other writers. A thread that dies while it writes (or a fork at that moment) costs
/// its entry, which stays a miss. [`Modules::generation`](crate::Modules::generation) is part of the key.
#[derive(Clone, Copy, Debug)]
pub struct RuleCache<'a> {
    slots: &'a [RuleSlot],
    shift: u32,
    /// How many rules were stored, where that decides on the size.
    stored: Option<&'a AtomicUsize>,
}

impl<'a> RuleCache<'a> {
    /// A good number of entries: 512 KiB. Measured programs have a few thousand distinct addresses on their stacks.
    pub const DEFAULT_SLOTS: usize = 16_384;

    /// With how many of its entries a [growing](Self::growing) table begins: two pages.
    const FIRST_SLOTS: usize = 256;

    /// A table over `slots`, or `None` unless their number is a power of two and at least two.
    ///
    /// ```
    /// use rsys_unwind::{RuleCache, RuleSlot};
    ///
    /// static SLOTS: [RuleSlot; 8192] = [const { RuleSlot::new() }; 8192];
    /// let cache = RuleCache::new(&SLOTS).expect("8192 is a power of two");
    /// ```
    pub const fn new(slots: &'a [RuleSlot]) -> Option<Self> {
        if slots.len() < 2 || !slots.len().is_power_of_two() {
            return None;
        }
        let shift = 64_u32.wrapping_sub(slots.len().trailing_zeros());
        Some(Self {
            slots,
            shift,
            stored: None,
        })
    }

    /// A table that uses more of `slots` the more rules were stored, which `stored` counts, from 0. `None` as for [`new`](Self::new).
    ///
    /// Rules fall on pages at random. A process that lives for a few samples would touch a page of a large table for nearly each of them,
    /// and a page that is touched for the first time costs as much as the rule. When a table grows, the rules in it are found anew.
    #[must_use]
    #[inline]
    pub fn growing(slots: &'a [RuleSlot], stored: &'a AtomicUsize) -> Option<Self> {
        let wanted = stored.load(Ordering::Relaxed).saturating_mul(4);
        let mut used = Self::FIRST_SLOTS;
        while used < wanted && used < slots.len() {
            used <<= 2;
        }
        let table = Self::new(slots.get(..used).unwrap_or(slots))?;
        Some(Self {
            // Beyond, it grows no more.
            stored: (wanted < slots.len()).then_some(stored),
            ..table
        })
    }

    /// The entry in which `key` belongs; the other one that it may have is the neighbour with which it makes up a pair. Code
    /// addresses differ in their low bits mostly; the product's high bits depend on all.
    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (self.shift & 63)) as usize
    }

    #[inline(always)]
    fn entry(&self, place: usize) -> Option<&[AtomicU64; 4]> {
        self.slots.get(place).map(|RuleSlot(words)| words)
    }

    /// The rule of `key`, if it is here and of this generation.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64, generation: u32) -> Option<Rule> {
        let place = self.place(key);
        match self.read(place, key, generation) {
            None => self.read(place ^ 1, key, generation),
            found => found,
        }
    }

    #[inline(always)]
    fn read(&self, place: usize, key: u64, generation: u32) -> Option<Rule> {
        let [state, stored_key, word0, word1] = self.entry(place)?;
        let before = state.load(Ordering::Acquire);
        if before & 1 != 0
            || before >> 32 != u64::from(generation)
            || stored_key.load(Ordering::Relaxed) != key
        {
            return None;
        }
        let rule = Rule([word0.load(Ordering::Relaxed), word1.load(Ordering::Relaxed)]);
        fence(Ordering::Acquire);
        // A writer came between: the words may be of two rules, or the key of another.
        let same = state.load(Ordering::Relaxed) == before;
        // The key of an empty entry is 0, and so is its kind.
        let Rule([word, _]) = rule;
        (same && word != 0).then_some(rule)
    }

    /// Where the rule of `key` had best be stored: in place of one that is no longer valid, or else of the one of the pair that was
    /// replaced less often.
    fn place_to_write(&self, key: u64, generation: u32) -> usize {
        let place = self.place(key);
        let state = |place| {
            self.entry(place)
                .map_or(0, |[state, ..]| state.load(Ordering::Relaxed))
        };
        let (first, second) = (state(place), state(place ^ 1));
        let is_valid = |state: u64| state >> 32 == u64::from(generation) && state as u32 > 1;
        let first_stays = is_valid(first) && (!is_valid(second) || second as u32 <= first as u32);
        if first_stays { place ^ 1 } else { place }
    }

    /// Stores the rule of `key`, unless another thread is writing the same entry.
    #[inline]
    pub(crate) fn insert(&self, key: u64, generation: u32, rule: Rule) {
        let place = self.place_to_write(key, generation);
        let Some([state, stored_key, word0, word1]) = self.entry(place) else {
            return;
        };
        let before = state.load(Ordering::Relaxed);
        let busy = before | 1;
        if before == busy
            || state
                .compare_exchange(before, busy, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        fence(Ordering::Release);
        let Rule([first, second]) = rule;
        stored_key.store(key, Ordering::Relaxed);
        word0.store(first, Ordering::Relaxed);
        word1.store(second, Ordering::Relaxed);
        let sequence = (before as u32).wrapping_add(2);
        let after = u64::from(generation) << 32 | u64::from(sequence);
        state.store(after, Ordering::Release);
        if let Some(stored) = self.stored {
            stored.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn slots(count: usize) -> Vec<RuleSlot> {
        (0..count).map(|_| RuleSlot::new()).collect()
    }

    #[test]
    fn sizes_that_are_no_power_of_two_are_refused() {
        assert!(RuleCache::new(&[]).is_none());
        assert!(RuleCache::new(&slots(1)).is_none());
        assert!(RuleCache::new(&slots(3)).is_none());
        assert!(RuleCache::new(&slots(2)).is_some());
    }

    #[test]
    fn a_rule_is_found_in_its_generation_only() {
        let slots = slots(16);
        let cache = RuleCache::new(&slots).unwrap();
        let rule = Rule([9, 7]);
        assert_eq!(cache.get(0x1234, 0), None);
        assert_eq!(cache.get(0, 0), None);
        cache.insert(0x1234, 5, rule);
        assert_eq!(cache.get(0x1234, 5), Some(rule));
        assert_eq!(cache.get(0x1234, 6), None);
        assert_eq!(cache.get(0x1235, 5), None);
        cache.insert(0x1234, 6, rule);
        assert_eq!(cache.get(0x1234, 6), Some(rule));
    }

    #[test]
    fn two_keys_of_one_entry_are_both_kept() {
        let slots = slots(64);
        let cache = RuleCache::new(&slots).unwrap();
        let same: Vec<u64> = (1..).filter(|key| cache.place(*key) == 5).take(4).collect();
        let found = |generation| {
            let of = |key: &&u64| cache.get(**key, generation).is_some();
            same.iter().filter(of).copied().collect::<Vec<u64>>()
        };
        cache.insert(same[0], 1, Rule([1, same[0]]));
        cache.insert(same[1], 1, Rule([1, same[1]]));
        assert_eq!(found(1), same[..2]);
        // A third and a fourth take the places of both, in turn.
        cache.insert(same[2], 1, Rule([1, same[2]]));
        cache.insert(same[3], 1, Rule([1, same[3]]));
        assert_eq!(found(1), same[2..]);
        // What is of another generation goes first.
        cache.insert(same[0], 2, Rule([1, same[0]]));
        cache.insert(same[1], 2, Rule([1, same[1]]));
        assert_eq!(found(2), same[..2]);
    }

    #[test]
    fn neighbouring_addresses_do_not_share_entries() {
        // Miri looks at every entry each time that the table is used.
        const KEYS: u64 = if cfg!(miri) { 32 } else { 1024 };
        let slots = slots(8 * KEYS as usize);
        let cache = RuleCache::new(&slots).unwrap();
        let address = |key| 0x5555_0000_0000 + key * 16;
        for key in 0..KEYS {
            cache.insert(address(key), 1, Rule([1, key]));
        }
        let kept = (0..KEYS)
            .filter(|key| cache.get(address(*key), 1) == Some(Rule([1, *key])))
            .count();
        // Of 1024 keys in 8192 places, 9 are the third of their pair if they fall at random.
        assert!(kept as u64 + 2 + KEYS / 32 >= KEYS, "{kept} of {KEYS}");
    }

    #[test]
    fn a_table_grows_with_what_is_stored() {
        let slots = slots(4096);
        let stored = AtomicUsize::new(0);
        let table = || RuleCache::growing(&slots, &stored).unwrap();
        let address = |key| 0x5555_0000_0000 + key * 16;
        assert_eq!(table().slots.len(), 256);
        for key in 0..2000 {
            let table = table();
            table.insert(address(key), 1, Rule([1, key]));
            assert_eq!(table.get(address(key), 1), Some(Rule([1, key])));
        }
        assert_eq!(table().slots.len(), 4096);
        // It has grown to its end, and counts no further.
        assert_eq!(stored.load(Ordering::Relaxed), 1024);
        let few = &slots[..64];
        assert_eq!(RuleCache::growing(few, &stored).unwrap().slots.len(), 64);
    }

    #[test]
    fn threads_never_see_a_mixed_rule() {
        // Miri takes a while for each.
        const ROUNDS: u64 = if cfg!(miri) { 300 } else { 200_000 };
        let slots = slots(2);
        let cache = RuleCache::new(&slots).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let key = 1 + (round.wrapping_mul(7) + thread) % 5;
                        // Both words say which key and which writer they are of.
                        if let Some(Rule([first, second])) = cache.get(key, 3) {
                            assert_eq!(first >> 8, second);
                            assert_eq!(second >> 32, key);
                        }
                        let mark = key << 32 | thread;
                        cache.insert(key, 3, Rule([mark << 8 | 1, mark]));
                    }
                });
            }
        });
    }
}
