//! Ranks that stand out: late by themselves, again or by much, and far more than others.
//!
//! In any run some rank is the last. A rank is named only if its segments were longer than the median of the ranks by one percent of the time from its first
//! collective to its last, and by three times what is usual for a rank of this run; and if anyone waited for it: where another was later still each time, it
//! cost nothing.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::cause::{Cause, LONGER_KERNELS, duration_text, find_cause};
use super::records::{LateArrival, Matching, RankTotals};
use crate::measure::job::collectives::read::activity::RankActivity;
use crate::measure::job::ranks::rank_name;
use rsys_traces::model::{Model, ProcessId};

/// The least lateness, as a part of the time from the first to the last collective.
const LEAST: f64 = 0.01;
/// How many times the usual lateness it has to be.
const UNUSUAL: u64 = 3;
/// From this part of a rank's time on that is not judged, nothing is said of all.
pub(crate) const UNJUDGED: f64 = 0.1;
/// So many are named, with their causes.
const NAMED: usize = 8;
/// With so many others a rank is compared.
const COMPARED: usize = 3;
/// Arrivals that are less late than this part of the latest one say nothing of the cause.
const TELLING: u64 = 4;

/// A rank that stands out.
#[derive(Debug)]
pub(crate) struct Straggler {
    pub(crate) process: ProcessId,
    /// The ranks that it is compared with.
    pub(crate) others: Vec<ProcessId>,
    /// The communicators of these ranks, where they are in other ones: those at the same places belong together.
    communicators: BTreeMap<ProcessId, Vec<usize>>,
    /// The arrivals that are examined.
    pub(crate) arrivals: Vec<LateArrival>,
    activities: BTreeMap<ProcessId, RankActivity>,
}

/// All ranks that stand out, the worst first, and what is usual.
fn standing_out(matching: &Matching, model: &Model) -> (Vec<ProcessId>, u64) {
    let rank_totals = &matching.rank_totals;
    let mut late: Vec<u64> = rank_totals.values().map(|one| one.late_ns).collect();
    late.sort_unstable();
    // Of two ranks the better one is what is usual.
    let usual_ns = late.get((late.len().max(1) - 1) / 2).copied().unwrap_or(0);
    let is_straggler = |one: &RankTotals| {
        one.blame_ns > 0
            && one.late_ns as f64 > LEAST * one.span_ns() as f64
            && one.late_ns > UNUSUAL * usual_ns
    };
    let mut named: Vec<(&ProcessId, &RankTotals)> = rank_totals
        .iter()
        .filter(|(_, one)| is_straggler(one))
        .collect();
    named.sort_by_key(|(id, one)| (Reverse(one.late_ns), model.process(**id).order()));
    (named.into_iter().map(|(id, _)| *id).collect(), usual_ns)
}

/// Why no rank stands out, in words: nobody waited for those that were late, or it is not known of enough of the time.
pub(crate) fn none_stands_out(matching: &Matching, model: &Model) -> String {
    let share = |one: &RankTotals, ns: u64| ns as f64 / one.span_ns().max(1) as f64;
    let most = |of: fn(&RankTotals) -> u64| {
        let ranks = matching.rank_totals.iter();
        let most = ranks
            .max_by(|(_, one), (_, other)| share(one, of(one)).total_cmp(&share(other, of(other))));
        most.map(|(id, one)| (rank_name(model, *id), of(one), share(one, of(one))))
    };
    if let Some((rank, ns, share)) = most(|one| one.unjudged_ns).filter(|most| most.2 >= UNJUDGED) {
        return format!(
            "no rank stands out in what is judged, but {:.0} % of the time of {rank} ({}) is in calls that are not",
            100.0 * share,
            duration_text(ns as f64)
        );
    }
    match most(|one| one.late_ns).filter(|most| most.2 > LEAST) {
        Some((rank, late_ns, share)) => {
            let usual_ns = standing_out(matching, model).1;
            let reason = match late_ns > UNUSUAL * usual_ns {
                true => "but no other was seen to wait for that",
                false => "which is less than three times as much as is usual here",
            };
            format!(
                "no rank stands out: {rank} was late by itself by {:.1} % of its time, {reason}",
                100.0 * share
            )
        }
        None => "no rank stands out: none was late by itself by 1 % of the time".to_owned(),
    }
}

