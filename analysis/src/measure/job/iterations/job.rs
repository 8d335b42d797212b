//! What the ranks of a job have in common: each iteration over all of them, and how they drift apart.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::lane::{Iteration, Lane};
use super::verdicts::{Verdict, median, verdicts};

/// An iteration of all ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    pub(super) number: u64,
    pub(super) ranks: u64,
    pub(super) min_ns: u64,
    pub(super) median_ns: u64,
    pub(super) max_ns: u64,
    /// The lane with the longest, and the place of the iteration there.
    pub(super) longest: (usize, usize),
    /// The lane that had the most beyond its usual time besides communication, in which it may have waited for others, and how much.
    pub(super) own: (usize, usize),
    pub(super) own_ns: u64,
    pub(super) verdict: Verdict,
}

/// Time besides communication that nothing hid.
pub(super) fn own_ns(iteration: &Iteration) -> u64 {
    iteration
        .duration_ns
        .saturating_sub(iteration.exposed_comm_ns)
}

/// An iteration is as long as usual up to this part of the median.
const USUAL_PART: u64 = 10;

/// Which iterations of a rank take about as long as its median one, besides communication: what is in these is in a usual iteration.
pub(super) fn are_usual(iterations: &[Iteration]) -> Vec<bool> {
    let usual_ns = median(&mut iterations.iter().map(own_ns).collect::<Vec<_>>());
    let is_usual = |one| own_ns(one).abs_diff(usual_ns) <= usual_ns / USUAL_PART;
    iterations.iter().map(is_usual).collect()
}

/// Each iteration over all ranks, in order of the numbers.
pub(super) fn together(lanes: &[Lane]) -> Vec<Together> {
    let usual_ns: Vec<u64> = lanes
        .iter()
        .map(|lane| median(&mut lane.iterations.iter().map(own_ns).collect::<Vec<_>>()))
        .collect();
    let mut all: Vec<(u64, u32, u32)> = Vec::new();
    for (number, lane) in (0..).zip(lanes) {
        let places = (0..).zip(&lane.iterations);
        all.extend(places.map(|(place, one)| (one.number, number, place)));
    }
    all.sort_unstable();
    let mut found: Vec<Together> = all
        .chunk_by(|one, other| one.0 == other.0)
        .map(|same| {
            let mut durations: Vec<u64> = Vec::with_capacity(same.len());
            let (mut longest, mut own) = ((0, Reverse((0, 0))), (0, Reverse((0, 0))));
            for &(_, lane, place) in same {
                let at = (lane as usize, place as usize);
                let one = &lanes[at.0].iterations[at.1];
                durations.push(one.duration_ns);
                let more_ns = own_ns(one).saturating_sub(usual_ns[at.0]);
                longest = longest.max((one.duration_ns + 1, Reverse(at)));
                own = own.max((more_ns + 1, Reverse(at)));
            }
            let median_ns = median(&mut durations);
            let is_open = same.iter().any(|&(_, lane, place)| {
                lanes[lane as usize].iterations[place as usize].verdict == Verdict::Open
            });
            Together {
                number: same[0].0,
                ranks: same.len() as u64,
                min_ns: durations.first().copied().unwrap_or(0),
                median_ns,
                max_ns: durations.last().copied().unwrap_or(0),
                longest: longest.1.0,
                own: own.1.0,
                own_ns: own.0 - 1,
                verdict: if is_open {
                    Verdict::Open
                } else {
                    Verdict::Steady
                },
            }
        })
        .collect();
    let lengths: Vec<(u64, bool)> = found
        .iter()
        .map(|one| (one.max_ns, one.verdict == Verdict::Open))
        .collect();
    for (one, verdict) in found.iter_mut().zip(verdicts(&lengths)) {
        one.verdict = verdict;
    }
    found
}

/// How far a rank drifts from the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Drift {
    /// By how much later than the median of the ranks it begins the last iteration that all have, if all had begun the first one after the warm-up together.
    pub(super) last_ns: i64,
    /// The largest such time, either way, of all iterations.
    pub(super) most_ns: i64,
}

