//! Calls by what operations know of theirs.

/// Process, correlation and begin.
type Key = (u64, u64, u64);

/// The numbers of calls.
#[derive(Debug, Default)]
pub(super) struct Links {
    calls: Vec<(Key, u64)>,
    /// Where the last one was found: operations are in nearly the order of their calls.
    last: usize,
}

impl Links {
    pub(super) fn add(&mut self, key: Key, call: u64) {
        self.calls.push((key, call));
    }

    /// To be called between additions and searches.
    pub(super) fn sort(&mut self) {
        self.calls.sort_unstable();
    }

    /// The last call with this key.
    pub(super) fn find(&mut self, key: Key) -> Option<u64> {
        /// So many calls behind the last one are looked at before all others.
        const NEAR: usize = 8;
        let is_before = |(one, _): &(Key, u64)| *one <= key;
        let near = self.last..(self.last + NEAR).min(self.calls.len());
        let is_near = self.calls.get(self.last).is_some_and(is_before)
            && self.calls.get(near.end).is_none_or(|call| !is_before(call));
        let behind = match is_near {
            true => {
                let ahead = self.calls[near].iter();
                self.last + ahead.take_while(|call| is_before(call)).count()
            }
            false => self.calls.partition_point(is_before),
        };
        self.last = behind.checked_sub(1)?;
        let (found, call) = self.calls[self.last];
        (found == key).then_some(call)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_last_call_of_a_key_is_found_wherever_the_search_was() {
        let mut links = Links::default();
        assert_eq!(links.find((0, 0, 0)), None);
        let mut expected = BTreeMap::new();
        let key = |number: u64| (number % 2, number * 7919 % 613, number % 3);
        for call in 0..2000 {
            links.add(key(call), call);
            expected.insert(key(call), call);
        }
        links.sort();
        for number in (0..4000).chain((0..4000).map(|number| number * 7 % 4001)) {
            let key = (number % 2, number / 5, number % 3);
            assert_eq!(links.find(key), expected.get(&key).copied(), "{key:?}");
        }
    }
}
