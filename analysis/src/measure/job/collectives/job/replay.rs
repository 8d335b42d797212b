//! What if: the collectives of a job once more, with other segments.
//!
//! On each rank a collective begins when the collective before it has ended and its segment has passed; it ends, on all its ranks, when the last has begun and
//! its own latency has passed. So a rank that is faster helps only as far as no other is the last then, and what waits in one communicator is late in the next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::clocks::Clocks;
use super::records::{Arrival, Matching};
use crate::measure::job::collectives::read::operations::{BY_CALL, FUSED, Lane};
use crate::measure::job::operation::Operation;
use crate::measure::job::ranks::lower_median;
use rsys_traces::model::{Model, ProcessId};

/// So many arrivals are replayed, the first of each communicator: some 250 MB.
const ARRIVALS: usize = 1 << 22;
/// Collectives of a rank among which that before another is found.
const BEFORE: usize = 64;

/// Collectives of a rank that run at the same time end in another order than they are gone through, by less than this.
const UNEVEN_NS: u64 = 10_000_000;

/// What a replay changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'c> {
    /// Nothing.
    None,
    /// The segments of some ranks are as long as the median of the others.
    LikeOthers(&'c [ProcessId]),
    /// Those of all ranks are as long as the median.
    AllAlike,
}

/// An operation on one rank.
#[derive(Debug, Clone, Copy)]
struct Step {
    process: ProcessId,
    host: usize,
    start: i64,
    end: i64,
    segment_ns: Option<u64>,
}

/// An operation of some ranks, on the time axis that all have in common.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// When the last rank began it: an order in which everything comes after what it waits for.
    last_start: i64,
    first: usize,
    count: usize,
    /// Its ranks wait for each other.
    is_mutual: bool,
}

/// The collectives of a job.
#[derive(Debug)]
pub(crate) struct Replay {
    nodes: Vec<Node>,
    steps: Vec<Step>,
    /// Which recording each process is of, also of those without collectives: two are apart where none of one was there at the time of the other.
    recordings: Vec<usize>,
    /// What part of all arrivals is gone through.
    pub(crate) replayed_share: f64,
}

impl Replay {
    pub(crate) fn new(matching: &Matching, model: &Model) -> Self {
        let lengths = matching.groups.iter().map(|group| {
            let members = group.members.iter().map(|member| member.rows.len());
            members.sum::<usize>()
        });
        let all = lengths.sum::<usize>().max(1);
        let mut replay = Self {
            nodes: Vec::new(),
            steps: Vec::new(),
            recordings: vec![0; model.processes.len()],
            replayed_share: (ARRIVALS as f64 / all as f64).min(1.0),
        };
        for (place, group) in matching.groups.iter().enumerate() {
            let rows = group.members.iter().map(|member| member.rows.len()).max();
            let rows = rows.unwrap_or(0);
            let most = rows as u128 * ARRIVALS as u128 / all as u128;
            let mut left = if all <= ARRIVALS { rows as u128 } else { most };
            matching.each(place, |_, arrivals| {
                if left > 0 {
                    left -= 1;
                    let is_mutual = is_mutual(matching, arrivals, group.lane, model);
                    replay.add(arrivals, is_mutual, |member| {
                        let member = &group.members[member];
                        (member.process, member.host)
                    });
                }
            });
        }
        replay.align(&matching.clocks);
        replay.tell_recordings_apart();
        replay
            .nodes
            .sort_by_key(|node| (node.last_start, node.first));
        replay
    }

    fn add(
        &mut self,
        arrivals: &[Arrival],
        is_mutual: bool,
        whose: impl Fn(usize) -> (ProcessId, usize),
    ) {
        let first = self.steps.len();
        self.steps.extend(arrivals.iter().map(|one| {
            let (process, host) = whose(one.member);
            Step {
                process,
                host,
                start: one.start,
                end: one.end,
                segment_ns: one.segment_ns,
            }
        }));
        if is_mutual {
            self.nodes.push(Node {
                last_start: arrivals.iter().map(|one| one.start).max().unwrap_or(0),
                first,
                count: arrivals.len(),
                is_mutual,
            });
        } else {
            self.nodes
                .extend((first..).zip(arrivals).map(|(first, one)| Node {
                    last_start: one.start,
                    first,
                    count: 1,
                    is_mutual,
                }));
        }
    }

