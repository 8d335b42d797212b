//! What a rank did in some stretches of time, in order, as a walk back through it needs it.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use crate::measure::idle_cause::IdleCause;

/// A name that records share.
pub(super) type Name = Rc<str>;

/// Names, each once: a long iteration has few of them, and many records.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<Name>);

impl Names {
    /// The one copy of a name.
    pub(super) fn get(&mut self, name: &str) -> Name {
        if let Some(known) = self.0.get(name) {
            return Rc::clone(known);
        }
        let new: Name = Rc::from(name);
        self.0.insert(Rc::clone(&new));
        new
    }
}

/// What a piece of a critical path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A kernel, or what else is no copy, fill or collective.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A collective, from the arrival of the last rank on.
    Collective,
    /// From the end of the operation in front of it in the queue to the begin of an operation.
    Queue,
    /// From the end of an operation of another stream, for which the stream waits, to the begin of an operation.
    Event,
    /// From the call that launches to the begin of the operation.
    Launch,
    /// A call of the runtime or of RCCL; of one that waits for a GPU, the time after that.
    Call,
    /// The thread was in no call: what it did instead.
    Host(IdleCause),
    /// The traces do not say.
    Unknown,
}

impl Kind {
    /// In words, as tables have it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Collective => "collective",
            Self::Queue => "queue",
            Self::Event => "event",
            Self::Launch => "launch",
            Self::Call => "call",
            Self::Host(cause) => cause.key(),
            Self::Unknown => "unknown",
        }
    }
}

/// An operation of a GPU, on the axis of time that ranks have in common.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Its begin as the trace has it, by which collectives are matched.
    pub(super) start_ns: u64,
    pub(super) device: usize,
    pub(super) queue: usize,
    pub(super) name: Name,
    pub(super) kind: Kind,
    pub(super) launch: Option<Launch>,
}

/// The call that launched an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) thread: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The handle of its stream plus one; 0: unknown.
    pub(super) stream: u64,
    /// It returns when the operation has ended: it was launched at some time within the call.
    pub(super) is_held: bool,
}

/// A call of a thread that is within no other.
#[derive(Debug, Clone)]
pub(super) struct HostCall {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) name: Name,
    /// Its begin as the trace has it, if it is one of a library that communicates.
    pub(super) meets_ns: Option<u64>,
    /// It, or a call within it, returns when a GPU has done something.
    pub(super) blocks: bool,
    /// It, or a call within it, was to copy aside and has waited for its own copy.
    pub(super) is_held: bool,
    /// It launches, and takes many times as long as such calls can.
    pub(super) is_slow_launch: bool,
    /// The stream it is about plus one; 0: unknown, or all.
    pub(super) stream: u64,
}

/// A time in which a thread did one thing, calls aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) kind: Kind,
    pub(super) name: Name,
    /// Nothing but a range is known of it, which may be a wait as well.
    pub(super) is_range: bool,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// In order, side by side.
    pub(super) calls: Vec<HostCall>,
    /// In order, side by side; where there is none, the thread was not seen.
    pub(super) pieces: Vec<Piece>,
    /// By the handle of the stream plus one (0: unknown): when `hipStreamWaitEvent` or its like was first called.
    event_waits: BTreeMap<u64, i64>,
}

/// A rank.
#[derive(Debug, Default)]
pub(super) struct RankTimeline {
    /// In order of their begins.
    pub(super) operations: Vec<Operation>,
    /// By queue: the operations, in the same order.
    queues: BTreeMap<usize, Vec<usize>>,
    /// Operations in order of their ends.
    by_end: Vec<usize>,
    /// The place of each operation in its queue.
    places: Vec<usize>,
    /// Begins as the trace has them: of operations, and of calls that communicate, with their threads.
    begins: Vec<(u64, usize)>,
    meetings: Vec<(u64, usize)>,
    /// When operations were launched whose calls are known, and when these ended.
    launched: Vec<i64>,
    launched_ends: Vec<i64>,
    pub(super) threads: BTreeMap<usize, Track>,
    /// The thread on which an iteration is marked, by the begin of the iteration as the trace has it.
    pub(super) marked: BTreeMap<u64, usize>,
    /// Processor time between two samples; 0: there are none.
    pub(super) sample_period_ns: u64,
    /// How many records of it are in memory.
    pub(super) records: usize,
    /// What ended before this time was not kept, for there is too much of it.
    pub(super) since: Option<i64>,
}

