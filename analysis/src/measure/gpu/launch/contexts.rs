//! What was open on a thread when it launched a kernel: ranges of the program, operators and functions that were recorded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::join::{Call, Operation};
use super::ledger::Time;
use crate::containers::packed_rows::PackedRows;
use crate::program::recorded::{Open, RecordedRows, Scope};
use rsys_traces::model::{HostKind, HostSlice, OpKind, TextId, ThreadId};

/// So many launches are kept until all ranges are known; the time of others counts as not launched in any that is known.
const LAUNCHES_MAX: usize = 1 << 24;

/// Slices by thread, and the launches.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    /// With the number of each.
    ranges: BTreeMap<ThreadId, Vec<(u64, Open)>>,
    recorded: BTreeMap<ThreadId, RecordedRows>,
    /// By thread: when a kernel was launched, how long it ran, and its name.
    launches: BTreeMap<ThreadId, PackedRows<3>>,
    /// The same of copies and fills.
    moves: BTreeMap<ThreadId, PackedRows<3>>,
    kept: usize,
    is_settled: bool,
    /// Launches that there was no room for.
    pub(super) left_out: Time,
}

/// The kernels of a name that were launched with the same scopes open, the innermost first.
pub(super) struct Launched<'s> {
    pub(super) thread: ThreadId,
    pub(super) scopes: &'s [Scope],
    pub(super) kernel: TextId,
    pub(super) time: Time,
}

impl Contexts {
    /// Takes in a slice, if it is a range, an operator or a function of a thread.
    pub(super) fn slice(&mut self, slice: &HostSlice) {
        if RecordedRows::is_one(slice) {
            let recorded = self.recorded.entry(slice.thread).or_default();
            recorded.push(slice);
        } else if slice.kind == HostKind::Range && slice.thread.index() != HostSlice::NO_THREAD {
            let range = Open {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                scope: Scope {
                    name: slice.name,
                    shapes: TextId::EMPTY,
                    is_operator: false,
                },
            };
            let of_thread = self.ranges.entry(slice.thread).or_default();
            of_thread.push((slice.number, range));
        }
    }

    /// Takes in a kernel, a copy or a fill, and the call that launched it.
    pub(super) fn launch(&mut self, operation: &Operation, call: Call) {
        let duration_ns = operation.duration_ns();
        let is_kernel = operation.kind == OpKind::Kernel;
        if self.kept == LAUNCHES_MAX {
            if is_kernel {
                self.left_out.add(duration_ns);
            }
            return;
        }
        self.kept += 1;
        let threads = if is_kernel {
            &mut self.launches
        } else {
            &mut self.moves
        };
        let of_thread = threads.entry(call.thread).or_default();
        let name = operation.name.index() as u64;
        of_thread.push([call.start_ns, duration_ns, name]);
    }

