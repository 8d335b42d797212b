//! The GPUs' clock: ticks that are computed from CLOCK_BOOTTIME.

use crate::settings;

/// Converts between ticks and CLOCK_BOOTTIME.
#[derive(Debug, Clone)]
pub struct Clock {
    origin_ns: i64,
    /// Ticks per nanosecond, in units of 2^-64, rounded up.
    ticks_per_ns: u128,
    /// Nanoseconds per tick, in units of 2^-64, rounded up.
    ns_per_tick: u128,
}

/// CLOCK_BOOTTIME in nanoseconds.
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CLOCK_MONOTONIC_RAW in nanoseconds.
pub fn monotonic_raw_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result; these clocks exist on every Linux that ROCm runs on.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Clock {
    /// The clock with these settings.
    pub fn new(settings: &settings::Clock) -> Self {
        // In millionths of a hertz, so that a drift of 0.01 ppm still counts at 100 MHz.
        let rate = f64::mul_add(
            settings.frequency_hz as f64,
            settings.drift_ppm,
            settings.frequency_hz as f64 * 1e6,
        ) as u128;
        Self {
            origin_ns: settings.origin_ns,
            ticks_per_ns: (rate << 64).div_ceil(1_000_000_000_000_000),
            ns_per_tick: (1_000_000_000_000_000_u128 << 64).div_ceil(rate),
        }
    }

    /// The last tick at or before this time.
    pub fn ticks(&self, boottime_ns: u64) -> u64 {
        let elapsed = boottime_ns.wrapping_sub(self.origin_ns.cast_unsigned());
        multiply(elapsed, self.ticks_per_ns)
    }

    /// The first tick at or after this time.
    pub fn ticks_after(&self, boottime_ns: u64) -> u64 {
        let tick = self.ticks(boottime_ns);
        if self.nanoseconds(tick) < boottime_ns {
            tick + 1
        } else {
            tick
        }
    }

    /// The first nanosecond at or after a tick.
    pub fn nanoseconds(&self, tick: u64) -> u64 {
        multiply_up(tick, self.ns_per_tick).wrapping_add(self.origin_ns.cast_unsigned())
    }

    /// How many ticks a duration has; at least one.
    pub fn duration_ticks(&self, nanoseconds: u64) -> u64 {
        multiply(nanoseconds, self.ticks_per_ns).max(1)
    }
}

/// `value * factor / 2^64`, for a factor of up to 2^96.
fn multiply(value: u64, factor: u128) -> u64 {
    let low = u128::from(value) * (factor & u128::from(u64::MAX));
    let high = u128::from(value) * (factor >> 64);
    (high + (low >> 64)) as u64
}

/// As [`multiply`], rounded up.
fn multiply_up(value: u64, factor: u128) -> u64 {
    let low = u128::from(value) * (factor & u128::from(u64::MAX));
    let rest = low & u128::from(u64::MAX);
    multiply(value, factor) + u64::from(rest > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frequency_hz: u64, drift_ppm: f64) -> Clock {
        Clock::new(&settings::Clock {
            frequency_hz,
            drift_ppm,
            origin_ns: -1_000_000_000_000,
        })
    }

    #[test]
    fn a_tick_of_100_mhz_is_ten_nanoseconds() {
        let clock = clock(100_000_000, 0.0);
        for ns in [0, 9, 10, 11, 123_456_789_010, 9_000_000_000_000_000] {
            assert_eq!(clock.ticks(ns), (ns + 1_000_000_000_000) / 10, "{ns}");
        }
        assert_eq!(clock.duration_ticks(2000), 200);
        assert_eq!(clock.ticks_after(11), clock.ticks(10) + 1);
        assert_eq!(clock.ticks_after(10), clock.ticks(10));
    }

    #[test]
    fn there_and_back_is_the_same_tick() {
        for (frequency, drift) in [
            (100_000_000, 0.0),
            (100_000_000, 50.0),
            (25_000_000, -3.5),
            (99_999_999, 0.01),
        ] {
            let clock = clock(frequency, drift);
            for tick in (1_000_000_000_000..1_000_000_010_000).step_by(7) {
                assert_eq!(
                    clock.ticks(clock.nanoseconds(tick)),
                    tick,
                    "{frequency} {drift}"
                );
            }
        }
    }

    #[test]
    fn drift_makes_it_run_faster() {
        let (exact, fast) = (clock(100_000_000, 0.0), clock(100_000_000, 100.0));
        let elapsed = |clock: &Clock| clock.ticks(10_000_000_000) - clock.ticks(0);
        assert_eq!(elapsed(&fast) - elapsed(&exact), 100_000);
    }
}
