//! What the clock of one host is to that of another.

use rsys_traces::perfetto::clocks::{WallClock, interpolate};

/// What has to be added to the BOOTTIME of a host to have that of the host of reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alignment {
    /// BOOTTIME of the host and the difference, in order; none for the host of reference itself.
    points: Vec<(i64, i64)>,
}

impl Alignment {
    /// The same difference at all times.
    #[must_use]
    pub fn constant(difference_ns: i64) -> Self {
        Self {
            points: vec![(0, difference_ns)],
        }
    }

    /// From the wall clocks of both hosts; `None` when one is not known.
    #[must_use]
    pub fn by_wall_clocks(local: &WallClock, reference: &WallClock) -> Option<Self> {
        if local == reference {
            return (!local.points.is_empty()).then(Self::default);
        }
        let points = local.points.iter().map(|&(boottime, ahead)| {
            let realtime = boottime + ahead;
            // The reference's BOOTTIME of the same moment: its own difference is looked up where it must about be.
            let mut theirs = realtime - reference.points.first()?.1;
            for _ in 0..3 {
                theirs = realtime - reference.ahead_at(theirs)?;
            }
            Some((boottime, theirs - boottime))
        });
        let points: Option<Vec<_>> = points.collect();
        points
            .filter(|points| !points.is_empty())
            .map(|points| Self { points })
    }

    /// Whether nothing has to be changed.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.points.iter().all(|point| point.1 == 0)
    }

    /// The difference at a moment of the host's own clock.
    #[must_use]
    pub fn difference_at(&self, boottime: i64) -> i64 {
        match self.points.as_slice() {
            [] => 0,
            [(_, difference)] => *difference,
            points => interpolate(points, boottime).unwrap_or(0),
        }
    }

    /// A time of the host as one of the host of reference.
    #[must_use]
    pub fn apply(&self, boottime_ns: u64) -> u64 {
        let time = boottime_ns.cast_signed();
        time.saturating_add(self.difference_at(time))
            .max(0)
            .cast_unsigned()
    }

    /// Adds corrections: moments of the host's own clock and what has to be added there.
    #[must_use]
    pub fn corrected(&self, corrections: &[(i64, i64)]) -> Self {
        let mut moments: Vec<i64> = self.points.iter().chain(corrections).map(|p| p.0).collect();
        moments.sort_unstable();
        moments.dedup();
        let points = moments.into_iter().map(|at| {
            let more = interpolate(corrections, at).unwrap_or(0);
            (at, self.difference_at(at) + more)
        });
        Self {
            points: points.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clocks_relate_hosts_and_follow_drift() {
        let host = |points: &[(i64, i64)]| WallClock {
            points: points.to_vec(),
        };
        let reference = host(&[(1_000, 50_000), (2_000, 50_000)]);
        // Booted 700 later, and gains 10 within 1000.
        let local = host(&[(300, 50_700), (1_300, 50_690)]);
        let alignment = Alignment::by_wall_clocks(&local, &reference).unwrap();
        assert_eq!(alignment.apply(300), 1_000);
        assert_eq!(alignment.apply(800), 1_495);
        assert_eq!(alignment.apply(1_300), 1_990);
        assert!(Alignment::by_wall_clocks(&local, &WallClock::default()).is_none());
        let corrected = alignment.corrected(&[(300, 5), (1_300, 15)]);
        assert_eq!(corrected.apply(800), 1_505);
    }
}
