//! From calls to kernels: when each operation ran on its GPU.
//!
//! Kernels are found by the launches within the calls ([`GroupLaunches`]). What of that comes first does not matter.

use std::collections::{HashMap, VecDeque};

use super::operations::{BY_CALL, FUSED, Lane, Member, Operations, Shape};
use super::proxies::{ClassTimes, Proxies};
use super::unrecorded::{Kernel, Unrecorded};
use crate::containers::sets::widen;
use crate::joined::group_launches::GroupLaunches;
use crate::joined::ids::{CorrelationId, GroupId};
use crate::measure::job::mpi;
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Batch, CollectiveCall, GpuRecord, TextId};

/// Operations of a process that wait for their kernels; when there are more, the oldest is timed by its call.
const WAITING: usize = 1 << 16;
/// Operations whose kernel was seen are kept while so many others come, for one may have several kernels.
const SETTLING: usize = 256;
/// Kernels whose launch was not seen yet.
const EARLY: usize = 1 << 14;

/// The operations of a process.
#[derive(Debug, Default)]
pub(crate) struct ProcessJoin {
    pub(crate) members: HashMap<Member, Operations>,
    /// Operations without a communicator's name or a number: they cannot be found on other ranks.
    pub(crate) unidentified: u64,
    /// Kernels of collectives that no call was found for.
    pub(super) unrecorded: Unrecorded,
    /// What proxies did, when all was read.
    pub(crate) proxy_times: Vec<ClassTimes>,
    proxies: Proxies,
    groups: HashMap<GroupId, Group>,
    /// In the order in which they came and in which their kernels came.
    waiting: VecDeque<GroupId>,
    settling: VecDeque<GroupId>,
    /// By the launches within them.
    launched: HashMap<CorrelationId, GroupId>,
    /// Kernels that came before their launches.
    early: HashMap<CorrelationId, Vec<Kernel>>,
    early_order: VecDeque<CorrelationId>,
}

/// Member, number and shape.
type Operation = (Member, u64, u64);

/// Operations that were called together.
#[derive(Debug, Default)]
struct Group {
    /// With the times of their calls.
    operations: Vec<(Operation, (u64, u64))>,
    /// Begin and end of the calls.
    call: Option<(u64, u64)>,
    is_blocking: bool,
    kernels: Option<(u64, u64)>,
    launches: Vec<CorrelationId>,
}

/// Shapes and processes of all traces.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    pub(crate) processes: Vec<ProcessJoin>,
    pub(crate) shapes: Vec<Shape>,
    /// Calls of MPI.
    pub(crate) mpi: mpi::Recorder,
    shape_ids: HashMap<Shape, u64>,
    launches: GroupLaunches,
}

impl Joining {
    pub(crate) fn take(&mut self, batch: &Batch) {
        self.mpi.take(batch);
        // The calls first: whether one is known decides what the end of a group is.
        for call in &batch.collectives {
            self.call(call);
        }
        for slice in &batch.host {
            entry(&mut self.processes, slice.process.index())
                .unrecorded
                .host(slice);
            self.launches.take(slice, |group, launch| {
                entry(&mut self.processes, slice.process.index()).launch(group, launch);
            });
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
        if Unrecorded::is_nameless(call) {
            of_process.unrecorded.call(call);
            return;
        }
        let (Some(sequence), false) = (call.sequence, call.communicator.is_empty()) else {
            of_process.unidentified += 1;
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

    /// All was read: what has no kernel is timed by its call.
    pub(crate) fn finish(&mut self) {
        for process in &mut self.processes {
            process.finish();
            let proxies = std::mem::take(&mut process.proxies);
            process.proxy_times = proxies.finish(|name| {
                let shape = Shape::of_name(name);
                shape.id(&mut self.shapes, &mut self.shape_ids)
            });
        }
    }
}

impl ProcessJoin {
    fn call(&mut self, call: &CollectiveCall, operation: Operation) {
        let id = GroupId::of(call);
        let group = self.groups.entry(id).or_default();
        if group.call.is_none() {
            self.waiting.push_back(id);
        }
        let times = (call.start_ns, call.end_ns);
        widen(&mut group.call, times);
        group.is_blocking |= call.is_blocking;
        group.operations.push((operation, times));
        while self.waiting.len() > WAITING {
            self.settle_oldest();
        }
    }

    /// A launch within a call of RCCL, or within the end of a group.
    fn launch(&mut self, id: GroupId, launch: CorrelationId) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        group.launches.push(launch);
        self.launched.insert(launch, id);
        for kernel in self.early.remove(&launch).into_iter().flatten() {
            self.ran(id, (kernel.start_ns, kernel.end_ns));
        }
    }

    fn kernel(&mut self, record: &GpuRecord) {
        let span = (record.start_ns, record.end_ns);
        let Some(launch) = CorrelationId::of_operation(record) else {
            self.unrecorded.kernel(record.into());
            return;
        };
        let own = || GroupId::named_by(record).filter(|id| self.groups.contains_key(id));
        if let Some(id) = self.launched.get(&launch).copied().or_else(own) {
            self.ran(id, span);
            return;
        }
        let early = self.early.entry(launch).or_default();
        early.push(record.into());
        self.early_order.push_back(launch);
        // Those of a graph have one launch.
        while self.early_order.len() > EARLY {
            let oldest = self.early_order.pop_front();
            let lost = oldest.and_then(|oldest| self.early.remove(&oldest));
            let lost = lost.into_iter().flatten();
            lost.for_each(|kernel| self.unrecorded.kernel(kernel));
        }
    }

    /// The kernel of a group ran.
    fn ran(&mut self, id: GroupId, span: (u64, u64)) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        if group.kernels.is_none() {
            self.settling.push_back(id);
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
    fn settle(&mut self, id: GroupId) {
        let Some(group) = self.groups.remove(&id) else {
            return;
        };
        for launch in &group.launches {
            self.launched.remove(launch);
        }
        let mut seen: Vec<(TextId, Option<u64>)> = Vec::new();
        for ((member, sequence, shape), times) in group.operations {
            let of_whom = (member.communicator, member.rank);
            // What returns when it is done has its own times: kernels of a graph have one launch.
            let ((start_ns, end_ns), flags) = match group.kernels {
                _ if group.is_blocking => (times, 0),
                Some(times) if seen.contains(&of_whom) => (times, FUSED),
                Some(times) => (times, 0),
                None => (group.call.unwrap_or(times), BY_CALL),
            };
            seen.push(of_whom);
            let row = [sequence, start_ns, end_ns - start_ns, shape << 2 | flags];
            self.members.entry(member).or_default().push(row);
        }
        // Those that were settled by their kernels are still in the line.
        if self.waiting.len() > 2 * self.groups.len() + SETTLING {
            let groups = &self.groups;
            self.waiting.retain(|id| groups.contains_key(id));
        }
    }

    fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.settle_oldest();
        }
        let early = std::mem::take(&mut self.early).into_values().flatten();
        early.for_each(|kernel| self.unrecorded.kernel(kernel));
        *self = Self {
            members: std::mem::take(&mut self.members),
            unidentified: self.unidentified,
            unrecorded: std::mem::take(&mut self.unrecorded),
            proxies: std::mem::take(&mut self.proxies),
            ..Self::default()
        };
    }
}
