//! Idle times of a GPU in parts of a run, and the calls of the host, for questions about these parts.

use std::cmp::Reverse;

use super::explain::Gpu;
use super::explained::Explained;
use super::stretches::Stretches;
use super::{Gaps, Stretch};
use crate::measure::idle_cause::IdleCause;
use rsys_traces::model::{DeviceId, HostKind, Model, ProcessId, TextId, ThreadId};

/// A time in which a GPU was idle, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Idle {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// The stretch of work behind it; `None` behind the last one.
    pub(crate) next: Option<Stretch>,
}

/// A part of idle times that has one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartCause {
    pub(crate) cause: IdleCause,
    pub(crate) place: String,
    pub(crate) ns: u64,
}

/// A call of a thread that no other call contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) thread: ThreadId,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) name: TextId,
}

impl Gaps {
    /// The question, which discards nothing.
    pub(crate) fn keeping_all() -> Self {
        Self::bounded(usize::MAX, 0)
    }

    /// The times in which a GPU worked without a break, in order.
    pub(crate) fn stretches(&self, device: DeviceId) -> Vec<Stretch> {
        let own = self.devices.get(device.index());
        own.map_or_else(Vec::new, |own| own.iter().collect())
    }

    /// The thread that submitted an operation that began at a time, and when its call began.
    pub(crate) fn submission(
        &self,
        process: ProcessId,
        link: u64,
        begin_ns: u64,
    ) -> Option<(ThreadId, u64)> {
        let found = self.host.submission(process, link, begin_ns)?;
        Some((found.thread, found.start_ns))
    }

    /// The calls of a process.
    pub(crate) fn calls(&self, process: ProcessId) -> impl Iterator<Item = Called> {
        let threads = self.host.threads.iter().enumerate();
        let own = threads.filter(move |(_, thread)| thread.process == Some(process));
        own.flat_map(|(index, thread)| {
            let calls = thread.calls_in(0, u64::MAX);
            calls
                .filter(|call| call.kind != HostKind::Wait)
                .map(move |call| Called {
                    thread: ThreadId::new(index),
                    start_ns: call.start_ns,
                    end_ns: call.end_ns(),
                    name: call.name,
                })
        })
    }

    /// First and last time that is known of a process.
    pub(crate) fn span(&self, process: ProcessId) -> Option<(u64, u64)> {
        self.host.span(process)
    }

    /// Why a GPU was idle in some times, which are divided together; the longest first. Their sum is that of the times.
    pub(crate) fn causes(&self, model: &Model, device: DeviceId, times: &[Idle]) -> Vec<PartCause> {
        let mut found = Explained::default();
        let mut gpu = Gpu::new(self.known(model, device), &mut found);
        let last = self.devices.get(device.index()).and_then(Stretches::last);
        for time in times {
            match (time.next, last) {
                (Some(next), _) => gpu.idle_until(time.start_ns, time.end_ns, &next),
                (None, Some(last)) => gpu.after_last(time.start_ns, time.end_ns, &last),
                (None, None) => {}
            }
        }
        let causes = found.finish(model, &self.host, &self.devices, device);
        let mut parts: Vec<PartCause> = causes
            .times()
            .map(|(cause, place, ns)| PartCause { cause, place, ns })
            .collect();
        parts.sort_by_key(|one| (Reverse(one.ns), one.cause.key()));
        parts
    }
}
