//! From calls to kernels: when each operation ran on its GPU.
//!
//! A call of RCCL returns long before its operation runs. Its kernel is found by the launches within the call, or within the end of its group, which
//! has the link of the group's operations. What of that comes first does not matter.

use std::collections::{HashMap, VecDeque};

use super::proxies::{OfClass, Proxies};
use crate::containers::packed_rows::PackedRows;
use crate::measure::job::mpi;
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Batch, CollectiveCall, GpuRecord, HostKind, HostSlice, TextId};

/// Launches of a thread that are kept until its call of RCCL ends.
const LAUNCHES: usize = 4096;
/// Operations of a process that wait for their kernels; when there are more, the oldest is timed by its call.
const WAITING: usize = 1 << 16;
/// Operations whose kernel was seen are kept while so many others come, for one may have several kernels.
const SETTLING: usize = 256;
/// Kernels whose launch was not seen yet.
const EARLY: usize = 1 << 14;

/// What tells the operations of a communicator apart that count separately: collectives, and messages by direction and partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Collectives of all ranks.
    Everyone,
    /// Messages to or from a rank, as the name of the function says.
    With(u64, TextId),
}

/// One rank of a communicator, in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) communicator: TextId,
    /// The rank in the communicator.
    pub(super) rank: Option<u64>,
    pub(super) lane: Lane,
}

/// What all ranks must agree on: operation, type of the elements, bytes, and number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) name: TextId,
    pub(super) data_type: TextId,
    pub(super) bytes: u64,
    pub(super) ranks: Option<u64>,
}

impl Shape {
    /// The bytes, unless they are not known: no collective that moves data moves none.
    pub(super) fn known_bytes(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.bytes)
    }

    /// Of operations of which the function's name is known alone.
    pub(super) fn of_name(name: TextId) -> Self {
        Self {
            name,
            data_type: TextId::EMPTY,
            bytes: 0,
            ranks: None,
        }
    }

    /// Its place among the shapes.
    pub(super) fn id(self, shapes: &mut Vec<Self>, ids: &mut HashMap<Self, u64>) -> u64 {
        *ids.entry(self).or_insert_with(|| {
            shapes.push(self);
            shapes.len() as u64 - 1
        })
    }
}

/// How an operation was timed, beside its shape: `shape << 2 | flags`.
pub(super) const BY_CALL: u64 = 1;
/// The kernel is that of an operation before it in the same group.
pub(super) const FUSED: u64 = 2;

/// So many rows of a rank are put in order at once, and a quarter of all: what was not yet takes several times the memory.
const AT_ONCE: usize = 512;

/// The operations of a member. Rows have number, begin, duration, shape and flags.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) rows: PackedRows<4>,
    count: usize,
    in_order: usize,
}

impl Operations {
    /// Rows that are there already.
    pub(super) fn of(rows: PackedRows<4>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }

    fn push(&mut self, row: [u64; 4]) {
        self.rows.push(row);
        self.count += 1;
        if self.count - self.in_order >= AT_ONCE.max(self.in_order / 4) {
            self.rows.sort();
            self.in_order = self.count;
        }
    }
}

/// The operations of a process.
#[derive(Debug, Default)]
pub(super) struct OfProcess {
    pub(super) members: HashMap<Member, Operations>,
    /// Operations without a communicator's name or a number: they cannot be found on other ranks.
    pub(super) nameless: u64,
    /// Kernels of collectives that no call was found for.
    pub(super) strangers: u64,
    /// What proxies did, when all was read.
    pub(super) of_proxies: Vec<OfClass>,
    proxies: Proxies,
    groups: HashMap<u64, Group>,
    /// Links of groups, in the order in which they came and in which their kernels came.
    waiting: VecDeque<u64>,
    settling: VecDeque<u64>,
    /// Groups by the links of the launches within them.
    launched: HashMap<u64, u64>,
    early: HashMap<u64, (u64, u64)>,
    early_order: VecDeque<u64>,
}

/// Operations that have one link.
#[derive(Debug, Default)]
struct Group {
    operations: Vec<(Member, u64, u64)>,
    /// Begin and end of the calls.
    call: Option<(u64, u64)>,
    is_blocking: bool,
    kernels: Option<(u64, u64)>,
    launches: Vec<u64>,
}

fn widen(span: &mut Option<(u64, u64)>, (start_ns, end_ns): (u64, u64)) {
    let known = span.get_or_insert((start_ns, end_ns));
    *known = (known.0.min(start_ns), known.1.max(end_ns));
}

/// Shapes and processes of all traces.
#[derive(Debug, Default)]
pub(super) struct Joining {
    pub(super) processes: Vec<OfProcess>,
    pub(super) shapes: Vec<Shape>,
    /// Calls of MPI.
    pub(super) mpi: mpi::Recorder,
    shape_ids: HashMap<Shape, u64>,
    /// The launches of each thread since its last call of RCCL.
    launches: Vec<VecDeque<(u64, u64)>>,
}

impl Joining {
    pub(super) fn take(&mut self, batch: &Batch) {
        self.mpi.take(batch);
        // The calls first: whether one is known decides what the end of a group is.
        for call in &batch.collectives {
            self.call(call);
        }
        for slice in &batch.host {
            self.slice(slice);
        }
        for record in &batch.proxies {
            let process = entry(&mut self.processes, record.process.index());
            process.proxies.take(record);
        }
        for record in &batch.gpu {
            if record.activity == Activity::Comm {
                entry(&mut self.processes, record.process.index()).kernel(record);
            }
        }
    }

