//! From the idle times of one GPU to their causes.
//!
//! What the model says of processes, threads and GPUs is known at the end only, and is asked for in [`super::explained`]; its texts and stacks are
//! known as soon as a record refers to them.

use std::cmp::Reverse;

use super::causes::Example;
use super::explained::{Behind, Certainty, Explained, call_at};
use super::host::{Host, HostSample, Thread};
use super::places::place;
use super::pooled_time::{Around, CallAt, PooledTime};
use super::stretches::{Barriers, Stretch, Stretches};
use crate::joined::submissions::Submission;
use crate::measure::idle_cause::IdleCause;
use crate::program::code_place::program_part;
use rsys_traces::model::{
    Communication, DeviceId, HostKind, Model, ProcessId, StackId, StreamOrder, ThreadId, WaitsFor,
    waits_for,
};

/// An operation that begins within this time after its call, and after the work in front of it, waited for nothing but the runtime and the
/// GPU's own latency.
pub(crate) const LAUNCH_NS: u64 = 100_000;
/// An operation that begins within this time after another GPU has ended its work, or after a barrier, has waited for that.
pub(super) const HANDOVER_NS: u64 = 50_000;
/// Times between calls of at least this length are divided by their own samples.
const LONG_NS: u64 = 20_000_000;
/// Parts of names of the files whose functions are on the stack during a call.
const RUNTIMES: [&str; 5] = ["amdhip64", "hsa-runtime", "librccl", "libcuda", "libnccl"];

/// What the idle times of a GPU are explained by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) model: &'a Model,
    pub(super) host: &'a Host,
    pub(super) barriers: &'a Barriers,
    pub(super) id: DeviceId,
    /// Whose GPU it is.
    pub(super) process: ProcessId,
}

/// One GPU while its idle times are explained.
pub(super) struct Gpu<'a> {
    pub(super) of: Known<'a>,
    pub(super) model: &'a Model,
    pub(super) host: &'a Host,
    found: &'a mut Explained,
}

impl<'a> Gpu<'a> {
    pub(super) fn new(of: Known<'a>, found: &'a mut Explained) -> Self {
        Self {
            of,
            model: of.model,
            host: of.host,
            found,
        }
    }

    /// Explains all idle times between stretches.
    pub(super) fn explain(&mut self, stretches: &Stretches) {
        let mut before: Option<Stretch> = None;
        for next in stretches.iter() {
            if let Some(before) = before
                && !self.is_within_graph(&before, &next)
            {
                self.idle(before.end_ns, &next);
            }
            before = Some(next);
        }
    }

    /// Whether the time between two stretches is one between operations that one launch of a graph has submitted before, which is explained by that.
    fn is_within_graph(&mut self, before: &Stretch, next: &Stretch) -> bool {
        let idle_ns = next.start_ns - before.end_ns;
        let of_one = before.link == next.link && idle_ns <= LAUNCH_NS;
        let call = self
            .host
            .submission(self.of.process, next.link, next.start_ns);
        let Some(call) = call.filter(|call| of_one && call.end_ns <= before.end_ns) else {
            return false;
        };
        if !self.model.text(call.name).contains("GraphLaunch") {
            return false;
        }
        let place = call_at(self.model, call.name, self.launch_stack(next, &call));
        let causes = &mut self.found.causes;
        causes.add(IdleCause::Graph, place, before.end_ns, idle_ns);
        true
    }

    /// Explains a time behind the last stretch by what its thread did.
    pub(super) fn after_last(&mut self, start_ns: u64, end_ns: u64, last: &Stretch) {
        match self
            .host
            .submission(self.of.process, last.link, last.start_ns)
        {
            Some(call) => self.before_submission(start_ns, end_ns, call.thread, None),
            None => self.no_call(start_ns, end_ns, last),
        }
    }

    /// Explains the idle time from `start_ns` to the operation that ends it.
    pub(super) fn idle(&mut self, start_ns: u64, next: &Stretch) {
        self.idle_until(start_ns, next.start_ns, next);
    }

