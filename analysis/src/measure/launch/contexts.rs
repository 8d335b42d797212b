//! What was open on a thread when it launched a kernel: ranges of the program, operators that the trace names.

use std::collections::BTreeMap;

use super::join::Call;
use super::ledger::Time;
use crate::model::{GpuRecord, HostKind, HostSlice, TextId, ThreadId};

/// So many launches are kept until all ranges are known; the time of others counts as not launched in any that is known.
const LAUNCHES_MAX: usize = 1 << 24;

/// A kernel, and where it was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Launch {
    thread: ThreadId,
    time_ns: u64,
    duration_ns: u64,
}

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
    launches: Vec<Launch>,
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
    pub(super) fn launch(&mut self, record: &GpuRecord, call: Call) {
        let duration_ns = record.duration_ns();
        if self.launches.len() == LAUNCHES_MAX {
            self.left_out.add(duration_ns);
            return;
        }
        self.launches.push(Launch {
            thread: call.thread,
            time_ns: call.start_ns,
            duration_ns,
        });
    }

    /// Whether there are ranges.
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Hands over each launch with the ranges that it is in, the innermost first.
    pub(super) fn each_in_ranges(&mut self, take: impl FnMut(ThreadId, &[TextId], u64)) {
        self.launches.sort_unstable();
        walk(&self.launches, &mut self.ranges, take);
    }

    /// Hands over each launch with the operators that it is in, the innermost first.
    pub(super) fn each_in_operators(&mut self, take: impl FnMut(ThreadId, &[TextId], u64)) {
        self.launches.sort_unstable();
        walk(&self.launches, &mut self.operators, take);
    }
}

fn walk(
    launches: &[Launch],
    slices: &mut BTreeMap<ThreadId, Vec<Open>>,
    mut take: impl FnMut(ThreadId, &[TextId], u64),
) {
    let (mut chain, mut none) = (Vec::new(), Vec::new());
    for of_thread in launches.chunk_by(|one, next| one.thread == next.thread) {
        let thread = of_thread[0].thread;
        let slices = slices.get_mut(&thread).unwrap_or(&mut none);
        // What begins together is as wide outside as inside, or wider.
        slices.sort_by_key(|slice| (slice.start_ns, std::cmp::Reverse(slice.end_ns)));
        let (mut next, mut open): (usize, Vec<Open>) = (0, Vec::new());
        for launch in of_thread {
            while let Some(slice) = slices.get(next)
                && slice.start_ns <= launch.time_ns
            {
                open.retain(|outer| outer.end_ns > slice.start_ns);
                open.push(*slice);
                next += 1;
            }
            open.retain(|outer| outer.end_ns > launch.time_ns);
            chain.clear();
            chain.extend(open.iter().rev().map(|slice| slice.name));
            take(thread, &chain, launch.duration_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Texts;

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
            contexts.launch(&record, call);
        }
        let mut seen = Vec::new();
        contexts.each_in_ranges(|_, chain, duration_ns| seen.push((duration_ns, chain.to_vec())));
        let expected = [
            (5, vec![]),
            (10, vec![forward, step]),
            (20, vec![step]),
            (40, vec![]),
        ];
        assert_eq!(seen, expected);
    }
}
