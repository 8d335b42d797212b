//! What threads of the host did while a GPU was idle.

use std::collections::{BTreeSet, HashMap};

use super::lock_waits::LockWaits;
use super::stream_waits::{StreamWait, StreamWaits};
use crate::containers::packed_rows::{PackedRows, Row};
use crate::containers::sets::{IntervalSet, widen};
use crate::joined::ids::CorrelationId;
use crate::joined::submissions::{Submission, Submissions};
use crate::program::scopes::{Scope, Scopes};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Basis, Batch, GpuRecord, HostKind, HostSlice, Model, ProcessId, StackId, TextId, ThreadId,
};

/// The stack that launched an operation, and its thread.
pub(super) type Launch = (StackId, ThreadId);

/// A call or a wait of a thread that no other contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) start_ns: u64,
    end_ns: u64,
    pub(super) kind: HostKind,
    pub(super) name: TextId,
}

/// Kinds of calls and waits, by the number that a row has for them.
const BUSY_KINDS: [HostKind; 6] = [
    HostKind::Runtime,
    HostKind::Hsa,
    HostKind::Collective,
    HostKind::Wait,
    HostKind::OffCpu,
    HostKind::Runnable,
];

impl Busy {
    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Rows are in order of their begin; of those that begin together, the longest comes first.
    fn row(&self, kind: usize) -> Row<4> {
        let backward = u64::MAX - (self.end_ns - self.start_ns);
        [
            self.start_ns,
            backward,
            kind as u64,
            self.name.index() as u64,
        ]
    }

    fn of(row: Row<4>) -> Self {
        let [start_ns, _, kind, name] = row;
        Self {
            start_ns,
            end_ns: end_of(&row),
            kind: BUSY_KINDS[kind as usize],
            name: TextId::at(name as usize),
        }
    }
}

/// When the call or wait of a row ends.
#[inline]
pub(super) fn end_of(row: &Row<4>) -> u64 {
    row[0] + (u64::MAX - row[1])
}

/// A sample of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostSample {
    pub(super) time_ns: u64,
    pub(super) stack: StackId,
    pub(super) weight_ns: u64,
    /// Whether it waited, instead of running.
    pub(super) waits: bool,
}

impl HostSample {
    fn row(&self) -> Row<4> {
        let (stack, waits) = (self.stack.index() as u64, u64::from(self.waits));
        [self.time_ns, stack, self.weight_ns, waits]
    }

    fn of([time_ns, stack, weight_ns, waits]: Row<4>) -> Self {
        Self {
            time_ns,
            stack: StackId::at(stack as usize),
            weight_ns,
            waits: waits != 0,
        }
    }
}

/// What one thread did.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) process: Option<ProcessId>,
    pub(super) calls: PackedRows<4>,
    pub(super) scopes: Scopes,
    /// What OpenMP and Kokkos did.
    pub(super) regions: Scopes,
    pub(super) waits: PackedRows<4>,
    /// Times off the processor, as the kernel recorded them.
    pub(super) off: PackedRows<4>,
    pub(super) samples: PackedRows<4>,
    /// The stacks from which calls were made; rows begin with the calls' begins.
    pub(super) stacks: PackedRows<2>,
    /// Its waits for locks.
    pub(super) lock_waits: LockWaits,
    /// Whether it was sampled at all.
    pub(super) is_sampled: bool,
}

/// What all threads did.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// By process.
    pub(super) submissions: Vec<Submissions>,
    /// The stacks that launched operations, by process; rows begin with the time of the sample.
    pub(super) launches: Vec<PackedRows<3>>,
    pub(super) threads: Vec<Thread>,
    /// Threads by their process and the kernel's id, of processes with waits for locks.
    pub(super) tids: HashMap<(ProcessId, u32), ThreadId>,
    pub(super) stream_waits: StreamWaits,
    /// First and last time that is known of each process.
    spans: Vec<Option<(u64, u64)>>,
    /// About so many rows are kept of each process.
    rows: Vec<usize>,
    /// The links of operations that were reported, by process.
    pub(super) seen: Vec<IntervalSet>,
    /// The names of calls that gave work to a GPU, by process, as far as something was discarded.
    pub(super) submitting: Vec<BTreeSet<TextId>>,
    /// Up to when something was discarded, by process.
    pub(super) discarded_ns: Vec<u64>,
}

