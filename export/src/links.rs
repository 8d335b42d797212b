//! Calls by what operations know of theirs, and the other way round.

use crate::Failure;
use crate::rows::each;
use crate::run::Run;

/// Process, correlation and begin of a call.
type Key = (u64, u64, u64);

/// A number for each call.
#[derive(Debug, Default)]
pub(crate) struct Links {
    calls: Vec<(Key, u64)>,
    /// Where the last one was found: operations are in nearly the order of their calls.
    last: usize,
}

impl Links {
    pub(crate) fn add(&mut self, key: Key, number: u64) {
        self.calls.push((key, number));
    }

    /// To be called between additions and searches.
    pub(crate) fn sort(&mut self) {
        self.calls.sort_unstable();
    }

    /// The largest number of the calls with this key.
    pub(crate) fn find(&mut self, key: Key) -> Option<u64> {
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

/// The call stacks of calls that launched something: they are recorded with what was launched.
#[derive(Debug)]
pub(crate) struct LaunchStacks(Links);

impl LaunchStacks {
    /// Reads them.
    ///
    /// # Errors
    /// When the store is damaged.
    pub(crate) fn read(run: &Run<'_>) -> Result<Self, Failure> {
        const COLUMNS: [&str; 4] = ["process_id", "correlation", "call_start_ns", "stack_id"];
        let mut links = Links::default();
        each(run.view, "operations", &COLUMNS, |row| {
            let call = row.known(1).zip(row.known(2));
            if let Some((correlation, start_ns)) = call
                && let Some(stack) = row.known(3).filter(|stack| *stack != 0)
            {
                links.add((row.number(0), correlation, start_ns), stack);
            }
            Ok(())
        })?;
        links.sort();
        Ok(Self(links))
    }

    /// The stack from which a call was made, whose own is `stack`, or 0 if that is not known.
    pub(crate) fn of(&mut self, stack: u64, key: (u64, Option<u64>, u64)) -> u64 {
        let (process_id, correlation, start_ns) = key;
        let launched = |correlation| self.0.find((process_id, correlation, start_ns));
        match stack {
            0 => correlation.and_then(launched).unwrap_or(0),
            known => known,
        }
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
