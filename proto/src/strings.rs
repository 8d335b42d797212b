//! The strings of a trace, numbered once for all its sequences.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::hashing::FastMap;

/// A string of a [`StringTable`]. Its number doubles as the interning id in every sequence that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(NonZeroU32);

impl StringId {
    /// The largest id, for tests of the longest encodings.
    #[cfg(test)]
    pub(crate) const MAX: Self = Self(NonZeroU32::MAX);

    /// The number; 1 is the first string.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// Distinct strings in the order in which they were first seen.
///
/// One table serves a whole trace: a function that runs on a thousand threads is stored once, and a sequence keeps one bit for it
/// ("already defined here") instead of a table of its own.
#[derive(Debug, Default)]
pub struct StringTable {
    ids: FastMap<Arc<str>, StringId>,
    strings: Vec<Arc<str>>,
}

impl StringTable {
    /// The id of `text`, new or known.
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let shared: Arc<str> = text.into();
        self.strings.push(shared.clone());
        let number = u32::try_from(self.strings.len()).expect("fewer than 2^32 strings");
        let id = StringId(NonZeroU32::new(number).expect("the table is not empty"));
        self.ids.insert(shared, id);
        id
    }

    /// The text of an id; empty for an id of another table.
    pub fn text(&self, id: StringId) -> &str {
        self.strings
            .get(id.get() as usize - 1)
            .map_or("", |text| text)
    }

    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether nothing was interned yet.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

/// The set of strings that a sequence has already defined in one of its interning indexes.
#[derive(Debug, Default)]
pub struct DefinedSet {
    words: Vec<u64>,
}

impl DefinedSet {
    /// Adds `id`; whether it was missing.
    #[inline]
    pub fn insert(&mut self, id: StringId) -> bool {
        let (word, bit) = (id.get() as usize / 64, 1 << (id.get() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let missing = self.words[word] & bit == 0;
        self.words[word] |= bit;
        missing
    }

    /// Whether `id` is in the set.
    #[inline]
    pub fn contains(&self, id: StringId) -> bool {
        self.words
            .get(id.get() as usize / 64)
            .is_some_and(|word| word & (1 << (id.get() % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id() {
        let mut table = StringTable::default();
        let main = table.intern("main");
        let other = table.intern("other");
        assert_eq!(table.intern("main"), main);
        assert_eq!((main.get(), other.get(), table.len()), (1, 2, 2));
        assert_eq!(table.text(other), "other");
    }

    #[test]
    fn a_set_reports_each_string_as_missing_once() {
        let mut table = StringTable::default();
        let ids: Vec<_> = (0..200).map(|n| table.intern(&n.to_string())).collect();
        let mut set = DefinedSet::default();
        for &id in ids.iter().rev() {
            assert!(!set.contains(id));
            assert!(set.insert(id));
            assert!(!set.insert(id));
            assert!(set.contains(id));
        }
    }
}
