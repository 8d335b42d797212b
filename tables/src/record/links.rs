//! What belongs to calls and operations of GPUs, and comes apart from them.

use std::io;

use rsys_analysis::model::{HostSlice, Model, Sample, StackId};

use super::NONE;
use crate::store::StoreWriter;

/// A call that caused work: link, process, begin; thread and name.
type Cause = (u64, u32, u64, u32, u32);
/// A stack: of what it is, and the stack.
type Launch = ((u32, u64, u64), u32);
type CallStack = ((u32, u64), u32);

/// Calls and stacks, until all was read.
#[derive(Debug, Default)]
pub(super) struct Links {
    causes: Vec<Cause>,
    launches: Vec<Launch>,
    call_stacks: Vec<CallStack>,
}

impl Links {
    /// Remembers a call.
    pub(super) fn call(&mut self, slice: &HostSlice) {
        if slice.link != 0 {
            self.causes.push((
                slice.link,
                slice.process.index() as u32,
                slice.start_ns,
                slice.thread.index() as u32,
                slice.name.index() as u32,
            ));
        }
    }

    /// Remembers the stack that launched a kernel.
    pub(super) fn launch_stack(&mut self, sample: &Sample) {
        let key = (sample.process.index() as u32, sample.time_ns, sample.weight);
        self.launches.push((key, sample.stack.index() as u32));
    }

    /// Remembers the stack from which a call was made.
    pub(super) fn call_stack(&mut self, sample: &Sample) {
        let key = (sample.thread.index() as u32, sample.time_ns);
        self.call_stacks.push((key, sample.stack.index() as u32));
    }

    /// Writes the columns of calls and operations that come of it.
    pub(super) fn finish(mut self, model: &Model, out: &mut StoreWriter) -> io::Result<()> {
        // Of calls within calls with the same link, the outermost counts: it began first.
        self.causes.sort_unstable();
        self.launches.sort_unstable();
        self.call_stacks.sort_unstable();
        for part in 0..out.parts("calls").len() {
            let starts = out.read_back("calls", "start", part)?;
            let threads = out.read_back("calls", "thread", part)?;
            let mut stacks = Finder::new(&self.call_stacks, |stack| stack.0);
            let keys = threads.iter().zip(&starts);
            let found: Vec<u64> = keys
                .map(|(&thread, &start)| {
                    let stack = stacks.find((thread as u32, start));
                    stack.map_or(NONE, |stack| u64::from(stack.1))
                })
                .collect();
            out.column("calls", "stack", &found, false)?;
        }
        for part in 0..out.parts("operations").len() {
            self.operations(part, model, out)?;
        }
        Ok(())
    }

    fn operations(&self, part: usize, model: &Model, out: &mut StoreWriter) -> io::Result<()> {
        const TABLE: &str = "operations";
        let processes = out.read_back(TABLE, "process", part)?;
        let links = out.read_back(TABLE, "link", part)?;
        let mut causes = Finder::new(&self.causes, |cause| (cause.0, cause.1));
        let mut columns = [const { Vec::new() }; 3];
        for (&link, &process) in links.iter().zip(&processes) {
            let cause = (link != 0).then(|| causes.find((link, process as u32)));
            let values = match cause.flatten() {
                Some(&(_, _, start_ns, thread, name)) => {
                    [u64::from(name), start_ns, u64::from(thread)]
                }
                None => [0, NONE, NONE],
            };
            for (column, value) in columns.iter_mut().zip(values) {
                column.push(value);
            }
        }
        let names = [("call", false), ("call_start", true), ("thread", false)];
        for ((name, in_order), values) in names.into_iter().zip(&columns) {
            out.column(TABLE, name, values, in_order)?;
        }
        let starts = out.read_back(TABLE, "start", part)?;
        let durations = out.read_back(TABLE, "duration", part)?;
        let mut launches = Finder::new(&self.launches, |launch| launch.0);
        let keys = processes.iter().zip(starts.iter().zip(&durations));
        let stacks: Vec<u64> = keys
            .map(|(&process, (&start_ns, &duration_ns))| {
                let launch = launches.find((process as u32, start_ns, duration_ns));
                launch.map_or(NONE, |launch| launcher(model, launch.1))
            })
            .collect();
        out.column(TABLE, "stack", &stacks, false)
    }
}

/// The stack that launched a kernel: that of the kernel's time without the kernel itself.
fn launcher(model: &Model, stack: u32) -> u64 {
    match model.stacks.split(StackId::at(stack as usize)) {
        Some((_, caller)) if caller != StackId::ROOT => caller.index() as u64,
        _ => NONE,
    }
}

/// Finds entries of a sorted list. Keys that follow each other are near each other most of the time.
struct Finder<'l, T, K> {
    list: &'l [T],
    key: fn(&T) -> K,
    last: usize,
}

impl<'l, T, K: Ord> Finder<'l, T, K> {
    fn new(list: &'l [T], key: fn(&T) -> K) -> Self {
        Self { list, key, last: 0 }
    }

    /// The first entry with this key.
    fn find(&mut self, key: K) -> Option<&'l T> {
        let is_before = |entry: &T| (self.key)(entry) < key;
        // Steps that double lead to a stretch that holds the place; halving it finds that.
        let (mut low, mut high) = (self.last, self.last);
        let mut step = 1;
        if self.list.get(low).is_some_and(is_before) {
            while self.list.get(high).is_some_and(is_before) {
                low = high;
                high = (high + step).min(self.list.len());
                step *= 2;
            }
        } else {
            while low > 0 && !is_before(&self.list[low - 1]) {
                high = low;
                low = low.saturating_sub(step);
                step *= 2;
            }
        }
        let place = low + self.list[low..high].partition_point(is_before);
        self.last = place;
        let entry = self.list.get(place)?;
        ((self.key)(entry) == key).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_found_from_wherever_the_last_one_was(
            mut list in proptest::collection::vec(0_u32..60, 0..80),
            keys in proptest::collection::vec(0_u32..64, 1..60),
        ) {
            list.sort_unstable();
            let numbered: Vec<(u32, usize)> = list.iter().copied().zip(0..).collect();
            let mut finder = Finder::new(&numbered, |entry| entry.0);
            for key in keys {
                let expected = numbered.iter().find(|entry| entry.0 == key);
                prop_assert_eq!(finder.find(key), expected);
            }
        }
    }
}
