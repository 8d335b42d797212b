//! Hash tables of keys that nobody chooses to make them slow: numbers that were given out in order, addresses, names of functions.
//!
//! The standard library's hash withstands chosen keys, and takes 15 to 20 ns for a number; this takes 1 to 2.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with the hash of this module.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// A set with the hash of this module.
pub type FastSet<T> = HashSet<T, BuildHasherDefault<FastHasher>>;

/// Odd, with about as many ones as zeros: 2^64 over the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Multiplies and folds word by word.
#[derive(Debug, Clone, Copy, Default)]
pub struct FastHasher(u64);

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        // The upper half of the product depends on all bits of the word, the lower on those below each: together on all.
        let product =
            u128::from((self.0.rotate_left(23) ^ word).wrapping_add(FACTOR)) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for FastHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(last));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hash};

    use super::*;

    fn hash(value: &(impl Hash + ?Sized)) -> u64 {
        BuildHasherDefault::<FastHasher>::default().hash_one(value)
    }

    #[test]
    fn keys_that_are_alike_fall_into_different_places() {
        // Tables take the lower bits for the place and the upper seven to tell keys of a place apart.
        for step in [1_u64, 8, 256, 4096, 1 << 20, 1 << 32, 1 << 56] {
            let hashes = (0..256).map(|number: u64| hash(&number.wrapping_mul(step)));
            let hashes: Vec<u64> = hashes.collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 1023).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(
                low.len() > 190 && high.len() > 80,
                "{step}: {} {}",
                low.len(),
                high.len()
            );
        }
    }

    #[test]
    fn texts_differ_by_each_of_their_bytes() {
        let text = b"_ZN7example6kernelILi3EEEvPKf";
        let mut found = HashSet::from([hash(text.as_slice())]);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut other = *text;
                other[at] ^= 1 << bit;
                assert!(found.insert(hash(other.as_slice())), "{at} {bit}");
            }
        }
        for length in 0..text.len() {
            assert!(found.insert(hash(&text[..length])), "{length}");
        }
    }
}
