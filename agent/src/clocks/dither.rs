//! Dithering: how perf's sampling phase moves through the timer's period.

/// Where they go: to the end of the period and back, again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dither {
    /// Samples until they turn; 0 as long as perf's first period runs.
    pub left: u32,
    /// Towards the end, with longer periods of perf, or towards the begin; `None` as long as they stand where perf began.
    rising: Option<bool>,
}

/// Samples until they leave the place where perf began: those of a short thread have the period that was asked for. As all begin near the timer's
/// expiry, they would all have longer ones, and too few at first.
const AT_FIRST: u32 = 32;

impl Dither {
    /// Turns round. Returns the length of perf's next periods in nanoseconds: from where the samples stand, `behind_ns` after the timer's first
    /// expiry, they lead to the other end of the timer's period of `period_ns`. `noise` makes each way another.
    ///
    /// They turn wherever they are. Near the end that they went to they may have gone a little too far, or, of samples that were lost on the
    /// way (time in the kernel), much: what they gained or lost of perf's periods by that is given back on the next way.
    pub fn turn(&mut self, behind_ns: u64, period_ns: u64, noise: u64) -> u64 {
        let period = period_ns.max(1).cast_signed();
        // Not quite to the end: a signal is a little late.
        let (begin, end) = (period / 64, period - period / 64);
        let mut at = (behind_ns % period_ns.max(1)).cast_signed();
        let rising = match self.rising {
            None if self.left == 0 => {
                self.left = AT_FIRST;
                return period_ns;
            }
            None => at < period / 2,
            Some(rising) => {
                let goal = if rising { end } else { begin };
                if at - goal > period / 2 {
                    at -= period;
                } else if goal - at > period / 2 {
                    at += period;
                }
                !rising
            }
        };
        self.rising = Some(rising);
        let samples = 8 + (noise ^ noise >> 7) % 11;
        self.left = samples as u32;
        let goal = if rising { end } else { begin };
        (period + (goal - at) / samples.cast_signed()).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::Dither;

    #[test]
    fn ways_cover_the_period_and_leave_it_nowhere() {
        const PERIOD: u64 = 1_000_000;
        const START: u64 = 700_000;
        let (mut dither, mut now, mut samples) = (Dither::default(), START, 0_u64);
        let mut tenths = [0_u32; 10];
        assert_eq!(
            (dither.turn(now, PERIOD, 0), dither.left),
            (PERIOD, super::AT_FIRST)
        );
        while samples < 100_000 {
            let length = dither.turn(now, PERIOD, now.wrapping_mul(0x9e37_79b9));
            assert!((8..=18).contains(&dither.left) && length.abs_diff(PERIOD) < PERIOD / 7);
            for _ in 0..dither.left {
                now += length;
                samples += 1;
                // Neither before the timer's expiry nor behind the next one.
                assert_eq!(now / PERIOD, samples);
                tenths[(now % PERIOD * 10 / PERIOD) as usize] += 1;
            }
        }
        for share in tenths.map(|count| f64::from(count) / samples as f64) {
            assert!((0.08..0.12).contains(&share), "{tenths:?}");
        }
    }

    /// Late signals and lost samples move them beyond the ends: they come back, and are as often before their time as behind it.
    #[test]
    fn who_goes_too_far_comes_back() {
        const PERIOD: u64 = 1_000_000;
        let (mut dither, mut now, mut periods) = (Dither::default(), 400_000, 0_u64);
        for round in 0..10_000_u64 {
            let length = dither.turn(now, PERIOD, now.wrapping_mul(0x9e37_79b9));
            // Up to five more than were counted, to either end.
            let passed = u64::from(dither.left) + round / 2 % 6;
            now += passed * length;
            periods += passed;
        }
        let off = (now / PERIOD).abs_diff(periods);
        assert!(off < periods / 1000, "{off} of {periods}");
    }
}
