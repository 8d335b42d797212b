//! Whose the periods are that perf did not deliver.
//!
//! perf's clock counts user mode only, the timer beside it everything: what perf lags behind is time in the kernel, and only a tick that
//! came there says where that was spent. System calls and page faults would lose to the user code in between if all ticks stood for it.
//! But perf can lose user code too, where the kernel throttles it, or altogether where the program switches it off
//! (`PR_TASK_PERF_EVENTS_DISABLE`). How much of that it loses shows in the ticks that came there, and these stand for it.

/// Ticks for whose time the next one in the kernel may have to stand.
const LEFT: u64 = 8;
/// Ticks in user mode that tell what perf delivers there, and those after which the older half is forgotten.
const FEW: u64 = 16;
const MANY: u64 = 256;
/// Parts of a period.
const PARTS: u64 = 1024;

/// The periods of one thread, by perf and by the timer.
#[derive(Debug, Default)]
pub struct Missing {
    /// Positive when perf is ahead of the timer.
    balance: i64,
    /// The timer's periods at ticks in user mode of late, and perf's.
    in_user: u64,
    delivered: u64,
    /// What a tick in user mode stands for beyond whole periods, in [`PARTS`].
    rest: u64,
}

impl Missing {
    /// Whether perf and the timer have counted the same.
    #[inline]
    pub fn is_even(&self) -> bool {
        self.balance == 0
    }

    /// Notes periods that the timer has not counted yet.
    #[inline]
    pub fn ahead(&mut self, periods: u64) {
        self.balance = self.balance.saturating_add_unsigned(periods);
    }

    /// Forgets what the timer is ahead: it was accounted for.
    pub fn forget(&mut self) {
        self.balance = self.balance.max(0);
    }

    /// Notes periods that perf delivered.
    #[inline]
    pub fn deliver(&mut self, periods: u64) {
        self.balance = self.balance.wrapping_add_unsigned(periods);
        self.delivered = self.delivered.wrapping_add(periods);
    }

    /// The timer counted `ticks` periods. Returns all that nothing accounts for yet.
    #[inline]
    pub fn all(&mut self, ticks: u64) -> u64 {
        self.balance = self.balance.wrapping_sub_unsigned(ticks);
        let missing = self.debt();
        self.balance = self.balance.max(0);
        missing
    }

    /// As [`Missing::all`], but what this tick shall stand for, which came in the kernel or not and is `of_a_tick` periods long.
    #[inline]
    pub fn share(&mut self, ticks: u64, in_kernel: bool, of_a_tick: u64) -> u64 {
        self.balance = self.balance.wrapping_sub_unsigned(ticks);
        let missing = self.debt();
        let lost = if in_kernel {
            0
        } else {
            self.lost(ticks, of_a_tick)
        };
        // One system call may have lasted for many ticks. Twice their time, or a debt by chance would stay.
        let own = if in_kernel {
            ticks.max(of_a_tick).wrapping_mul(2)
        } else {
            lost
        };
        let excess = missing.saturating_sub(LEFT.wrapping_mul(of_a_tick));
        let share = own.max(excess).min(missing);
        self.balance = self.balance.wrapping_add_unsigned(share);
        share
    }

    #[inline]
    fn debt(&self) -> u64 {
        self.balance.min(0).unsigned_abs()
    }

    /// How many periods of user code perf lost at a tick there, by what it lost of late.
    #[inline]
    fn lost(&mut self, ticks: u64, of_a_tick: u64) -> u64 {
        self.in_user = self.in_user.wrapping_add(ticks);
        if self.in_user < FEW.wrapping_mul(of_a_tick) {
            return 0;
        }
        let delivered = self.delivered.wrapping_mul(PARTS).checked_div(self.in_user);
        let lost = PARTS.saturating_sub(delivered.unwrap_or(PARTS));
        if self.in_user >= MANY.wrapping_mul(of_a_tick) {
            self.in_user /= 2;
            self.delivered /= 2;
        }
        // So much may be chance.
        if lost < PARTS / 10 {
            return 0;
        }
        let lost = self.rest.wrapping_add(ticks.wrapping_mul(lost));
        self.rest = lost % PARTS;
        lost / PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::{LEFT, Missing};

    /// A thread that goes back and forth between user mode and the kernel, in which it is for so much of its time, and a perf that
    /// delivers so much of its periods in user mode. Returns the share of the kernel by the samples, and how many periods were counted.
    fn shown(kernel: f64, delivered: f64, of_a_tick: u64) -> (f64, f64) {
        const PERIODS: u64 = 200_000;
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut missing, mut counted, mut in_kernel) = (Missing::default(), [0, 0], false);
        // In tenths of a period: neither ticks nor samples are in step with what the thread does.
        let mut left = 0.0;
        for tenth in 0..10 * PERIODS {
            if left <= 0.0 {
                in_kernel = random() < kernel;
                left = -3.0 * (1.0 - random()).ln();
            }
            left -= 1.0;
            if tenth % 10 == 3 && !in_kernel && random() < delivered {
                missing.deliver(1);
                counted[0] += 1;
            }
            if tenth % (10 * of_a_tick) == 7 {
                let ticks = if tenth < 10 { 1 } else { of_a_tick };
                let share = missing.share(ticks, in_kernel, of_a_tick);
                counted[usize::from(in_kernel)] += share;
            }
            assert!(
                missing.debt() <= LEFT * of_a_tick + of_a_tick,
                "{missing:?}"
            );
        }
        let all = counted[0] + counted[1];
        (counted[1] as f64 / all as f64, all as f64 / PERIODS as f64)
    }

    #[test]
    fn time_in_the_kernel_is_shown_as_it_was_whatever_perf_loses() {
        for of_a_tick in [2, 4, 40] {
            for kernel in [0.0, 0.02, 0.1, 0.3, 0.5, 0.9] {
                for delivered in [1.0, 0.95, 0.7, 0.5, 0.0] {
                    let (share, counted) = shown(kernel, delivered, of_a_tick);
                    // Less than a tenth may be taken for chance.
                    let unseen = if delivered > 0.9 {
                        1.0 - delivered
                    } else {
                        0.0
                    };
                    assert!(
                        share > kernel - 0.03
                            && share < kernel + 0.03 + unseen
                            && (0.99..1.01).contains(&counted),
                        "{kernel} in the kernel, {delivered} of the rest delivered, {of_a_tick} periods a tick: {share:.3}, {counted:.3} counted"
                    );
                }
            }
        }
    }

    #[test]
    fn a_call_of_many_ticks_has_them_all() {
        let mut missing = Missing::default();
        assert_eq!(missing.share(100, true, 4), 100);
        assert_eq!(
            missing.share(4, false, 4),
            0,
            "the next in the kernel has them"
        );
        assert_eq!(missing.share(4, true, 4), 8);
        missing.deliver(3);
        assert_eq!(missing.all(4), 1);
        assert!(missing.is_even());
    }
}
