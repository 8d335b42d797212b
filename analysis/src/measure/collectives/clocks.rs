//! One time axis for ranks on several hosts, and how far it may be wrong.
//!
//! First by the wall clocks that each trace has compared with BOOTTIME. What remains is bounded by the collectives: no rank can end an all-reduce before
//! all have begun it, so that each bounds the difference of two clocks from both sides. Where one host always comes first, the bound from its begin says little: then its end
//! does, for once all have begun, a collective takes every host about as long. Where clocks drift this holds for stretches of time.

use std::collections::BTreeMap;

use crate::perfetto::clocks::{WallClock, interpolate};

/// Into so many stretches the collectives are divided at most, and so many collectives are enough for one.
const STRETCHES: usize = 256;
const ENOUGH: usize = 64;
/// In stretches of fewer, ends that are apart by chance look like clocks that jump.
const FEW: usize = 16;
/// Ranks are taken to end a collective at most this far apart, also one that takes less.
const APART_NS: i64 = 20_000;

/// When a collective ran on a host: the latest begin and the earliest end of its ranks there.
pub(super) type Span = (i64, i64);

/// A collective that ran on several hosts, on the axis of the wall clocks.
pub(super) type Shared = BTreeMap<usize, Span>;

/// The clocks of all hosts.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) hosts: Vec<HostClock>,
    /// All times are rounded to multiples of this many nanoseconds; 0: they are exact.
    pub(super) grain_ns: u64,
}

/// The clock of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct HostClock {
    pub(super) name: String,
    pub(super) wall_clock: WallClock,
    /// Moments on the axis of the wall clocks, and what is added there.
    pub(super) corrections: Vec<(i64, i64)>,
    /// By how much a time may be wrong, either way; `None` if nothing bounds it.
    pub(super) uncertainty_ns: Option<u64>,
    /// By how many collectives that was found.
    pub(super) collectives: u64,
    /// The collectives of this host contradict each other.
    pub(super) is_contradicted: bool,
}

impl HostClock {
    /// A BOOTTIME of this host on the axis of the wall clocks.
    pub(super) fn wall(&self, time_ns: u64) -> i64 {
        let time_ns = time_ns.cast_signed();
        time_ns.saturating_add(self.wall_clock.ahead_at(time_ns).unwrap_or(0))
    }

    /// A BOOTTIME of this host on the common axis.
    pub(super) fn common(&self, time_ns: u64) -> i64 {
        let wall = self.wall(time_ns);
        wall.saturating_add(interpolate(&self.corrections, wall).unwrap_or(0))
    }

    /// The largest correction of the wall clock.
    pub(super) fn off_ns(&self) -> Option<u64> {
        let off = self.corrections.iter().map(|point| point.1.unsigned_abs());
        off.max()
    }
}

impl Clocks {
    /// By how much the difference of two times may be wrong, either way; `None` if nothing bounds it.
    pub(super) fn uncertainty_ns(&self, one: usize, other: usize) -> Option<u64> {
        if one == other {
            return Some(self.grain_ns);
        }
        let of = |host: usize| self.hosts.get(host)?.uncertainty_ns;
        let both = of(one)?.saturating_add(of(other)?);
        Some(both.saturating_add(self.grain_ns))
    }

    /// Corrects what the wall clocks say by what the collectives allow.
    pub(super) fn refine(&mut self, mut shared: Vec<Shared>) {
        if let Some(first) = self.hosts.first_mut() {
            first.uncertainty_ns = Some(0);
        }
        let start = |hosts: &Shared| hosts.values().map(|span| span.0).min();
        shared.sort_by(|one, other| (start(one), one).cmp(&(start(other), other)));
        // Of a job that is there several times each says the same.
        shared.dedup();
        if shared.is_empty() || self.hosts.len() < 2 {
            return;
        }
        let together: Vec<Shared> = shared.iter().map(ended_together).collect();
        // How far the clocks may be wrong is told by what is certain: nothing ends before all have begun.
        let certain = self.solve_all(&shared, 1);
        let likely = self.solve_all(&together, FEW).or_else(|| certain.clone());
        for (host, clock) in self.hosts.iter_mut().enumerate().skip(1) {
            let count = shared.iter().filter(|hosts| hosts.contains_key(&host));
            clock.collectives = count.count() as u64;
            let (Some(certain), Some(likely)) = (&certain, &likely) else {
                clock.is_contradicted = clock.collectives > 0;
                continue;
            };
            let of_host = |all: &[(i64, Vec<Option<Span>>)]| -> Vec<(i64, Span)> {
                let bounds = all.iter();
                bounds
                    .filter_map(|(moment, bounds)| Some((*moment, bounds[host]?)))
                    .collect()
            };
            clock.corrections = of_host(likely)
                .iter()
                .map(|&(moment, (low, high))| (moment, low + (high - low) / 2))
                .collect();
            let off = of_host(certain).into_iter().map(|(moment, (low, high))| {
                let correction = interpolate(&clock.corrections, moment).unwrap_or(0);
                correction.abs_diff(low).max(correction.abs_diff(high))
            });
            let Some(off_ns) = off.max() else { continue };
            // Between two moments a clock may run unevenly by about what it moved.
            let moved = clock.corrections.windows(2);
            let moved = moved.map(|pair| pair[0].1.abs_diff(pair[1].1)).max();
            clock.uncertainty_ns = Some(off_ns + moved.unwrap_or(0).div_ceil(2));
        }
    }

