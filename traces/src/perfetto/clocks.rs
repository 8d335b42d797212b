//! Clocks: what the clocks of one trace are to each other, and the wall clock of its host.

use std::collections::HashMap;

use rsys_proto::schema::{ClockSnapshot, clock};

/// Whether a clock counts for one packet sequence only.
#[must_use]
pub fn is_local(clock_id: u32) -> bool {
    (64..128).contains(&clock_id)
}

/// Turns the clocks of one trace into BOOTTIME, by the snapshots in it.
#[derive(Debug, Clone, Default)]
pub struct TraceClocks {
    /// The clock of times that name none.
    primary: Option<u32>,
    /// The last known values of a clock and of BOOTTIME at the same moment.
    pairs: HashMap<u32, (u64, u64)>,
}

impl TraceClocks {
    /// Takes in a snapshot.
    pub fn observe(&mut self, snapshot: &ClockSnapshot) {
        if let Some(primary) = snapshot.primary_trace_clock.filter(|&id| id != 0) {
            self.primary.get_or_insert(primary);
        }
        let Some(boottime_ns) = self.boottime_of(snapshot) else {
            return;
        };
        for one in &snapshot.clocks {
            if let (Some(id), Some(value)) = (one.clock_id, one.timestamp)
                && !is_local(id)
                && id != clock::BOOTTIME
            {
                let value = value.wrapping_mul(one.unit_multiplier_ns.unwrap_or(1).max(1));
                self.pairs.insert(id, (value, boottime_ns));
            }
        }
    }

    /// Takes in a snapshot, of which only what is not known yet counts: for times in front of the first snapshot.
    pub fn observe_first(&mut self, snapshot: &ClockSnapshot) {
        let known = self.pairs.clone();
        self.observe(snapshot);
        self.pairs.extend(known);
    }

    /// BOOTTIME at the moment of a snapshot, if it or what is known tells.
    #[must_use]
    pub fn boottime_of(&self, snapshot: &ClockSnapshot) -> Option<u64> {
        let named = snapshot.clocks.iter();
        let boottime = named
            .clone()
            .find(|one| one.clock_id == Some(clock::BOOTTIME))
            .and_then(|one| one.timestamp);
        let others = || {
            named.clone().find_map(|one| {
                let id = one.clock_id.filter(|&id| !is_local(id))?;
                self.boottime(id, one.timestamp?)
            })
        };
        boottime.or_else(others)
    }

    /// The time `value` of a clock as BOOTTIME. `clock_id` 0 is the clock of times that name none.
    #[must_use]
    pub fn boottime(&self, clock_id: u32, value: u64) -> Option<u64> {
        let clock_id = match clock_id {
            0 => self.primary.unwrap_or(clock::BOOTTIME),
            id => id,
        };
        if clock_id == clock::BOOTTIME {
            return Some(value);
        }
        let (at, boottime_ns) = self.pairs.get(&clock_id)?;
        Some(boottime_ns.wrapping_add(value.wrapping_sub(*at)))
    }
}

/// The wall clock of a host against its BOOTTIME, at some moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WallClock {
    /// BOOTTIME and how much REALTIME is ahead of it, in order.
    pub points: Vec<(i64, i64)>,
}

/// Points that are kept of a wall clock.
const POINTS_MAX: usize = 512;

impl WallClock {
    /// Takes in a snapshot.
    pub fn observe(&mut self, snapshot: &ClockSnapshot) {
        let find = |id| {
            let mut clocks = snapshot.clocks.iter();
            let found = clocks.find(|one| one.clock_id == Some(id))?;
            i64::try_from(found.timestamp?).ok()
        };
        if let (Some(boottime), Some(realtime)) = (find(clock::BOOTTIME), find(clock::REALTIME)) {
            self.points.push((boottime, realtime - boottime));
            if self.points.len() > 2 * POINTS_MAX {
                self.thin();
            }
        }
    }

    /// Adds the points of another trace of the same host.
    pub fn add(&mut self, other: &Self) {
        self.points.extend(&other.points);
    }

    /// Puts the points in order and thins them out. The result does not depend on the order in which they came, unless there were very many.
    pub fn settle(&mut self) {
        self.points.sort_unstable();
        self.points.dedup_by_key(|point| point.0);
        while self.points.len() > POINTS_MAX {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.points.sort_unstable();
        let last = self.points.len() - 1;
        let mut index = 0;
        self.points.retain(|_| {
            index += 1;
            (index - 1) % 2 == 0 || index - 1 == last
        });
    }

    /// How much REALTIME is ahead of BOOTTIME at a moment.
    #[must_use]
    pub fn ahead_at(&self, boottime: i64) -> Option<i64> {
        interpolate(&self.points, boottime)
    }
}

/// The value at `at` of a line through points in order; beyond its ends, the value there. `None` without points.
#[must_use]
pub fn interpolate(points: &[(i64, i64)], at: i64) -> Option<i64> {
    let after = points.partition_point(|point| point.0 <= at);
    let before = after.checked_sub(1).and_then(|index| points.get(index));
    match (before, points.get(after)) {
        (None, None) => None,
        (Some(point), None) | (None, Some(point)) => Some(point.1),
        (Some(&(x0, y0)), Some(&(x1, y1))) => {
            let part = i128::from(y1 - y0) * i128::from(at - x0) / i128::from(x1 - x0);
            Some(y0 + part as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_proto::schema::Clock;

    fn snapshot(clocks: &[(u32, u64)]) -> ClockSnapshot {
        ClockSnapshot {
            clocks: clocks
                .iter()
                .map(|&(id, time)| Clock {
                    clock_id: Some(id),
                    timestamp: Some(time),
                    ..Clock::default()
                })
                .collect(),
            primary_trace_clock: None,
        }
    }

    #[test]
    fn a_clock_is_converted_by_the_snapshots_that_name_it() {
        let mut clocks = TraceClocks::default();
        assert_eq!(clocks.boottime(0, 5), Some(5));
        assert_eq!(clocks.boottime(clock::MONOTONIC, 5), None);
        clocks.observe(&snapshot(&[
            (clock::BOOTTIME, 1000),
            (clock::MONOTONIC, 400),
        ]));
        assert_eq!(clocks.boottime(clock::MONOTONIC, 410), Some(1010));
        assert_eq!(clocks.boottime(clock::MONOTONIC, 390), Some(990));
        // A clock of the GPU, by way of MONOTONIC.
        clocks.observe(&snapshot(&[(clock::MONOTONIC, 500), (128, 7)]));
        assert_eq!(clocks.boottime(128, 9), Some(1102));
    }
}