    /// Explains a part of the idle time that an operation ends.
    pub(super) fn idle_until(&mut self, start_ns: u64, end_ns: u64, next: &Stretch) {
        let process = self.of.process;
        let Some(call) = self.host.submission(process, next.link, next.start_ns) else {
            // Without a call, the thread that wrote the operation into the queue may be known.
            let launch = self.host.launch(process, [next.start_ns, next.end_ns]);
            return match launch {
                Some((_, thread)) => self.before_submission(start_ns, end_ns, thread, None),
                None => self.no_call(start_ns, end_ns, next),
            };
        };
        let submitted_ns = call.start_ns.clamp(start_ns, end_ns);
        let stack = self.launch_stack(next, &call);
        let submission = Some((call.name, stack));
        self.before_submission(start_ns, submitted_ns, call.thread, submission);
        self.after_submission(submitted_ns, end_ns, stack, &call);
    }

    fn no_call(&mut self, start_ns: u64, end_ns: u64, operation: &Stretch) {
        let place = self.model.text(operation.name).to_owned();
        self.found
            .causes
            .add(IdleCause::NoCall, place, start_ns, end_ns - start_ns);
    }

    /// The stack that launched an operation.
    fn launch_stack(&self, operation: &Stretch, call: &Submission) -> Option<StackId> {
        let process = self.of.process;
        let times_ns = [operation.start_ns, operation.end_ns];
        let launch = self.host.launch(process, times_ns);
        let of_call = || self.host.thread(call.thread)?.call_stack(call.start_ns);
        launch.map(|(stack, _)| stack).or_else(of_call)
    }

    /// What the thread did before it submitted the operation.
    fn before_submission(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        thread: ThreadId,
        submission: Option<CallAt>,
    ) {
        let Some(of_thread) = self.host.thread(thread) else {
            return self.found.causes.add(
                IdleCause::NoSamples,
                String::new(),
                start_ns,
                end_ns - start_ns,
            );
        };
        let mut now_ns = start_ns;
        for call in of_thread.calls_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (call.start_ns.max(now_ns), call.end_ns().min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            let stack = of_thread.call_stack(call.start_ns);
            let next = Some((call.name, stack));
            self.between_calls(now_ns, from_ns, (thread, next), of_thread);
            let name = self.model.text(call.name);
            let cause = match call.kind {
                HostKind::Collective => match Communication::of(name) {
                    Communication::Rccl => IdleCause::CollectiveCall,
                    Communication::Mpi => IdleCause::Mpi,
                    Communication::Shmem => IdleCause::Shmem,
                    Communication::Ucx => IdleCause::Ucx,
                },
                _ => within_call(name),
            };
            let place = self.place_of_call(name, stack, of_thread.samples_in(from_ns, to_ns));
            let ns = to_ns - from_ns;
            match place {
                Some(place) => {
                    self.found.call_places.seen(thread, call.name, &place);
                    self.found.causes.add(cause, place, from_ns, ns);
                }
                None => {
                    let call = (thread, call.name);
                    self.found
                        .call_places
                        .add_unplaced(call, cause, from_ns, ns);
                }
            }
            now_ns = to_ns;
        }
        self.between_calls(now_ns, end_ns, (thread, submission), of_thread);
    }

    /// A call, and where in the program it was made: by the stack that was recorded with it, else if a sample fell into it.
    fn place_of_call(
        &self,
        name: &str,
        stack: Option<StackId>,
        samples: impl Iterator<Item = HostSample>,
    ) -> Option<String> {
        if let Some(stack) = stack.filter(|stack| program_part(*stack, self.model).is_some()) {
            return Some(format!("{name} in {}", place(self.model, stack)));
        }
        // A sample from outside may come late: then its stack is that of something else.
        let is_of_call = |sample: &HostSample| {
            let frames = self.model.stacks.innermost_first(sample.stack);
            let is_runtime = |file: &str| RUNTIMES.iter().any(|one| file.contains(one));
            let mut names = frames.map(|frame| (frame.function, frame.mapping));
            names.any(|(function, file)| {
                self.model.text(function) == name || is_runtime(self.model.text(file))
            }) && program_part(sample.stack, self.model).is_some()
        };
        let samples = samples.filter(is_of_call);
        let most = samples.max_by_key(|sample| (sample.weight_ns, Reverse(sample.time_ns)))?;
        Some(format!("{name} in {}", place(self.model, most.stack)))
    }

