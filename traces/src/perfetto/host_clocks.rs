//! What collectives say of the clocks of the hosts that they ran on.
//!
//! No rank can end an all-reduce before all have begun it, so that each bounds the difference of two clocks from both sides. That is certain. Where one host always comes
//! first, the bound from its begin is far away: likely it ends as long after all have begun as the others do, which says more. Where clocks drift both hold for stretches of
//! time.

use std::collections::{BTreeMap, HashMap};

use super::clocks::interpolate;

/// Into how many stretches of time the collectives are divided at most.
const STRETCHES: usize = 256;
/// In stretches of fewer, ends that are apart by chance look like clocks that jump.
const FEW: usize = 16;
/// Ranks are taken to end a collective at most this far apart, also one that takes less.
const APART_NS: i64 = 20_000;
/// From, to, limit: what is added to the times of the second host is at most this many nanoseconds more than what is added to those of the first.
type Limit = (usize, usize, i64);

/// When a collective ran on a host: the latest begin and the earliest end of its ranks there.
pub type Span = (i64, i64);

/// The least and the most that may be added to the times of a host.
type Bounds = (i64, i64);

/// A collective that ran on several hosts, by their numbers.
pub type Shared = BTreeMap<usize, Span>;

/// What may be added to the times of a host, to be those of the first one, at some moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostBounds {
    certain: Vec<(i64, Bounds)>,
    likely: Vec<(i64, Bounds)>,
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

/// The bounds of `hosts` hosts, numbered from 0, by collectives in the order of time; `None` if these contradict each other.
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
type Solution = (i64, Vec<Option<Bounds>>);

/// The longest stretches of time in each of which some additions satisfy all collectives. `None` if they would have to be shorter than about `least` collectives.
fn solve_all(shared: &[Shared], hosts: usize, least: usize) -> Option<Vec<Solution>> {
    let mut stretches = 1;
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
fn solve(stretch: &[Shared], hosts: usize) -> Option<Vec<Option<Bounds>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts whose clocks are ahead by so much run collectives of 10 µs, one each ms, which all begin and end together.
    fn run(
        pairs: impl IntoIterator<Item = [usize; 2]>,
        ahead: impl Fn(usize, i64) -> i64,
    ) -> Vec<Shared> {
        let numbered = (0_i64..).zip(pairs);
        let mut shared: Vec<Shared> = numbered
            .map(|(number, hosts)| {
                let now = number * 1_000_000;
                let span = |host: usize| (now + ahead(host, now), now + 10_000 + ahead(host, now));
                hosts.into_iter().map(|host| (host, span(host))).collect()
            })
            .collect();
        // As they are found: by the clock of the first host of each.
        shared.sort_by_key(|spans| spans.values().next().copied());
        shared
    }

    #[test]
    fn a_host_is_related_by_way_of_another_at_other_times() {
        let ahead = |host: usize, _| [0, 300_000, 900_000][host];
        let (first, second) = (
            std::iter::repeat_n([0, 1], 128),
            std::iter::repeat_n([1, 2], 128),
        );
        let one_after_the_other = run(first.clone().chain(second.clone()), ahead);
        let by_turns = run(
            first.zip(second).flat_map(|(one, other)| [one, other]),
            ahead,
        );
        for shared in [one_after_the_other, by_turns] {
            let found = bounds(&shared, 3).unwrap();
            for (host, ahead_ns) in [(1, 300_000), (2, 900_000)] {
                let corrections = found[host].corrections();
                assert!(!corrections.is_empty(), "{host}");
                let off = |&(_, correction): &(i64, i64)| (correction + ahead_ns).abs();
                assert!(
                    corrections.iter().all(|one| off(one) <= 10_000),
                    "{corrections:?}"
                );
                assert!(found[host].uncertainty_ns().unwrap() <= 20_000);
            }
        }
    }

    #[test]
    fn clocks_that_drift_are_corrected_in_stretches() {
        // By 100 ppm: 0.2 ms in all.
        let ahead = |host: usize, now: i64| host as i64 * now / 10_000;
        let shared = run(std::iter::repeat_n([0, 1], 2_000), ahead);
        let found = bounds(&shared, 2).unwrap();
        let corrections = found[1].corrections();
        assert!(corrections.len() >= 4, "{corrections:?}");
        for (moment, correction) in corrections {
            assert!(
                (correction + ahead(1, moment)).abs() <= 10_000,
                "{moment}: {correction}"
            );
        }
    }

    #[test]
    fn what_contradicts_itself_says_nothing() {
        let jumps = [(0, 10_000), (1_000_000, 1_010_000)];
        let shared = jumps.map(|of_other| Shared::from([(0, (0, 10_000)), (1, of_other)]));
        // Each alone is possible: a clock that jumps.
        assert!(bounds(&shared, 2).is_some());
        // It ended before it began, by more than it took the other host.
        let impossible = Shared::from([(0, (0, 10_000)), (1, (30_000, 15_000))]);
        assert_eq!(bounds(&[impossible], 2), None);
    }
}
