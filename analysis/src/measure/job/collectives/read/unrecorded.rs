//! Kernels of collectives of which no call is known, as in files of other profilers and in graphs that are launched again.
//!
//! A communicator has a stream of its own, on which all its ranks run the same collectives in the same order. What they do is told by ranges and calls of NCCL or
//! RCCL around their launches, and by the names of the kernels: RCCL has one for all functions.

use std::collections::{HashMap, HashSet};

use super::operations::{BY_CALL, Lane, Member, Shape};
use crate::containers::packed_rows::PackedRows;
use rsys_traces::model::{
    CollectiveCall, CollectiveName, GpuRecord, HostKind, HostSlice, Model, Process, QueueId,
    TextId, ThreadId,
};

/// Calls in front of a launch that are looked at: those of a group come in front of its end, in which they are launched.
const LOOKED: usize = 64;
/// Launches that are kept, at most.
const LAUNCHES: usize = 1 << 24;
/// What collectives are called of which nothing is told.
const ANY: &str = "collective";

/// A kernel of a collective.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    queue: QueueId,
    name: TextId,
    link: u64,
}

impl From<&GpuRecord> for Kernel {
    fn from(record: &GpuRecord) -> Self {
        Self {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            queue: record.queue,
            name: record.name,
            link: record.link,
        }
    }
}

/// A call of a library that communicates: begin, end and name.
type Call = (u64, u64, TextId);

/// Such kernels of a process, and what is known around their launches.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded {
    kernels: Vec<Kernel>,
    /// Calls of which nothing but the name is known.
    calls: HashMap<ThreadId, Vec<Call>>,
    /// Threads, begins and links of all launches: which of them is within a call is known when all was read.
    launches: PackedRows<3>,
    /// By link and begin: the ranges that kernels were launched in.
    ranges: HashMap<(u64, u64), TextId>,
}

/// What is found of a process.
#[derive(Debug, Default)]
pub(super) struct ByOrder {
    pub(super) members: Vec<(Member<String>, PackedRows<4>)>,
    /// Kernels of which nothing tells what they are.
    pub(super) left_out: u64,
}

impl Unrecorded {
    /// Whether a call says no more of a collective than what it does.
    pub(super) fn is_nameless(call: &CollectiveCall) -> bool {
        call.communicator.is_empty() && call.thread.index() == HostSlice::NO_THREAD
    }

    pub(super) fn call(&mut self, call: &CollectiveCall) {
        self.ranges.insert((call.link, call.start_ns), call.name);
    }

    #[inline]
    pub(super) fn host(&mut self, slice: &HostSlice) {
        if slice.depth != HostSlice::UNKNOWN_DEPTH {
            return;
        }
        match slice.kind {
            HostKind::Collective if slice.link == 0 => {
                let call = (slice.start_ns, slice.end_ns, slice.name);
                self.calls.entry(slice.thread).or_default().push(call);
            }
            HostKind::Runtime if slice.link != 0 && self.launches.len() < LAUNCHES => {
                let thread = slice.thread.index() as u64;
                self.launches.push([thread, slice.start_ns, slice.link]);
            }
            _ => {}
        }
    }

    pub(super) fn kernel(&mut self, kernel: Kernel) {
        self.kernels.push(kernel);
    }

