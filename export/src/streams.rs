//! Numbers of streams and queues, for formats that have no names for them.

use std::collections::{BTreeMap, HashSet};

/// Streams whose own number another has, or that have none, are above it.
const FURTHER: u64 = 1000;

/// Numbers that are there once on each GPU.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    numbers: BTreeMap<(u64, u64), BTreeMap<String, u64>>,
    taken: HashSet<(u64, u64)>,
}

impl Streams {
    /// The number of a stream of an owner on a GPU: its own if it has one and no other of the GPU has it.
    pub(crate) fn number(&mut self, owner: u64, gpu: u64, name: &str) -> u64 {
        let of_owner = self.numbers.entry((gpu, owner)).or_default();
        if let Some(&number) = of_owner.get(name) {
            return number;
        }
        let own = match name {
            "default stream" => Some(0),
            name => name.rsplit(' ').next().and_then(|word| word.parse().ok()),
        };
        let is_free = |number: &u64| !self.taken.contains(&(gpu, *number));
        let own = own.filter(is_free);
        let number = own.or_else(|| (FURTHER..).find(is_free)).unwrap_or(0);
        of_owner.insert(name.to_owned(), number);
        self.taken.insert((gpu, number));
        number
    }

    /// All of them, by GPU: GPU, name, number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &str, u64)> {
        self.numbers.iter().flat_map(|((gpu, _), of_owner)| {
            let of_owner = of_owner.iter();
            of_owner.map(|(name, number)| (*gpu, name.as_str(), *number))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_gpu_have_different_numbers() {
        let mut streams = Streams::default();
        let names = [
            "stream 3",
            "queue 3",
            "default stream",
            "named",
            "stream 1000",
        ];
        let numbers = names.map(|name| streams.number(0, 1, name));
        assert_eq!(numbers, [3, 1000, 0, 1001, 1002]);
        assert_eq!(names.map(|name| streams.number(0, 1, name)), numbers);
        assert_eq!(streams.number(0, 2, "queue 3"), 3);
        assert_eq!(streams.number(7, 1, "stream 3"), 1003);
        assert_eq!(streams.all().count(), 7);
    }
}
