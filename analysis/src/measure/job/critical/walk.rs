//! The walk: from the end of an iteration back to its begin, at each place to what that had waited for.

use std::collections::HashSet;
use std::rc::Rc;

use super::timeline::{HostCall, Kind, Name, RankTimeline, Track};
use crate::measure::idle_cause::IdleCause;

/// A slow launch has waited for room in the queue if at least this many operations were submitted and not done.
const QUEUED: usize = 4;

/// A GPU's times may be this much later than those of the host that has waited for it.
const CLOCKS_NS: i64 = 50_000;

/// An operation that was ready for at least this time has waited for one of another stream that ended so shortly before it began, and in the last tenth of that.
const READY_NS: i64 = 100_000;
const SHORTLY_NS: i64 = 20_000;

/// What a collective is on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastArrival {
    pub(super) name: String,
    /// The rank that came last, and when: on the common axis, and as its trace has it.
    pub(super) last_rank: usize,
    pub(super) last: i64,
    pub(super) last_start_ns: u64,
    pub(super) crossing: Crossing,
}

/// How a path goes from a rank to the one that came last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossing {
    /// By how much that was later than the next.
    pub(super) margin_ns: u64,
    /// By how much the clocks of these two may differ; `None`: nothing bounds it.
    pub(super) margin_uncertainty_ns: Option<u64>,
    /// By how much the clocks of the rank that waited and the last one may differ.
    pub(super) uncertainty_ns: Option<u64>,
}

impl Crossing {
    /// Whether it is certain which rank came last.
    pub(super) fn is_certain(&self) -> bool {
        self.margin_uncertainty_ns
            .is_some_and(|uncertainty_ns| self.margin_ns > uncertainty_ns)
    }
}

/// What a walk asks about ranks.
pub(super) trait Ranks {
    /// What a rank did; `None` if its trace cannot be read.
    fn timeline(&mut self, rank: usize) -> Option<Rc<RankTimeline>>;

    /// The collective that an operation, or a call, of a rank is part of that begins at a time of its trace, if all ranks have it.
    fn last_arrival(&self, rank: usize, start_ns: u64) -> Option<LastArrival>;

    /// Times by which collectives were matched are multiples of this.
    fn grain_ns(&self) -> u64;
}

/// A piece of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) rank: usize,
    pub(super) kind: Kind,
    pub(super) name: Name,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) crossing: Option<Crossing>,
    /// A collective that not all ranks have in these traces.
    pub(super) is_unmatched: bool,
}

/// Where a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// On a thread.
    Thread(usize),
    /// In an operation.
    Within(usize),
    /// At the begin of an operation: what did it wait for?
    Before(usize),
    /// Nothing more is known.
    Nowhere,
}

struct Walk<'r, R> {
    ranks: &'r mut R,
    rank: usize,
    timeline: Rc<RankTimeline>,
    begin: i64,
    now: i64,
    /// Each operation is passed once, so that a walk ends whatever the traces say.
    passed: HashSet<(usize, usize)>,
    /// The last one first.
    segments: Vec<Segment>,
}

/// The path from `begin` to `end`, which ends on a rank; in order, side by side, without a gap.
pub(super) fn walk<R: Ranks>(
    ranks: &mut R,
    (rank, at): (usize, At),
    (begin, end): (i64, i64),
) -> Vec<Segment> {
    let timeline = ranks.timeline(rank).unwrap_or_default();
    let mut walk = Walk {
        ranks,
        rank,
        timeline,
        begin,
        now: end,
        passed: HashSet::new(),
        segments: Vec::new(),
    };
    let mut at = at;
    while walk.now > walk.begin {
        at = match at {
            At::Thread(thread) => walk.on_thread(thread),
            At::Within(number) => walk.within(number),
            At::Before(number) => walk.before(number),
            At::Nowhere => {
                walk.back_to(begin, Kind::Unknown, "(before what the traces say)");
                At::Nowhere
            }
        };
    }
    walk.segments.reverse();
    walk.segments
}

