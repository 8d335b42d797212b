//! How far a sampled share may be from the true one.

use crate::shares::Shares;

/// The least number of periods from which shares are judged.
const LEAST_WEIGHT: f64 = 2000.0;

/// The distance that a share `p`, estimated from `samples` samples, may have from the truth: 3.5 standard deviations
/// of a binomial proportion, and one point for what is not chance (calibration, the edges of the run).
#[must_use]
pub fn share_bound(p: f64, samples: f64) -> f64 {
    3.5 * (p * (1.0 - p) / samples.max(1.0)).sqrt() + 0.01
}

/// How often the kernel ticks in a second (its CONFIG_HZ): as often as its coarse clocks go on.
#[must_use]
pub fn kernel_ticks_per_second() -> f64 {
    let mut tick = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    1e9 / tick.tv_nsec as f64
}

/// Fails unless the share of time in a function itself is within [`share_bound`] of the expected one.
///
/// On a busy machine a sample stands for several periods; the bound then knows that there were fewer draws.
#[track_caller]
pub fn assert_share(what: &str, shares: &Shares, function: &str, expected: f64) {
    judge(
        what,
        shares,
        function,
        shares.self_share(function),
        expected,
    );
}

/// As [`assert_share`], of the time in the function and in what it calls: system calls belong to it.
#[track_caller]
pub fn assert_total_share(what: &str, shares: &Shares, function: &str, expected: f64) {
    judge(
        what,
        shares,
        function,
        shares.total_share(function),
        expected,
    );
}

#[track_caller]
fn judge(what: &str, shares: &Shares, function: &str, measured: f64, expected: f64) {
    let (weight, draws) = (shares.weight, shares.draws());
    assert!(
        weight >= LEAST_WEIGHT,
        "{what}: {weight} weighted samples are too few to judge shares"
    );
    let bound = share_bound(expected, draws);
    assert!(
        (measured - expected).abs() <= bound,
        "{what}: {function} has {:.2} %, expected {:.2} % ± {:.2} ({draws:.0} draws)",
        100.0 * measured,
        100.0 * expected,
        100.0 * bound,
    );
}