impl Track {
    /// A call makes a stream wait for an event.
    pub(super) fn waits_for_event(&mut self, stream: u64, time: i64) {
        let first = self.event_waits.entry(stream).or_insert(time);
        *first = time.min(*first);
    }

    /// When the last piece before a time ended, or began if that is in it, of which nothing but a range is known; those that ended before `from` do not count.
    pub(super) fn may_have_waited(&self, from: i64, time: i64) -> Option<i64> {
        let before = &self.pieces[..self.pieces.partition_point(|piece| piece.start < time)];
        let since = before.iter().rev().take_while(|piece| piece.end > from);
        let piece = since.into_iter().find(|piece| piece.is_range)?;
        Some(if piece.end < time {
            piece.end
        } else {
            piece.start
        })
    }

    /// When something of the thread was first seen from a time on.
    pub(super) fn first_seen(&self, since: i64) -> Option<i64> {
        let call = self
            .calls
            .get(self.calls.partition_point(|call| call.end <= since));
        let piece = self
            .pieces
            .get(self.pieces.partition_point(|piece| piece.end <= since));
        let times = [call.map(|call| call.start), piece.map(|piece| piece.start)];
        times.into_iter().flatten().min()
    }
}

/// Operations in front of one in its queue that are examined: those that overlap it are no reason for its begin.
const OVERLAPPING: usize = 256;

impl RankTimeline {
    pub(super) fn new(
        mut operations: Vec<Operation>,
        threads: BTreeMap<usize, Track>,
        sample_period_ns: u64,
    ) -> Self {
        let order = |one: &Operation| (one.start, one.end, one.queue);
        operations.sort_by(|one, other| {
            let by_times = order(one).cmp(&order(other));
            by_times.then_with(|| one.name.cmp(&other.name))
        });
        let mut queues: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut places = Vec::with_capacity(operations.len());
        for (number, one) in operations.iter().enumerate() {
            let queue = queues.entry(one.queue).or_default();
            places.push(queue.len());
            queue.push(number);
        }
        let mut by_end: Vec<usize> = (0..operations.len()).collect();
        by_end.sort_by_key(|&number| (operations[number].end, number));
        let of_calls = || {
            operations
                .iter()
                .filter_map(|one| Some((one.launch?.start, one.end)))
        };
        let records = operations.len()
            + threads
                .values()
                .map(|track| track.calls.len() + track.pieces.len())
                .sum::<usize>();
        let (mut launched, mut launched_ends): (Vec<i64>, Vec<i64>) = of_calls().unzip();
        launched.sort_unstable();
        launched_ends.sort_unstable();
        let begins = operations.iter().enumerate();
        let mut begins: Vec<(u64, usize)> =
            begins.map(|(number, one)| (one.start_ns, number)).collect();
        begins.sort_unstable();
        let calls = threads.iter().flat_map(|(thread, track)| {
            let meet = track.calls.iter().filter_map(|call| call.meets_ns);
            meet.map(|begin_ns| (begin_ns, *thread))
        });
        let mut meetings: Vec<(u64, usize)> = calls.collect();
        meetings.sort_unstable();
        Self {
            begins,
            meetings,
            launched,
            launched_ends,
            operations,
            queues,
            by_end,
            places,
            threads,
            marked: BTreeMap::new(),
            sample_period_ns,
            records,
            since: None,
        }
    }

