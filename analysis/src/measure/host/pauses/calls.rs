//! Calls that wait for a GPU, and those that make memory and give it back.

use std::collections::HashMap;

use crate::model::{
    Activity, Batch, Effect, Frame, HostKind, HostSlice, Model, ProcessId, TextId, ThreadId,
};
use crate::program::call_sites::CallSites;
use crate::program::code_place::innermost;

/// Shorter calls matter to nobody, and are many.
const SHORT_NS: u64 = 1_000;
/// An asynchronous copy whose call took less has not held its thread, whatever its times say.
const BLOCKED_NS: u64 = 20_000;

/// Such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) does: Effect,
    pub(super) process: ProcessId,
    pub(super) thread: ThreadId,
    pub(super) name: TextId,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) bytes: u64,
}

/// What is kept of such a call.
#[derive(Debug, Clone, Copy)]
struct Call {
    does: Effect,
    start_ns: u64,
    link: u64,
    bytes: u64,
    /// Calls of four seconds and more count with that.
    duration_ns: u32,
    process: ProcessId,
    thread: ThreadId,
    name: TextId,
}

impl Call {
    fn end_ns(&self) -> u64 {
        self.start_ns + u64::from(self.duration_ns)
    }
}

/// Calls while records are read.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// When the copies of a call ended.
    copies: HashMap<(ProcessId, u64), u64>,
    sites: CallSites,
}

impl Calls {
    pub(super) fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            if record.activity == Activity::Copy && record.link != 0 {
                let key = (record.process, record.link);
                let end_ns = self.copies.entry(key).or_default();
                *end_ns = record.end_ns.max(*end_ns);
            }
        }
        let calls = batch.host.iter().filter(|slice| matters(slice));
        let calls = calls.map(|slice| Call {
            does: slice.effect,
            start_ns: slice.start_ns,
            link: slice.link,
            bytes: slice.bytes,
            duration_ns: u32::try_from(slice.end_ns - slice.start_ns).unwrap_or(u32::MAX),
            process: slice.process,
            thread: slice.thread,
            name: slice.name,
        });
        self.calls.extend(calls);
        self.sites.take(batch, matters);
    }

    /// To be called when all was taken in.
    pub(super) fn sort(&mut self) {
        self.sites.sort();
        self.calls
            .sort_by_key(|call| (call.end_ns(), call.start_ns, call.thread, call.name));
    }

    /// The calls that wait or handle memory, by their ends.
    pub(super) fn waits(&self) -> impl Iterator<Item = Wait> {
        let calls = self.calls.iter();
        calls.filter_map(move |call| {
            let is_blocked = || {
                let ended_ns = self.copies.get(&(call.process, call.link));
                u64::from(call.duration_ns) >= BLOCKED_NS
                    && ended_ns.is_some_and(|ended_ns| *ended_ns <= call.end_ns())
            };
            (call.does != Effect::CopiesAside || is_blocked()).then_some(Wait {
                does: call.does,
                process: call.process,
                thread: call.thread,
                name: call.name,
                start_ns: call.start_ns,
                end_ns: call.end_ns(),
                bytes: call.bytes,
            })
        })
    }

    /// Where in the program a call was made, if a sample fell into it.
    pub(super) fn place<'m>(&self, wait: &Wait, model: &'m Model) -> Option<&'m Frame> {
        let time = (wait.start_ns, wait.end_ns);
        innermost(self.sites.find(wait.thread, time, model)?, model)
    }
}

/// Whether a call may be one of them: of those that only launch there are many.
#[inline]
fn matters(slice: &HostSlice) -> bool {
    !matches!(slice.effect, Effect::None | Effect::LaunchesGraph)
        && matches!(slice.kind, HostKind::Runtime | HostKind::Hsa)
        && slice.end_ns - slice.start_ns >= SHORT_NS
        && slice.thread.index() != HostSlice::NO_THREAD
}
