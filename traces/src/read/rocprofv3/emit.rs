//! The records that dispatches, copies, calls and marks of rocprofv3 make.

use super::places::{Agent, Places};
use crate::model::{
    Activity, Batch, Effect, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model, OpKind, ProcessId,
    StreamOrder, TextId, ThreadId,
};
use crate::read::known::{Activities, Effects, direction};
use crate::read::left_out::LeftOut;

/// When something was, and where in the file it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) offset: u64,
    pub(super) start_ns: Option<u64>,
    pub(super) end_ns: Option<u64>,
}

/// An operation of a GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'d> {
    pub(super) when: When,
    pub(super) process: ProcessId,
    pub(super) agent: u64,
    pub(super) stream: u64,
    pub(super) queue: u64,
    pub(super) correlation: u64,
    pub(super) bytes: u64,
    pub(super) kind: OpKind,
    pub(super) name: TextId,
    pub(super) grid: [u64; 3],
    /// Words that may say the direction of a copy.
    pub(super) direction: &'d str,
}

/// A call, range or mark of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) when: When,
    pub(super) process: ProcessId,
    /// `None` if any thread may end it.
    pub(super) tid: Option<u64>,
    pub(super) correlation: u64,
    pub(super) bytes: u64,
    pub(super) address: u64,
    pub(super) kind: HostKind,
    pub(super) name: TextId,
}

/// Makes records.
#[derive(Debug)]
pub(super) struct Emit {
    pub(super) kinds: Kinds,
    pub(super) left_out: LeftOut,
    places: Places,
    activities: Activities,
    effects: Effects,
    last_grid: ([u64; 3], TextId),
}

impl Emit {
    pub(super) fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            left_out: LeftOut::default(),
            places: Places::default(),
            activities: Activities::default(),
            effects: Effects::default(),
            last_grid: ([0; 3], TextId::EMPTY),
        }
    }

    /// Begin and end; `None` if they are no times, or not in order.
    #[inline]
    fn times(&mut self, when: When) -> Option<(u64, u64)> {
        match (when.start_ns, when.end_ns) {
            (Some(start_ns), Some(end_ns)) if start_ns <= end_ns => Some((start_ns, end_ns)),
            (Some(_), Some(_)) => {
                self.left_out.backward.add(when.offset);
                None
            }
            _ => {
                self.left_out.timeless.add(when.offset);
                None
            }
        }
    }

    /// Takes in an operation. `agent` says what its agent is.
    #[inline]
    pub(super) fn operation(
        &mut self,
        operation: Operation<'_>,
        agent: impl FnOnce() -> Agent,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let Some((start_ns, end_ns)) = self.times(operation.when) else {
            return;
        };
        let Operation {
            process,
            agent: id,
            stream,
            queue,
            kind,
            name,
            ..
        } = operation;
        let place = self.places.gpu((process, id, stream, queue), agent, model);
        let activity: Activity = self.activities.of(kind, name, &model.texts);
        if self.last_grid.0 != operation.grid {
            self.last_grid = (operation.grid, grid(operation.grid, model));
        }
        let direction = match kind {
            OpKind::Copy => model.texts.intern(direction(operation.direction, b"")),
            _ => TextId::EMPTY,
        };
        batch.gpu.push(GpuRecord {
            start_ns,
            end_ns,
            link: operation.correlation,
            bytes: operation.bytes,
            process: place.process,
            device: place.device,
            queue: place.queue,
            name,
            grid: self.last_grid.1,
            direction,
            source: TextId::EMPTY,
            kind,
            activity,
        });
    }

    /// Takes in a call or a range.
    #[inline]
    pub(super) fn call(&mut self, call: Call, model: &mut Model, batch: &mut Batch) {
        let Some((start_ns, end_ns)) = self.times(call.when) else {
            return;
        };
        let (order, effect, link) = match call.kind {
            HostKind::Runtime | HostKind::Hsa => {
                let (order, effect) = self.effects.of(call.name, &model.texts);
                (order, effect, call.correlation)
            }
            _ => (StreamOrder::None, Effect::None, 0),
        };
        let thread = match call.tid {
            Some(tid) => self.places.thread(call.process, tid, model),
            None => ThreadId::new(HostSlice::NO_THREAD),
        };
        batch.host.push(HostSlice {
            start_ns,
            end_ns,
            link,
            bytes: call.bytes,
            address: call.address,
            stream: 0,
            process: call.process,
            thread,
            name: call.name,
            depth: HostSlice::UNKNOWN_DEPTH,
            kind: call.kind,
            order,
            effect,
            ..HostSlice::default()
        });
    }

    /// Takes in a mark.
    pub(super) fn mark(&mut self, call: Call, model: &mut Model, batch: &mut Batch) {
        let Some((time_ns, _)) = self.times(call.when) else {
            return;
        };
        let thread = self
            .places
            .thread(call.process, call.tid.unwrap_or(0), model);
        batch.marks.push(Mark {
            time_ns,
            process: call.process,
            thread,
            name: call.name,
        });
    }
}

/// A grid as our own traces write it.
fn grid(sizes: [u64; 3], model: &mut Model) -> TextId {
    match sizes {
        [0, 0, 0] => TextId::EMPTY,
        [x, y, z] => model.texts.intern(&format!("{x}\u{d7}{y}\u{d7}{z}")),
    }
}