    /// The operation in front of another in its queue, the last that had ended when that began.
    pub(super) fn before(&self, number: usize) -> Option<usize> {
        let one = &self.operations[number];
        let queue = &self.queues[&one.queue];
        let earlier = queue[..self.places[number]].iter().rev();
        let ended = earlier
            .take(OVERLAPPING)
            .filter(|&&other| self.operations[other].end <= one.start);
        ended
            .copied()
            .max_by_key(|&other| (self.operations[other].end, other))
    }

    /// The operation that ended last in `(after, until]`, of those that are fit.
    pub(super) fn ended_last(
        &self,
        (after, until): (i64, i64),
        is_fit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let behind = self
            .by_end
            .partition_point(|&number| self.operations[number].end <= until);
        let candidates = self.by_end[..behind].iter().rev().copied();
        candidates
            .take_while(|&number| self.operations[number].end > after)
            .find(|&number| is_fit(number))
    }

    /// How many operations had been launched at a time and not ended.
    pub(super) fn queued_at(&self, time: i64) -> usize {
        let launched = self.launched.partition_point(|at| *at < time);
        let ended = self.launched_ends.partition_point(|at| *at <= time);
        launched.saturating_sub(ended)
    }

    /// The operation that begins at a time of the trace, within its grain; collectives first.
    pub(super) fn at(&self, start_ns: u64, grain_ns: u64) -> Option<usize> {
        let order = |&&(begin_ns, number): &&(u64, usize)| {
            let kind = self.operations[number].kind;
            let off_ns = begin_ns.abs_diff(start_ns);
            (kind != Kind::Collective, off_ns, number)
        };
        let near = near(&self.begins, start_ns, grain_ns).iter();
        near.min_by_key(order).map(|one| one.1)
    }

    /// The thread that makes a call that communicates and begins at a time of the trace, within its grain.
    pub(super) fn caller(&self, start_ns: u64, grain_ns: u64) -> Option<usize> {
        let near = near(&self.meetings, start_ns, grain_ns).iter();
        near.map(|one| one.1).min()
    }

    /// Whether a call made the stream wait for an event before a launch.
    pub(super) fn waits_for_event(&self, launch: &Launch) -> bool {
        let Some(track) = self.threads.get(&launch.thread) else {
            return false;
        };
        let is_its = |stream: u64| stream == 0 || launch.stream == 0 || stream == launch.stream;
        let mut waits = track.event_waits.iter();
        waits.any(|(stream, first)| *first <= launch.start && is_its(*stream))
    }
}

/// What begins within so many nanoseconds of a time, of what is in order.
fn near(begins: &[(u64, usize)], at_ns: u64, grain_ns: u64) -> &[(u64, usize)] {
    let from_ns = at_ns.saturating_sub(grain_ns);
    let from = begins.partition_point(|one| one.0 < from_ns);
    let count = begins[from..].partition_point(|one| one.0 <= at_ns.saturating_add(grain_ns));
    &begins[from..from + count]
}

/// Times of several kinds that may overlap, as pieces side by side: where several are at once, the first by its order counts.
pub(super) fn side_by_side(spans: &[(u8, Piece)]) -> Vec<Piece> {
    let mut events: Vec<(i64, bool, u8, usize)> = Vec::new();
    for (number, (order, piece)) in spans.iter().enumerate() {
        if piece.start < piece.end {
            events.push((piece.start, true, *order, number));
            events.push((piece.end, false, *order, number));
        }
    }
    events.sort_unstable();
    let mut running: std::collections::BTreeSet<(u8, usize)> = std::collections::BTreeSet::new();
    let mut found: Vec<Piece> = Vec::new();
    let mut now = i64::MIN;
    for (time, is_begin, order, number) in events {
        if let Some(&(_, first)) = running.first()
            && now < time
        {
            let piece = &spans[first].1;
            match found.last_mut() {
                Some(last)
                    if last.end == now && last.kind == piece.kind && last.name == piece.name =>
                {
                    last.end = time;
                }
                _ => found.push(Piece {
                    start: now,
                    end: time,
                    ..piece.clone()
                }),
            }
        }
        now = time;
        match is_begin {
            true => running.insert((order, number)),
            false => running.remove(&(order, number)),
        };
    }
    found
}
