//! How perf's samples wander through the timer's period.

/// Where they go: to the end of the period and back, again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wander {
    /// Samples until they turn.
    pub left: u32,
    /// Towards the end, with longer periods of perf, or towards the begin.
    rising: bool,
}

impl Wander {
    /// Turns round. Returns the length of perf's next periods in nanoseconds: from where the samples stand, `behind_ns` after the timer's first
    /// expiry, they lead to the other end of the timer's period of `period_ns`. `noise` makes each way another.
    ///
    /// They turn wherever they are: samples may have been lost on the way (time in the kernel), and a period of perf that was gained or lost
    /// by going too far is given back on the next.
    pub fn turn(&mut self, behind_ns: u64, period_ns: u64, noise: u64) -> u64 {
        // Not quite to the end: a signal is late sometimes.
        let margin = period_ns / 16;
        let at = behind_ns % period_ns.max(1);
        let samples = 8 + (noise ^ noise >> 7) % 11;
        self.left = samples as u32;
        self.rising = !self.rising;
        if self.rising {
            period_ns + (period_ns - margin).saturating_sub(at) / samples
        } else {
            period_ns - at.saturating_sub(margin) / samples
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wander;

    #[test]
    fn ways_cover_the_period_and_leave_it_nowhere() {
        const PERIOD: u64 = 1_000_000;
        const START: u64 = 700_000;
        let (mut wander, mut now, mut samples) = (Wander::default(), START, 0_u64);
        let mut tenths = [0_u32; 10];
        while samples < 100_000 {
            let length = wander.turn(now, PERIOD, now.wrapping_mul(0x9e37_79b9));
            assert!((8..=18).contains(&wander.left) && length.abs_diff(PERIOD) < PERIOD / 8);
            for _ in 0..wander.left {
                now += length;
                samples += 1;
                // Neither before the timer's expiry nor behind the next one.
                assert_eq!(now / PERIOD, samples);
                tenths[(now % PERIOD * 10 / PERIOD) as usize] += 1;
            }
        }
        // The outermost sixteenths are left out.
        for share in tenths.map(|count| f64::from(count) / samples as f64) {
            assert!((0.03..0.13).contains(&share), "{tenths:?}");
        }
    }
}
