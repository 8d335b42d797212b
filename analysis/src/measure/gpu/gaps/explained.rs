//! What was found out of the idle times of one GPU so far, and what of it can only be known at the end.

use std::collections::BTreeMap;

use super::call_places::CallPlaces;
use super::causes::{Causes, Example};
use super::explain::HANDOVER_NS;
use super::host::{Host, Thread};
use super::places::place;
use super::pooled_time::{Around, CallAt, PooledTime};
use super::stretches::Stretches;
use crate::containers::packed_rows::PackedRows;
use crate::measure::idle_cause::IdleCause;
use rsys_traces::model::{Device, DeviceId, Model, StackId, TextId, ThreadId};

/// What stands in front of an operation that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Behind {
    /// A call that makes its stream wait for an event.
    Event(TextId),
    /// Nothing that the trace tells of its own GPU.
    Unknown,
}

/// What is known of a thread in a time in which it was in no call and no wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// It ran: whenever it left the processor, that was recorded.
    Ran,
    /// It ran as long as its samples stand for.
    Sampled,
    /// Nothing.
    Unknown,
}

impl Certainty {
    pub(super) fn of(thread: &Thread, model: &Model) -> Self {
        let process = thread.process.map(|id| model.process(id));
        match thread.is_sampled() {
            false => Self::Unknown,
            true if process.is_some_and(|one| one.has_switches) => Self::Ran,
            true => Self::Sampled,
        }
    }
}

/// What was found out of one GPU.
#[derive(Debug, Default)]
pub(super) struct Explained {
    pub(super) causes: Causes,
    pub(super) call_places: CallPlaces,
    pub(super) pooled: BTreeMap<Around, PooledTime>,
    /// What threads that are named at the end did before calls.
    before_calls: BTreeMap<(ThreadId, Option<CallAt>), Causes>,
    /// Operations that were held up, perhaps by other GPUs: begin, how long, and the number of what is known.
    held_up: PackedRows<3>,
    /// What is known of those, by number: the place and what is in front.
    holds: BTreeMap<(String, Behind), u64>,
}

impl Explained {
    /// An operation was held up from one time to its begin; by which GPU is seen when all were read.
    pub(super) fn hold_up(
        &mut self,
        (from_ns, begin_ns): (u64, u64),
        place: String,
        behind: Behind,
    ) {
        let next = self.holds.len() as u64;
        let number = *self.holds.entry((place, behind)).or_insert(next);
        self.held_up.push([begin_ns, begin_ns - from_ns, number]);
    }

    /// Divides the time of a pool by its samples, exactly. Of a single time (`is_one`), the rest is likely at the same place.
    pub(super) fn divide(
        &mut self,
        around: &Around,
        pool: PooledTime,
        certainty: Certainty,
        is_one: bool,
    ) {
        let (waits, runs): (Vec<_>, Vec<_>) = (pool.seen.into_iter())
            .map(|((cause, place), seen)| (cause, place, seen))
            .partition(|(cause, _, _)| *cause == IdleCause::Wait);
        let mut left_ns = pool.time_ns;
        let mut shares = Vec::with_capacity(waits.len() + runs.len());
        // Samples of waits are as long as these. Those of the processor stand for what the thread has used, and the rest it was not there; but where
        // that is known it ran for all that is left, and they only say where.
        for (seen, is_exact) in [(waits, false), (runs, certainty == Certainty::Ran)] {
            let weights = seen.iter().map(|(_, _, seen)| u128::from(seen.weight_ns));
            let (sum, time_ns): (u128, u64) = (weights.sum(), left_ns);
            let total = match is_exact {
                true => sum.max(1),
                false => sum.max(u128::from(time_ns)),
            };
            let first = shares.len();
            for (cause, place, seen) in seen {
                let share = u128::from(seen.weight_ns) * u128::from(time_ns) / total;
                let share = u64::try_from(share).unwrap_or(left_ns).min(left_ns);
                left_ns -= share;
                shares.push((share, cause, place, seen));
            }
            shares[first..].sort_by(|one, other| other.0.cmp(&one.0).then(one.2.cmp(&other.2)));
            if let Some(largest) = shares.get_mut(first)
                && (is_exact || sum >= u128::from(time_ns))
            {
                // What rounding leaves is a few nanoseconds.
                largest.0 += std::mem::take(&mut left_ns);
            }
        }
        shares.sort_by(|one, other| other.0.cmp(&one.0).then(one.2.cmp(&other.2)));
        let most_seen = shares.first().map(|(_, _, place, _)| place.clone());
        let most_seen = most_seen.filter(|_| is_one);
        let most_seen = most_seen.or_else(|| around.waits.clone());
        for (share, cause, place, seen) in shares {
            let examples = seen.examples.iter();
            let examples =
                examples.map(|one| Example::new(one.start_ns.0, one.duration_ns.min(share)));
            self.causes
                .add_parts(cause, place, share, seen.count, examples);
        }
        let longest = pool.longest.map(|one| {
            let longest_ns = one.duration_ns.min(left_ns);
            Example::new(one.start_ns.0, longest_ns)
        });
        let rest = (left_ns, pool.count, longest);
        match (certainty, most_seen) {
            (Certainty::Ran, _) => self.before_call(around, IdleCause::Code, rest),
            (Certainty::Sampled, Some(place)) => {
                let (ns, count, longest) = rest;
                self.causes
                    .add_parts(IdleCause::OffProcessor, place, ns, count, longest);
            }
            (Certainty::Sampled, None) => self.before_call(around, IdleCause::OffProcessor, rest),
            (Certainty::Unknown, _) => self.before_call(around, IdleCause::NoSamples, rest),
        }
    }

