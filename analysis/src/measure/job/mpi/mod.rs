//! Calls of MPI over ranks: who waited for whom in messages and collectives, and whose work was behind it.
//!
//! A file has the [`calls`] of its processes. Those of all ranks are matched ([`matching`]), and put onto one axis ([`clocks`]). Each call's wait is found and followed back to what caused it
//! ([`waits`]), and the job is gone through again with other work between the calls ([`replay`]).

mod calls;
mod clocks;
mod matching;
mod replay;
mod tables;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::containers::sets::IntervalSet;
use clocks::Correction;
use matching::{Kind, Matched};
use rsys_traces::model::ProcessId;
use waits::Waits;

pub(crate) use calls::{Calls, Recorder};
pub(crate) use matching::{PlacedCalls, limit};
pub(crate) use replay::Replay;
pub(crate) use tables::{notes, tables};

/// What a process did in its calls, by its own clock.
#[derive(Debug, Default)]
pub(crate) struct RankCalls {
    /// How many messages it sent and received, and collectives without a number.
    pub(crate) messages: u64,
    /// How often it came last for certain to collectives without a number.
    pub(crate) last: u64,
    /// How long it waited in all that is not compared by its arrivals: messages, collectives with a root, without a number, or that return before they are done.
    pub(crate) wait_ns: u64,
    /// The part of that in messages.
    pub(crate) message_wait_ns: u64,
    /// How long it worked on its own while others waited for that.
    pub(crate) blame_ns: u64,
    /// How much longer than the median of the ranks it worked, between the collectives that all have.
    pub(crate) late_ns: u64,
    /// How long it was in calls of which it is not known for which rank they waited.
    pub(crate) unjudged_ns: u64,
    /// The part of that in which it asked again and again whether requests are done.
    pub(crate) tested_ns: u64,
    /// From its first call to the end of its last one.
    pub(crate) span: (u64, u64),
    /// Its waits in messages, and in collectives that are not compared by their arrivals though all wait for all, in order.
    waits: Vec<(u64, u64)>,
}

/// A call that has waited for one of another rank.
pub(crate) struct WaitForRank<'j> {
    pub(crate) process: ProcessId,
    /// Its begin by the clock of its process.
    pub(crate) start_ns: u64,
    pub(crate) name: &'j str,
    /// On the common axis.
    pub(crate) times: (i64, i64),
    pub(crate) other: ProcessId,
    pub(crate) other_start_ns: u64,
}

/// The calls of a job.
#[derive(Debug, Default)]
pub(crate) struct Job {
    matched: Matched,
    /// How far the clocks of two hosts that exchange messages may be apart, the smaller number first.
    apart_ns: BTreeMap<(usize, usize), u64>,
    waits: Waits,
    ranks: BTreeMap<ProcessId, RankCalls>,
}

impl Job {
    /// Matches calls. `common` turns a time of a host into one of the axis that all have in common. Nothing is found where all that ranks wait for are collectives of
    /// all alike.
    pub(crate) fn new(processes: Vec<PlacedCalls>, common: impl Fn(usize, u64) -> i64) -> Self {
        if !processes.iter().any(|one| one.calls.messages() > 0) {
            return Self::default();
        }
        Self {
            matched: Matched::new(processes, common),
            ..Self::default()
        }
    }

    /// What messages say of the clocks of hosts that are not known yet.
    pub(crate) fn corrections(&mut self, is_known: &[bool]) -> Vec<Correction> {
        let found = clocks::find(&self.matched, is_known);
        self.apart_ns = found.apart_ns;
        found.corrections.into_values().collect()
    }

    /// Finds the waits. `common` is as for [`Job::new`], by corrected clocks; `uncertainty_ns` says how far two hosts may be apart there.
    pub(crate) fn find_waits(
        &mut self,
        common: impl Fn(usize, u64) -> i64,
        uncertainty_ns: impl Fn(usize, usize) -> Option<u64>,
    ) {
        self.matched.move_to(common);
        let apart_ns = |one: usize, other: usize| {
            let direct_ns = self
                .apart_ns
                .get(&(one.min(other), one.max(other)))
                .copied();
            let over_others_ns = uncertainty_ns(one, other);
            direct_ns.into_iter().chain(over_others_ns).min()
        };
        self.matched.refuse(apart_ns);
        self.waits = Waits::new(&self.matched, apart_ns);
        let last: Vec<ProcessId> = last(&self.matched, apart_ns).collect();
        self.sum_up();
        for process in last {
            if let Some(rank) = self.ranks.get_mut(&process) {
                rank.last += 1;
            }
        }
    }

    /// Which part of the calls is compared.
    pub(crate) fn share(&self) -> f64 {
        let (all, left_out) = (self.matched.calls.len(), self.matched.left_out);
        all as f64 / (all as f64 + left_out as f64).max(1.0)
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// By process.
    pub(crate) fn ranks(&self) -> &BTreeMap<ProcessId, RankCalls> {
        &self.ranks
    }

    /// The waits that are not compared by arrivals.
    pub(crate) fn waits(&self) -> impl Iterator<Item = WaitForRank<'_>> {
        let waits = self.waits.list.iter();
        let waits = waits.filter(|wait| !wait.kind.is_mutual());
        waits.map(|wait| {
            let [call, other] =
                [wait.call, wait.other].map(|one| &self.matched.calls[one as usize]);
            let [process, of_other] = [call, other].map(|one| self.matched.line(one).process);
            WaitForRank {
                process,
                start_ns: call.start_ns,
                name: &self.matched.names[call.name as usize],
                times: (wait.start, wait.until),
                other: of_other,
                other_start_ns: other.start_ns,
            }
        })
    }