    /// Corrects the clock offset between hosts, within its uncertainty, so that the ranks of a collective end at the same time (median over all collectives). If one rank is always
    /// last, starts and ends bound the offset on one side only, and the middle of these bounds is wrong by half of that rank's delay.
    fn align(&mut self, clocks: &Clocks) {
        // Difference between the ends of a collective on two hosts, by pair of hosts, in ns.
        let mut apart: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
        let mut ends: BTreeMap<usize, i64> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.is_mutual) {
            ends.clear();
            for step in &self.steps[node.first..node.first + node.count] {
                let end = ends.entry(step.host).or_insert(step.end);
                *end = step.end.min(*end);
            }
            let mut ends = ends.iter();
            if let Some((first, reference)) = ends.next() {
                for (host, end) in ends {
                    let of_pair = apart.entry((*first, *host)).or_default();
                    of_pair.push(end - reference);
                }
            }
        }
        let mut neighbours: BTreeMap<usize, Vec<(usize, i64)>> = BTreeMap::new();
        for ((one, other), mut apart) in apart {
            let median = lower_median(&mut apart).unwrap_or(0);
            let room = clocks.uncertainty_ns(one, other).map(u64::cast_signed);
            let room = room.filter(|room| *room >= 0).unwrap_or(i64::MAX);
            let median = median.clamp(-room, room);
            neighbours.entry(one).or_default().push((other, median));
            neighbours.entry(other).or_default().push((one, -median));
        }
        // Breadth first over pairs of hosts with a common collective; the first host of each group is the reference.
        let mut off: BTreeMap<usize, i64> = BTreeMap::new();
        for &start in neighbours.keys() {
            let mut next = VecDeque::from([(start, 0)]);
            while let Some((host, of_host)) = next.pop_front() {
                if let Entry::Vacant(place) = off.entry(host) {
                    place.insert(of_host);
                    let known = neighbours.get(&host).into_iter().flatten();
                    next.extend(known.map(|(other, apart)| (*other, of_host + apart)));
                }
            }
        }
        for step in &mut self.steps {
            let off = off.get(&step.host).copied().unwrap_or(0);
            (step.start, step.end) = (step.start - off, step.end - off);
        }
        for node in &mut self.nodes {
            let steps = &self.steps[node.first..node.first + node.count];
            let starts = steps.iter().map(|step| step.start);
            node.last_start = starts.max().unwrap_or(0);
        }
    }

    /// A profiler that pauses records a process several times, each time as a process of its own: a pause is no time that the job takes.
    fn tell_recordings_apart(&mut self) {
        let mut spans: BTreeMap<ProcessId, (i64, i64)> = BTreeMap::new();
        for step in &self.steps {
            let span = spans.entry(step.process).or_insert((step.start, step.end));
            *span = (span.0.min(step.start), span.1.max(step.end));
        }
        let mut spans: Vec<_> = spans.into_iter().collect();
        spans.sort_unstable_by_key(|(process, span)| (*span, *process));
        let (mut recording, mut last) = (0, i64::MIN);
        for (place, (process, (start, end))) in spans.into_iter().enumerate() {
            recording += usize::from(place > 0 && start > last);
            last = last.max(end);
            self.recordings[process.index()] = recording;
        }
    }

    /// How long the collectives take with a change, from the end of the first one of all to the end of the last one, in all recordings; `None` if there are fewer than two.
    pub(crate) fn run(&self, change: Change<'_>) -> Option<u64> {
        // At the places of the processes.
        let mut ended: Vec<VecDeque<(i64, i64)>> = vec![VecDeque::new(); self.recordings.len()];
        let mut spans: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
        let mut segments = Vec::new();
        for node in &self.nodes {
            let steps = &self.steps[node.first..node.first + node.count];
            let usual_ns = usual(steps, change, &mut segments);
            let starts = steps.iter().map(|step| {
                let own_ns = step.segment_ns?;
                // One that was faster stays so.
                let segment_ns = match usual_ns {
                    Some(usual_ns) if change.concerns(step.process) => own_ns.min(usual_ns),
                    _ => own_ns,
                };
                let before = step.start - own_ns.cast_signed();
                let end = nearest(&ended[step.process.index()], before)?;
                Some(end + segment_ns.cast_signed())
            });
            let starts: Vec<i64> = starts
                .zip(steps)
                .map(|(start, step)| start.unwrap_or(step.start))
                .collect();
            let arrives = starts.iter().copied().max().unwrap_or(0);
            let began = steps.iter().map(|step| step.start).max().unwrap_or(0);
            for (step, start) in steps.iter().zip(starts) {
                let end = match node.is_mutual {
                    true => arrives + (step.end - began).max(0),
                    false => start + (step.end - step.start),
                };
                let of_process = &mut ended[step.process.index()];
                of_process.push_back((step.end, end));
                if of_process.len() > BEFORE {
                    of_process.pop_front();
                }
                let recording = self.recordings[step.process.index()];
                let span = spans.entry(recording).or_insert((end, end));
                span.1 = span.1.max(end);
            }
        }
        let span_ns = spans
            .values()
            .map(|(first, last)| last.abs_diff(*first))
            .sum();
        Some(span_ns).filter(|span_ns| *span_ns > 0)
    }
}

