//! Where stacks stop that could not be walked to their root.

use std::cmp::Reverse;
use std::collections::HashMap;

/// In which files broken stacks stopped, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stops(HashMap<String, u64>);

impl Stops {
    /// How many files are named.
    const NAMED: usize = 3;

    /// Counts a stack that stopped in the code of a file.
    pub fn add(&mut self, path: &str) {
        match self.0.get_mut(path) {
            Some(count) => *count += 1,
            None => _ = self.0.insert(path.to_owned(), 1),
        }
    }

    /// The files in which most stacks stopped: `12 in libfoo.so, 3 in [unknown]`. Empty when none
    /// did.
    #[must_use]
    pub fn most(&self) -> String {
        let mut counts: Vec<(&str, u64)> = self
            .0
            .iter()
            .map(|(path, &count)| (path.rsplit('/').next().unwrap_or(path), count))
            .collect();
        counts.sort_unstable_by_key(|&(name, count)| (Reverse(count), name));
        let named: Vec<String> = counts
            .iter()
            .take(Self::NAMED)
            .map(|(name, count)| format!("{count} in {name}"))
            .collect();
        named.join(", ")
    }
}
