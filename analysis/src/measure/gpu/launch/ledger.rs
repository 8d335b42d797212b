//! Time by what contains it: inclusive, and exclusive of what is inside.

use std::collections::HashMap;
use std::hash::Hash;

/// How often something ran, and for how long in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Time {
    pub(super) count: u64,
    pub(super) total_ns: u64,
}

impl Time {
    #[inline]
    pub(super) fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        self.total_ns += duration_ns;
    }

    pub(super) fn plus(&mut self, other: Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
    }

    /// What is left of it without a part. A part that is larger leaves nothing.
    pub(super) fn without(self, part: Self) -> Self {
        Self {
            count: self.count.saturating_sub(part.count),
            total_ns: self.total_ns.saturating_sub(part.total_ns),
        }
    }
}

/// The time of one entry of a [`Ledger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChargedTime {
    /// What ran in it, and in what it contains.
    pub(super) inclusive: Time,
    /// What ran in nothing further inside.
    pub(super) exclusive: Time,
}

/// Times by entry. The sum of all exclusive times is the time that was charged.
#[derive(Debug)]
pub(super) struct Ledger<K> {
    parts: HashMap<K, ChargedTime>,
    total: Time,
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self {
            parts: HashMap::new(),
            total: Time::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> Ledger<K> {
    /// Charges a time to a chain of entries, the innermost first; to `none` if the chain is empty. What calls itself is charged once.
    pub(super) fn charge(&mut self, chain: &[K], none: K, time: Time) {
        let chain = if chain.is_empty() { &[none] } else { chain };
        self.total.plus(time);
        for (place, &entry) in chain.iter().enumerate() {
            if chain[..place].contains(&entry) {
                continue;
            }
            let part = self.parts.entry(entry).or_default();
            part.inclusive.plus(time);
            if place == 0 {
                part.exclusive.plus(time);
            }
        }
    }

    /// All that was charged.
    pub(super) fn total(&self) -> Time {
        self.total
    }

    /// The entries with time, in no order.
    pub(super) fn parts(&self) -> impl Iterator<Item = (K, ChargedTime)> {
        let parts = self.parts.iter().map(|(entry, part)| (*entry, *part));
        parts.filter(|(_, part)| part.inclusive.count > 0 || part.inclusive.total_ns > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exclusive_times_sum_to_the_total(
            charges in vec((vec(0..6_u8, 0..8), 0..1_000_u64), 0..40),
        ) {
            let mut ledger = Ledger::default();
            for (chain, duration_ns) in &charges {
                ledger.charge(chain, u8::MAX, Time { count: 1, total_ns: *duration_ns });
            }
            let parts: HashMap<u8, ChargedTime> = ledger.parts().collect();
            let exclusive_ns: u64 = parts.values().map(|part| part.exclusive.total_ns).sum();
            let total_ns: u64 = charges.iter().map(|charge| charge.1).sum();
            prop_assert_eq!(exclusive_ns, total_ns);
            prop_assert_eq!(ledger.total().total_ns, total_ns);
            for entry in 0..6 {
                let within = charges.iter().filter(|charge| charge.0.contains(&entry));
                let inclusive_ns: u64 = within.map(|charge| charge.1).sum();
                let found = parts.get(&entry).copied().unwrap_or_default();
                prop_assert_eq!(found.inclusive.total_ns, inclusive_ns);
            }
        }
    }
}
