//! By how much waits end before their thread is back on a processor: which of them lost how much.

use std::collections::BTreeMap;

use crate::waits::seen::step;

/// By how much a wait ends before the thread is back on a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Return {
    /// All of it.
    pub(super) ns: u64,
    /// As far as it waited for the processor.
    pub(super) delay_ns: u64,
}

impl Return {
    /// No more than a time.
    fn within(self, ns: u64) -> Self {
        Self {
            ns: self.ns.min(ns),
            delay_ns: self.delay_ns.min(ns),
        }
    }
}

/// A time off the processor between two looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    /// All of it, in nanoseconds.
    pub(super) off_ns: u64,
    /// What of it lies behind the first look.
    pub(super) since_ns: u64,
}

/// A length is usual that so many of the waits have at least.
const ONE_IN: u64 = 16;
/// When so many waits are known, older ones count half.
const HALVED_AT: u64 = 1 << 12;

/// How long the waits of a thread are: of about each length the newest, and how many there were, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    newest: BTreeMap<i32, (u64, u64)>,
    all: u64,
}

impl Lengths {
    /// Takes in times off the processor between two looks and what of them was the return: one alone is known exactly, and others where little was taken off.
    pub(super) fn learn(&mut self, times: &[Between], returns: &[Return]) {
        for (time, back) in times.iter().zip(returns) {
            if times.len() == 1 || back.ns <= time.off_ns / 8 {
                let length_ns = time.off_ns - back.ns;
                let (newest_ns, count) = self.newest.entry(step(length_ns)).or_default();
                *newest_ns = length_ns;
                *count += 1;
                self.all += 1;
            }
        }
        if self.all >= HALVED_AT {
            self.newest.values_mut().for_each(|(_, count)| *count /= 2);
            self.newest.retain(|_, (_, count)| *count > 0);
            self.all = self.newest.values().map(|(_, count)| count).sum();
        }
    }

    /// Distributes a correction over the times off the processor between two looks. First it is taken off what each is longer than waits of the thread
    /// usually are: a wait of 1 ms that took 5 was woken late, and those of 1 ms beside it were not. What is left is distributed evenly.
    pub(super) fn distribute(&self, times: &[Between], together: Return) -> Vec<Return> {
        let since: Vec<u64> = times.iter().map(|time| time.since_ns).collect();
        if times.len() == 1 {
            return vec![together.within(since[0])];
        }
        let over: Vec<u64> = times.iter().map(|time| self.over_ns(*time)).collect();
        let all = taken(&over, &since, together.ns);
        // A delay is a part of the return.
        let delays = taken(&over, &all, together.delay_ns.min(together.ns));
        let each = all.into_iter().zip(delays);
        each.map(|(ns, delay_ns)| Return { ns, delay_ns }).collect()
    }

    /// What is taken off a time off the processor, `off_ns` long, that no look follows: what others lost, as far as it is longer than waits of the thread usually are.
    pub(super) fn usual(&self, off_ns: u64, of_others: Return) -> Return {
        of_others.within(self.over_ns(Between {
            off_ns,
            since_ns: off_ns,
        }))
    }

    /// What of a time is more than usual.
    fn over_ns(&self, time: Between) -> u64 {
        let about_as_long = time.off_ns + time.off_ns / 16;
        let mut shorter = self.newest.range(..=step(about_as_long)).rev();
        let usual = shorter.find(|(_, (length_ns, count))| {
            *length_ns <= about_as_long && *count * ONE_IN >= self.all
        });
        usual.map_or(0, |(_, (length_ns, _))| {
            time.off_ns.saturating_sub(*length_ns).min(time.since_ns)
        })
    }
}

/// What is taken off each: evenly off `first_ns` as far as that goes, then evenly off what is left of `limits_ns`.
fn taken(first_ns: &[u64], limits_ns: &[u64], together_ns: u64) -> Vec<u64> {
    let first_ns: Vec<u64> = first_ns
        .iter()
        .zip(limits_ns)
        .map(|(a, b)| *a.min(b))
        .collect();
    let first_each_ns = of_each(&first_ns, together_ns);
    let left_ns =
        together_ns.saturating_sub(first_ns.iter().map(|ns| first_each_ns.min(*ns)).sum());
    let rest_ns: Vec<u64> = first_ns
        .iter()
        .zip(limits_ns)
        .map(|(first_ns, limit_ns)| limit_ns - first_each_ns.min(*first_ns))
        .collect();
    let rest_each_ns = of_each(&rest_ns, left_ns);
    let both = first_ns.iter().zip(&rest_ns);
    both.map(|(first_ns, rest_ns)| first_each_ns.min(*first_ns) + rest_each_ns.min(*rest_ns))
        .collect()
}