    /// Leaves out the kernels of these operations.
    pub(super) fn leave_out<'r>(&mut self, operations: impl Iterator<Item = &'r PackedRows<4>>) {
        if self.kernels.is_empty() {
            return;
        }
        let times = self.kernels.iter().map(|one| (one.start_ns, one.end_ns));
        let times: HashSet<(u64, u64)> = times.collect();
        let by_kernels = |row: &[u64; 4]| row[3] & BY_CALL == 0;
        let found = operations.flat_map(|rows| rows.iter().filter(by_kernels));
        let found = found.map(|row| (row[1], row[1] + row[2]));
        let found: HashSet<(u64, u64)> = found.filter(|one| times.contains(one)).collect();
        self.kernels
            .retain(|one| !found.contains(&(one.start_ns, one.end_ns)));
    }

    /// The calls around the launches of the kernels, by their links: the threads, and how many of their calls had begun. Calls are in order.
    fn called(&self) -> HashMap<u64, (ThreadId, usize)> {
        let mut found = HashMap::new();
        if self.calls.is_empty() {
            return found;
        }
        let links: HashSet<u64> = self.kernels.iter().map(|one| one.link).collect();
        for [thread, time_ns, link] in self.launches.iter() {
            let thread = ThreadId::new(thread as usize);
            let Some(calls) = self.calls.get(&thread).filter(|_| links.contains(&link)) else {
                continue;
            };
            let begun = calls.partition_point(|call| call.0 <= time_ns);
            let mut before = calls[..begun].iter().rev().take(LOOKED);
            if before.any(|call| time_ns < call.1) {
                found.insert(link, (thread, begun));
            }
        }
        found
    }

    /// What each kernel does.
    fn whats(&self, model: &Model) -> Vec<CollectiveName> {
        let mut known: HashMap<TextId, CollectiveName> = HashMap::new();
        let mut name = |id: TextId| {
            let what = || CollectiveName::of(model.text(id));
            *known.entry(id).or_insert_with(what)
        };
        let called = self.called();
        let mut what = |kernel: &Kernel| {
            let range = self.ranges.get(&(kernel.link, kernel.start_ns));
            let of_calls = || {
                let (thread, begun) = called.get(&kernel.link)?;
                Some(self.calls[thread][..*begun].iter().rev().take(LOOKED))
            };
            let names: Vec<TextId> = match range {
                Some(range) => vec![*range],
                None => of_calls()
                    .into_iter()
                    .flatten()
                    .map(|call| call.2)
                    .collect(),
            };
            let told = names.into_iter().map(&mut name);
            let told = told
                .into_iter()
                .find(|what| *what != CollectiveName::Untold);
            told.unwrap_or_else(|| name(kernel.name))
        };
        self.kernels.iter().map(&mut what).collect()
    }

    /// The collectives of a process, by their order on each stream. Their shapes are added to those that are known.
    pub(super) fn in_order(
        mut self,
        process: &Process,
        model: &Model,
        shapes: &mut Vec<Shape<String>>,
    ) -> ByOrder {
        self.kernels
            .sort_by_key(|one| (one.start_ns, one.end_ns, one.queue));
        self.calls.values_mut().for_each(|calls| calls.sort());
        self.launches.sort();
        let whats = self.whats(model);
        // Where nothing is told of any, their order still is.
        let is_silent = whats.iter().all(|one| *one == CollectiveName::Untold);
        let mut found = ByOrder::default();
        let mut ids: HashMap<&str, u64> = HashMap::new();
        let mut streams: Vec<(QueueId, PackedRows<4>)> = Vec::new();
        for (kernel, what) in self.kernels.iter().zip(whats) {
            let Some(function) = what.collective().or(is_silent.then_some(ANY)) else {
                found.left_out += 1;
                continue;
            };
            let shape = *ids.entry(function).or_insert_with(|| {
                shapes.push(Shape {
                    name: function.to_owned(),
                    data_type: String::new(),
                    bytes: 0,
                    ranks: None,
                });
                shapes.len() as u64 - 1
            });
            let known = streams.iter().position(|one| one.0 == kernel.queue);
            let place = known.unwrap_or_else(|| {
                streams.push((kernel.queue, PackedRows::default()));
                streams.len() - 1
            });
            let rows = &mut streams[place].1;
            let duration_ns = kernel.end_ns - kernel.start_ns;
            let row = [rows.len() as u64, kernel.start_ns, duration_ns, shape << 2];
            rows.push(row);
        }
        // Of a process that uses several GPUs, each is a rank.
        let device = |queue: QueueId| model.queues.get(queue.index()).map(|one| one.device);
        let mut devices: HashMap<_, u64> = HashMap::new();
        let numbers = streams.iter().map(|(queue, _)| {
            let number = devices.entry(device(*queue)).or_default();
            *number += 1;
            *number
        });
        let numbers: Vec<u64> = numbers.collect();
        let count = devices.len();
        // Ranks are numbered through: each process has as many as it has GPUs.
        let ordinals = devices.keys().flatten();
        let ordinals = ordinals.map(|one| u64::from(model.device(*one).ordinal) + 1);
        let ordinals = ordinals.max().unwrap_or(1).max(count as u64);
        for ((queue, mut rows), number) in streams.into_iter().zip(numbers) {
            rows.sort();
            let ordinal = device(queue).map(|device| u64::from(model.device(device).ordinal));
            let communicator = CollectiveCall::by_order(&format!("communicator {number}"));
            let member = Member {
                communicator,
                rank: match (process.rank, ordinal) {
                    (Some(rank), Some(ordinal)) if count > 1 => Some(rank * ordinals + ordinal),
                    (None, ordinal) if count > 1 => ordinal,
                    (rank, _) => rank,
                },
                lane: Lane::Everyone,
            };
            found.members.push((member, rows));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_come_behind_their_launches_are_found() {
        let slice = |kind: HostKind, (start_ns, end_ns): (u64, u64), link: u64| HostSlice {
            kind,
            start_ns,
            end_ns,
            link,
            depth: HostSlice::UNKNOWN_DEPTH,
            ..HostSlice::default()
        };
        let mut unrecorded = Unrecorded::default();
        for link in 1..=3 {
            let launch = slice(HostKind::Runtime, (100 * link, 100 * link + 5), link);
            unrecorded.host(&launch);
        }
        // The third is of another kernel.
        for link in 1..=2 {
            let record = GpuRecord {
                link,
                ..GpuRecord::default()
            };
            unrecorded.kernel((&record).into());
        }
        unrecorded.host(&slice(HostKind::Collective, (195, 210), 0));
        unrecorded.host(&slice(HostKind::Collective, (295, 310), 0));
        unrecorded.launches.sort();
        let found = unrecorded.called();
        assert_eq!(found, HashMap::from([(2, (ThreadId::default(), 1))]));
    }
}