    /// The job, to be gone through again.
    pub(crate) fn replay(&self) -> Replay<'_> {
        Replay::new(&self.matched, &self.waits)
    }

    fn sum_up(&mut self) {
        let Self {
            matched,
            waits,
            ranks,
            ..
        } = self;
        let late_ns = Replay::new(matched, waits).late_ns();
        for (line, late_ns) in matched.lines.iter().zip(late_ns) {
            let calls = &matched.calls[line.calls.clone()];
            let [first, .., last] = calls else {
                continue;
            };
            let rank = ranks.entry(line.process).or_default();
            let end_ns = last.start_ns + (last.end - last.start).unsigned_abs();
            rank.span = match rank.span {
                (0, 0) => (first.start_ns, end_ns),
                (start, end) => (start.min(first.start_ns), end.max(end_ns)),
            };
            rank.messages += calls
                .iter()
                .map(|call| u64::from(call.messages))
                .sum::<u64>();
            // Threads of a rank that all call work at the same time: the latest counts.
            rank.late_ns = rank.late_ns.max(late_ns);
        }
        // While others waited for it, each rank's work counts once.
        let mut blamed: HashMap<u32, IntervalSet> = HashMap::new();
        for wait in &waits.list {
            let call = &matched.calls[wait.call as usize];
            let Some(rank) = ranks.get_mut(&matched.line(call).process) else {
                continue;
            };
            if wait.kind.is_mutual() {
                continue;
            }
            let duration_ns = wait.duration_ns();
            rank.wait_ns += duration_ns;
            if wait.kind.is_of_message() {
                rank.message_wait_ns += duration_ns;
            }
            if wait.kind.is_of_message() || wait.kind == Kind::Joint || call.is_wait {
                rank.waits
                    .push((call.start_ns, call.start_ns + duration_ns));
            }
            for part in waits.parts(wait) {
                let times = blamed.entry(part.line).or_default();
                times.add(axis(part.start), axis(part.end));
            }
        }
        for (line, mut times) in blamed {
            let process = matched.lines[line as usize].process;
            let sum_ns = times.intervals().map(|(start, end)| end - start).sum();
            if let Some(rank) = ranks.get_mut(&process) {
                rank.blame_ns = rank.blame_ns.max(sum_ns);
            }
        }
        for (place, call) in matched.calls.iter().enumerate() {
            if let Some(rank) = ranks.get_mut(&matched.line(call).process) {
                rank.unjudged_ns += unjudged_ns(matched, waits, place);
            }
        }
        for (process, (_, tested_ns)) in &matched.tested {
            if let Some(rank) = ranks.get_mut(process) {
                rank.unjudged_ns += tested_ns;
                rank.tested_ns += tested_ns;
            }
        }
        for rank in ranks.values_mut() {
            rank.waits.sort_unstable();
        }
    }
}

/// The rank that came last to each collective without a number, where that is certain.
fn last(
    matched: &Matched,
    apart_ns: impl Fn(usize, usize) -> Option<u64>,
) -> impl Iterator<Item = ProcessId> {
    let groups = matched.groups.iter();
    let groups = groups.filter(|group| group.joint.is_some() && group.is_whole);
    groups.filter_map(move |group| {
        let [.., next, last] = group.calls[..] else {
            return None;
        };
        let [next, last] = [next, last].map(|call| &matched.calls[call as usize]);
        let [by, line] = [next, last].map(|call| matched.line(call));
        let late_ns = last.start.abs_diff(next.start);
        (late_ns > apart_ns(by.host, line.host)?).then_some(line.process)
    })
}

/// Whether a call is in something of which it is not known for which rank it waited. That of a collective that was begun before may be any, where it is not seen for which it was.
fn is_unjudged(matched: &Matched, waits: &Waits, place: usize) -> bool {
    let call = &matched.calls[place];
    let mut depends = matched.depends(call).iter();
    let is_open =
        call.is_wait && waits.of(place).is_none() && depends.any(|(kind, _)| *kind == Kind::Relay);
    call.is_unknown || call.is_unnumbered || is_open
}

/// How long a call was in something of which it is not known for which rank it waited.
fn unjudged_ns(matched: &Matched, waits: &Waits, place: usize) -> u64 {
    let call = &matched.calls[place];
    let duration_ns = (call.end - call.start).unsigned_abs();
    match waits.of(place) {
        Some(wait) if is_unjudged(matched, waits, place) => duration_ns - wait.duration_ns(),
        None if is_unjudged(matched, waits, place) => duration_ns,
        _ => 0,
    }
}

/// A time of the common axis as one without a sign, in the same order.
fn axis(time: i64) -> u64 {
    time.cast_unsigned() ^ 1 << 63
}

impl RankCalls {
    /// How long its [waits](Self::waits) were within a stretch of time.
    pub(crate) fn waited_ns(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        self.waits_in((start_ns, end_ns))
            .map(|(start, end)| end - start)
            .sum()
    }

    /// Its waits within a stretch of time.
    fn waits_in(&self, (start_ns, end_ns): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let first = self.waits.partition_point(|wait| wait.1 <= start_ns);
        let waits = self.waits[first..]
            .iter()
            .take_while(move |wait| wait.0 < end_ns);
        waits.map(move |wait| (wait.0.max(start_ns), wait.1.min(end_ns)))
    }

    /// What is left of a stretch of time without its waits.
    pub(crate) fn without_waits(&self, (start_ns, end_ns): (u64, u64)) -> Vec<(u64, u64)> {
        let (mut left, mut at) = (Vec::new(), start_ns);
        for (start, end) in self.waits_in((start_ns, end_ns)) {
            if at < start {
                left.push((at, start));
            }
            at = at.max(end);
        }
        if at < end_ns {
            left.push((at, end_ns));
        }
        left
    }
}