/// The ranks that are changed together where several stand out.
pub(crate) fn all_late(matching: &Matching, model: &Model) -> Vec<ProcessId> {
    standing_out(matching, model).0
}

/// Ranks that stand out, the worst first, as many as are named.
pub(crate) fn stragglers(matching: &Matching, model: &Model) -> Vec<Straggler> {
    let (late, usual_ns) = standing_out(matching, model);
    let all: BTreeSet<ProcessId> = late.iter().copied().collect();
    let named = late.into_iter().take(NAMED);
    named
        .map(|process| {
            let rank_totals = &matching.rank_totals[&process];
            let mut arrivals: Vec<LateArrival> =
                rank_totals.latest.iter().map(|late| late.0).collect();
            arrivals.sort_unstable_by_key(|late| Reverse(*late));
            keep_telling(&mut arrivals, rank_totals.late_ns.saturating_sub(usual_ns));
            let late_and_usual = (&all, usual_ns);
            let mut others = others_of(matching, model, (process, &arrivals), late_and_usual);
            let mut communicators = BTreeMap::new();
            if others.is_empty() {
                communicators = alike(matching, process);
                communicators.retain(|id, _| *id == process || !all.contains(id));
                let off_ns = |id: &ProcessId| matching.rank_totals[id].late_ns.abs_diff(usual_ns);
                others.extend(communicators.keys().filter(|id| **id != process));
                others.sort_by_key(|id| (off_ns(id), model.process(*id).order()));
                others.truncate(COMPARED);
            }
            Straggler {
                process,
                others,
                communicators,
                arrivals,
                activities: BTreeMap::new(),
            }
        })
        .collect()
}

/// Keeps those of late arrivals, the latest first, that are as late as the latest one, roughly. Where these are less than half of what the rank was late
/// beyond the usual, they are other things than its cause, and those that follow are examined: one long stall must not hide what comes again and again.
fn keep_telling(arrivals: &mut Vec<LateArrival>, mut late_ns: u64) {
    loop {
        let largest_ns = arrivals.first().map_or(0, |late| late.late_ns);
        let telling = arrivals.partition_point(|late| late.late_ns * TELLING >= largest_ns);
        let told_ns: u64 = arrivals[..telling].iter().map(|late| late.late_ns).sum();
        if telling == arrivals.len() || told_ns >= late_ns / 2 {
            arrivals.truncate(telling);
            return;
        }
        arrivals.drain(..telling);
        late_ns -= told_ns;
    }
}

/// Ranks that took part in the same operations and were late as is usual.
fn others_of(
    matching: &Matching,
    model: &Model,
    (process, arrivals): (ProcessId, &[LateArrival]),
    (stragglers, usual_ns): (&BTreeSet<ProcessId>, u64),
) -> Vec<ProcessId> {
    let groups: BTreeSet<usize> = arrivals.iter().map(|late| late.group).collect();
    let is_in_all = |id: ProcessId| {
        let mut groups = groups.iter();
        groups.all(|&group| {
            matching.groups[group]
                .members
                .iter()
                .any(|member| member.process == id)
        })
    };
    let operations = matching.rank_totals[&process].operations;
    let mut found: Vec<(bool, u64, ProcessId)> = matching
        .rank_totals
        .iter()
        .filter(|(id, _)| **id != process && !stragglers.contains(id) && is_in_all(**id))
        .map(|(&id, totals)| {
            // A master does something else than its workers.
            let does_other = totals.operations.abs_diff(operations) > operations / 2;
            (does_other, totals.late_ns.abs_diff(usual_ns), id)
        })
        .collect();
    found.sort_by_key(|&(does_other, off_ns, id)| (does_other, off_ns, model.process(id).order()));
    found.truncate(COMPARED);
    found.into_iter().map(|(_, _, id)| id).collect()
}

