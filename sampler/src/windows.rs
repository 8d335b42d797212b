//! Windows of time: when what happens is kept.
//!
//! A [`Schedule`] is made of what the user asked for and the start of the run. It answers for any
//! CLOCK_BOOTTIME whether it is inside, and which parts of a stretch of time are. Whoever records
//! asks it. The agents get the begin of the next window, so that they take no samples in vain; they
//! may take some too many.

use std::time::Duration;

use rsys_config::{Period, Resolved, Window};

/// When what is kept, by the kind of data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Windows {
    /// Samples of CPU time.
    pub samples: Schedule,
    /// What blocked threads do.
    pub waits: Schedule,
    /// Calls, GPU activity and markers.
    pub events: Schedule,
    /// Counters of host and GPU.
    pub monitors: Schedule,
    /// All but the last are counted in the CPU time of each process: see
    /// [`crate::emit::cpu_windows`].
    pub by_cpu_time: bool,
}

impl Windows {
    /// The windows of a run that starts at `start_ns` (CLOCK_BOOTTIME).
    #[must_use]
    pub fn new(resolved: &Resolved, start_ns: u64) -> Self {
        // Samples by an event say nothing of CPU time.
        let by_cpu_time = resolved.windows_by_cpu_time && resolved.overflow.is_none();
        let zero_ns = if by_cpu_time { 0 } else { start_ns };
        Self {
            samples: Schedule::new(&resolved.sampling_window, zero_ns),
            waits: Schedule::new(&resolved.realtime_window, zero_ns),
            events: Schedule::new(&resolved.trace_window, zero_ns),
            monitors: Schedule::new(&resolved.process_window, start_ns),
            by_cpu_time,
        }
    }
}

/// Intervals of CLOCK_BOOTTIME; each contains its first instant and not its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Nothing outside of this is inside. Begins at 0 when there is no delay: what the run's own
    /// start precedes belongs to it.
    begin_ns: u64,
    end_ns: u64,
    /// Empty when all of that is inside.
    groups: Vec<Group>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self::ALWAYS
    }
}

/// Windows of equal length at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    begin_ns: u64,
    end_ns: u64,
    wait_ns: u64,
    record_ns: u64,
}

impl Schedule {
    /// All of the time.
    pub const ALWAYS: Self = Self {
        begin_ns: 0,
        end_ns: u64::MAX,
        groups: Vec::new(),
    };

    /// The schedule of a window for a run that starts at `start_ns`.
    #[must_use]
    pub fn new(window: &Window, start_ns: u64) -> Self {
        let begin_ns = start_ns.saturating_add(nanoseconds(window.delay));
        let end_ns = window.duration.map_or(u64::MAX, |duration| {
            begin_ns.saturating_add(nanoseconds(duration))
        });
        let mut groups = Vec::with_capacity(window.periods.len());
        let mut next_ns = begin_ns;
        for period in &window.periods {
            let group = Group::new(period, next_ns);
            next_ns = group.end_ns;
            groups.push(group);
        }
        Self {
            begin_ns: if window.delay.is_zero() { 0 } else { begin_ns },
            end_ns,
            groups,
        }
    }

    /// Makes it endless, if it has no periods: where the end of the run is that of its window.
    pub fn remove_end(&mut self) {
        if self.groups.is_empty() {
            self.end_ns = u64::MAX;
        }
    }

    /// No time at all, until a window is [opened](Self::open).
    #[must_use]
    pub fn never() -> Self {
        Self {
            end_ns: 0,
            ..Self::ALWAYS
        }
    }

    /// Adds a window that begins now and is not known to end.
    pub fn open(&mut self, time_ns: u64) {
        self.end_ns = u64::MAX;
        self.groups.push(Group {
            begin_ns: time_ns,
            end_ns: u64::MAX,
            wait_ns: 0,
            record_ns: u64::MAX,
        });
    }

