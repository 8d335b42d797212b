//! What was open on a thread when it launched a kernel: ranges of the program, operators that the trace names.

use std::collections::BTreeMap;

use super::join::{Call, Operation};
use super::ledger::Time;
use crate::measure::packed_rows::PackedRows;
use crate::model::{HostKind, HostSlice, TextId, ThreadId};

/// So many launches are kept until all ranges are known; the time of others counts as not launched in any that is known.
const LAUNCHES_MAX: usize = 1 << 24;

/// A range or an operator.
#[derive(Debug, Clone, Copy)]
struct Open {
    start_ns: u64,
    end_ns: u64,
    name: TextId,
}

/// Slices by thread, and the launches.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    ranges: BTreeMap<ThreadId, Vec<Open>>,
    operators: BTreeMap<ThreadId, Vec<Open>>,
    /// By thread: when a kernel was launched, and how long it ran.
    launches: BTreeMap<ThreadId, PackedRows<2>>,
    kept: usize,
    is_settled: bool,
    /// Launches that there was no room for.
    pub(super) left_out: Time,
}

impl Contexts {
    /// Takes in a slice, if it is a range or an operator of a thread.
    pub(super) fn slice(&mut self, slice: &HostSlice) {
        let slices = match slice.kind {
            HostKind::Range => &mut self.ranges,
            HostKind::Operator => &mut self.operators,
            _ => return,
        };
        if slice.thread.index() != HostSlice::NO_THREAD {
            slices.entry(slice.thread).or_default().push(Open {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                name: slice.name,
            });
        }
    }

    /// Takes in a kernel and the call that launched it.
    pub(super) fn launch(&mut self, operation: &Operation, call: Call) {
        let duration_ns = operation.duration_ns();
        if self.kept == LAUNCHES_MAX {
            self.left_out.add(duration_ns);
            return;
        }
        self.kept += 1;
        let of_thread = self.launches.entry(call.thread).or_default();
        of_thread.push([call.start_ns, duration_ns]);
    }

    /// Whether there are ranges.
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Hands over each launch with the ranges that it is in, the innermost first.
    pub(super) fn each_in_ranges(&mut self, take: impl FnMut(ThreadId, &[TextId], u64)) {
        self.settle();
        walk(&self.launches, &mut self.ranges, take);
    }

    /// Hands over each launch with the operators that it is in, the innermost first.
    pub(super) fn each_in_operators(&mut self, take: impl FnMut(ThreadId, &[TextId], u64)) {
        self.settle();
        walk(&self.launches, &mut self.operators, take);
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.is_settled, true) {
            self.launches
                .values_mut()
                .for_each(|of_thread| of_thread.sort());
        }
    }
}

fn walk(
    launches: &BTreeMap<ThreadId, PackedRows<2>>,
    slices: &mut BTreeMap<ThreadId, Vec<Open>>,
    mut take: impl FnMut(ThreadId, &[TextId], u64),
) {
    let (mut chain, mut none) = (Vec::new(), Vec::new());
    for (&thread, of_thread) in launches {
        let slices = slices.get_mut(&thread).unwrap_or(&mut none);
        // What begins together is as wide outside as inside, or wider.
        slices.sort_by_key(|slice| (slice.start_ns, std::cmp::Reverse(slice.end_ns)));
        let (mut next, mut open): (usize, Vec<Open>) = (0, Vec::new());
        for [time_ns, duration_ns] in of_thread.iter() {
            while let Some(slice) = slices.get(next)
                && slice.start_ns <= time_ns
            {
                open.retain(|outer| outer.end_ns > slice.start_ns);
                open.push(*slice);
                next += 1;
            }
            open.retain(|outer| outer.end_ns > time_ns);
            chain.clear();
            chain.extend(open.iter().rev().map(|slice| slice.name));
            take(thread, &chain, duration_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GpuRecord, Texts};

    #[test]
    fn a_launch_is_in_the_ranges_that_are_open() {
        let mut texts = Texts::default();
        let [step, forward] = ["step", "forward"].map(|name| texts.intern(name));
        let mut contexts = Contexts::default();
        for (thread, name, start_ns, end_ns) in
            [(0, forward, 10, 20), (0, step, 10, 40), (1, step, 0, 99)]
        {
            contexts.slice(&HostSlice {
                kind: HostKind::Range,
                thread: ThreadId::new(thread),
                name,
                start_ns,
                end_ns,
                ..HostSlice::default()
            });
        }
        for time_ns in [40, 5, 10, 20] {
            let record = GpuRecord {
                start_ns: 100,
                end_ns: 100 + time_ns,
                ..GpuRecord::default()
            };
            let call = Call {
                start_ns: time_ns,
                end_ns: time_ns + 1,
                thread: ThreadId::new(0),
                name: TextId::EMPTY,
            };
            contexts.launch(&Operation::from(&record), call);
        }
        // Calls that the trace gives to no thread are in no range.
        let call = Call {
            start_ns: 10,
            end_ns: 11,
            thread: ThreadId::new(HostSlice::NO_THREAD),
            name: TextId::EMPTY,
        };
        contexts.launch(&Operation::from(&GpuRecord::default()), call);
        let mut seen = Vec::new();
        contexts.each_in_ranges(|_, chain, duration_ns| seen.push((duration_ns, chain.to_vec())));
        let expected = [
            (5, vec![]),
            (10, vec![forward, step]),
            (20, vec![step]),
            (40, vec![]),
            (0, vec![]),
        ];
        assert_eq!(seen, expected);
    }
}