/// The communicators of ranks that are in as many of them as this one, and of the same sizes, in the order in which they use them first: in grids of ranks, as those
/// of tensor and data parallelism, no other rank may be in all of its communicators.
fn alike(matching: &Matching, process: ProcessId) -> BTreeMap<ProcessId, Vec<usize>> {
    let mut used: BTreeMap<ProcessId, Vec<(u64, usize)>> = BTreeMap::new();
    for (place, group) in matching.groups.iter().enumerate() {
        for member in &group.members {
            let first_ns = member.rows.get(0).map_or(0, |row| row[1]);
            used.entry(member.process)
                .or_default()
                .push((first_ns, place));
        }
    }
    let in_order = used.into_iter().map(|(id, mut list)| {
        list.sort_unstable();
        (id, list.into_iter().map(|(_, place)| place).collect())
    });
    let mut in_order: BTreeMap<ProcessId, Vec<usize>> = in_order.collect();
    let sizes = |list: &[usize]| -> Vec<u64> {
        list.iter()
            .map(|place| matching.groups[*place].totals.ranks)
            .collect()
    };
    let own = in_order.get(&process).map(|list| sizes(list));
    in_order.retain(|_, list| Some(sizes(list)) == own);
    in_order
}

impl Straggler {
    /// The communicator of another rank that is to it what one of its own is to this rank.
    fn communicator_of(&self, id: ProcessId, own: usize) -> usize {
        let places = self
            .communicators
            .get(&self.process)
            .zip(self.communicators.get(&id));
        let found = places.and_then(|(of_this, of_other)| {
            let place = of_this.iter().position(|group| *group == own)?;
            of_other.get(place).copied()
        });
        found.unwrap_or(own)
    }

    /// The time before the late arrivals, on this rank and on those that it is compared with.
    pub(crate) fn windows(&self, matching: &Matching) -> Vec<(ProcessId, Vec<(u64, u64)>)> {
        let all = std::iter::once(self.process).chain(self.others.iter().copied());
        all.map(|id| {
            let mut windows = Vec::new();
            for late in &self.arrivals {
                let group = self.communicator_of(id, late.group);
                let members = matching.groups[group].members.iter();
                for member in members.filter(|member| member.process == id) {
                    let place = member.rows.partition_point(|row| row[0] < late.sequence);
                    if let Some([sequence, start_ns, _, segment, _]) = member.rows.get(place)
                        && sequence == late.sequence
                    {
                        windows.push((start_ns - segment.saturating_sub(1), start_ns));
                    }
                }
            }
            let rank_totals = matching.rank_totals.get(&id);
            if self.arrivals.is_empty() {
                windows.extend(rank_totals.and_then(|totals| totals.span));
            }
            // What it waited for others in messages is not its own.
            if let Some(rank) = matching.mpi.ranks().get(&id) {
                let all = windows
                    .into_iter()
                    .flat_map(|window| rank.without_waits(window));
                windows = all.collect();
            }
            (id, windows)
        })
        .collect()
    }

    /// Begin and end of the time before its latest arrival, by its own clock.
    pub(crate) fn longest(&self, matching: &Matching) -> Option<(u64, u64)> {
        self.windows(matching).first()?.1.first().copied()
    }

    pub(crate) fn learn(&mut self, found: Vec<(ProcessId, RankActivity)>) {
        for (process, activity) in found {
            match self.activities.entry(process) {
                Entry::Vacant(place) => drop(place.insert(activity)),
                // Sensors of another file.
                Entry::Occupied(mut known) => known.get_mut().sensors.extend(activity.sensors),
            }
        }
    }

    /// The ranks and times of which clocks would be of interest and are not known.
    pub(crate) fn without_clocks(&self, matching: &Matching) -> Vec<(ProcessId, Vec<(u64, u64)>)> {
        if self.cause().is_none_or(|cause| cause.key != LONGER_KERNELS) {
            return Vec::new();
        }
        let has_none = |id: &ProcessId| {
            let activity = self.activities.get(id);
            activity.is_some_and(|activity| !activity.has_clock())
        };
        let mut windows = self.windows(matching);
        windows.retain(|(id, _)| has_none(id));
        windows
    }

    /// Why it was late; `None` before its file was read again.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let own = self.activities.get(&self.process)?;
        let others = self
            .others
            .iter()
            .filter_map(|id| self.activities.get(id).cloned());
        let others: Vec<RankActivity> = others.collect();
        Some(find_cause(own, &others, self.arrivals.len() as u64))
    }
}