    /// The thread was in no call of the GPU's runtimes. `next` is that with which it went on. What OpenMP and Kokkos did comes first.
    fn between_calls(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        around: (ThreadId, Option<CallAt>),
        of_thread: &Thread,
    ) {
        let mut now_ns = start_ns;
        for region in of_thread.regions_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (region.start_ns.max(now_ns), region.end_ns.min(end_ns));
            self.outside_regions(now_ns, from_ns, around, of_thread);
            let cause = match region.kind {
                HostKind::Kokkos => IdleCause::Kokkos,
                _ => IdleCause::OpenMp,
            };
            let place = self.model.text(region.name).to_owned();
            let ns = to_ns - from_ns;
            self.found.causes.add(cause, place, from_ns, ns);
            now_ns = to_ns;
        }
        self.outside_regions(now_ns, end_ns, around, of_thread);
    }

    /// The thread was in no call and no region.
    fn outside_regions(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        (thread, next): (ThreadId, Option<CallAt>),
        of_thread: &Thread,
    ) {
        let (mut waits, mut exact, mut now_ns) = (Vec::new(), Vec::new(), start_ns);
        for (wait, is_recorded) in self.waits_for_locks((start_ns, end_ns), of_thread) {
            self.seen_waits((now_ns, wait.1), of_thread, &mut waits);
            now_ns = wait.1 + wait.0;
            match is_recorded {
                true => exact.push(wait),
                false => waits.push(wait),
            }
        }
        self.seen_waits((now_ns, end_ns), of_thread, &mut waits);
        // What was seen of a wait is less than all of it: it was seen from outside, now and then.
        let longest = waits.iter().max().map(|wait| wait.2.clone());
        waits.append(&mut exact);
        waits.sort_unstable_by_key(|wait| wait.1);
        let around = Around {
            thread,
            waits: longest,
            next,
        };
        let mut now_ns = start_ns;
        for (wait_ns, from_ns, place) in waits {
            self.between_waits(now_ns, from_ns, &around, of_thread);
            self.found
                .causes
                .add(IdleCause::Wait, place, from_ns, wait_ns);
            now_ns = from_ns + wait_ns;
        }
        self.between_waits(now_ns, end_ns, &around, of_thread);
    }

    /// Adds what was seen of waits in an interval from outside: length, begin and place.
    fn seen_waits(
        &self,
        (start_ns, end_ns): (u64, u64),
        of_thread: &Thread,
        waits: &mut Vec<(u64, u64, String)>,
    ) {
        let mut now_ns = start_ns;
        for wait in of_thread.waits_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (wait.start_ns.max(now_ns), wait.end_ns().min(end_ns));
            if from_ns < to_ns {
                // Its samples are taken up to its end.
                let samples = of_thread.samples_in(wait.start_ns, wait.end_ns().saturating_add(1));
                let most = most_of(samples, (from_ns, to_ns));
                let place = most.map(|sample| place(self.model, sample.stack));
                let place = place.filter(|place| !place.is_empty());
                let place = place.unwrap_or_else(|| self.model.text(wait.name).to_owned());
                waits.push((to_ns - from_ns, from_ns, place));
                now_ns = to_ns;
            }
        }
    }

    /// The thread was in no call and in no wait whose place is known.
    fn between_waits(&mut self, start_ns: u64, end_ns: u64, around: &Around, of_thread: &Thread) {
        let mut now_ns = start_ns;
        for off in of_thread.off_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (off.start_ns.max(now_ns), off.end_ns().min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            self.on_processor(now_ns, from_ns, around, of_thread);
            let cause = match off.kind {
                HostKind::Runnable => IdleCause::Runnable,
                _ => IdleCause::OffProcessor,
            };
            let ns = to_ns - from_ns;
            let off = (ns, 1, Some(Example::new(from_ns, ns)));
            self.found.before_call(around, cause, off);
            now_ns = to_ns;
        }
        self.on_processor(now_ns, end_ns, around, of_thread);
    }

    /// The thread ran, as far as that is known.
    fn on_processor(&mut self, start_ns: u64, end_ns: u64, around: &Around, of_thread: &Thread) {
        let mut now_ns = start_ns;
        for scope in of_thread.scopes_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (scope.start_ns.max(now_ns), scope.end_ns.min(end_ns));
            self.by_samples(now_ns, from_ns, around, of_thread);
            let place = scope.place(self.model);
            self.found
                .causes
                .add(IdleCause::Code, place, from_ns, to_ns - from_ns);
            now_ns = to_ns;
        }
        self.by_samples(now_ns, end_ns, around, of_thread);
    }

    /// What its samples say.
    fn by_samples(&mut self, start_ns: u64, end_ns: u64, around: &Around, of_thread: &Thread) {
        if start_ns >= end_ns {
            return;
        }
        let span = (start_ns, end_ns - start_ns);
        let model = self.model;
        // The last sample of a wait has the time of its end, and stands for what was before.
        let is_before = |sample: &HostSample| sample.waits && sample.time_ns <= start_ns;
        let samples = of_thread.samples_in(start_ns, end_ns);
        let samples = samples.filter(|sample| !is_before(sample)).map(|sample| {
            let cause = if sample.waits {
                IdleCause::Wait
            } else {
                IdleCause::Code
            };
            (cause, place(model, sample.stack), sample.weight_ns)
        });
        if span.1 < LONG_NS {
            let pool = self.found.pooled.entry(around.clone()).or_default();
            return pool.add(span, samples);
        }
        let mut alone = PooledTime::default();
        alone.add(span, samples);
        let certainty = Certainty::of(of_thread, self.model);
        self.found.divide(around, alone, certainty, true);
    }

    /// The operation was submitted, and had not begun.
    fn after_submission(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        stack: Option<StackId>,
        call: &Submission,
    ) {
        let name = self.model.text(call.name);
        let place = call_at(self.model, call.name, stack);
        // A call that takes long by itself, such as one that first copies to where the GPU can read, has not handed the operation over.
        let returned_ns = call.end_ns.clamp(start_ns, end_ns);
        let mut now_ns = start_ns;
        let cause = within_call(name);
        let least_ns = if cause == IdleCause::BlockingCopy {
            0
        } else {
            LAUNCH_NS
        };
        if returned_ns - start_ns > least_ns {
            let of_thread = self.host.thread(call.thread).into_iter();
            let samples = of_thread.flat_map(|thread| thread.samples_in(start_ns, returned_ns));
            // Its launch stack is as good.
            let of_call = self.place_of_call(name, stack, samples);
            let of_call = of_call.unwrap_or_else(|| place.clone());
            self.found
                .causes
                .add(cause, of_call, start_ns, returned_ns - start_ns);
            now_ns = returned_ns;
        }
        match end_ns - now_ns {
            0..=LAUNCH_NS => {
                let causes = &mut self.found.causes;
                causes.add(IdleCause::Launch, place, now_ns, end_ns - now_ns);
            }
            _ => self.held_up((now_ns, end_ns), place, call),
        }
    }

    /// An operation began long after it was submitted at a place.
    fn held_up(&mut self, (from_ns, begin_ns): (u64, u64), place: String, call: &Submission) {
        let order = self.host.in_front(self.of.process, call);
        let behind = |name| format!("{place}, behind {}", self.model.text(name));
        let barriers = self.of.barriers;
        let (cause, place) = match order.map(|order| (order.what, order.name)) {
            Some((StreamOrder::WaitValue, name)) => (IdleCause::MemoryValue, behind(name)),
            Some((StreamOrder::HostFunction, name)) => (IdleCause::HostFunction, behind(name)),
            Some((StreamOrder::WaitEvent, name)) => {
                let behind = Behind::Event(name);
                return self.found.hold_up((from_ns, begin_ns), place, behind);
            }
            _ if barriers.ended_within(self.of.id, begin_ns, HANDOVER_NS) => {
                (IdleCause::Barrier, place)
            }
            _ => {
                let behind = Behind::Unknown;
                return self.found.hold_up((from_ns, begin_ns), place, behind);
            }
        };
        let causes = &mut self.found.causes;
        causes.add(cause, place, from_ns, begin_ns - from_ns);
    }
}

/// The sample that stands for most of a time. Waits that follow each other closely may be one slice: the longest of them need not be the one that is asked about.
pub(super) fn most_of(
    samples: impl Iterator<Item = HostSample>,
    (from_ns, to_ns): (u64, u64),
) -> Option<HostSample> {
    samples.max_by_key(|sample| {
        let begin_ns = sample.time_ns.saturating_sub(sample.weight_ns);
        let within_ns = sample
            .time_ns
            .min(to_ns)
            .saturating_sub(begin_ns.max(from_ns));
        (within_ns, sample.weight_ns, Reverse(sample.time_ns))
    })
}

/// What the time within a call of a runtime counts as.
fn within_call(name: &str) -> IdleCause {
    match waits_for(name) {
        Some(WaitsFor::Copy) => IdleCause::BlockingCopy,
        Some(_) => IdleCause::Synchronisation,
        None => IdleCause::RuntimeCall,
    }
}
