//! What if: the collectives of a job once more, with other segments.
//!
//! On each rank a collective begins when the collective before it has ended and its segment has passed; it ends, on all its ranks, when the last has begun and
//! its own latency has passed. So a rank that is faster helps only as far as no other is the last then, and what waits in one communicator is late in the next.

use std::collections::{BTreeMap, VecDeque};

use super::joining::{BY_CALL, FUSED, Lane};
use super::operation::Operation;
use super::records::Study;
use super::study::Arrival;
use crate::model::{Model, ProcessId};

/// So many arrivals are replayed, the first of each communicator: some 250 MB.
const ARRIVALS: usize = 1 << 22;
/// Collectives of a rank among which that before another is found.
const BEFORE: usize = 64;

/// What a replay changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// The segments of a rank are as long as the median of the others.
    LikeOthers(ProcessId),
    /// Those of all ranks are as long as the median.
    AllAlike,
}

/// An operation on one rank.
#[derive(Debug, Clone, Copy)]
struct Step {
    process: ProcessId,
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
pub(super) struct Replay {
    nodes: Vec<Node>,
    steps: Vec<Step>,
}

impl Replay {
    pub(super) fn new(study: &Study, model: &Model) -> Self {
        let lengths = study.groups.iter().map(|group| {
            let parts = group.parts.iter().map(|part| part.rows.len());
            parts.sum::<usize>()
        });
        let all = lengths.sum::<usize>().max(1);
        let mut replay = Self {
            nodes: Vec::new(),
            steps: Vec::new(),
        };
        for (place, group) in study.groups.iter().enumerate() {
            let rows = group.parts.iter().map(|part| part.rows.len()).max();
            let rows = rows.unwrap_or(0);
            let most = rows as u128 * ARRIVALS as u128 / all as u128;
            let mut left = if all <= ARRIVALS { rows as u128 } else { most };
            study.each(place, |_, arrivals| {
                if left > 0 {
                    left -= 1;
                    let is_mutual = is_mutual(study, arrivals, group.lane, model);
                    replay.add(arrivals, is_mutual, |part| group.parts[part].process);
                }
            });
        }
        replay
            .nodes
            .sort_by_key(|node| (node.last_start, node.first));
        replay
    }

    fn add(&mut self, arrivals: &[Arrival], is_mutual: bool, process: impl Fn(usize) -> ProcessId) {
        let first = self.steps.len();
        self.steps.extend(arrivals.iter().map(|one| Step {
            process: process(one.part),
            start: one.start,
            end: one.end,
            segment_ns: one.segment_ns,
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

    /// How long the collectives take with a change, from the end of the first one of all to the end of the last one; `None` if there are fewer than two.
    pub(super) fn run(&self, change: Change) -> Option<u64> {
        let mut ended: BTreeMap<ProcessId, VecDeque<(i64, i64)>> = BTreeMap::new();
        let (mut first, mut last): (Option<i64>, i64) = (None, i64::MIN);
        let mut segments = Vec::new();
        for node in &self.nodes {
            let steps = &self.steps[node.first..node.first + node.count];
            let starts = steps.iter().map(|step| {
                let segment_ns = changed(steps, step, change, &mut segments)?;
                let before = step.start - step.segment_ns?.cast_signed();
                let known = ended.get(&step.process)?.iter().rev();
                let same = known.clone().find(|(known, _)| *known == before);
                // Clocks that are corrected move by some nanoseconds between two readings.
                let nearest = || known.min_by_key(|(known, _)| known.abs_diff(before));
                let (_, end) = same.or_else(nearest)?;
                Some(*end + segment_ns.cast_signed())
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
                let of_process = ended.entry(step.process).or_default();
                of_process.push_back((step.end, end));
                if of_process.len() > BEFORE {
                    of_process.pop_front();
                }
                first.get_or_insert(end);
                last = last.max(end);
            }
        }
        let span = last.checked_sub(first?)?;
        u64::try_from(span).ok().filter(|span| *span > 0)
    }
}

/// Whether the ranks of an operation wait for each other, and all are known.
fn is_mutual(study: &Study, arrivals: &[Arrival], lane: Lane, model: &Model) -> bool {
    let Some(first) = arrivals.first() else {
        return false;
    };
    let shape = &study.shapes[(first.info >> 2) as usize];
    let is_timed = arrivals.iter().all(|one| one.info & (BY_CALL | FUSED) == 0);
    let is_whole = shape
        .ranks
        .is_none_or(|ranks| ranks == arrivals.len() as u64);
    Operation::of(model.text(shape.name)).is_mutual()
        && is_timed
        && is_whole
        && study.agree(arrivals, lane, model)
}

/// The segment of a rank after a change; `None` if it had none.
fn changed(steps: &[Step], step: &Step, change: Change, segments: &mut Vec<u64>) -> Option<u64> {
    let own_ns = step.segment_ns?;
    let (all, is_changed) = match change {
        Change::None => return Some(own_ns),
        Change::LikeOthers(process) => (false, step.process == process),
        Change::AllAlike => (true, true),
    };
    if !is_changed {
        return Some(own_ns);
    }
    segments.clear();
    let others = steps
        .iter()
        .filter(|one| all || one.process != step.process);
    segments.extend(others.filter_map(|one| one.segment_ns));
    segments.sort_unstable();
    let middle = segments.get((segments.len().max(1) - 1) / 2);
    // One that was faster stays so.
    Some(middle.map_or(own_ns, |middle_ns| own_ns.min(*middle_ns)))
}
