//! What collectives say of the clocks of the hosts that they ran on.
//!
//! No rank can end an all-reduce before all have begun it, so that each bounds the difference of two clocks from both sides. That is certain. Where one host always comes
//! first, the bound from its begin is far away: likely it ends as long after all have begun as the others do, which says more. Where clocks drift both hold for stretches of
//! time.

use std::collections::{BTreeMap, HashMap};

use super::clocks::interpolate;

/// Into how many stretches of time the collectives are divided at most.
const STRETCHES: usize = 256;
/// Collectives that are enough for one stretch.
const ENOUGH: usize = 64;
/// In stretches of fewer, ends that are apart by chance look like clocks that jump.
const FEW: usize = 16;
/// Ranks are taken to end a collective at most this far apart, also one that takes less.
const APART_NS: i64 = 20_000;
/// A host whose time, with what is added to it, is at most so many nanoseconds ahead of another one's: from, to, and how far.
type Limit = (usize, usize, i64);

/// When a collective ran on a host: the latest begin and the earliest end of its ranks there. Or the least and the most that may be added to times.
pub type Span = (i64, i64);

/// A collective that ran on several hosts, by their numbers.
pub type Shared = BTreeMap<usize, Span>;

/// What may be added to the times of a host, to be those of the first one, at some moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostBounds {
    certain: Vec<(i64, Span)>,
    likely: Vec<(i64, Span)>,
}

impl HostBounds {
    /// Moments, and what is best added there.
    #[must_use]
    pub fn corrections(&self) -> Vec<(i64, i64)> {
        let likely = self.likely.iter();
        likely
            .map(|&(moment, (low, high))| (moment, low + (high - low) / 2))
            .collect()
    }

    /// By how much a time may still be wrong with that, either way; `None` if nothing relates the host to the first one.
    #[must_use]
    pub fn uncertainty_ns(&self) -> Option<u64> {
        let corrections = self.corrections();
        let off = self.certain.iter().map(|&(moment, (low, high))| {
            let correction = interpolate(&corrections, moment).unwrap_or(0);
            correction.abs_diff(low).max(correction.abs_diff(high))
        });
        off.max()
    }

    /// The widest of the likely bounds; `None` as above.
    #[must_use]
    pub fn likely_width_ns(&self) -> Option<u64> {
        let widths = self.likely.iter();
        widths.map(|(_, (low, high))| low.abs_diff(*high)).max()
    }
}

/// The bounds of so many hosts by collectives in the order of time; `None` if these contradict each other.
#[must_use]
pub fn bounds(shared: &[Shared], hosts: usize) -> Option<Vec<HostBounds>> {
    let certain = solve_all(shared, hosts, 1)?;
    let together: Vec<Shared> = shared.iter().map(ended_together).collect();
    let likely = solve_all(&together, hosts, FEW);
    let likely = likely.as_ref().unwrap_or(&certain);
    let of_host = |all: &[Solution], host: usize| {
        let solutions = all.iter();
        solutions
            .filter_map(|(moment, bounds)| Some((*moment, bounds[host]?)))
            .collect()
    };
    let hosts = (0..hosts).map(|host| HostBounds {
        certain: of_host(&certain, host),
        likely: of_host(likely, host),
    });
    Some(hosts.collect())
}

/// The middle of a stretch of time, and what may be added to each host's times; `None` for hosts that nothing relates to the first one.
type Solution = (i64, Vec<Option<Span>>);

/// The longest stretches of time in each of which some additions satisfy all collectives. `None` if they would have to be shorter than about `least` collectives.
fn solve_all(shared: &[Shared], hosts: usize, least: usize) -> Option<Vec<Solution>> {
    let mut stretches = (shared.len() / ENOUGH).clamp(1, STRETCHES);
    loop {
        let length = shared.len().div_ceil(stretches).max(1);
        let solve = |stretch: &[Shared]| Some((middle(stretch), solve(stretch, hosts)?));
        let solved: Option<Vec<_>> = shared.chunks(length).map(solve).collect();
        if solved.is_some() || stretches >= STRETCHES || length / 2 < least {
            return solved;
        }
        stretches *= 2;
    }
}

/// The middle of the time that collectives in order cover.
fn middle(stretch: &[Shared]) -> i64 {
    let start = |shared: Option<&Shared>| {
        let first = shared.and_then(|spans| spans.values().next());
        first.map_or(0, |span| span.0)
    };
    i64::midpoint(start(stretch.first()), start(stretch.last()))
}

/// What may be added to each host's times so that nothing ends before all have begun; `None` altogether where nothing satisfies all.
fn solve(stretch: &[Shared], hosts: usize) -> Option<Vec<Option<Span>>> {
    let mut limits: HashMap<(usize, usize), i64> = HashMap::new();
    for spans in stretch {
        let mut spans = spans.iter();
        let Some((&first, &(first_start, first_end))) = spans.next() else {
            continue;
        };
        for (&other, &(start, end)) in spans {
            for (pair, limit) in [
                ((other, first), end - first_start),
                ((first, other), first_end - start),
            ] {
                let known = limits.entry(pair).or_insert(limit);
                *known = limit.min(*known);
            }
        }
    }
    let mut forward: Vec<Limit> = limits
        .into_iter()
        .map(|((from, to), limit)| (from, to, limit))
        .collect();
    forward.sort_unstable();
    let backward = forward.iter().map(|&(from, to, limit)| (to, from, limit));
    let backward: Vec<Limit> = backward.collect();
    let (upper, lower) = (shortest(&forward, hosts)?, shortest(&backward, hosts)?);
    let bounds = upper.into_iter().zip(lower);
    Some(bounds.map(|(high, low)| Some((-low?, high?))).collect())
}

/// The shortest ways from the first host; `None` altogether where there is a circle of negative length.
fn shortest(limits: &[Limit], hosts: usize) -> Option<Vec<Option<i64>>> {
    let mut lengths: Vec<Option<i64>> = vec![None; hosts];
    *lengths.first_mut()? = Some(0);
    for _ in 0..=hosts {
        let mut is_settled = true;
        for &(from, to, limit) in limits {
            if let Some(from) = lengths[from] {
                let length = from.saturating_add(limit);
                if lengths[to].is_none_or(|known| length < known) {
                    lengths[to] = Some(length);
                    is_settled = false;
                }
            }
        }
        if is_settled {
            return Some(lengths);
        }
    }
    None
}

/// A collective without what hosts waited in it for others: it takes all of them no longer than the one that waited least, or [`APART_NS`].
fn ended_together(shared: &Shared) -> Shared {
    let durations = shared.values().map(|(start, end)| end - start);
    let longest = durations.min().unwrap_or(0).max(APART_NS);
    let spans = shared.iter();
    spans
        .map(|(&host, &(start, end))| (host, (start.max(end - longest), end)))
        .collect()
}
