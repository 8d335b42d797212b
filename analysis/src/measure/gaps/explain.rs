//! From the idle times of one GPU to their causes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::call_places::CallPlaces;
use super::causes::{Cause, Causes, Example, Outside};
use super::host::{Host, Look, Submission, Thread};
use super::places::place;
use super::pools::{Around, CallAt, Pool, Seen};
use super::stretches::{Barriers, Stretch, Stretches};
use crate::measure::code_place::program_part;
use crate::model::{
    DeviceId, HostKind, Model, StackId, StreamOrder, TextId, ThreadId, WaitsFor, waits_for,
};

/// An operation that begins within this time after its call, and after the work in front of it, waited for nothing but the runtime and the
/// GPU's own latency.
const LAUNCH_NS: u64 = 100_000;
/// An operation that begins within this time after another GPU has ended its work, or after a barrier, has waited for that.
const HANDOVER_NS: u64 = 50_000;
/// Times between calls of at least this length are divided by their own samples.
const LONG_NS: u64 = 20_000_000;
/// Parts of names of the files whose functions are on the stack during a call.
const RUNTIMES: [&str; 5] = ["amdhip64", "hsa-runtime", "librccl", "libcuda", "libnccl"];

/// One GPU while its idle times are explained.
pub(super) struct Gpu<'a> {
    model: &'a Model,
    host: &'a Host,
    barriers: &'a Barriers,
    id: DeviceId,
    others: &'a [Stretches],
    causes: Causes,
    call_places: CallPlaces,
    pools: BTreeMap<Around, Pool>,
}

impl<'a> Gpu<'a> {
    pub(super) fn new(
        model: &'a Model,
        host: &'a Host,
        barriers: &'a Barriers,
        id: DeviceId,
        others: &'a [Stretches],
    ) -> Self {
        Self {
            model,
            host,
            barriers,
            id,
            others,
            causes: Causes::default(),
            call_places: CallPlaces::default(),
            pools: BTreeMap::new(),
        }
    }

    /// Explains all idle times.
    pub(super) fn explain(mut self, stretches: &Stretches) -> Causes {
        let mut before: Option<Stretch> = None;
        for next in stretches.iter() {
            if let Some(before) = before {
                self.idle(before.end_ns, &next);
            }
            before = Some(next);
        }
        self.finish()
    }

    /// Explains the times of the process before the first stretch and after the last.
    /// What was there before `known_from_ns` was forgotten in part.
    pub(super) fn outside(&self, (first, last): (Stretch, Stretch), known_from_ns: u64) -> Outside {
        let new = || Self::new(self.model, self.host, self.barriers, self.id, self.others);
        let (mut before, mut after) = (new(), new());
        let id = self.model.device(self.id).process;
        let process = self.model.process(id);
        // What the file says of its process, else the first and last that it has of it.
        let (first_ns, last_ns) = self.host.span(id).unwrap_or((first.start_ns, last.end_ns));
        let start_ns = if process.start_ns == 0 {
            first_ns
        } else {
            process.start_ns
        };
        let start_ns = start_ns.min(first.start_ns);
        let from_ns = known_from_ns.clamp(start_ns, first.start_ns);
        let (unknown, unknown_ns) = (&mut before.causes, from_ns - start_ns);
        unknown.add(Cause::NoSamples, String::new(), start_ns, unknown_ns);
        before.idle(from_ns, &first);
        let end_ns = if process.end_ns == 0 {
            last_ns
        } else {
            process.end_ns
        };
        let end_ns = end_ns.max(last.end_ns);
        after.after_last(last.end_ns, end_ns, &last);
        Outside {
            before: before.finish(),
            after: after.finish(),
        }
    }

    /// Explains a time behind the last stretch by what its thread did.
    pub(super) fn after_last(&mut self, start_ns: u64, end_ns: u64, last: &Stretch) {
        let process = self.model.device(self.id).process;
        match self.host.submission(process, last.link) {
            Some(call) => self.before_submission(start_ns, end_ns, call.thread, None),
            None => self.no_call(start_ns, end_ns, last),
        }
    }