    /// Ends the last window that was opened.
    pub fn close(&mut self, time_ns: u64) {
        if let Some(last) = self.groups.last_mut() {
            last.end_ns = time_ns;
        }
    }

    /// Whether all of the time is inside.
    #[must_use]
    pub fn is_always(&self) -> bool {
        *self == Self::ALWAYS
    }

    /// Whether an instant is inside.
    #[must_use]
    pub fn active(&self, time_ns: u64) -> bool {
        self.window_at(time_ns).is_some()
    }

    /// Begin and end of the window that an instant is in.
    #[must_use]
    pub fn window_at(&self, time_ns: u64) -> Option<(u64, u64)> {
        let (begin_ns, end_ns) = self.next_window(time_ns)?;
        (begin_ns <= time_ns).then_some((begin_ns, end_ns))
    }

    /// The window that an instant is in, or the next one.
    #[must_use]
    pub fn next_window(&self, time_ns: u64) -> Option<(u64, u64)> {
        let from_ns = time_ns.max(self.begin_ns);
        if from_ns >= self.end_ns {
            return None;
        }
        if self.groups.is_empty() {
            return Some((self.begin_ns, self.end_ns));
        }
        let (begin_ns, end_ns) = self
            .groups
            .iter()
            .find_map(|group| group.next_window(from_ns))?;
        let begin_ns = begin_ns.max(self.begin_ns);
        (begin_ns < self.end_ns).then_some((begin_ns, end_ns.min(self.end_ns)))
    }

    /// Since when, or from when on, there is something to record: 0 inside of a window, the end of
    /// all time behind the last one.
    #[must_use]
    pub fn wanted_from(&self, time_ns: u64) -> u64 {
        match self.next_window(time_ns) {
            Some((begin_ns, _)) if begin_ns <= time_ns => 0,
            Some((begin_ns, _)) => begin_ns,
            None => u64::MAX,
        }
    }

    /// The parts of a stretch of time that are inside, in their order.
    pub fn parts(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut from_ns = from_ns;
        std::iter::from_fn(move || {
            if from_ns >= to_ns {
                return None;
            }
            let (begin_ns, end_ns) = self.next_window(from_ns)?;
            let part = (begin_ns.max(from_ns), end_ns.min(to_ns));
            from_ns = end_ns;
            (part.0 < part.1).then_some(part)
        })
    }

    /// The first part of something that lasts for a while, or only for an instant; `None` when
    /// nothing of it is inside.
    #[must_use]
    pub fn first_part(&self, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        if from_ns >= to_ns {
            return self.active(from_ns).then_some((from_ns, from_ns));
        }
        self.parts(from_ns, to_ns).next()
    }
}

impl Group {
    fn new(period: &Period, begin_ns: u64) -> Self {
        let wait_ns = nanoseconds(period.wait);
        let record_ns = period.record.map_or(u64::MAX, nanoseconds);
        let cycle_ns = wait_ns.saturating_add(record_ns);
        let length_ns = period.times.unwrap_or(u64::MAX).saturating_mul(cycle_ns);
        Self {
            begin_ns,
            end_ns: begin_ns.saturating_add(length_ns),
            wait_ns,
            record_ns,
        }
    }