impl<R: Ranks> Walk<'_, R> {
    /// Goes back to a time, if that is earlier than now.
    fn back_to(&mut self, time: i64, kind: Kind, name: impl Into<Name>) {
        let start = time.max(self.begin);
        if start < self.now {
            self.segments.push(Segment {
                rank: self.rank,
                kind,
                name: name.into(),
                start,
                end: self.now,
                crossing: None,
                is_unmatched: false,
            });
            self.now = start;
        }
    }

    /// What the last segment is, if this step has made one.
    fn mark(&mut self, before: usize, change: impl FnOnce(&mut Segment)) {
        if self.segments.len() > before
            && let Some(last) = self.segments.last_mut()
        {
            change(last);
        }
    }

    fn within(&mut self, number: usize) -> At {
        self.passed.insert((self.rank, number));
        let timeline = Rc::clone(&self.timeline);
        let one = &timeline.operations[number];
        if one.kind != Kind::Collective {
            self.back_to(one.start, one.kind, Rc::clone(&one.name));
            return At::Before(number);
        }
        let before = self.segments.len();
        let Some(last_arrival) = self.ranks.last_arrival(self.rank, one.start_ns) else {
            self.back_to(one.start, Kind::Collective, Rc::clone(&one.name));
            self.mark(before, |segment| segment.is_unmatched = true);
            return At::Before(number);
        };
        self.back_to(
            last_arrival.last,
            Kind::Collective,
            last_arrival.name.as_str(),
        );
        self.mark(before, |segment| {
            segment.crossing = Some(last_arrival.crossing)
        });
        if last_arrival.last_rank == self.rank {
            return At::Before(number);
        }
        self.rank = last_arrival.last_rank;
        self.timeline = self.ranks.timeline(self.rank).unwrap_or_default();
        let there = self
            .timeline
            .at(last_arrival.last_start_ns, self.ranks.grain_ns());
        match there {
            Some(there) if self.passed.insert((self.rank, there)) => At::Before(there),
            _ => At::Nowhere,
        }
    }

    fn before(&mut self, number: usize) -> At {
        let timeline = Rc::clone(&self.timeline);
        let one = &timeline.operations[number];
        let is_new = |other: usize| !self.passed.contains(&(self.rank, other));
        let previous = timeline.before(number).filter(|&other| is_new(other));
        let previous_end = previous.map(|other| timeline.operations[other].end);
        // A launch counts from its end on, unless the operation has begun before; one that is held by its copy, from its begin.
        let launched = one.launch.map(|launch| match launch.is_held {
            true => launch.start.min(one.start),
            false => launch.end.min(one.start),
        });
        let is_queued = previous_end >= launched;
        let known = if is_queued { previous_end } else { launched };
        let other_stream = one.launch.zip(known).and_then(|(launch, known)| {
            let waits_for_event = timeline.waits_for_event(&launch);
            // Not all traces have the calls that make a stream wait.
            let ready = one.start - known;
            let since = match waits_for_event {
                true => known,
                false if ready < READY_NS => return None,
                false => one.start - SHORTLY_NS.min(ready / 10),
            };
            timeline.ended_last((since, one.start), |other| {
                let other_one = &timeline.operations[other];
                other_one.queue != one.queue
                    && (waits_for_event || other_one.device == one.device)
                    && is_new(other)
                    && other_one.launch.is_none_or(|its| its.start < launch.start)
            })
        });
        if let Some(other) = other_stream {
            self.back_to(
                timeline.operations[other].end,
                Kind::Event,
                Rc::clone(&one.name),
            );
            return At::Within(other);
        }
        match (previous, one.launch) {
            (Some(previous), launch) if is_queued => {
                // Without its call it may as well have been launched late.
                let kind = launch.map_or(Kind::Unknown, |_| Kind::Queue);
                self.back_to(
                    timeline.operations[previous].end,
                    kind,
                    Rc::clone(&one.name),
                );
                At::Within(previous)
            }
            // One that was launched before the iteration has waited since for something that is not examined.
            (_, Some(launch)) if launch.end >= self.begin => {
                self.back_to(
                    launch.end.min(one.start),
                    Kind::Launch,
                    Rc::clone(&one.name),
                );
                At::Thread(launch.thread)
            }
            _ => At::Nowhere,
        }
    }

    fn on_thread(&mut self, thread: usize) -> At {
        let timeline = Rc::clone(&self.timeline);
        let Some(track) = timeline.threads.get(&thread) else {
            return At::Nowhere;
        };
        let behind = track.calls.partition_point(|call| call.start < self.now);
        let call = behind.checked_sub(1).map(|last| &track.calls[last]);
        let Some(call) = call.filter(|call| self.now <= call.end) else {
            let from = call.map_or(self.begin, |call| call.end);
            if let Some(caller) = self.caller_of(thread, track, from) {
                return At::Thread(caller);
            }
            if let Some(other) = self.works_for(thread, track, from) {
                return other;
            }
            // Whatever was seen first, or behind a time in which it may have waited; then it is asked again where that came from.
            let first = track.first_seen(from).filter(|first| *first < self.now);
            let waited = track.may_have_waited(from, self.now);
            let from = waited.map_or(from, |waited| waited.max(from));
            self.host(track, first.map_or(from, |first| first.max(from)));
            return At::Thread(thread);
        };
        if call.is_held
            && let Some(copy) = self.own_copy(thread, call)
        {
            self.back_to(
                timeline.operations[copy].end,
                Kind::Call,
                Rc::clone(&call.name),
            );
            return At::Within(copy);
        }
        if call.blocks
            && let Some(waited_for) = self.waited_for(call)
        {
            let end = timeline.operations[waited_for].end;
            self.back_to(end, Kind::Call, Rc::clone(&call.name));
            return At::Within(waited_for);
        }
        if call.is_slow_launch
            && timeline.queued_at(call.start) >= QUEUED
            && let Some(made_room) = self.waited_for(call)
        {
            self.back_to(
                timeline.operations[made_room].end,
                Kind::Call,
                Rc::clone(&call.name),
            );
            return At::Within(made_room);
        }
        let last_arrival = call
            .meets_ns
            .and_then(|start_ns| self.ranks.last_arrival(self.rank, start_ns))
            .filter(|one| one.last < self.now && call.name.starts_with(one.name.as_str()));
        if let Some(last_arrival) = last_arrival {
            return self.in_collective(thread, Rc::clone(&call.name), &last_arrival);
        }
        self.back_to(call.start, Kind::Call, Rc::clone(&call.name));
        At::Thread(thread)
    }

    /// The thread that launches meanwhile, where this one is in nothing but a range or a call of `backward`: it waits for that one.
    fn works_for(&mut self, thread: usize, track: &Track, from: i64) -> Option<At> {
        let place = track.pieces.partition_point(|piece| piece.end < self.now);
        let piece = track
            .pieces
            .get(place)
            .filter(|piece| piece.start < self.now)?;
        let since = piece.start.max(from).max(self.begin);
        if !piece.is_range {
            return None;
        }
        let timeline = Rc::clone(&self.timeline);
        let others = timeline
            .threads
            .iter()
            .filter(|(other, _)| **other != thread);
        let last = others.filter_map(|(other, track)| {
            let behind = track.calls.partition_point(|call| call.start < self.now);
            let call = &track.calls[behind.checked_sub(1)?];
            let begun = track.pieces.partition_point(|piece| piece.start < self.now);
            let piece = begun.checked_sub(1).map(|last| &track.pieces[last]);
            let piece_end = piece.filter(|piece| !piece.is_range).map(|piece| piece.end);
            let end = piece_end.map_or(call.end, |end| end.max(call.end));
            (call.start > since).then_some((end.min(self.now), *other))
        });
        let (end, other) = last.max()?;
        self.back_to(end, Kind::Host(IdleCause::Wait), Rc::clone(&piece.name));
        Some(At::Thread(other))
    }

    /// The thread that has nothing to do meanwhile but a range, where nothing was seen of this one since that: it has given it its work.
    fn caller_of(&self, thread: usize, track: &Track, from: i64) -> Option<usize> {
        let mut others = self.timeline.threads.iter();
        let caller = others.find(|(other, of_other)| {
            let place = of_other
                .pieces
                .partition_point(|piece| piece.end < self.now);
            let piece = of_other.pieces.get(place);
            **other != thread
                && piece.is_some_and(|piece| {
                    let is_meanwhile = piece.is_range && piece.start < self.now;
                    let first = || track.first_seen(piece.start);
                    is_meanwhile && from <= piece.start && first().is_none_or(|at| self.now <= at)
                })
        });
        caller.map(|(other, _)| *other)
    }

    /// In a call that could end on no rank before all had begun it.
    fn in_collective(&mut self, thread: usize, name: Name, last_arrival: &LastArrival) -> At {
        let before = self.segments.len();
        self.back_to(last_arrival.last, Kind::Collective, name);
        self.mark(before, |segment| {
            segment.crossing = Some(last_arrival.crossing)
        });
        if last_arrival.last_rank == self.rank {
            return At::Thread(thread);
        }
        self.rank = last_arrival.last_rank;
        self.timeline = self.ranks.timeline(self.rank).unwrap_or_default();
        let grain_ns = self.ranks.grain_ns();
        let caller = self.timeline.caller(last_arrival.last_start_ns, grain_ns);
        caller.map_or(At::Nowhere, At::Thread)
    }

    /// The last copy of a call, or of one within it, that had ended by now.
    fn own_copy(&self, thread: usize, call: &HostCall) -> Option<usize> {
        self.timeline.ended_last((call.start, self.now), |number| {
            let launch = self.timeline.operations[number].launch;
            !self.passed.contains(&(self.rank, number))
                && launch.is_some_and(|launch| {
                    launch.is_held
                        && launch.thread == thread
                        && call.start <= launch.start
                        && launch.end <= call.end
                })
        })
    }

    /// The operation whose end let a call return.
    fn waited_for(&self, call: &HostCall) -> Option<usize> {
        let is_fit = |number: usize| {
            let stream = self.timeline.operations[number].launch;
            let stream = stream.map_or(0, |launch| launch.stream);
            !self.passed.contains(&(self.rank, number))
                && (stream == 0 || call.stream == 0 || stream == call.stream)
        };
        let exactly = self.timeline.ended_last((call.start, self.now), is_fit);
        exactly.or_else(|| {
            let late = (self.now, self.now.saturating_add(CLOCKS_NS));
            self.timeline.ended_last(late, |number| {
                let one = &self.timeline.operations[number];
                let is_older = one.launch.is_some_and(|launch| launch.start < self.now);
                is_fit(number) && one.start < self.now && is_older
            })
        })
    }

    /// Goes back to a time on a thread that is in no call until then.
    fn host(&mut self, track: &Track, from: i64) {
        let from = from.max(self.begin);
        let first = track.pieces.partition_point(|piece| piece.end <= from);
        let pieces = track.pieces[first..].iter();
        let mut seen: Vec<(i64, i64, Kind, Name)> = pieces
            .take_while(|piece| piece.start < self.now)
            .map(|piece| {
                let (start, end) = (piece.start.max(from), piece.end.min(self.now));
                (start, end, piece.kind, Rc::clone(&piece.name))
            })
            .collect();
        // Code that ends between two samples, or begins there, is as long as a period longer than it was seen.
        let period = self.timeline.sample_period_ns.cast_signed();
        let mut at = from;
        for place in 0..seen.len() {
            let (gap, earlier) = (seen[place].0 - at, place.checked_sub(1));
            if gap > 0 && gap < period {
                if seen[place].2 == Kind::Host(IdleCause::Code) {
                    seen[place].0 = at;
                } else if let Some(earlier) =
                    earlier.filter(|&one| seen[one].2 == Kind::Host(IdleCause::Code))
                {
                    seen[earlier].1 = seen[place].0;
                }
            }
            at = seen[place].1;
        }
        if let Some(last) = seen.last_mut()
            && self.now - last.1 < period
            && last.2 == Kind::Host(IdleCause::Code)
        {
            last.1 = self.now;
        }
        for (start, end, kind, name) in seen.into_iter().rev() {
            self.unseen(end);
            self.back_to(start, kind, name);
        }
        self.unseen(from);
    }

    /// A time in which nothing was seen of a thread.
    fn unseen(&mut self, from: i64) {
        let period = self.timeline.sample_period_ns.cast_signed();
        if period == 0 || self.now - from < period {
            self.back_to(from, Kind::Host(IdleCause::Code), "(no sample)");
        } else {
            self.back_to(
                from,
                Kind::Host(IdleCause::OffProcessor),
                "(not seen on a processor)",
            );
        }
    }
}
