//! What is kept of a process: its last calls between ranks, and where its threads were since it got on last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::LONG_NS;
use super::hung::GpuState;
use crate::joined::ids::{CorrelationId, GroupId};
use crate::program::code_place::{place_text, runtime_call};
use rsys_traces::model::{
    CollectiveCall, GpuRecord, LockWait, Model, ProcessId, StackId, TextId, ThreadId,
};

/// The most calls kept per communicator and process: the last ones, which may be submitted and not finished.
const CALLS: usize = 64;
/// The most operations kept whose launches are not read yet, and the most launches whose operations are not: neither is far ahead of the other in a trace.
const EARLY: usize = 256;
/// The most different stacks kept per thread since the last progress of its process.
const STACKS: usize = 4_096;

/// A call between ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub(super) call: CollectiveCall,
    pub(super) is_finished: bool,
}

/// What was seen of a thread since its process got on last: nanoseconds by stack and whether it waited, and the last time.
type Seen = HashMap<(StackId, bool), (u64, u64)>;

/// A process, while records are read.
#[derive(Debug, Default)]
pub(super) struct ProcessState {
    /// The last time of anything.
    pub(super) last_ns: u64,
    /// When an operation ended, or one between ranks began, the last time.
    pub(super) progress_ns: u64,
    /// The thread that gave work to a GPU or called others last, and when.
    thread: Option<(u64, ThreadId)>,
    /// Launches within calls between ranks whose operations have not ended.
    launched: VecDeque<(CorrelationId, GroupId)>,
    /// Call and begin of operations between ranks that came before their launches, or are of no call, as those of graphs.
    early: VecDeque<(Option<CorrelationId>, u64)>,
    /// The last begin of such an operation that is not kept.
    without_call_ns: u64,
    pub(super) has_gpu: bool,
    pub(super) gpu: GpuState,
    /// A kernel was found for a call.
    has_matched: bool,
    pub(super) calls: HashMap<TextId, VecDeque<Called>>,
    /// Messages whose calls were open when the trace ended.
    pub(super) messages: Vec<CollectiveCall>,
    /// Begins of calls that were open when the trace ended.
    pub(super) open: HashSet<(ThreadId, u64)>,
    pub(super) seen: HashMap<ThreadId, Seen>,
    /// The last wait of each thread for a lock: its end, and by whom the lock was held.
    pub(super) locks: HashMap<ThreadId, (u64, TextId)>,
}
impl ProcessState {
    pub(super) fn called(&mut self, call: &CollectiveCall) {
        self.progress_ns = self.progress_ns.max(call.start_ns);
        self.last_ns = self.last_ns.max(call.end_ns);
        self.submitted(call.start_ns, call.thread);
        // Of a message nothing says whether the other side has come.
        if call.peer.is_some() {
            return;
        }
        // What MPI does has no operation on a GPU: its calls that wait are open until it is done, and of the others nothing is known. Nor has what moves nothing.
        let has_no_kernel =
            GroupId::of(call).is_of_mpi() || call.ranks == Some(1) || call.bytes == 0;
        let calls = self.calls.entry(call.communicator).or_default();
        calls.push_back(Called {
            call: *call,
            is_finished: call.is_blocking || has_no_kernel,
        });
        if calls.len() > CALLS {
            calls.pop_front();
        }
    }

    /// A launch within a call between ranks.
    pub(super) fn launches(&mut self, group: GroupId, launch: CorrelationId) {
        let early = self.early.iter().position(|early| early.0 == Some(launch));
        if early.is_some_and(|at| self.early.remove(at).is_some()) {
            self.finish(group);
            return;
        }
        self.launched.push_back((launch, group));
        if self.launched.len() > EARLY {
            self.launched.pop_front();
        }
    }

    pub(super) fn submitted(&mut self, time_ns: u64, thread: ThreadId) {
        let last = self.thread.get_or_insert((time_ns, thread));
        if last.0 <= time_ns {
            *last = (time_ns, thread);
        }
    }

    /// An operation between ranks has ended on the GPU.
    pub(super) fn ended(&mut self, record: &GpuRecord) {
        let launch = CorrelationId::of_operation(record);
        let mut launched = self.launched.iter();
        let launched = launched.position(|launched| Some(launched.0) == launch);
        if let Some((_, group)) = launched.and_then(|at| self.launched.remove(at)) {
            self.finish(group);
            return;
        }
        // Others than ours link operations with the calls themselves.
        if GroupId::named_by(record).is_some_and(|group| self.finish(group)) {
            return;
        }
        self.early.push_back((launch, record.start_ns));
        if self.early.len() > EARLY
            && let Some((_, start_ns)) = self.early.pop_front()
        {
            self.without_call_ns = self.without_call_ns.max(start_ns);
        }
    }

    /// The operations of a call, or of a group of them, are done. Returns whether there are any.
    fn finish(&mut self, group: GroupId) -> bool {
        let calls = self.calls.values_mut().flatten();
        let of_group = calls.filter(|called| GroupId::of(&called.call) == group);
        let count = of_group.map(|called| called.is_finished = true).count();
        self.has_matched |= count > 0;
        count > 0
    }