    /// The longest stretches of time in each of which some additions to the hosts' times satisfy all collectives: the middle of each, and what may be added. `None` if they would
    /// have to be shorter than about `least` collectives.
    fn solve_all(&self, shared: &[Shared], least: usize) -> Option<Vec<(i64, Vec<Option<Span>>)>> {
        let mut stretches = (shared.len() / ENOUGH).clamp(1, STRETCHES);
        loop {
            let length = shared.len().div_ceil(stretches);
            let solve = |stretch: &[Shared]| Some((middle(stretch), self.solve(stretch)?));
            let solved: Option<Vec<_>> = shared.chunks(length).map(solve).collect();
            if solved.is_some() || stretches >= STRETCHES || length / 2 < least {
                return solved;
            }
            stretches *= 2;
        }
    }

    /// What may be added to each host's times, so that nothing ends before all have begun; `None` for hosts that nothing relates to the first,
    /// and altogether where nothing satisfies all.
    fn solve(&self, stretch: &[Shared]) -> Option<Vec<Option<Span>>> {
        // (from, to): what is added to the second is at most this more than what is added to the first.
        let mut limits: BTreeMap<(usize, usize), i64> = BTreeMap::new();
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
        let upper = self.shortest(limits.iter().map(|(&(from, to), &limit)| (from, to, limit)))?;
        let lower = self.shortest(limits.iter().map(|(&(from, to), &limit)| (to, from, limit)))?;
        let bounds = upper.into_iter().zip(lower);
        Some(bounds.map(|(high, low)| Some((-low?, high?))).collect())
    }

    /// The shortest ways from the first host; `None` where there is a circle of negative length.
    fn shortest(
        &self,
        edges: impl Iterator<Item = (usize, usize, i64)> + Clone,
    ) -> Option<Vec<Option<i64>>> {
        let mut lengths: Vec<Option<i64>> = vec![None; self.hosts.len()];
        lengths[0] = Some(0);
        for _ in 0..=self.hosts.len() {
            let mut is_settled = true;
            for (from, to, limit) in edges.clone() {
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

/// The middle of the time that collectives in order cover.
fn middle(stretch: &[Shared]) -> i64 {
    let start = |shared: Option<&Shared>| {
        let first = shared.and_then(|spans| spans.values().next());
        first.map_or(0, |span| span.0)
    };
    i64::midpoint(start(stretch.first()), start(stretch.last()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(hosts: usize) -> Clocks {
        let hosts = (0..hosts).map(|_| HostClock::default());
        Clocks {
            hosts: hosts.collect(),
            ..Clocks::default()
        }
    }

    #[test]
    fn a_clock_that_drifts_is_found_within_its_uncertainty() {
        let mut clocks = clocks(2);
        let behind = |time: i64| 1_000_000 + time / 50_000;
        let shared = (0..5_000_i64).map(|number| {
            let time = number * 1_000_000;
            let late = [number * 7 % 500, number * 11 % 700];
            let end = time + 5_000;
            let second = (time + late[1] - behind(time), end - behind(time));
            BTreeMap::from([(0, (time + late[0], end)), (1, second)])
        });
        clocks.refine(shared.collect());
        let uncertainty_ns = clocks.uncertainty_ns(0, 1).unwrap();
        assert!(uncertainty_ns < 10_000, "{uncertainty_ns}");
        for time in [100_000_000, 2_500_000_000, 4_900_000_000_i64] {
            let own = (time - behind(time)).cast_unsigned();
            let off = clocks.hosts[1].common(own).abs_diff(time);
            assert!(off <= uncertainty_ns, "{off} {uncertainty_ns}");
        }
    }

    #[test]
    fn a_host_that_always_comes_first_is_told_by_its_ends() {
        let mut clocks = clocks(2);
        let shared = (0..200_i64).map(|number| {
            let time = number * 10_000_000;
            let end = time + 3_050_000 + number % 7 * 1_000;
            BTreeMap::from([(0, (time, end)), (1, (time + 3_000_000, end))])
        });
        clocks.refine(shared.collect());
        let off = clocks.hosts[1]
            .common(1_000_000_000)
            .abs_diff(1_000_000_000);
        assert!(off < 10_000, "{off}");
        // That is likely, not certain: the other host's collectives might end later.
        assert_eq!(clocks.uncertainty_ns(0, 1), Some(3_050_000));
    }

    #[test]
    fn ends_that_are_apart_are_no_contradiction() {
        let mut clocks = clocks(2);
        // Now the one, now the other ends long after all have begun.
        let shared = (0..200_i64).map(|number| {
            let time = number * 10_000_000;
            let ends = [time + 50_000, time + 900_000];
            let late = (number % 2) as usize;
            BTreeMap::from([(0, (time, ends[late])), (1, (time, ends[1 - late]))])
        });
        clocks.refine(shared.collect());
        assert!(!clocks.hosts[1].is_contradicted);
        assert_eq!(clocks.uncertainty_ns(0, 1), Some(50_000));
    }

    #[test]
    fn what_contradicts_itself_bounds_nothing() {
        let mut clocks = clocks(2);
        let apart = |start, behind| {
            BTreeMap::from([
                (0, (start, start + 10)),
                (1, (start + behind, start + behind + 5)),
            ])
        };
        clocks.refine(vec![apart(0, 1_000), apart(0, 9_000)]);
        // Two stretches of one collective each are satisfied; one collective that ends before it begins is not.
        assert!(clocks.uncertainty_ns(0, 1).is_some_and(|ns| ns >= 4_000));
        let mut clocks = self::clocks(2);
        clocks.refine(vec![BTreeMap::from([(0, (100, 90)), (1, (100, 80))])]);
        assert_eq!(clocks.uncertainty_ns(0, 1), None);
        assert!(clocks.hosts[1].is_contradicted);
    }
}
