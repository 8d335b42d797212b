//! What is kept of a file: some 40 bytes for each operation of a GPU with its call, 12 for each range, operator and function.

use crate::containers::packed_rows::PackedRows;
use crate::measure::Measure;
use crate::measure::gpu::gaps::Gaps;
use rsys_traces::model::entry;
use rsys_traces::model::{Batch, HostKind, HostSlice, OpKind};

/// Kinds of slices that may mark iterations, the likeliest first.
pub(super) const SLICE_KINDS: [HostKind; 3] =
    [HostKind::Range, HostKind::Operator, HostKind::Function];
/// In place of a kind of slices: a mark.
pub(super) const MARK: u64 = SLICE_KINDS.len() as u64;

/// The records of a file.
#[derive(Debug)]
pub(super) struct Records {
    /// Calls, waits and samples of the host, and when GPUs worked.
    pub(super) gaps: Gaps,
    /// By GPU: begin, duration, activity twice plus one for kernels, link, name.
    pub(super) operations: Vec<PackedRows<5>>,
    /// By process: begin, duration, twice the kind plus one if the trace ends before it did, name, thread plus one (0: none).
    pub(super) slices: Vec<PackedRows<5>>,
    /// Calls of RCCL by thread: begin, duration, link, name.
    pub(super) collectives: Vec<PackedRows<4>>,
    /// Operations of RCCL by process: link of the call or of the end of its group, name.
    pub(super) grouped: Vec<PackedRows<2>>,
    /// Values by counter.
    pub(super) values: Vec<Vec<(u64, f64)>>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            gaps: Gaps::keeping_all(),
            operations: Vec::new(),
            slices: Vec::new(),
            collectives: Vec::new(),
            grouped: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl Records {
    pub(super) fn take(&mut self, batch: &Batch) {
        self.gaps.take(batch);
        for record in &batch.gpu {
            let is_kernel = u64::from(record.kind == OpKind::Kernel);
            entry(&mut self.operations, record.device.index()).push([
                record.start_ns,
                record.duration_ns(),
                (record.activity as u64) << 1 | is_kernel,
                record.link,
                record.name.index() as u64,
            ]);
        }
        for slice in &batch.host {
            self.slice(slice);
        }
        for mark in &batch.marks {
            let thread = mark.thread.index() as u64 + 1;
            let row = [mark.time_ns, 0, MARK << 1, mark.name.index() as u64, thread];
            entry(&mut self.slices, mark.process.index()).push(row);
        }
        for call in &batch.collectives {
            let row = [call.link, call.name.index() as u64];
            entry(&mut self.grouped, call.process.index()).push(row);
        }
        for value in batch.counters.iter().filter(|one| one.value.is_finite()) {
            entry(&mut self.values, value.counter.index()).push((value.time_ns, value.value));
        }
    }

    fn slice(&mut self, slice: &HostSlice) {
        let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
        let (name, duration_ns) = (slice.name.index() as u64, slice.end_ns - slice.start_ns);
        if slice.kind == HostKind::Collective && is_thread {
            let row = [slice.start_ns, duration_ns, slice.link, name];
            entry(&mut self.collectives, slice.thread.index()).push(row);
        }
        if let Some(kind) = SLICE_KINDS.iter().position(|kind| *kind == slice.kind) {
            let thread = if is_thread {
                slice.thread.index() as u64 + 1
            } else {
                0
            };
            let kind = (kind as u64) << 1 | u64::from(slice.is_open);
            let row = [slice.start_ns, duration_ns, kind, name, thread];
            entry(&mut self.slices, slice.process.index()).push(row);
        }
    }

    /// Brings everything into order.
    pub(super) fn sort(&mut self) {
        self.operations.iter_mut().for_each(PackedRows::sort);
        self.slices.iter_mut().for_each(PackedRows::sort);
        self.collectives.iter_mut().for_each(PackedRows::sort);
        self.grouped.iter_mut().for_each(PackedRows::sort);
        for values in &mut self.values {
            values.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        }
    }
}
