//! One time axis for ranks on several hosts, and how far it may be wrong.
//!
//! First by the wall clocks that each trace has compared with BOOTTIME. What remains is bounded by the collectives ([`host_clocks`]).

use rsys_traces::perfetto::clocks::{WallClock, interpolate};
use rsys_traces::perfetto::host_clocks::{self, Shared};

/// The clocks of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) hosts: Vec<HostClock>,
    /// All times are rounded to multiples of this many nanoseconds; 0: they are exact.
    pub(crate) grain_ns: u64,
}

/// The clock of a host.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostClock {
    pub(crate) name: String,
    pub(crate) wall_clock: WallClock,
    /// Moments on the axis of the wall clocks, and what is added there.
    pub(crate) corrections: Vec<(i64, i64)>,
    /// By how much a time may be wrong, either way; `None` if nothing bounds it.
    pub(crate) uncertainty_ns: Option<u64>,
    /// By how many collectives that was found.
    pub(crate) collectives: u64,
    /// The collectives of this host contradict each other.
    pub(crate) is_contradicted: bool,
}

impl HostClock {
    /// A BOOTTIME of this host on the axis of the wall clocks.
    pub(crate) fn wall(&self, time_ns: u64) -> i64 {
        let time_ns = time_ns.cast_signed();
        time_ns.saturating_add(self.wall_clock.ahead_at(time_ns).unwrap_or(0))
    }

    /// A BOOTTIME of this host on the common axis.
    pub(crate) fn common(&self, time_ns: u64) -> i64 {
        let wall = self.wall(time_ns);
        wall.saturating_add(interpolate(&self.corrections, wall).unwrap_or(0))
    }

    /// The largest correction of the wall clock.
    pub(crate) fn off_ns(&self) -> Option<u64> {
        let off = self.corrections.iter().map(|point| point.1.unsigned_abs());
        off.max()
    }
}

impl Clocks {
    /// By how much the difference of two times may be wrong, either way; `None` if nothing bounds it.
    pub(crate) fn uncertainty_ns(&self, one: usize, other: usize) -> Option<u64> {
        if one == other {
            return Some(self.grain_ns);
        }
        let of = |host: usize| self.hosts.get(host)?.uncertainty_ns;
        let both = of(one)?.saturating_add(of(other)?);
        Some(both.saturating_add(self.grain_ns))
    }

    /// Corrects what the wall clocks say by what the collectives allow.
    pub(crate) fn refine(&mut self, mut shared: Vec<Shared>) {
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
        let bounds = host_clocks::bounds(&shared, self.hosts.len());
        for (host, clock) in self.hosts.iter_mut().enumerate().skip(1) {
            let count = shared.iter().filter(|hosts| hosts.contains_key(&host));
            clock.collectives = count.count() as u64;
            let Some(bounds) = bounds.as_ref().map(|bounds| &bounds[host]) else {
                clock.is_contradicted = clock.collectives > 0;
                continue;
            };
            clock.corrections = bounds.corrections();
            let Some(off_ns) = bounds.uncertainty_ns() else {
                continue;
            };
            // Between two moments a clock may run unevenly by about what it moved.
            let moved = clock.corrections.windows(2);
            let moved = moved.map(|pair| pair[0].1.abs_diff(pair[1].1)).max();
            clock.uncertainty_ns = Some(off_ns + moved.unwrap_or(0).div_ceil(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
