//! What is kept of a process: its last calls between ranks, and where its threads were since it got on last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::measure::code_place::{place_text, runtime_call};
use crate::model::{CollectiveCall, Model, ProcessId, StackId, TextId, ThreadId};

/// Of each communicator so many of a process's last calls are kept: those that it may have submitted and not finished.
const CALLS: usize = 256;
/// So many operations are kept whose calls have not come yet: of a thread and its GPU neither is far ahead of the other.
const EARLY: usize = 256;
/// So many different stacks of a thread are kept since its process got on last.
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
pub(super) struct OfProcess {
    /// The last time of anything.
    pub(super) last_ns: u64,
    /// When an operation ended, or one between ranks began, the last time.
    pub(super) progress_ns: u64,
    /// The thread that gave work to a GPU or called others last, and when.
    thread: Option<(u64, ThreadId)>,
    /// Operations that are not known to have ended, by link, with their communicators.
    pending: HashMap<u64, TextId>,
    /// Link and begin of operations between ranks that came before their calls, or have none, as those of graphs.
    early: VecDeque<(u64, u64)>,
    /// The last begin of such an operation that is not kept.
    without_call_ns: u64,
    pub(super) has_gpu: bool,
    pub(super) calls: HashMap<TextId, VecDeque<Called>>,
    /// Messages whose calls were open when the trace ended.
    pub(super) messages: Vec<CollectiveCall>,
    /// Begins of calls that were open when the trace ended.
    pub(super) open: HashSet<(ThreadId, u64)>,
    pub(super) seen: HashMap<ThreadId, Seen>,
}
impl OfProcess {
    pub(super) fn called(&mut self, call: &CollectiveCall) {
        self.progress_ns = self.progress_ns.max(call.start_ns);
        self.last_ns = self.last_ns.max(call.end_ns);
        self.submitted(call.start_ns, call.thread);
        let early = self.early.iter().position(|early| early.0 == call.link);
        let has_ended = early.is_some_and(|at| self.early.remove(at).is_some());
        // What MPI does has no operation on a GPU: its calls that wait are open until it is done, and of the others nothing is known.
        let is_finished = call.is_blocking || call.link >> 63 != 0 || has_ended;
        let called = Called {
            call: *call,
            is_finished,
        };
        // Of a message nothing says whether the other side has come.
        if call.peer.is_some() {
            return;
        }
        if !is_finished {
            self.pending.insert(call.link, call.communicator);
        }
        let calls = self.calls.entry(call.communicator).or_default();
        calls.push_back(called);
        if calls.len() > CALLS
            && let Some(old) = calls.pop_front()
        {
            self.pending.remove(&old.call.link);
        }
    }

    pub(super) fn submitted(&mut self, time_ns: u64, thread: ThreadId) {
        let last = self.thread.get_or_insert((time_ns, thread));
        if last.0 <= time_ns {
            *last = (time_ns, thread);
        }
    }

    /// An operation between ranks has ended on the GPU.
    pub(super) fn ended(&mut self, link: u64, start_ns: u64) {
        let Some(communicator) = self.pending.remove(&link) else {
            self.early.push_back((link, start_ns));
            if self.early.len() > EARLY
                && let Some((_, start_ns)) = self.early.pop_front()
            {
                self.without_call_ns = self.without_call_ns.max(start_ns);
            }
            return;
        };
        let calls = self.calls.get_mut(&communicator).into_iter().flatten();
        // Several of a group may be one kernel.
        for called in calls.filter(|called| called.call.link == link) {
            called.is_finished = true;
        }
    }

    /// Forgets what was seen before the process got on.
    pub(super) fn forget(&mut self) {
        let progress_ns = self.progress_ns;
        for seen in self.seen.values_mut() {
            seen.retain(|_, (_, last_ns)| *last_ns > progress_ns);
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
        let of_caller = of_caller.filter(|thread| self.seen.contains_key(thread));
        let seen = self.seen.get(&of_caller.or_else(main)?)?;
        let mut places: BTreeMap<(String, bool), u64> = BTreeMap::new();
        for (&(stack, waits), &(sum_ns, _)) in seen {
            let (call, stack) = runtime_call(stack, model).unwrap_or(("", stack));
            let text = match (call, place_text(stack, model)) {
                ("", place) => place.unwrap_or_else(|| "[unknown]".to_owned()),
                (call, Some(place)) => format!("{call} in {place}"),
                (call, None) => call.to_owned(),
            };
            *places.entry((text, waits)).or_default() += sum_ns;
        }
        let most = places.into_iter().min_by_key(|(_, ns)| Reverse(*ns));
        most.map(|((text, waits), ns)| (text, ns, waits))
    }
}