    /// Whether anything says what was done: kernels that belong to calls, or calls that wait. Where there was no kernel between ranks at all, as of a job that hangs
    /// in its first operation, `is_ours` and other operations have to say that there would have been.
    pub(super) fn is_reported(&self, is_ours: bool) -> bool {
        let has_unmatched = !self.early.is_empty() || self.without_call_ns > 0;
        let mut calls = self.calls.values().flatten();
        self.has_matched
            || calls.any(|called| GroupId::of(&called.call).is_of_mpi())
            || is_ours && self.has_gpu && !has_unmatched
    }

    /// Forgets what was seen before the process got on.
    pub(super) fn discard(&mut self) {
        let progress_ns = self.progress_ns;
        for seen in self.seen.values_mut() {
            seen.retain(|_, (_, last_ns)| *last_ns > progress_ns);
        }
    }

    pub(super) fn waits_for_lock(&mut self, wait: &LockWait) {
        let last = self.locks.entry(wait.thread).or_default();
        if last.0 <= wait.end_ns {
            *last = (wait.end_ns, wait.holder);
        }
    }

    pub(super) fn see(
        &mut self,
        thread: ThreadId,
        stack: StackId,
        waits: bool,
        time_ns: u64,
        weight: u64,
    ) {
        self.last_ns = self.last_ns.max(time_ns);
        if time_ns <= self.progress_ns {
            return;
        }
        let seen = self.seen.entry(thread).or_default();
        if seen.len() < STACKS || seen.contains_key(&(stack, waits)) {
            let (sum_ns, last_ns) = seen.entry((stack, waits)).or_default();
            *sum_ns += weight.min(time_ns - self.progress_ns);
            *last_ns = time_ns.max(*last_ns);
        }
    }

    /// The last begin of an operation between ranks whose call is not known: what was called before it runs in a graph, or is done.
    fn last_without_call_ns(&self) -> u64 {
        let early = self.early.iter().map(|early| early.1);
        early.fold(self.without_call_ns, u64::max)
    }

    fn is_finished(&self, called: &Called, last_without_call_ns: u64) -> bool {
        let call = &called.call;
        let is_open = self.open.contains(&(call.thread, call.start_ns));
        !is_open && (called.is_finished || call.start_ns < last_without_call_ns)
    }

    /// The number of the first operation of a communicator that is not finished, and whether the process has called it.
    pub(super) fn first_unfinished(&self, communicator: TextId) -> Option<(u64, bool)> {
        let calls = self.calls.get(&communicator)?;
        let last_without_call_ns = self.last_without_call_ns();
        let mut first = None;
        for called in calls.iter().rev() {
            let number = called.call.sequence?;
            if self.is_finished(called, last_without_call_ns) {
                return Some(first.unwrap_or((number + 1, false)));
            }
            first = Some((number, true));
        }
        first
    }

    pub(super) fn call(&self, communicator: TextId, number: u64) -> Option<&CollectiveCall> {
        let calls = self.calls.get(&communicator)?.iter();
        let mut calls = calls.map(|called| &called.call);
        calls.find(|call| call.sequence == Some(number))
    }

    /// When the trace ends.
    pub(super) fn end_ns(&self, id: ProcessId, model: &Model) -> u64 {
        self.last_ns.max(model.process(id).end_ns)
    }

    /// Whether records reach to the end: those of a window of time, or up to a pause, say nothing of it.
    pub(super) fn is_seen_to_its_end(&self, id: ProcessId, model: &Model) -> bool {
        self.end_ns(id, model) - self.last_ns < LONG_NS
    }

    /// For how long the process has neither ended nor begun anything.
    pub(super) fn still_ns(&self, id: ProcessId, model: &Model) -> u64 {
        let since_ns = self.progress_ns.max(model.process(id).start_ns);
        self.end_ns(id, model).saturating_sub(since_ns)
    }

    /// Where the thread that gave work was for most of that time, for how long it was seen there, and whether it waited.
    pub(super) fn place(&self, id: ProcessId, model: &Model) -> Option<(String, u64, bool)> {
        let main = || {
            let mut threads = self.seen.keys();
            let is_main = |one: &&ThreadId| model.threads[one.index()].tid == model.process(id).pid;
            threads.find(is_main).copied()
        };
        let of_caller = self.thread.map(|(_, thread)| thread);
        let of_caller =
            of_caller.filter(|thread| self.seen.get(thread).is_some_and(|seen| !seen.is_empty()));
        let seen = self.seen.get(&of_caller.or_else(main)?)?;
        let mut places: BTreeMap<(String, bool), u64> = BTreeMap::new();
        for (&(stack, waits), &(sum_ns, _)) in seen {
            *places.entry((place_of(stack, model), waits)).or_default() += sum_ns;
        }
        let most = places.into_iter().min_by_key(|(_, ns)| Reverse(*ns));
        most.map(|((text, waits), ns)| (text, ns, waits))
    }
}

/// A call of a runtime and where it was made, or the place in the program.
pub(super) fn place_of(stack: StackId, model: &Model) -> String {
    let (call, stack) = runtime_call(stack, model).unwrap_or(("", stack));
    match (call, place_text(stack, model)) {
        ("", place) => place.unwrap_or_else(|| "[unknown]".to_owned()),
        (call, Some(place)) => format!("{call} in {place}"),
        (call, None) => call.to_owned(),
    }
}