/// The drift of each lane; nothing where fewer than two iterations are common to all. Clocks of hosts need not agree, only run equally fast.
pub(super) fn drifts(lanes: &[Lane]) -> Vec<Option<Drift>> {
    let ends = |lane: &Lane| {
        // Ranks start apart: what they wait for each other at first is no drift.
        let mut iterations = lane.iterations.iter();
        let first = iterations
            .find(|one| one.verdict != Verdict::WarmUp)?
            .number;
        Some((first, lane.iterations.last()?.number))
    };
    let all: Vec<(u64, u64)> = lanes.iter().filter_map(ends).collect();
    let first = all.iter().map(|one| one.0).max().unwrap_or(0);
    let last = all.iter().map(|one| one.1).min().unwrap_or(0);
    let mut drifts = vec![None; lanes.len()];
    if lanes.len() < 2 || all.len() < lanes.len() || last <= first {
        return drifts;
    }
    let mut times: BTreeMap<u64, Vec<(usize, i64)>> = BTreeMap::new();
    for (place, lane) in lanes.iter().enumerate() {
        let common = lane
            .iterations
            .iter()
            .filter(|one| (first..=last).contains(&one.number));
        let mut start_ns = None;
        for one in common {
            let from_ns = *start_ns.get_or_insert(one.start_ns);
            let since_ns = one.start_ns.saturating_sub(from_ns).cast_signed();
            times.entry(one.number).or_default().push((place, since_ns));
        }
    }
    for since in times.into_values() {
        let mut sorted: Vec<i64> = since.iter().map(|one| one.1).collect();
        sorted.sort_unstable();
        let middle_ns = sorted[(sorted.len() - 1) / 2];
        for (place, since_ns) in since {
            let off_ns = since_ns - middle_ns;
            let drift = drifts[place].get_or_insert(Drift::default());
            drift.last_ns = off_ns;
            if off_ns.abs() > drift.most_ns.abs() {
                drift.most_ns = off_ns;
            }
        }
    }
    drifts
}

/// A kernel that takes less time by this part.
pub(super) const FASTER: f64 = 0.2;

/// What iterations would gain if something took less time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Saving {
    pub(super) name: String,
    /// How long it takes alone in a usual iteration, the mean of the ranks.
    pub(super) alone_ns: f64,
    pub(super) saved_ns: f64,
}

/// Names, and how long a GPU did nothing else than each in a usual iteration.
type Parts = Vec<(String, u64)>;

/// What an iteration would gain if parts of it took less time on all ranks by a share, the most first. The rank with the most to do besides communication
/// decides of its length: each has less to do then by that share.
pub(super) fn savings(lanes: &[Lane], parts: fn(&Lane) -> &Parts, share: f64) -> Vec<Saving> {
    let mut owns: Vec<f64> = Vec::new();
    // By name: the ranks that have it, and how much in an iteration.
    let mut alone: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for lane in lanes.iter().filter(|lane| !lane.iterations.is_empty()) {
        let mut lengths: Vec<u64> = lane.iterations.iter().map(own_ns).collect();
        let usual_ns = median(&mut lengths) as f64;
        // What belongs to an iteration may lie outside of it: its parts are no more than it is in all.
        let all: u64 = parts(lane).iter().map(|(_, ns)| ns).sum();
        let within = (usual_ns / all.max(1) as f64).min(1.0);
        for (name, ns) in parts(lane) {
            let of_ranks = alone.entry(name).or_default();
            of_ranks.push((owns.len(), within * *ns as f64));
        }
        owns.push(usual_ns);
    }
    let mut slowest_first: Vec<usize> = (0..owns.len()).collect();
    slowest_first.sort_by(|one, other| owns[*other].total_cmp(&owns[*one]));
    let as_it_was = slowest_first.first().map_or(0.0, |rank| owns[*rank]);
    let mut found: Vec<Saving> = alone
        .into_iter()
        .map(|(name, of_ranks)| {
            let sum: f64 = of_ranks.iter().map(|(_, alone)| alone).sum();
            let less = of_ranks
                .iter()
                .map(|&(rank, alone)| owns[rank] - share * alone);
            // Ranks are in order; of those without it the slowest counts.
            let mut others = slowest_first.iter();
            let has_it = |rank: &usize| of_ranks.binary_search_by_key(rank, |one| one.0).is_ok();
            let other = others.find(|rank| !has_it(rank)).map(|rank| owns[*rank]);
            Saving {
                name: name.to_owned(),
                alone_ns: sum / owns.len() as f64,
                saved_ns: as_it_was - less.chain(other).fold(0.0, f64::max),
            }
        })
        .collect();
    found.sort_by(|one, other| {
        let saved = other.saved_ns.total_cmp(&one.saved_ns);
        saved.then_with(|| one.name.cmp(&other.name))
    });
    found
}