/// Distributes a correction over times: the maximum that is taken off each, so that `together_ns` is taken off in all. Times shorter than that become 0.
fn of_each(times_ns: &[u64], together_ns: u64) -> u64 {
    let mut times_ns = times_ns.to_vec();
    times_ns.sort_unstable();
    let mut left_ns = together_ns;
    for (at, time_ns) in times_ns.iter().enumerate() {
        let each_ns = left_ns / (times_ns.len() - at) as u64;
        if each_ns <= *time_ns {
            return each_ns;
        }
        left_ns -= time_ns;
    }
    times_ns.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn whole(off_us: u64) -> Between {
        Between {
            off_ns: off_us * US,
            since_ns: off_us * US,
        }
    }

    #[test]
    fn a_correction_is_distributed_evenly_as_far_as_times_go() {
        let cases: [(&[u64], u64, u64); 6] = [
            (&[], 5, 0),
            (&[10, 20], 8, 4),
            (&[1, 20], 9, 8),
            (&[20, 1], 9, 8),
            (&[1, 2, 20], 9, 6),
            (&[1, 2], 9, 2),
        ];
        for (times_ns, together_ns, expected_ns) in cases {
            assert_eq!(of_each(times_ns, together_ns), expected_ns, "{times_ns:?}");
        }
    }

    #[test]
    fn the_wait_that_is_longer_than_usual_was_woken_late() {
        let mut lengths = Lengths::default();
        let late = Return {
            ns: 4020 * US,
            delay_ns: 4000 * US,
        };
        let times = [whole(1060), whole(5060), whole(1060)];
        let evenly = lengths.distribute(&times, late);
        assert_eq!(evenly[0].ns, 1060 * US, "nothing is known of them");
        lengths.learn(
            &[whole(1055)],
            &[Return {
                ns: 5 * US,
                delay_ns: 0,
            }],
        );
        let each = lengths.distribute(&times, late);
        let lengths_ns: Vec<u64> = times
            .iter()
            .zip(&each)
            .map(|(time, back)| time.off_ns - back.ns)
            .collect();
        for length_ns in &lengths_ns {
            assert!(length_ns.abs_diff(1053 * US) < 10 * US, "{lengths_ns:?}");
        }
        assert!(each[1].delay_ns >= 3980 * US, "{each:?}");
        assert_eq!(each.iter().map(|back| back.ns).sum::<u64>(), late.ns);
    }

    #[test]
    fn lengths_that_hardly_any_wait_has_are_not_usual() {
        let mut lengths = Lengths::default();
        let learn = |lengths: &mut Lengths, us: u64, count: usize| {
            for _ in 0..count {
                lengths.learn(&[whole(us)], &[Return::default()]);
            }
        };
        learn(&mut lengths, 500, 40);
        learn(&mut lengths, 2000, 40);
        // Delays that were taken off others.
        learn(&mut lengths, 1200, 2);
        learn(&mut lengths, 1700, 2);
        assert_eq!(lengths.over_ns(whole(1800)), 1300 * US);
        learn(&mut lengths, 1700, 40);
        assert_eq!(lengths.over_ns(whole(1800)), 100 * US);
        learn(&mut lengths, 900, 20_000);
        assert!(lengths.all < HALVED_AT && lengths.newest.len() == 1);
    }

    #[test]
    fn a_wait_that_no_look_follows_loses_no_more_than_it_is_longer_than_usual() {
        let mut lengths = Lengths::default();
        let delay = Return {
            ns: 50_000 * US,
            delay_ns: 49_990 * US,
        };
        assert_eq!(lengths.usual(200_000 * US, delay), Return::default());
        lengths.learn(&[whole(200_010)], &[delay.within(10 * US)]);
        assert_eq!(lengths.usual(200_012 * US, delay).ns, 12 * US);
        assert_eq!(lengths.usual(230_000 * US, delay).ns, 30_000 * US);
    }

    #[test]
    fn no_more_is_taken_off_than_lies_behind_the_look() {
        let mut lengths = Lengths::default();
        lengths.learn(&[whole(1000)], &[Return::default()]);
        let tail = Between {
            off_ns: 8000 * US,
            since_ns: 500 * US,
        };
        let together = Return {
            ns: 900 * US,
            delay_ns: 900 * US,
        };
        let each = lengths.distribute(&[tail, whole(1000)], together);
        assert_eq!([each[0].ns, each[1].ns], [500 * US, 400 * US]);
        assert_eq!(lengths.distribute(&[tail], together)[0].ns, 500 * US);
    }
}