impl Host {
    pub(super) fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            self.slice(slice);
        }
        for wait in &batch.lock_waits {
            self.widen(wait.process, wait.start_ns, wait.end_ns);
            let thread = entry(&mut self.threads, wait.thread.index());
            thread.process = Some(wait.process);
            thread.lock_waits.add(wait);
        }
        for sample in &batch.samples {
            self.widen(sample.process, sample.time_ns, sample.time_ns);
            let waits = match sample.basis {
                Basis::CpuTime => false,
                Basis::WaitTime => true,
                Basis::GpuTime => {
                    let launches = entry(&mut self.launches, sample.process.index());
                    let (stack, thread) = (sample.stack.index(), sample.thread.index());
                    launches.push([sample.time_ns, stack as u64, thread as u64]);
                    continue;
                }
                Basis::CallTime => {
                    let thread = entry(&mut self.threads, sample.thread.index());
                    thread.process = Some(sample.process);
                    let stack = sample.stack.index() as u64;
                    thread.stacks.push([sample.time_ns, stack]);
                    continue;
                }
                Basis::Event => continue,
            };
            let kept = HostSample {
                time_ns: sample.time_ns,
                stack: sample.stack,
                weight_ns: sample.weight,
                waits,
            };
            let thread = entry(&mut self.threads, sample.thread.index());
            thread.process = Some(sample.process);
            thread.is_sampled = true;
            thread.samples.push(kept.row());
        }
    }

    /// Takes in an operation of a GPU: its call need not be kept for others.
    #[inline]
    pub(super) fn operation(&mut self, record: &GpuRecord) {
        if record.link != 0 {
            let seen = entry(&mut self.seen, record.process.index());
            seen.add(record.link, record.link.saturating_add(1));
        }
    }

    /// How many rows are kept of a process, or a few more.
    pub(super) fn rows(&self, process: ProcessId) -> usize {
        self.rows.get(process.index()).copied().unwrap_or(0)
    }

    /// Counts the rows of a process.
    pub(super) fn count(&mut self, process: ProcessId) {
        let own = |thread: &&Thread| thread.process == Some(process);
        let of_threads = self.threads.iter().filter(own).map(|thread| {
            let lists = [&thread.calls, &thread.waits, &thread.off, &thread.samples];
            let rows: usize = lists.map(PackedRows::len).iter().sum();
            let others = [
                thread.scopes.len(),
                thread.regions.len(),
                thread.lock_waits.len(),
            ];
            rows + thread.stacks.len() + others.iter().sum::<usize>()
        });
        let of_threads: usize = of_threads.sum();
        let of_process = entry(&mut self.submissions, process.index()).len()
            + entry(&mut self.launches, process.index()).len();
        *entry(&mut self.rows, process.index()) = of_threads + of_process;
    }

    /// How many processes may have rows.
    pub(super) fn processes(&self) -> usize {
        self.spans.len()
    }

    /// Up to when something of a process was discarded.
    pub(super) fn discarded_ns(&self, process: ProcessId) -> u64 {
        self.discarded_ns.get(process.index()).copied().unwrap_or(0)
    }

    fn widen(&mut self, process: ProcessId, start_ns: u64, end_ns: u64) {
        widen(entry(&mut self.spans, process.index()), (start_ns, end_ns));
        *entry(&mut self.rows, process.index()) += 1;
    }

    fn slice(&mut self, slice: &HostSlice) {
        self.widen(slice.process, slice.start_ns, slice.end_ns);
        self.stream_waits.take(slice);
        let is_thread = slice.thread.index() != HostSlice::NO_THREAD;
        entry(&mut self.submissions, slice.process.index()).take(slice);
        if Scopes::is_one(slice) && is_thread {
            let thread = entry(&mut self.threads, slice.thread.index());
            thread.process = Some(slice.process);
            thread.scopes.add(slice);
        }
        if matches!(slice.kind, HostKind::OpenMp | HostKind::Kokkos) && is_thread {
            let thread = entry(&mut self.threads, slice.thread.index());
            thread.process = Some(slice.process);
            thread.regions.add(slice);
        }
        let kind = BUSY_KINDS.iter().position(|kind| *kind == slice.kind);
        if let Some(kind) = kind.filter(|_| is_thread) {
            let thread = entry(&mut self.threads, slice.thread.index());
            thread.process = Some(slice.process);
            let busy = match slice.kind {
                HostKind::Wait => &mut thread.waits,
                HostKind::OffCpu | HostKind::Runnable => &mut thread.off,
                _ => &mut thread.calls,
            };
            let outer = Busy {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                kind: slice.kind,
                name: slice.name,
            };
            let outer = outer.row(kind);
            // Mostly those within it came before. Of equal times the first row stays, as in `sort`.
            busy.pop_while(|inner| *inner >= outer && end_of(inner) <= slice.end_ns);
            busy.push(outer);
        }
    }

    /// Brings everything of a process into the order of time.
    pub(super) fn sort(&mut self, process: ProcessId, model: &Model) {
        let submissions = entry(&mut self.submissions, process.index());
        submissions.sort();
        self.stream_waits.sort(process, submissions.iter(), model);
        let mut last = None;
        entry(&mut self.launches, process.index())
            .settle(|row| last.replace(row[0]) != Some(row[0]));
        let mut own = self
            .threads
            .iter()
            .filter(|thread| thread.process == Some(process));
        if own.any(|thread| !thread.lock_waits.is_empty()) {
            let threads = (0..).map(ThreadId::new).zip(&model.threads);
            let own = threads.filter(|(_, thread)| thread.process == process);
            self.tids
                .extend(own.map(|(id, thread)| ((process, thread.tid), id)));
        }
        let threads = self.threads.iter_mut();
        for thread in threads.filter(|thread| thread.process == Some(process)) {
            for list in [&mut thread.calls, &mut thread.waits, &mut thread.off] {
                let mut end_ns = 0;
                list.settle(|busy| {
                    let is_outermost = end_of(busy) > end_ns;
                    end_ns = end_ns.max(end_of(busy));
                    is_outermost
                });
            }
            thread.samples.sort();
            thread.stacks.sort();
            thread.regions.sort(&model.texts);
            thread.lock_waits.sort();
            // Samples say more.
            match thread.is_sampled() {
                false => thread.scopes.sort(&model.texts),
                true => thread.scopes = Scopes::default(),
            }
        }
    }

    /// The call that submitted an operation that began at a time.
    pub(super) fn submission(
        &self,
        process: ProcessId,
        link: u64,
        begin_ns: u64,
    ) -> Option<Submission> {
        let submissions = self.submissions.get(process.index())?;
        submissions.find(CorrelationId::new(link)?, begin_ns)
    }

    /// What stands in the stream directly in front of an operation and may hold it up.
    pub(super) fn in_front(&self, process: ProcessId, call: &Submission) -> Option<&StreamWait> {
        self.stream_waits.in_front(process, call)
    }

    /// First and last time that is known of a process.
    pub(super) fn span(&self, process: ProcessId) -> Option<(u64, u64)> {
        *self.spans.get(process.index())?
    }

    /// The stack and thread that launched the operation that began, or ended, at a time.
    pub(super) fn launch(&self, process: ProcessId, times_ns: [u64; 2]) -> Option<Launch> {
        let launches = self.launches.get(process.index())?;
        times_ns.iter().find_map(|&time_ns| {
            let place = launches.partition_point(|row| row[0] < time_ns);
            let [found_ns, stack, thread] = launches.get(place)?;
            let launch = (StackId::at(stack as usize), ThreadId::new(thread as usize));
            (found_ns == time_ns).then_some(launch)
        })
    }

    pub(super) fn thread(&self, thread: ThreadId) -> Option<&Thread> {
        self.threads.get(thread.index())
    }
}

