//! How often the rings are emptied.

use std::time::Duration;

use crate::collect::Pass;

/// Rings are emptied after this time at first.
pub const FIRST: Duration = Duration::from_millis(25);
/// Then at least this often: what the rings hold is lost if we are killed.
const LONGEST: Duration = Duration::from_millis(100);
/// And at most this often.
pub const SHORTEST: Duration = Duration::from_millis(5);
/// The fullest ring is to be found this full: every wake takes a processor from the target, and a
/// ring that overflows loses records.
const FILL: f64 = 0.125;

/// The time to the next pass, by what this one found after `since_last`.
pub fn next_interval(interval: Duration, since_last: Duration, pass: Pass) -> Duration {
    // Not much longer at once: rates change.
    let longer = interval * 3 / 2;
    let by_rate = if pass.fullest > 0.0 {
        since_last.as_secs_f64() * FILL / pass.fullest
    } else {
        f64::INFINITY
    };
    Duration::try_from_secs_f64(by_rate)
        .map_or(longer, |by_rate| by_rate.min(longer))
        .clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_emptied_as_often_as_they_fill() {
        let ms = Duration::from_millis;
        let next = |interval, since_last, fullest| {
            next_interval(ms(interval), ms(since_last), Pass { fullest })
        };
        assert_eq!(next(40, 40, 0.0), ms(60), "nothing came");
        assert_eq!(next(90, 90, 0.0), LONGEST);
        assert_eq!(next(40, 40, 0.01), ms(60), "little came");
        assert_eq!(next(40, 40, 0.25), ms(20), "twice what it should be");
        assert_eq!(next(40, 10, 0.25), ms(5), "woken before its time");
        assert_eq!(next(100, 100, 1.0), Duration::from_micros(12_500));
        assert_eq!(next(5, 5, 1.0), SHORTEST);
    }
}
