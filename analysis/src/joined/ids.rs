//! The two kinds of numbers by which records name each other. In records both are `link`s.

use rsys_traces::model::{CollectiveCall, GpuRecord, HostKind, HostSlice};

/// What a call of a runtime and the operations of GPUs that it caused have in common, within a process. A file may use one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CorrelationId(u64);

impl CorrelationId {
    /// Of a link that is known to be one; 0 is none.
    pub(crate) fn new(link: u64) -> Option<Self> {
        (link != 0).then_some(Self(link))
    }

    pub(crate) fn of_operation(record: &GpuRecord) -> Option<Self> {
        Self::new(record.link)
    }

    /// Of a call that some thread made of the runtime of GPUs.
    pub(crate) fn of_call(slice: &HostSlice) -> Option<Self> {
        let is_call = matches!(slice.kind, HostKind::Runtime | HostKind::Hsa);
        let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
        Self::new(slice.link).filter(|_| is_call && is_thread)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// What the operations between ranks that were called in one group have in common, with the call that ends the group, within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(u64);

impl GroupId {
    pub(crate) fn of(call: &CollectiveCall) -> Self {
        Self(call.link)
    }

    /// Of a call between ranks, or of the end of a group.
    pub(crate) fn of_call(slice: &HostSlice) -> Option<Self> {
        let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
        let is_of_ranks = slice.kind == HostKind::Collective && is_thread && slice.link != 0;
        is_of_ranks.then_some(Self(slice.link))
    }

    /// What the kernel itself says, as Kineto's files have it.
    pub(crate) fn named_by(kernel: &GpuRecord) -> Option<Self> {
        (kernel.link != 0).then_some(Self(kernel.link))
    }

    /// Whether it is of calls of MPI, which have no kernel.
    pub(crate) fn is_of_mpi(self) -> bool {
        self.0 >> 63 != 0
    }
}
