//! The copies of each call, and which calls that copy aside have waited for their own, as those of pageable memory do.

use std::collections::HashMap;

use super::ids::CorrelationId;
use rsys_traces::model::{Activity, DeviceId, Effect, GpuRecord, ProcessId, TextId};

/// An asynchronous copy whose call took less has not held its thread, whatever its times say.
const HELD_NS: u64 = 20_000;

/// The copies of a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    /// When the last of them ended.
    pub(crate) end_ns: u64,
    pub(crate) duration_ns: u64,
    /// Of the last of them: its GPU, direction and name.
    pub(crate) device: DeviceId,
    pub(crate) direction: TextId,
    pub(crate) name: TextId,
}

/// The copies of all calls.
#[derive(Debug, Default)]
pub(crate) struct CopiesOfCalls(HashMap<(ProcessId, CorrelationId), Copied>);

impl CopiesOfCalls {
    /// Takes in an operation, if it is a copy whose call is known.
    pub(crate) fn take(&mut self, record: &GpuRecord) {
        let call = CorrelationId::of_operation(record);
        let Some(call) = call.filter(|_| record.activity == Activity::Copy) else {
            return;
        };
        let copied = self.0.entry((record.process, call)).or_default();
        copied.duration_ns += record.duration_ns();
        if record.end_ns >= copied.end_ns {
            copied.end_ns = record.end_ns;
            copied.device = record.device;
            (copied.direction, copied.name) = (record.direction, record.name);
        }
    }

    /// The copies of the call with a link of a process.
    pub(crate) fn of(&self, process: ProcessId, link: u64) -> Option<&Copied> {
        self.0.get(&(process, CorrelationId::new(link)?))
    }
}

impl Copied {
    /// Whether a call that copies aside has waited for these, its own copies: it returned only when they had ended.
    #[inline]
    pub(crate) fn held(&self, effect: Effect, (start_ns, end_ns): (u64, u64)) -> bool {
        effect == Effect::CopiesAside && end_ns - start_ns >= HELD_NS && self.end_ns <= end_ns
    }
}
