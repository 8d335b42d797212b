//! Windows of time as a user writes them: a delay, a duration, and periods that come again.

use std::time::Duration;

use crate::original::clocks::window_clock;
use crate::text::{parse_seconds, words};

/// The longest time that can be asked for.
pub(crate) const SECONDS_MAX: f64 = 1e9;

/// The most groups of periods that one may write.
const PERIODS_MAX: usize = 1000;

/// When something is recorded, counted from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// Nothing before this.
    pub delay: Duration,
    /// Nothing later than this after the delay.
    pub duration: Option<Duration>,
    /// From the end of the delay on: only in these. Empty means always.
    pub periods: Vec<Period>,
}

/// A window that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Nothing is recorded for this time,
    pub wait: Duration,
    /// then everything for this time; `None` means until the end.
    pub record: Option<Duration>,
    /// How many times; `None` means again and again.
    pub times: Option<u64>,
}

impl Window {
    /// Whether all time is in it.
    #[must_use]
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads periods; `None` when the text is none.
#[must_use]
pub(crate) fn parse(text: &str) -> Option<Vec<Period>> {
    let mut periods = Vec::new();
    for group in words(text) {
        let mut parts = group.split(':');
        let wait = seconds(parts.next()?)?;
        let record = seconds(parts.next()?)?;
        let times = match parts.next() {
            None | Some("") => 1,
            // The original counts them in any number.
            Some(times) => times.parse::<u64>().ok()?,
        };
        if parts
            .next()
            .is_some_and(|clock| window_clock(clock).is_none())
            || parts.next().is_some()
        {
            return None;
        }
        // What lasts no time would come again without end at one instant.
        if periods.len() == PERIODS_MAX || (times == 0 && wait.is_zero() && record.is_zero()) {
            return None;
        }
        periods.push(Period {
            wait,
            record: (!record.is_zero()).then_some(record),
            times: (times > 0).then_some(times),
        });
    }
    Some(periods)
}

fn seconds(text: &str) -> Option<Duration> {
    parse_seconds(text)
        .filter(|value| (0.0..=SECONDS_MAX).contains(value))
        .map(Duration::from_secs_f64)
}

/// The text that a setting keeps of periods.
#[must_use]
pub(crate) fn normalized(text: &str) -> Option<String> {
    parse(text)?;
    Some(words(text).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read() {
        let period = |wait: f64, record: f64, times: u64| Period {
            wait: Duration::from_secs_f64(wait),
            record: (record > 0.0).then(|| Duration::from_secs_f64(record)),
            times: (times > 0).then_some(times),
        };
        let cases = [
            ("", Some(vec![])),
            ("1:2", Some(vec![period(1.0, 2.0, 1)])),
            ("0.5:250ms:3", Some(vec![period(0.5, 0.25, 3)])),
            (
                "1:2:0:realtime, 3:0",
                Some(vec![period(1.0, 2.0, 0), period(3.0, 0.0, 1)]),
            ),
            ("1:1:2:CLOCK_MONOTONIC_RAW", Some(vec![period(1.0, 1.0, 2)])),
            ("1", None),
            ("1:x", None),
            ("1:2:-1", None),
            ("1:2:3:sundial", None),
            ("1:2:3:0:5", None),
            ("0:0:0", None),
            ("-1:2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(normalized(" 1:2  3:4 ").as_deref(), Some("1:2,3:4"));
    }
}
