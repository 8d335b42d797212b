//! Calls that wait for a GPU, and those that make memory and give it back.

use std::collections::BTreeMap;

use crate::joined::copies::{Copied, CopiesOfCalls};
use crate::joined::ids::CorrelationId;
use crate::joined::submissions::Submissions;
use crate::measure::gpu::copies::{TO_HOST, direction, host_memory};
use crate::measure::idle_cause::IdleCause;
use crate::program::call_sites::{CallSites, Site};
use crate::table::Cell;
use rsys_traces::model::{
    Batch, DeviceId, Effect, HostKind, HostSlice, Model, ProcessId, TextId, Texts, ThreadId,
};

/// Shorter calls matter to nobody, and are many.
const SHORT_NS: u64 = 1_000;

/// The value that a call waits for with the work in front of it is copied in less than this part of its time.
const WAITED_PART: u64 = 10;

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
    /// The GPU of its own copies and how long they took, where the trace says which these are.
    pub(super) copied: Option<(DeviceId, u64)>,
}

impl Wait {
    /// Why a GPU is idle meanwhile.
    pub(super) fn cause(&self) -> IdleCause {
        match self.does {
            Effect::Synchronises => IdleCause::Synchronisation,
            Effect::Copies => IdleCause::BlockingCopy,
            Effect::CopiesAside => IdleCause::BlockedCopy,
            Effect::Memory | Effect::None | Effect::LaunchesGraph => IdleCause::MemoryCall,
        }
    }
}

/// What is kept of such a call.
#[derive(Debug, Clone, Copy)]
struct PausingCall {
    does: Effect,
    start_ns: u64,
    link: u64,
    bytes: u64,
    end_ns: u64,
    process: ProcessId,
    thread: ThreadId,
    name: TextId,
}

/// Calls while records are read.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<PausingCall>,
    copies: CopiesOfCalls,
    /// Calls that launch graphs.
    graphs: BTreeMap<ProcessId, Submissions>,
    sites: CallSites,
}

impl Calls {
    pub(super) fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            self.copies.take(record);
        }
        for slice in &batch.host {
            self.copies.take_call(slice);
            if slice.effect == Effect::LaunchesGraph {
                self.graphs.entry(slice.process).or_default().take(slice);
            }
        }
        let calls = batch.host.iter().filter(|slice| matters(slice));
        let calls = calls.map(|slice| PausingCall {
            does: slice.effect,
            start_ns: slice.start_ns,
            link: slice.link,
            bytes: slice.bytes,
            end_ns: slice.end_ns,
            process: slice.process,
            thread: slice.thread,
            name: slice.name,
        });
        self.calls.extend(calls);
        self.sites.take(batch, matters);
        self.sites.take_functions(batch);
    }

    /// To be called when all was taken in.
    pub(super) fn sort(&mut self, texts: &Texts) {
        self.sites.sort_functions(texts);
        self.sites.sort();
        self.copies.sort();
        self.graphs.values_mut().for_each(Submissions::sort);
        self.calls
            .sort_by_key(|call| (call.end_ns, call.start_ns, call.thread, call.name));
    }

    /// The calls that wait or handle memory, by their ends.
    pub(super) fn waits(&self, model: &Model) -> impl Iterator<Item = Wait> {
        let calls = self.calls.iter();
        calls.filter_map(move |call| {
            let time_ns = (call.start_ns, call.end_ns);
            let copied = self.copies.of(call.process, call.link, time_ns);
            let is_held = || copied.is_some_and(|copied| copied.held(call.does, time_ns));
            // From a GPU, pinned memory would have to be waited for as well.
            let waits = |copied: &Copied| {
                WAITED_PART * copied.duration_ns < call.end_ns - call.start_ns
                    && direction(copied.direction, copied.name, model) == TO_HOST
            };
            let is_pinned = |name| host_memory(model.text(name)) == Some("pinned");
            let does = match call.does {
                Effect::CopiesAside if !is_held() => return None,
                // Nor is memory that is pinned already what such a call waits for.
                Effect::CopiesAside
                    if copied.is_some_and(|copied| waits(&copied) || is_pinned(copied.name)) =>
                {
                    Effect::Synchronises
                }
                does => does,
            };
            Some(Wait {
                does,
                process: call.process,
                thread: call.thread,
                name: call.name,
                start_ns: call.start_ns,
                end_ns: call.end_ns,
                bytes: call.bytes,
                copied: copied.map(|copied| (copied.device, copied.duration_ns)),
            })
        })
    }

    /// Whether an operation that began at a time was submitted by the launch of a graph that had returned at another.
    pub(super) fn is_of_graph(
        &self,
        (process, link): (ProcessId, u64),
        begin_ns: u64,
        time_ns: u64,
    ) -> bool {
        let id = CorrelationId::new(link);
        let graphs = self.graphs.get(&process);
        let launch = graphs
            .zip(id)
            .and_then(|(graphs, id)| graphs.find(id, begin_ns));
        launch.is_some_and(|launch| launch.end_ns <= time_ns)
    }

    /// Where in the program a call was made, if a sample fell into it or a function was recorded around it: function, source and line.
    pub(super) fn place(&self, wait: &Wait, model: &Model) -> [Cell; 3] {
        let time = (wait.start_ns, wait.end_ns);
        Site::cells(self.sites.site(wait.thread, time, model), model, "")
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
