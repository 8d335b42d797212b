//! What threads of the host did while a GPU was idle.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::orders::{Order, Orders};
use super::scopes::{Scope, Scopes};
use crate::measure::entry;
use crate::model::{
    Basis, Batch, HostKind, HostSlice, Model, ProcessId, StackId, TextId, ThreadId,
};

/// The call that submitted an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Submission {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) thread: ThreadId,
    pub(super) name: TextId,
    /// See [`HostSlice::stream`].
    pub(super) stream: u64,
}

/// The stack that launched an operation, and its thread.
pub(super) type Launch = (StackId, ThreadId);

/// A call or a wait of a thread that no other contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Busy {
    pub(super) start_ns: u64,
    end: Reverse<u64>,
    pub(super) kind: HostKind,
    pub(super) name: TextId,
}

impl Busy {
    pub(super) fn end_ns(&self) -> u64 {
        self.end.0
    }
}

/// A sample of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look {
    pub(super) time_ns: u64,
    pub(super) stack: StackId,
    pub(super) weight_ns: u64,
    /// Whether it waited, instead of running.
    pub(super) waits: bool,
}

/// What one thread did.
#[derive(Debug, Default)]
pub(super) struct Thread {
    calls: Vec<Busy>,
    scopes: Scopes,
    waits: Vec<Busy>,
    looks: Vec<Look>,
    /// The stacks from which calls were made, by the calls' begins.
    stacks: Vec<(u64, StackId)>,
}

/// What all threads did.
#[derive(Debug, Default)]
pub(super) struct Host {
    submissions: HashMap<(ProcessId, u64), Submission>,
    /// The stacks that launched operations, by the time that their samples have.
    launches: HashMap<(ProcessId, u64), Launch>,
    threads: Vec<Thread>,
    orders: Orders,
    /// First and last time that is known of each process.
    spans: Vec<Option<(u64, u64)>>,
}