    fn next_window(&self, time_ns: u64) -> Option<(u64, u64)> {
        if time_ns >= self.end_ns {
            return None;
        }
        if self.wait_ns == 0 && self.end_ns > self.begin_ns {
            // Windows that touch each other are one.
            return Some((self.begin_ns, self.end_ns));
        }
        let cycle_ns = self.wait_ns.saturating_add(self.record_ns).max(1);
        let cycle = time_ns.saturating_sub(self.begin_ns) / cycle_ns;
        let window = |cycle: u64| {
            let begin_ns = self
                .begin_ns
                .saturating_add(cycle.saturating_mul(cycle_ns))
                .saturating_add(self.wait_ns);
            let end_ns = begin_ns.saturating_add(self.record_ns).min(self.end_ns);
            (begin_ns < end_ns).then_some((begin_ns, end_ns))
        };
        // The window lies at the end of its cycle, so every instant of the cycle is in front of
        // that end.
        window(cycle)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(delay: u64, duration: u64, periods: &[(u64, u64, u64)]) -> Schedule {
        let time = Duration::from_nanos;
        let window = Window {
            delay: time(delay),
            duration: (duration > 0).then(|| time(duration)),
            periods: periods
                .iter()
                .map(|&(wait, record, times)| Period {
                    wait: time(wait),
                    record: (record > 0).then(|| time(record)),
                    times: (times > 0).then_some(times),
                })
                .collect(),
        };
        Schedule::new(&window, 1000)
    }

    #[test]
    fn windows_count_from_the_start() {
        // delay, duration, periods; the windows up to 1100
        type Case<'a> = (u64, u64, &'a [(u64, u64, u64)], &'a [(u64, u64)]);
        let cases: &[Case<'_>] = &[
            (0, 0, &[], &[(900, 1100)]),
            (10, 0, &[], &[(1010, 1100)]),
            (10, 5, &[], &[(1010, 1015)]),
            (0, 5, &[], &[(900, 1005)]),
            (0, 0, &[(10, 5, 2)], &[(1010, 1015), (1025, 1030)]),
            (10, 0, &[(10, 5, 2)], &[(1020, 1025), (1035, 1040)]),
            (10, 18, &[(10, 5, 0)], &[(1020, 1025)]),
            (0, 27, &[(10, 5, 0)], &[(1010, 1015), (1025, 1027)]),
            (0, 0, &[(0, 5, 2), (3, 2, 1)], &[(1000, 1010), (1013, 1015)]),
            (0, 0, &[(10, 0, 1)], &[(1010, 1100)]),
            (0, 0, &[(40, 30, 0)], &[(1040, 1070)]),
            (0, 0, &[(0, 5, 0)], &[(1000, 1100)]),
        ];
        for (delay, duration, periods, expected) in cases {
            let schedule = schedule(*delay, *duration, periods);
            let found: Vec<_> = schedule.parts(900, 1100).collect();
            assert_eq!(found, *expected, "{delay} {duration} {periods:?}");
        }
        assert!(Schedule::ALWAYS.active(0) && Schedule::ALWAYS.active(u64::MAX - 1));
        assert!(schedule(0, 0, &[]).is_always());
        let periods = schedule(0, 27, &[(10, 5, 0)]);
        for (time, from) in [
            (900, 1010),
            (1010, 0),
            (1014, 0),
            (1015, 1025),
            (1027, u64::MAX),
        ] {
            assert_eq!(periods.wanted_from(time), from, "{time}");
        }
        let one = schedule(10, 5, &[]);
        for (from, to, part) in [
            (1005, 1012, Some((1010, 1012))),
            (1012, 1020, Some((1012, 1015))),
            (1011, 1011, Some((1011, 1011))),
            (1015, 1015, None),
            (1000, 1010, None),
            (1015, 1020, None),
        ] {
            assert_eq!(one.first_part(from, to), part, "{from} {to}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_what_is_active(
            delay in 0u64..30,
            duration in 0u64..80,
            periods in proptest::collection::vec((0u64..6, 0u64..6, 0u64..4), 0..4),
            from in 980u64..1100,
            length in 0u64..120,
        ) {
            let periods: Vec<_> = periods.into_iter().filter(|(wait, record, times)| *times > 0 || wait + record > 0).collect();
            let schedule = schedule(delay, duration, &periods);
            let inside: u64 = schedule.parts(from, from + length).map(|(begin, end)| end - begin).sum();
            let active = (from..from + length).filter(|&time| schedule.active(time)).count() as u64;
            prop_assert_eq!(inside, active);
            for time in from..from + length {
                if let Some((begin, end)) = schedule.window_at(time) {
                    prop_assert!(begin <= time && time < end);
                    prop_assert!(schedule.active(begin));
                }
            }
        }
    }
}
