//! Operations of GPUs by the threads that launched them, and the operators of these.

use std::collections::{BTreeMap, HashMap};

use super::By;
use super::gradients::NumberedRow;
use crate::containers::packed_rows::PackedRows;
use crate::measure::gpu::launch::join::{Call, Join, Operation};
use crate::program::recorded::RecordedRows;
use rsys_traces::model::{Activity, Batch, HostKind, HostSlice, OpKind, TextId, ThreadId, entry};

/// What distinguishes operations of the same name and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct What {
    pub(super) activity: Activity,
    pub(super) direction: TextId,
    pub(super) bytes: u64,
    /// A call is known that launched it.
    pub(super) is_linked: bool,
    /// That call launched a graph.
    pub(super) is_of_graph: bool,
}

/// When the call began, begin and duration of the operation, GPU and name, and the number of its [`What`].
pub(super) type LaunchRow = [u64; 5];

/// The operations of a thread, and its operators.
#[derive(Debug, Default)]
pub(super) struct OfThread {
    pub(super) launches: PackedRows<5>,
    pub(super) operators: RecordedRows,
    /// Functions of Python, and modules, where those are asked for.
    pub(super) functions: RecordedRows,
    /// Operators that have a number in autograd, likewise.
    pub(super) numbered: PackedRows<4>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Launches {
    pub(super) threads: BTreeMap<ThreadId, OfThread>,
    /// Operations of which no call is known.
    pub(super) unlinked: PackedRows<5>,
    whats: Vec<What>,
    numbers: HashMap<What, u64>,
    joins: Vec<Join>,
}

impl Launches {
    /// Takes in a batch; functions if they are asked for.
    pub(super) fn take(&mut self, batch: &Batch, by: By) {
        let with_functions = matches!(by, By::Module | By::Line);
        let mut joins = std::mem::take(&mut self.joins);
        for slice in &batch.host {
            if with_functions && slice.kind == HostKind::Function && RecordedRows::is_one(slice) {
                let of_thread = self.threads.entry(slice.thread).or_default();
                of_thread.functions.push(slice);
            }
            if with_functions && slice.sequence > 0 && RecordedRows::is_one(slice) {
                let row: NumberedRow = [
                    slice.start_ns,
                    u64::MAX - slice.end_ns,
                    slice.sequence,
                    slice.name.index() as u64,
                ];
                let of_thread = self.threads.entry(slice.thread).or_default();
                of_thread.numbered.push(row);
            }
            if slice.kind == HostKind::Operator && RecordedRows::is_one(slice) {
                let of_thread = self.threads.entry(slice.thread).or_default();
                of_thread.operators.push(&HostSlice {
                    shapes: slice.arguments,
                    ..*slice
                });
            }
            let is_call = matches!(slice.kind, HostKind::Runtime | HostKind::Hsa);
            if is_call && slice.link != 0 {
                let join = entry(&mut joins, slice.process.index());
                join.call(slice, |operation, call| self.add(&operation, Some(call)));
            }
        }
        for record in &batch.gpu {
            // Barriers and the like keep no GPU busy.
            if record.activity != Activity::None && record.kind != OpKind::Other {
                let join = entry(&mut joins, record.process.index());
                join.operation(record, |operation, call| self.add(&operation, call));
            }
        }
        self.joins = joins;
    }

    /// What was waiting for calls that did not come.
    pub(super) fn settle(&mut self) {
        for mut join in std::mem::take(&mut self.joins) {
            for operation in join.rest() {
                self.add(&operation, None);
            }
        }
    }

    fn add(&mut self, operation: &Operation, call: Option<Call>) {
        let what = What {
            activity: operation.activity,
            direction: operation.direction,
            bytes: operation.bytes,
            is_linked: call.is_some(),
            is_of_graph: call.is_some_and(|call| call.is_graph),
        };
        let whats = &mut self.whats;
        let number = *self.numbers.entry(what).or_insert_with(|| {
            whats.push(what);
            whats.len() as u64 - 1
        });
        let row = [
            call.map_or(0, |call| call.start_ns),
            operation.start_ns,
            operation.duration_ns(),
            operation.device.index() as u64 | (operation.name.index() as u64) << 32,
            number,
        ];
        let thread = call.map(|call| call.thread);
        match thread.filter(|thread| thread.index() != HostSlice::NO_THREAD) {
            Some(thread) => self.threads.entry(thread).or_default().launches.push(row),
            None => self.unlinked.push(row),
        }
    }

    /// What a row says by number.
    pub(super) fn what(&self, row: &LaunchRow) -> What {
        self.whats.get(row[4] as usize).copied().unwrap_or_default()
    }
}
