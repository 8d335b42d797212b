//! What is gathered of a process while its file is read.

use std::collections::HashMap;

use super::summary::{COMM, COMPUTE, COPY, Copied};
use crate::containers::sets::{IntervalSet, Union};
use crate::joined::ids::CorrelationId;
use crate::joined::submissions::Submissions;
use crate::program::scopes::Scopes;
use rsys_traces::model::{
    Activity, Basis, DeviceId, GpuRecord, HostKind, HostSlice, LockWait, OpKind, ProcessId, Sample,
    StackId, TextId, ThreadId,
};

/// Calls that are joined with the stacks from which they were made.
const CALLS: usize = 1 << 18;

/// What is gathered of the processes of a file, in the order in which they are in it.
#[derive(Debug, Default)]
pub(super) struct ProcessActivity {
    /// Its id in the model of all files, if it is asked about.
    pub(super) id: Option<ProcessId>,
    pub(super) windows: Union,
    pub(super) busy: [IntervalSet; 3],
    pub(super) kernels: HashMap<TextId, (u64, u64)>,
    pub(super) devices: HashMap<DeviceId, u64>,
    pub(super) copies: HashMap<(TextId, TextId), Copied>,
    /// Time of copies by the link to their calls, and where these are.
    pub(super) copied: HashMap<CorrelationId, u64>,
    pub(super) submissions: Submissions,
    /// The links of collectives that begin where a stretch ends, by that time.
    pub(super) arrivals: HashMap<u64, CorrelationId>,
    pub(super) code: HashMap<(ThreadId, StackId), IntervalSet>,
    pub(super) waits: HashMap<(ThreadId, StackId), IntervalSet>,
    /// When threads could run, and had no processor.
    pub(super) runnable: HashMap<ThreadId, IntervalSet>,
    /// Recorded waits for locks.
    pub(super) lock_waits: Vec<LockWait>,
    /// By thread and begin: the name, and the end.
    pub(super) calls: HashMap<(ThreadId, u64), (TextId, u64)>,
    /// When threads were in calls.
    pub(super) in_calls: HashMap<ThreadId, IntervalSet>,
    pub(super) sites: HashMap<(ThreadId, u64), StackId>,
    pub(super) launches: HashMap<ThreadId, u64>,
    /// How many calls of RCCL and MPI threads made.
    pub(super) of_ranks: HashMap<ThreadId, u64>,
    /// Operators, functions and ranges, and the calls in them: what is known of threads without samples.
    pub(super) scopes: HashMap<ThreadId, Scopes>,
}

/// Work is given to a GPU at most this long before a window in which it runs, or its line is not known.
const AHEAD_NS: u64 = 1_000_000_000;

/// Whether a call was made in one of these windows, or shortly before.
fn is_near(windows: &Union, (start_ns, end_ns): (u64, u64)) -> bool {
    let first = windows
        .intervals()
        .partition_point(|window| window.1 <= start_ns);
    let next = windows.intervals().get(first);
    next.is_some_and(|window| window.0 < end_ns.saturating_add(AHEAD_NS))
}

pub(super) fn is_call(kind: HostKind) -> bool {
    matches!(kind, HostKind::Runtime | HostKind::Collective)
}

impl ProcessActivity {
    pub(super) fn operation(&mut self, record: &GpuRecord) {
        let class = match record.activity {
            Activity::Compute | Activity::Fill => COMPUTE,
            Activity::Comm => COMM,
            Activity::Copy => COPY,
            Activity::None => return,
        };
        let span = (record.start_ns, record.end_ns);
        let inside_ns = self.windows.within(span);
        self.busy[class].extend(self.windows.parts(span));
        let call = CorrelationId::of_operation(record);
        if let Some(call) = call.filter(|_| class == COMM) {
            let ends = self.windows.intervals();
            if ends.binary_search_by_key(&span.0, |one| one.1).is_ok() {
                self.arrivals.insert(span.0, call);
            }
        }
        if inside_ns == 0 {
            return;
        }
        *self.devices.entry(record.device).or_default() += inside_ns;
        if record.kind == OpKind::Kernel && class == COMPUTE {
            let kernel = self.kernels.entry(record.name).or_default();
            *kernel = (kernel.0 + 1, kernel.1 + inside_ns);
        }
        if class == COPY {
            let copied = self
                .copies
                .entry((record.direction, record.name))
                .or_default();
            copied.count += 1;
            copied.bytes += record.bytes;
            copied.ns += record.duration_ns();
            copied.inside_ns += inside_ns;
            if let Some(call) = call.filter(|_| self.copied.len() < CALLS) {
                *self.copied.entry(call).or_default() += inside_ns;
            }
        }
    }

    pub(super) fn slice(&mut self, slice: &HostSlice) {
        if slice.thread.index() == HostSlice::NO_THREAD {
            return;
        }
        if slice.kind == HostKind::Runtime && slice.link != 0 {
            *self.launches.entry(slice.thread).or_default() += 1;
            let span = (slice.start_ns, slice.end_ns);
            if self.submissions.len() < CALLS && is_near(&self.windows, span) {
                self.submissions.take(slice);
            }
        }
        if slice.kind == HostKind::Collective {
            *self.of_ranks.entry(slice.thread).or_default() += 1;
        }
        let is_call = is_call(slice.kind);
        if !is_call && !Scopes::is_one(slice) {
            return;
        }
        let span = (slice.start_ns, slice.end_ns);
        if self.windows.within(span) == 0 {
            return;
        }
        let scopes = self.scopes.entry(slice.thread).or_default();
        if scopes.len() < CALLS {
            scopes.add(slice);
        }
        // What a call took is no time of code, if that call is kept.
        if is_call && self.calls.len() < CALLS {
            let times = self.in_calls.entry(slice.thread).or_default();
            times.extend(self.windows.parts(span));
            self.calls
                .insert((slice.thread, slice.start_ns), (slice.name, slice.end_ns));
        }
    }

    pub(super) fn could_run(&mut self, slice: &HostSlice) {
        let span = (slice.start_ns, slice.end_ns);
        let times = self.runnable.entry(slice.thread).or_default();
        times.extend(self.windows.parts(span));
    }

    pub(super) fn lock_wait(&mut self, wait: &LockWait) {
        let span = (wait.start_ns, wait.end_ns);
        let is_inside = self.windows.parts(span).next().is_some();
        if is_inside && self.lock_waits.len() < CALLS {
            self.lock_waits.push(*wait);
        }
    }

    pub(super) fn sample(&mut self, sample: &Sample) {
        // A sample stands for the time before it.
        let span = (sample.time_ns.saturating_sub(sample.weight), sample.time_ns);
        let key = (sample.thread, sample.stack);
        let of_basis = match sample.basis {
            Basis::CpuTime => &mut self.code,
            Basis::WaitTime => &mut self.waits,
            Basis::CallTime => {
                let end_ns = sample.time_ns.saturating_add(sample.weight);
                if self.sites.len() < CALLS && is_near(&self.windows, (sample.time_ns, end_ns)) {
                    self.sites
                        .insert((sample.thread, sample.time_ns), sample.stack);
                }
                return;
            }
            Basis::GpuTime | Basis::Event => return,
        };
        for (start_ns, end_ns) in self.windows.parts(span) {
            of_basis.entry(key).or_default().add(start_ns, end_ns);
        }
    }
}