impl Host {
    pub(super) fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            self.slice(slice);
        }
        for sample in &batch.samples {
            self.seen(sample.process, sample.time_ns, sample.time_ns);
            let waits = match sample.basis {
                Basis::CpuTime => false,
                Basis::WaitTime => true,
                Basis::GpuTime => {
                    let key = (sample.process, sample.time_ns);
                    let launch = (sample.stack, sample.thread);
                    let known = self.launches.entry(key).or_insert(launch);
                    *known = launch.min(*known);
                    continue;
                }
                Basis::CallTime => {
                    let thread = entry(&mut self.threads, sample.thread.index());
                    thread.stacks.push((sample.time_ns, sample.stack));
                    continue;
                }
                Basis::Event => continue,
            };
            entry(&mut self.threads, sample.thread.index())
                .looks
                .push(Look {
                    time_ns: sample.time_ns,
                    stack: sample.stack,
                    weight_ns: sample.weight,
                    waits,
                });
        }
    }

    fn seen(&mut self, process: ProcessId, start_ns: u64, end_ns: u64) {
        let span = entry(&mut self.spans, process.index());
        let (first_ns, last_ns) = span.get_or_insert((start_ns, end_ns));
        (*first_ns, *last_ns) = (start_ns.min(*first_ns), end_ns.max(*last_ns));
    }

    fn slice(&mut self, slice: &HostSlice) {
        self.seen(slice.process, slice.start_ns, slice.end_ns);
        self.orders.take(slice);
        let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
        if slice.link != 0 && is_thread && matches!(slice.kind, HostKind::Runtime | HostKind::Hsa) {
            let submission = Submission {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                thread: slice.thread,
                name: slice.name,
                stream: slice.stream,
            };
            let known = self.submissions.entry((slice.process, slice.link));
            let known = known.or_insert(submission);
            *known = submission.min(*known);
        }
        let is_scope = matches!(
            slice.kind,
            HostKind::Operator | HostKind::Function | HostKind::Range
        );
        if is_scope && is_thread {
            let thread = entry(&mut self.threads, slice.thread.index());
            thread.scopes.add(slice);
        }
        let counts = matches!(
            slice.kind,
            HostKind::Runtime | HostKind::Hsa | HostKind::Collective | HostKind::Wait
        );
        if counts && is_thread {
            let thread = entry(&mut self.threads, slice.thread.index());
            let busy = match slice.kind {
                HostKind::Wait => &mut thread.waits,
                _ => &mut thread.calls,
            };
            // Mostly those within it came before.
            let is_within =
                |inner: &Busy| inner.start_ns >= slice.start_ns && inner.end_ns() <= slice.end_ns;
            while busy.last().is_some_and(is_within) {
                busy.pop();
            }
            busy.push(Busy {
                start_ns: slice.start_ns,
                end: Reverse(slice.end_ns),
                kind: slice.kind,
                name: slice.name,
            });
        }
    }

    /// Brings everything into the order of time.
    pub(super) fn sort(&mut self, model: &Model) {
        let submissions = self.submissions.iter();
        let submissions = submissions.map(|((process, _), submission)| (*process, submission));
        self.orders.sort(submissions, model);
        for thread in &mut self.threads {
            for list in [&mut thread.calls, &mut thread.waits] {
                list.sort_unstable();
                let mut end_ns = 0;
                list.retain(|busy| {
                    let is_outermost = busy.end_ns() > end_ns;
                    end_ns = end_ns.max(busy.end_ns());
                    is_outermost
                });
            }
            thread.looks.sort_unstable();
            thread.stacks.sort_unstable();
            // Samples say more.
            match thread.looks.is_empty() {
                true => thread.scopes.sort(),
                false => thread.scopes = Scopes::default(),
            }
        }
    }

    pub(super) fn submission(&self, process: ProcessId, link: u64) -> Option<Submission> {
        self.submissions
            .get(&(process, link))
            .filter(|_| link != 0)
            .copied()
    }

    /// What stands in the stream directly in front of an operation and may hold it up.
    pub(super) fn in_front(&self, process: ProcessId, call: &Submission) -> Option<&Order> {
        self.orders.in_front(process, call)
    }

    /// First and last time that is known of a process.
    pub(super) fn span(&self, process: ProcessId) -> Option<(u64, u64)> {
        *self.spans.get(process.index())?
    }

    /// The stack and thread that launched the operation that began, or ended, at a time.
    pub(super) fn launch(&self, process: ProcessId, times_ns: [u64; 2]) -> Option<Launch> {
        times_ns
            .iter()
            .find_map(|time_ns| self.launches.get(&(process, *time_ns)).copied())
    }

    pub(super) fn thread(&self, thread: ThreadId) -> Option<&Thread> {
        self.threads.get(thread.index())
    }
}

impl Thread {
    /// Calls that overlap an interval, in order.
    pub(super) fn calls_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Busy> {
        overlapping(&self.calls, start_ns, end_ns)
    }

    /// Waits that overlap an interval, in order. How long one was is known from outside only, so that it may reach into calls.
    pub(super) fn waits_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Busy> {
        overlapping(&self.waits, start_ns, end_ns)
    }

    /// What the thread was in, in an interval, in order. Nothing of threads that have samples.
    pub(super) fn scopes_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Scope> {
        self.scopes.overlapping(start_ns, end_ns)
    }

    /// Samples taken in an interval.
    pub(super) fn looks_in(&self, start_ns: u64, end_ns: u64) -> &[Look] {
        let first = self.looks.partition_point(|look| look.time_ns < start_ns);
        let behind = self.looks.partition_point(|look| look.time_ns < end_ns);
        &self.looks[first..behind.max(first)]
    }

    /// The stack from which the call was made that began at a time, if it was recorded.
    pub(super) fn call_stack(&self, start_ns: u64) -> Option<StackId> {
        let at = self
            .stacks
            .partition_point(|(time_ns, _)| *time_ns < start_ns);
        let &(time_ns, stack) = self.stacks.get(at)?;
        (time_ns == start_ns).then_some(stack)
    }

    /// Whether the thread was looked at at all.
    pub(super) fn is_sampled(&self) -> bool {
        !self.looks.is_empty()
    }
}

fn overlapping(list: &[Busy], start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Busy> {
    let first = list.partition_point(|busy| busy.end_ns() <= start_ns);
    list[first..]
        .iter()
        .take_while(move |busy| busy.start_ns < end_ns)
}