    fn call(&mut self, call: &CollectiveCall) {
        let of_process = entry(&mut self.processes, call.process.index());
        let (Some(sequence), false) = (call.sequence, call.communicator.is_empty()) else {
            of_process.nameless += 1;
            return;
        };
        let shape = Shape {
            name: call.name,
            data_type: call.data_type,
            bytes: call.bytes,
            ranks: call.ranks,
        };
        let shape = shape.id(&mut self.shapes, &mut self.shape_ids);
        let member = Member {
            communicator: call.communicator,
            rank: call.rank,
            lane: call
                .peer
                .map_or(Lane::Everyone, |peer| Lane::With(peer, call.name)),
        };
        of_process
            .proxies
            .call((member, sequence), shape, call.name);
        of_process.call(call, (member, sequence, shape));
    }

    fn slice(&mut self, slice: &HostSlice) {
        if slice.thread.index() == HostSlice::NO_THREAD || slice.link == 0 {
            return;
        }
        match slice.kind {
            HostKind::Runtime => {
                let launches = entry(&mut self.launches, slice.thread.index());
                if launches.len() == LAUNCHES {
                    launches.pop_front();
                }
                launches.push_back((slice.start_ns, slice.link));
            }
            HostKind::Collective => {
                let launches = entry(&mut self.launches, slice.thread.index());
                let process = entry(&mut self.processes, slice.process.index());
                while let Some((_, launch)) =
                    launches.pop_back_if(|(start_ns, _)| *start_ns >= slice.start_ns)
                {
                    process.launch(slice.link, launch);
                }
                launches.clear();
            }
            _ => {}
        }
    }

    /// All was read: what has no kernel is timed by its call.
    pub(super) fn finish(&mut self) {
        for process in &mut self.processes {
            process.finish();
            let proxies = std::mem::take(&mut process.proxies);
            process.of_proxies = proxies.finish(|name| {
                let shape = Shape::of_name(name);
                shape.id(&mut self.shapes, &mut self.shape_ids)
            });
        }
    }
}

impl OfProcess {
    fn call(&mut self, call: &CollectiveCall, operation: (Member, u64, u64)) {
        let group = self.groups.entry(call.link).or_default();
        if group.call.is_none() {
            self.waiting.push_back(call.link);
        }
        widen(&mut group.call, (call.start_ns, call.end_ns));
        group.is_blocking |= call.is_blocking;
        group.operations.push(operation);
        while self.waiting.len() > WAITING {
            self.settle_oldest();
        }
    }

    /// A launch within a call of RCCL, or within the end of a group.
    fn launch(&mut self, link: u64, launch: u64) {
        let Some(group) = self.groups.get_mut(&link) else {
            return;
        };
        group.launches.push(launch);
        self.launched.insert(launch, link);
        if let Some(span) = self.early.remove(&launch) {
            self.ran(link, span);
        }
    }

    fn kernel(&mut self, record: &GpuRecord) {
        let span = (record.start_ns, record.end_ns);
        // Of Kineto's files the kernel itself says which operation it is of.
        let own = Some(record.link).filter(|link| *link != 0 && self.groups.contains_key(link));
        if let Some(link) = self.launched.get(&record.link).copied().or(own) {
            self.ran(link, span);
            return;
        }
        if record.link == 0 {
            self.strangers += 1;
            return;
        }
        match self.early.get_mut(&record.link) {
            Some(known) => *known = (known.0.min(span.0), known.1.max(span.1)),
            None => {
                self.early.insert(record.link, span);
                self.early_order.push_back(record.link);
            }
        }
        if self.early_order.len() > EARLY {
            let oldest = self.early_order.pop_front();
            let lost = oldest.and_then(|oldest| self.early.remove(&oldest));
            self.strangers += u64::from(lost.is_some());
        }
    }

    /// The kernel of a group ran.
    fn ran(&mut self, link: u64, span: (u64, u64)) {
        let Some(group) = self.groups.get_mut(&link) else {
            return;
        };
        if group.kernels.is_none() {
            self.settling.push_back(link);
        }
        widen(&mut group.kernels, span);
        if self.settling.len() > SETTLING
            && let Some(oldest) = self.settling.pop_front()
        {
            self.settle(oldest);
        }
    }

    fn settle_oldest(&mut self) {
        if let Some(oldest) = self.waiting.pop_front() {
            self.settle(oldest);
        }
    }

    /// Stores the operations of a group, if that was not done yet.
    fn settle(&mut self, link: u64) {
        let Some(group) = self.groups.remove(&link) else {
            return;
        };
        for launch in &group.launches {
            self.launched.remove(launch);
        }
        let by_call = if group.kernels.is_some() || group.is_blocking {
            0
        } else {
            BY_CALL
        };
        let Some((start_ns, end_ns)) = group.kernels.or(group.call) else {
            return;
        };
        let mut seen: Vec<(TextId, Option<u64>)> = Vec::new();
        for (member, sequence, shape) in group.operations {
            let of_whom = (member.communicator, member.rank);
            let fused = if seen.contains(&of_whom) { FUSED } else { 0 };
            seen.push(of_whom);
            let row = [
                sequence,
                start_ns,
                end_ns - start_ns,
                shape << 2 | by_call | fused,
            ];
            self.members.entry(member).or_default().push(row);
        }
        // Those that were settled by their kernels are still in the line.
        if self.waiting.len() > 2 * self.groups.len() + SETTLING {
            let groups = &self.groups;
            self.waiting.retain(|link| groups.contains_key(link));
        }
    }

    fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.settle_oldest();
        }
        self.strangers += self.early.len() as u64;
        *self = Self {
            members: std::mem::take(&mut self.members),
            nameless: self.nameless,
            strangers: self.strangers,
            proxies: std::mem::take(&mut self.proxies),
            ..Self::default()
        };
    }
}
