//! Numbers that were seen lately.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that were seen lately, each at the one place that it chooses, neighbours at different ones: a number that comes to the place of another drives it
/// out. No lock and no search; two threads with the same number may both find it new. 0 is no number.
#[derive(Debug)]
pub struct Recent<const PLACES: usize>([AtomicU64; PLACES]);

impl<const PLACES: usize> Recent<PLACES> {
    /// Without any.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(PLACES.is_power_of_two()) }
        Recent([const { AtomicU64::new(0) }; PLACES])
    }

    #[inline]
    fn place(&self, number: u64) -> Option<&AtomicU64> {
        // Hashes may have a fixed lowest bit, and what is counted has no upper half.
        self.0.get((number ^ number >> 32) as usize % PLACES)
    }

    /// Whether a number is there.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        self.place(number)
            .is_some_and(|place| place.load(Ordering::Relaxed) == number)
    }

    /// Puts a number there. Returns whether it was not there before.
    #[inline]
    pub fn put(&self, number: u64) -> bool {
        // Mostly it is there: a load is cheaper than an exchange, which waits for all stores before it.
        !self.has(number)
            && self
                .place(number)
                .is_none_or(|place| place.swap(number, Ordering::Relaxed) != number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_there_until_another_takes_its_place() {
        static SEEN: Recent<16> = Recent::new();
        assert!(!SEEN.has(7));
        assert!(SEEN.put(7));
        assert!(SEEN.has(7) && !SEEN.put(7));
        let taker = (8..).find(|number| SEEN.put(*number) && !SEEN.has(7));
        assert!(taker.is_some_and(|taker| SEEN.has(taker)));
        assert!(SEEN.put(7));
    }

    #[test]
    fn every_place_is_used() {
        static SEEN: Recent<64> = Recent::new();
        assert!((1..=64).all(|number| SEEN.put(number)));
        assert!((1..=64).all(|number| SEEN.has(number)));
        let hashes =
            || (1..10_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        hashes().for_each(|hash| _ = SEEN.put(hash));
        assert_eq!(hashes().filter(|hash| SEEN.has(*hash)).count(), 64);
    }
}