    /// Time of a thread before a call.
    pub(super) fn before_call(
        &mut self,
        around: &Around,
        cause: IdleCause,
        (ns, count, longest): (u64, u64, Option<Example>),
    ) {
        if ns > 0 {
            let of = (around.thread, around.next);
            let causes = self.before_calls.entry(of).or_default();
            causes.add_parts(cause, String::new(), ns, count, longest);
        }
    }

    /// The causes, when all was read. `stretches` are those of all GPUs.
    pub(super) fn finish(
        mut self,
        model: &Model,
        host: &Host,
        stretches: &[Stretches],
        id: DeviceId,
    ) -> Causes {
        for (around, pool) in std::mem::take(&mut self.pooled) {
            let thread = host.thread(around.thread);
            let certainty = thread.map_or(Certainty::Unknown, |one| Certainty::of(one, model));
            self.divide(&around, pool, certainty, false);
        }
        self.call_places.place_all(model, &mut self.causes);
        for ((thread, next), causes) in self.before_calls {
            let place = thread_before(model, thread, next);
            self.causes.absorb(causes, &place);
        }
        let holds: BTreeMap<u64, &(String, Behind)> = self
            .holds
            .iter()
            .map(|(hold, number)| (*number, hold))
            .collect();
        self.held_up.sort();
        for [begin_ns, ns, number] in self.held_up.iter() {
            let Some((place, behind)) = holds.get(&number) else {
                continue;
            };
            let gpus =
                |within_ns| ended_before(model, stretches, id, begin_ns, within_ns).join(", ");
            let (cause, for_what) = match *behind {
                Behind::Event(call) => {
                    // That it waits is certain: whoever ended towards the end of that is the one.
                    let gpus = gpus(HANDOVER_NS.max(ns / 10));
                    let of_gpus = match gpus.is_empty() {
                        true => String::new(),
                        false => format!(" for {gpus}"),
                    };
                    let behind = format!(", behind {}{of_gpus}", model.text(call));
                    (IdleCause::Event, behind)
                }
                Behind::Unknown => match gpus(HANDOVER_NS) {
                    gpus if gpus.is_empty() => (IdleCause::Queued, String::new()),
                    gpus => (IdleCause::OtherGpu, format!(", behind {gpus}")),
                },
            };
            let place = format!("{place}{for_what}");
            self.causes.add(cause, place, begin_ns - ns, ns);
        }
        self.causes
    }
}

/// The names of other GPUs of the process that ended a stretch of work just before a time, in the order of their numbers. Those of other processes end some work all the time.
fn ended_before(
    model: &Model,
    stretches: &[Stretches],
    id: DeviceId,
    time_ns: u64,
    within_ns: u64,
) -> Vec<String> {
    let process = model.device(id).process;
    let others = stretches.iter().enumerate();
    let others = others.filter(|(index, stretches)| {
        let is_own = |device: &Device| device.process == process;
        if *index == id.index() || !model.devices.get(*index).is_some_and(is_own) {
            return false;
        }
        let ended_ns = stretches.ended_by(time_ns);
        ended_ns.is_some_and(|ended_ns| time_ns - ended_ns <= within_ns)
    });
    let mut numbers: Vec<u32> = others
        .filter_map(|(index, _)| model.devices.get(index))
        .map(|device| device.ordinal)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(|gpu| format!("GPU {gpu}")).collect()
}

/// A thread, and the call with which it went on.
fn thread_before(model: &Model, thread: ThreadId, next: Option<CallAt>) -> String {
    let known = model.threads.get(thread.index());
    let text = known.map_or_else(String::new, |known| {
        format!("thread {} {}", known.tid, model.text(known.name))
            .trim_end()
            .to_owned()
    });
    match next {
        Some((name, stack)) => format!("{text}, before {}", call_at(model, name, stack)),
        None => text,
    }
}

/// A call, and where it was made if that is known.
pub(super) fn call_at(model: &Model, name: TextId, stack: Option<StackId>) -> String {
    let name = model.text(name);
    match stack.map(|stack| place(model, stack)) {
        Some(place) if !place.is_empty() => format!("{name} in {place}"),
        _ => name.to_owned(),
    }
}