    /// Whether there are ranges.
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Hands over all launches with the ranges that they are in.
    pub(super) fn each_in_ranges(&mut self, mut take: impl FnMut(Launched<'_>)) {
        self.settle();
        for (&thread, launches) in &self.launches {
            let ranges = self.ranges.get_mut(&thread).map_or(&mut [][..], |of| of);
            // What begins together is as wide outside as inside, or wider.
            ranges.sort_by_key(|(number, range)| (range.start_ns, Reverse(range.end_ns), *number));
            let ranges = ranges.iter().map(|(_, range)| *range);
            walk(thread, launches, ranges, &mut take);
        }
    }

    /// Hands over all launches with the operators and functions that they are in.
    pub(super) fn each_in_recorded(&mut self, mut take: impl FnMut(Launched<'_>)) {
        self.settle();
        for (&thread, launches) in &self.launches {
            match self.recorded.get_mut(&thread) {
                Some(recorded) => {
                    recorded.sort();
                    walk(thread, launches, recorded.iter(), &mut take);
                }
                None => walk(thread, launches, std::iter::empty(), &mut take),
            }
        }
    }

    /// Hands over all copies and fills with the operators and functions that they were launched in.
    pub(super) fn each_moved(&mut self, mut take: impl FnMut(Launched<'_>)) {
        self.settle();
        for (&thread, moves) in &self.moves {
            match self.recorded.get_mut(&thread) {
                Some(recorded) => {
                    recorded.sort();
                    walk(thread, moves, recorded.iter(), &mut take);
                }
                None => walk(thread, moves, std::iter::empty(), &mut take),
            }
        }
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let all = self.launches.values_mut().chain(self.moves.values_mut());
            all.for_each(|of_thread| of_thread.sort());
        }
    }
}

/// Chains of scopes as a tree, so that each is one number; 0 is the empty one.
#[derive(Debug)]
struct Chains {
    /// What each stands in, and its innermost scope; the first is never examined.
    nodes: Vec<(u32, Scope)>,
    numbers: HashMap<(u32, Scope), u32>,
    /// Every slice is a chain of its own, however equal others are.
    are_apart: bool,
}

impl Default for Chains {
    fn default() -> Self {
        let none = Scope {
            name: TextId::EMPTY,
            shapes: TextId::EMPTY,
            is_operator: false,
        };
        Self {
            nodes: vec![(0, none)],
            numbers: HashMap::new(),
            are_apart: false,
        }
    }
}

impl Chains {
    fn within(&mut self, outside: u32, scope: Scope) -> u32 {
        let nodes = &mut self.nodes;
        if self.are_apart {
            nodes.push((outside, scope));
            return nodes.len() as u32 - 1;
        }
        *self.numbers.entry((outside, scope)).or_insert_with(|| {
            nodes.push((outside, scope));
            nodes.len() as u32 - 1
        })
    }

    fn innermost_first(&self, mut number: u32, chain: &mut Vec<Scope>) {
        chain.clear();
        while number != 0 {
            let (outside, scope) = self.nodes[number as usize];
            chain.push(scope);
            number = outside;
        }
    }
}

/// What is open on a thread, the outermost first, each with the number of the chain that ends with it.
#[derive(Debug, Default)]
struct OpenScopes {
    list: Vec<(Open, u32)>,
    chains: Chains,
}

impl OpenScopes {
    /// Forgets what has ended.
    fn pass(&mut self, time_ns: u64) {
        if self.list.iter().all(|(one, _)| one.end_ns > time_ns) {
            return;
        }
        let first = self.list.iter().position(|(one, _)| one.end_ns <= time_ns);
        self.list.retain(|(one, _)| one.end_ns > time_ns);
        if self.chains.are_apart {
            return;
        }
        // Where slices do not nest, some that are open stood in one that has ended.
        for place in first.unwrap_or(0)..self.list.len() {
            let number = self
                .chains
                .within(self.innermost(place), self.list[place].0.scope);
            self.list[place].1 = number;
        }
    }

    fn begin(&mut self, slice: Open) {
        self.pass(slice.start_ns);
        let number = self
            .chains
            .within(self.innermost(self.list.len()), slice.scope);
        self.list.push((slice, number));
    }

    /// The chain of those before this place.
    fn innermost(&self, place: usize) -> u32 {
        place.checked_sub(1).map_or(0, |last| self.list[last].1)
    }
}

/// Hands over the launches of a thread, in the order of time, each with the number of the innermost slice that is open then, or 0. Slices are numbered
/// from 1 on; the answer has what each stands in, and its scope.
pub(in crate::measure::gpu) fn walk_apart<const N: usize>(
    launches: &PackedRows<N>,
    slices: impl Iterator<Item = Open>,
    mut take: impl FnMut([u64; N], u32),
) -> Vec<(u32, Scope)> {
    let (mut slices, mut open) = (slices.peekable(), OpenScopes::default());
    open.chains.are_apart = true;
    for row in launches.iter() {
        while let Some(slice) = slices.next_if(|slice| slice.start_ns <= row[0]) {
            open.begin(slice);
        }
        open.pass(row[0]);
        take(row, open.innermost(open.list.len()));
    }
    open.chains.nodes
}

fn walk(
    thread: ThreadId,
    launches: &PackedRows<3>,
    slices: impl Iterator<Item = Open>,
    take: &mut impl FnMut(Launched<'_>),
) {
    let (mut slices, mut open) = (slices.peekable(), OpenScopes::default());
    let mut times: HashMap<(u32, u64), Time> = HashMap::new();
    for [time_ns, duration_ns, kernel] in launches.iter() {
        while let Some(slice) = slices.next_if(|slice| slice.start_ns <= time_ns) {
            open.begin(slice);
        }
        open.pass(time_ns);
        let chain = open.innermost(open.list.len());
        times.entry((chain, kernel)).or_default().add(duration_ns);
    }
    let mut scopes = Vec::new();
    for ((chain, kernel), time) in times {
        open.chains.innermost_first(chain, &mut scopes);
        take(Launched {
            thread,
            scopes: &scopes,
            kernel: TextId::at(kernel as usize),
            time,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::{GpuRecord, Texts};

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
                is_graph: false,
            };
            contexts.launch(&Operation::from(&record), call);
        }
        // Calls that the trace gives to no thread are in no range.
        let call = Call {
            start_ns: 10,
            end_ns: 11,
            thread: ThreadId::new(HostSlice::NO_THREAD),
            name: TextId::EMPTY,
            is_graph: false,
        };
        contexts.launch(&Operation::from(&GpuRecord::default()), call);
        let mut seen = Vec::new();
        contexts.each_in_ranges(|launched| {
            let names: Vec<_> = launched.scopes.iter().map(|scope| scope.name).collect();
            seen.push((launched.time.total_ns, launched.time.count, names));
        });
        seen.sort();
        let expected = [
            (0, 1, vec![]),
            (10, 1, vec![forward, step]),
            (20, 1, vec![step]),
            (45, 2, vec![]),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_does_not_nest_is_open_all_the_same() {
        let mut texts = Texts::default();
        let [caller, op, late] = ["caller", "op", "late"].map(|name| texts.intern(name));
        let mut contexts = Contexts::default();
        for (kind, name, start_ns, end_ns) in [
            (HostKind::Operator, op, 10, 30),
            (HostKind::Function, caller, 10, 30),
            (HostKind::Function, late, 20, 50),
        ] {
            contexts.slice(&HostSlice {
                kind,
                name,
                start_ns,
                end_ns,
                ..HostSlice::default()
            });
        }
        for time_ns in [15, 25, 40] {
            let call = Call {
                start_ns: time_ns,
                end_ns: time_ns + 1,
                thread: ThreadId::new(0),
                name: TextId::EMPTY,
                is_graph: false,
            };
            let record = GpuRecord {
                end_ns: time_ns,
                ..GpuRecord::default()
            };
            contexts.launch(&Operation::from(&record), call);
        }
        let mut seen = Vec::new();
        contexts.each_in_recorded(|launched| {
            let names: Vec<_> = launched.scopes.iter().map(|scope| scope.name).collect();
            seen.push((launched.time.total_ns, names));
        });
        seen.sort();
        let expected = [
            (15, vec![op, caller]),
            (25, vec![late, op, caller]),
            (40, vec![late]),
        ];
        assert_eq!(seen, expected);
    }
}