impl Thread {
    /// Calls that overlap an interval, in order.
    pub(super) fn calls_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Busy> {
        overlapping(&self.calls, start_ns, end_ns)
    }

    /// Times off the processor that overlap an interval, in order.
    pub(super) fn off_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Busy> {
        overlapping(&self.off, start_ns, end_ns)
    }

    /// Waits that overlap an interval, in order. How long one was is known from outside only, so that it may reach into calls.
    pub(super) fn waits_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Busy> {
        overlapping(&self.waits, start_ns, end_ns)
    }

    /// What the thread was in, in an interval, in order. Nothing of threads that have samples.
    pub(super) fn scopes_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Scope> {
        self.scopes.overlapping(start_ns, end_ns)
    }

    /// What OpenMP and Kokkos did for the thread in an interval, in order.
    pub(super) fn regions_in(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = &Scope> {
        self.regions.overlapping(start_ns, end_ns)
    }

    /// Samples taken in an interval.
    pub(super) fn samples_in(
        &self,
        start_ns: u64,
        end_ns: u64,
    ) -> impl Iterator<Item = HostSample> {
        let first = self.samples.partition_point(|sample| sample[0] < start_ns);
        (first..)
            .map_while(|place| self.samples.get(place).map(HostSample::of))
            .take_while(move |sample| sample.time_ns < end_ns)
    }

    /// The stack from which the call was made that began at a time, if it was recorded.
    pub(super) fn call_stack(&self, start_ns: u64) -> Option<StackId> {
        let at = self.stacks.partition_point(|row| row[0] < start_ns);
        let [time_ns, stack] = self.stacks.get(at)?;
        (time_ns == start_ns).then(|| StackId::at(stack as usize))
    }

    /// Whether the thread was sampled at all.
    pub(super) fn is_sampled(&self) -> bool {
        self.is_sampled
    }
}

fn overlapping(list: &PackedRows<4>, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Busy> {
    let first = list.partition_point(|busy| end_of(busy) <= start_ns);
    (first..)
        .map_while(|place| list.get(place).map(Busy::of))
        .take_while(move |busy| busy.start_ns < end_ns)
}
