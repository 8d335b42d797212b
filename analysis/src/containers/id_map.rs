//! Tables by ids.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by ids, or by a few of them, which are small numbers or are counted up.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Keeps ids together that follow one another, since they are asked for in about that order: each 64 have places side by side.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

/// The golden ratio's fraction, in 64 bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for IdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        let spread = (self.0 >> 6).wrapping_mul(SPREAD);
        let spread = (spread ^ spread >> 32).wrapping_mul(SPREAD);
        let spread = spread ^ spread >> 32;
        // Ids that are all even, say, begin at other places in each 64.
        spread << 6 ^ spread >> 40 ^ self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let spread = self.0.wrapping_mul(SPREAD);
        self.0 = (spread ^ spread >> 29) ^ value;
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_usize(value.cast_unsigned());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    /// Of 4096 keys, the share of 4096 places that they hit, by the lower bits of their hashes; random ones hit 63 %.
    fn spread<K: std::hash::Hash>(key: impl Fn(u64) -> K) -> f64 {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        let places: HashSet<u64> = (0..4096)
            .map(|number| hasher.hash_one(key(number)) % 4096)
            .collect();
        places.len() as f64 / 4096.0
    }

    #[test]
    fn keys_of_all_kinds_are_spread() {
        for shift in [0, 1, 3, 6, 12, 20, 32, 48] {
            assert!(spread(|number| number << shift) > 0.5, "{shift}");
            assert!(
                spread(|number| (number as u32 % 64, (number / 64) << shift)) > 0.5,
                "{shift}"
            );
        }
    }
}