    /// What is put together is divided at last.
    pub(super) fn finish(mut self) -> Causes {
        for (around, pool) in std::mem::take(&mut self.pools) {
            self.divide(&around, pool, false);
        }
        std::mem::take(&mut self.call_places).place_all(self.model, &mut self.causes);
        self.causes
    }

    /// Explains the idle time from `start_ns` to the operation that ends it.
    fn idle(&mut self, start_ns: u64, next: &Stretch) {
        self.idle_until(start_ns, next.start_ns, next);
    }

    /// Explains a part of the idle time that an operation ends.
    pub(super) fn idle_until(&mut self, start_ns: u64, end_ns: u64, next: &Stretch) {
        let process = self.model.device(self.id).process;
        let Some(call) = self.host.submission(process, next.link) else {
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
        self.causes
            .add(Cause::NoCall, place, start_ns, end_ns - start_ns);
    }

    /// The stack that launched an operation.
    fn launch_stack(&self, operation: &Stretch, call: &Submission) -> Option<StackId> {
        let process = self.model.device(self.id).process;
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
            return self
                .causes
                .add(Cause::NoSamples, String::new(), start_ns, end_ns - start_ns);
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
                HostKind::Collective => Cause::CollectiveCall,
                _ => within_call(name),
            };
            let place = self.place_of_call(name, stack, of_thread.looks_in(from_ns, to_ns));
            let ns = to_ns - from_ns;
            match place {
                Some(place) => {
                    self.call_places.seen(thread, call.name, &place);
                    self.causes.add(cause, place, from_ns, ns);
                }
                None => {
                    let call = (thread, call.name);
                    self.call_places.add_unplaced(call, cause, from_ns, ns);
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
        looks: impl Iterator<Item = Look>,
    ) -> Option<String> {
        if let Some(stack) = stack.filter(|stack| program_part(*stack, self.model).is_some()) {
            return Some(format!("{name} in {}", place(self.model, stack)));
        }
        // A sample from outside may come late: then its stack is that of something else.
        let is_of_call = |look: &Look| {
            let frames = self.model.stacks.innermost_first(look.stack);
            let is_runtime = |file: &str| RUNTIMES.iter().any(|one| file.contains(one));
            let mut names = frames.map(|frame| (frame.function, frame.mapping));
            names.any(|(function, file)| {
                self.model.text(function) == name || is_runtime(self.model.text(file))
            }) && program_part(look.stack, self.model).is_some()
        };
        let looks = looks.filter(is_of_call);
        let most = looks.max_by_key(|look| (look.weight_ns, Reverse(look.time_ns)))?;
        Some(format!("{name} in {}", place(self.model, most.stack)))
    }

    /// The thread was in no call. `next` is that with which it went on.
    fn between_calls(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        (thread, next): (ThreadId, Option<CallAt>),
        of_thread: &Thread,
    ) {
        let (mut waits, mut now_ns) = (Vec::new(), start_ns);
        for wait in of_thread.waits_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (wait.start_ns.max(now_ns), wait.end_ns().min(end_ns));
            if from_ns < to_ns {
                // Its samples are taken up to its end.
                let looks = of_thread.looks_in(wait.start_ns, wait.end_ns().saturating_add(1));
                let most = looks.max_by_key(|look| (look.weight_ns, Reverse(look.time_ns)));
                let place = most.map(|look| place(self.model, look.stack));
                let place = place.filter(|place| !place.is_empty());
                let place = place.unwrap_or_else(|| self.model.text(wait.name).to_owned());
                waits.push((to_ns - from_ns, from_ns, place));
                now_ns = to_ns;
            }
        }
        // What was seen of a wait is less than all of it: it was seen from outside, now and then.
        let longest = waits.iter().max().map(|wait| wait.2.clone());
        let around = Around {
            thread,
            waits: longest.unwrap_or_default(),
            next,
        };
        let mut now_ns = start_ns;
        for (wait_ns, from_ns, place) in waits {
            self.between_waits(now_ns, from_ns, &around, of_thread);
            self.causes.add(Cause::Wait, place, from_ns, wait_ns);
            now_ns = from_ns + wait_ns;
        }
        self.between_waits(now_ns, end_ns, &around, of_thread);
    }

    /// The thread was in no call and did not wait, as far as that is known.
    fn between_waits(&mut self, start_ns: u64, end_ns: u64, around: &Around, of_thread: &Thread) {
        let mut now_ns = start_ns;
        for scope in of_thread.scopes_in(start_ns, end_ns) {
            let (from_ns, to_ns) = (scope.start_ns.max(now_ns), scope.end_ns.min(end_ns));
            self.by_samples(now_ns, from_ns, around, of_thread);
            let place = self.model.text(scope.name).to_owned();
            self.causes
                .add(Cause::Code, place, from_ns, to_ns - from_ns);
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
        let looks = of_thread.looks_in(start_ns, end_ns);
        let mut alone = Pool::default();
        let is_long = span.1 >= LONG_NS;
        let pool = match is_long {
            true => &mut alone,
            false => self.pools.entry(around.clone()).or_default(),
        };
        pool.time_ns += span.1;
        pool.count += 1;
        pool.longest = pool.longest.max(Some(Example::new(span.0, span.1)));
        pool.looks.extend(looks.map(|look| (look, span)));
        if is_long {
            self.divide(around, alone, true);
        }
    }

    /// Divides the time of a pool by its samples, exactly. Of a single time (`is_one`), the rest is likely at the same place.
    fn divide(&mut self, around: &Around, pool: Pool, is_one: bool) {
        let thread = around.thread;
        let is_sampled = self.host.thread(thread).is_some_and(Thread::is_sampled);
        let mut places: BTreeMap<(Cause, String), Seen> = BTreeMap::new();
        for (look, span) in &pool.looks {
            let cause = if look.waits { Cause::Wait } else { Cause::Code };
            let place = place(self.model, look.stack);
            let seen = places.entry((cause, place)).or_default();
            seen.weight_ns = seen.weight_ns.saturating_add(look.weight_ns);
            let in_span = seen.spans.entry(*span).or_default();
            *in_span = in_span.saturating_add(look.weight_ns);
        }
        let weights = places.values().map(|seen| u128::from(seen.weight_ns));
        let sum: u128 = weights.sum();
        // Samples of the processor stand for what the thread has used: the rest it was not there.
        let total = sum.max(u128::from(pool.time_ns));
        let mut shares = Vec::with_capacity(places.len());
        let mut left_ns = pool.time_ns;
        for ((cause, place), seen) in places {
            let share = u128::from(seen.weight_ns) * u128::from(pool.time_ns) / total;
            let share = u64::try_from(share).unwrap_or(left_ns).min(left_ns);
            left_ns -= share;
            shares.push((share, cause, place, seen));
        }
        shares.sort_by(|one, other| other.0.cmp(&one.0).then(one.2.cmp(&other.2)));
        let most_seen = shares.first().map(|(_, _, place, _)| place.clone());
        let most_seen = most_seen.filter(|_| is_one);
        let waits = Some(&around.waits).filter(|waits| !waits.is_empty());
        let most_seen = most_seen.or_else(|| waits.cloned());
        if sum >= u128::from(pool.time_ns)
            && let Some(first) = shares.first_mut()
        {
            // What rounding leaves is a few nanoseconds.
            first.0 += std::mem::take(&mut left_ns);
        }
        for (share, cause, place, seen) in shares {
            let examples = seen.spans.iter().map(|((start_ns, length_ns), weight_ns)| {
                Example::new(*start_ns, *weight_ns.min(length_ns).min(&share))
            });
            let count = seen.spans.len() as u64;
            self.causes.add_parts(cause, place, share, count, examples);
        }
        let (cause, place) = match (is_sampled, most_seen) {
            (false, _) => (Cause::NoSamples, self.thread_before(around)),
            (true, None) => (Cause::OffProcessor, self.thread_before(around)),
            (true, Some(place)) => (Cause::OffProcessor, place),
        };
        let longest = pool.longest.map(|one| {
            let longest_ns = one.duration_ns.min(left_ns);
            Example::new(one.start_ns.0, longest_ns)
        });
        self.causes
            .add_parts(cause, place, left_ns, pool.count, longest);
    }

    /// The thread, and the call with which it went on.
    fn thread_before(&self, around: &Around) -> String {
        let known = self.model.threads.get(around.thread.index());
        let mut text = known.map_or_else(String::new, |known| {
            format!("thread {} {}", known.tid, self.model.text(known.name))
                .trim_end()
                .to_owned()
        });
        if let Some((name, stack)) = around.next {
            text = format!("{text}, before {}", self.call_at(name, stack));
        }
        text
    }

    /// A call, and where it was made if that is known.
    fn call_at(&self, name: TextId, stack: Option<StackId>) -> String {
        let name = self.model.text(name);
        match stack.map(|stack| place(self.model, stack)) {
            Some(place) if !place.is_empty() => format!("{name} in {place}"),
            _ => name.to_owned(),
        }
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
        let place = self.call_at(call.name, stack);
        // A call that takes long by itself, such as one that first copies to where the GPU can read, has not handed the operation over.
        let returned_ns = call.end_ns.clamp(start_ns, end_ns);
        let mut now_ns = start_ns;
        let cause = within_call(name);
        let least_ns = if cause == Cause::BlockingCopy {
            0
        } else {
            LAUNCH_NS
        };
        if returned_ns - start_ns > least_ns {
            let of_thread = self.host.thread(call.thread).into_iter();
            let looks = of_thread.flat_map(|thread| thread.looks_in(start_ns, returned_ns));
            // Its launch stack is as good.
            let of_call = self.place_of_call(name, stack, looks);
            let of_call = of_call.unwrap_or_else(|| place.clone());
            self.causes
                .add(cause, of_call, start_ns, returned_ns - start_ns);
            now_ns = returned_ns;
        }
        let (cause, for_what) = match end_ns - now_ns {
            0..=LAUNCH_NS => (Cause::Launch, String::new()),
            _ => self.held_up(now_ns, end_ns, call),
        };
        self.causes
            .add(cause, place + &for_what, now_ns, end_ns - now_ns);
    }

    /// What an operation waited for that began long after it was submitted, and in words what that was.
    fn held_up(&self, submitted_ns: u64, begin_ns: u64, call: &Submission) -> (Cause, String) {
        let process = self.model.device(self.id).process;
        let gpus = |within_ns: u64| {
            let gpus = self.ended_before(begin_ns, within_ns);
            let gpus: Vec<String> = gpus.iter().map(|gpu| format!("GPU {gpu}")).collect();
            gpus.join(", ")
        };
        if let Some(order) = self.host.in_front(process, call) {
            let behind = format!(", behind {}", self.model.text(order.name));
            // That it waits is certain: whoever ended towards the end of that is the one.
            let gpus = gpus(HANDOVER_NS.max((begin_ns - submitted_ns) / 10));
            let of_gpus = match gpus.is_empty() {
                true => behind.clone(),
                false => format!("{behind} for {gpus}"),
            };
            match order.what {
                StreamOrder::WaitEvent => return (Cause::Event, of_gpus),
                StreamOrder::WaitValue => return (Cause::MemoryValue, behind),
                StreamOrder::HostFunction => return (Cause::HostFunction, behind),
                StreamOrder::RecordEvent | StreamOrder::None => {}
            }
        }
        if self.barriers.ended_within(self.id, begin_ns, HANDOVER_NS) {
            return (Cause::Barrier, String::new());
        }
        let gpus = gpus(HANDOVER_NS);
        match gpus.is_empty() {
            true => (Cause::Queued, String::new()),
            false => (Cause::OtherGpu, format!(", behind {gpus}")),
        }
    }

    /// The numbers of other GPUs that ended a stretch of work just before a time.
    fn ended_before(&self, time_ns: u64, within_ns: u64) -> BTreeSet<u32> {
        let others = self.others.iter().enumerate();
        let others = others.filter(|(index, stretches)| {
            if *index == self.id.index() {
                return false;
            }
            let ended_ns = stretches.ended_by(time_ns);
            ended_ns.is_some_and(|ended_ns| time_ns - ended_ns <= within_ns)
        });
        others
            .filter_map(|(index, _)| self.model.devices.get(index))
            .map(|device| device.ordinal)
            .collect()
    }
}

/// What the time within a call of a runtime counts as.
fn within_call(name: &str) -> Cause {
    match waits_for(name) {
        Some(WaitsFor::Copy) => Cause::BlockingCopy,
        Some(_) => Cause::Synchronisation,
        None => Cause::RuntimeCall,
    }
}