/// Whether the ranks of an operation wait for each other. Where some are not known, what those that are waited for them is taken for a part of its latency.
fn is_mutual(matching: &Matching, arrivals: &[Arrival], lane: Lane, model: &Model) -> bool {
    let Some(first) = arrivals.first() else {
        return false;
    };
    let shape = &matching.shapes[first.shape()];
    let is_timed = !arrivals.iter().any(|one| one.has(BY_CALL | FUSED));
    let ranks = shape.ranks.unwrap_or(u64::MAX);
    let operation = Operation::of(model.text(shape.name));
    Matching::is_mutual(operation, arrivals)
        && is_timed
        && (2..=ranks).contains(&(arrivals.len() as u64))
        && matching.agree(arrivals, lane, model)
}

/// Of collectives that ended, the new end of that which ended at a time, or next to it: clocks that are corrected move by some nanoseconds between two readings.
fn nearest(ended: &VecDeque<(i64, i64)>, time: i64) -> Option<i64> {
    let mut best: Option<(u64, i64)> = None;
    for &(known, end) in ended.iter().rev() {
        let off = known.abs_diff(time);
        match best {
            // The last is the first that is shown; what ended long before is further away still.
            Some((least, _)) if off >= least => {
                if known < time && off > least + UNEVEN_NS {
                    break;
                }
            }
            _ => best = Some((off, end)),
        }
        if off == 0 {
            break;
        }
    }
    best.map(|(_, end)| end)
}

/// The median of the segments that those which are changed are made alike to: of all ranks, or of the others; looked for once for all.
fn usual(steps: &[Step], change: Change<'_>, segments: &mut Vec<u64>) -> Option<u64> {
    let left_out = match change {
        Change::None => return None,
        Change::LikeOthers(_) if !steps.iter().any(|step| change.concerns(step.process)) => {
            return None;
        }
        Change::LikeOthers(processes) => processes,
        Change::AllAlike => &[],
    };
    segments.clear();
    let others = steps
        .iter()
        .filter(|step| left_out.binary_search(&step.process).is_err());
    segments.extend(others.filter_map(|step| step.segment_ns));
    // Where all ranks of a communicator are changed, they are made alike.
    if segments.is_empty() {
        segments.extend(steps.iter().filter_map(|step| step.segment_ns));
    }
    lower_median(segments)
}

impl Change<'_> {
    /// Whether segments of a rank are changed.
    pub(crate) fn concerns(self, process: ProcessId) -> bool {
        match self {
            Self::None => false,
            Self::LikeOthers(changed) => changed.binary_search(&process).is_ok(),
            Self::AllAlike => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clocks::HostClock;
    use super::*;

    /// When a collective ends by the clocks of two hosts.
    type Ends = [(usize, i64); 2];

    /// The ends of the collectives, aligned by clocks of which these uncertainties are known.
    fn aligned(uncertainties_ns: [Option<u64>; 3], collectives: &[Ends]) -> Vec<i64> {
        let hosts = uncertainties_ns.map(|uncertainty_ns| HostClock {
            uncertainty_ns,
            ..HostClock::default()
        });
        let clocks = Clocks {
            hosts: hosts.to_vec(),
            grain_ns: 0,
        };
        let mut replay = Replay {
            nodes: Vec::new(),
            steps: Vec::new(),
            recordings: vec![0; 3],
            replayed_share: 1.0,
        };
        for ends in collectives {
            replay.nodes.push(Node {
                last_start: 0,
                first: replay.steps.len(),
                count: ends.len(),
                is_mutual: true,
            });
            replay.steps.extend(ends.map(|(host, end)| Step {
                process: ProcessId::new(host),
                host,
                start: end - 10,
                end,
                segment_ns: None,
            }));
        }
        replay.align(&clocks);
        replay.steps.iter().map(|step| step.end).collect()
    }

    #[test]
    fn hosts_end_collectives_at_the_same_time() {
        // The clock of host 1 is 300 ahead, that of host 2 is 700 ahead, is not bounded, and host 2 never meets host 0.
        let collectives = [
            [(0, 1_000), (1, 1_300)],
            [(1, 2_300), (2, 2_700)],
            [(0, 3_000), (1, 3_300)],
        ];
        assert_eq!(
            aligned([Some(0), Some(500), None], &collectives),
            [1_000, 1_000, 2_000, 2_000, 3_000, 3_000]
        );
    }

    #[test]
    fn a_clock_is_corrected_within_its_uncertainty_only() {
        let collectives = [[(0, 1_000), (1, 1_300)]];
        assert_eq!(
            aligned([Some(0), Some(100), None], &collectives),
            [1_000, 1_200]
        );
    }

    #[test]
    fn ranks_of_a_communicator_that_all_change_are_made_alike() {
        let step = |process: usize, segment_ns: u64| Step {
            process: ProcessId::new(process),
            host: 0,
            start: 0,
            end: 0,
            segment_ns: Some(segment_ns),
        };
        let steps = [step(0, 10), step(1, 30)];
        let both = [0, 1].map(ProcessId::new);
        for changed in [&both[..], &both[1..]] {
            let found = usual(&steps, Change::LikeOthers(changed), &mut Vec::new());
            assert_eq!(found, Some(10));
        }
    }
}
