//! What operations say of their calls, by the rows of these.

use rsys_analysis::containers::packed_rows::{Finder, PackedRows};

use crate::Failure;
use crate::rows::each;
use crate::run::Run;

/// The call stacks of calls that launched something: they are recorded with what was launched.
#[derive(Debug)]
pub(crate) struct LaunchStacks(PackedRows<2>);

impl LaunchStacks {
    /// Reads those of the processes that are chosen.
    ///
    /// # Errors
    /// When the store is damaged.
    pub(crate) fn read(run: &Run<'_>) -> Result<Self, Failure> {
        let mut stacks = run.rows();
        let columns = ["call_id", "stack_id", "process_id"];
        each(run.view, "operations", &columns, |row| {
            if let Some((call, stack)) = row.known(0).zip(row.known(1))
                && stack != 0
                && run.process(row.number(2)).is_some()
            {
                stacks.push([call, stack]);
            }
            Ok(())
        })?;
        stacks.sort();
        Ok(Self(stacks))
    }

    /// To ask for stacks, best in the order of calls.
    pub(crate) fn finder(&self) -> LaunchStackFinder<'_> {
        LaunchStackFinder(Finder::new(&self.0))
    }
}

/// Finds them.
#[derive(Debug)]
pub(crate) struct LaunchStackFinder<'s>(Finder<'s, 2>);

impl LaunchStackFinder<'_> {
    /// The stack from which the call with this number was made, whose own is `stack`, or 0 if that is not known.
    pub(crate) fn of(&mut self, stack: u64, call: u64) -> u64 {
        match stack {
            0 => self.0.last([call]).map_or(0, |[_, stack]| stack),
            known => known,
        }
    }
}

/// Calls that were written, a bit for each.
#[derive(Debug, Default)]
pub(crate) struct WrittenCalls(Vec<u64>);

impl WrittenCalls {
    /// Adds one by its number.
    pub(crate) fn add(&mut self, call: u64) {
        let (word, bit) = ((call / 64) as usize, call % 64);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    /// Whether this one is among them.
    pub(crate) fn has(&self, call: u64) -> bool {
        let word = self.0.get((call / 64) as usize);
        word.is_some_and(|word| word >> (call % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_were_added_are_there() {
        let mut written = WrittenCalls::default();
        let is_added = |call: u64| call.is_multiple_of(7);
        (0..1000)
            .filter(|&call| is_added(call))
            .for_each(|call| written.add(call));
        (0..1000).for_each(|call| assert_eq!(written.has(call), is_added(call), "{call}"));
        assert!(!written.has(1 << 40));
    }
}
