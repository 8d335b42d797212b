use rsys_wire::layout::{Counter, SegmentHeader};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The header of segment 0, which holds the process-wide counters.
pub static COUNTERS: AtomicPtr<SegmentHeader> = AtomicPtr::new(std::ptr::null_mut());

/// Counts something for the whole process.
///
/// # Signal safety
/// Atomic loads and one addition.
pub fn count(counter: Counter, by: u64) {
    // SAFETY: the header lies in a mapping that stays until a fork child replaces the pointer.
    if let Some(header) = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() } {
        header.count(counter, by);
    }
}

/// Before this time (CLOCK_BOOTTIME) the sampler wants no samples.
///
/// # Signal safety
/// Atomic loads.
#[inline]
pub fn quiet_until_ns() -> u64 {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.map_or(0, |header| header.quiet_until_ns.load(Ordering::Relaxed))
}

/// Changes while the sampler works.
pub fn sampler_work() -> u64 {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.map_or(0, |header| header.work.load(Ordering::Relaxed))
}

/// Sets a process-wide counter.
pub fn set_counter(counter: Counter, value: u64) {
    // SAFETY: as in `count`.
    if let Some(header) = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() } {
        header.set(counter, value);
    }
}

/// Counts a signal that no thread can be found for.
pub fn count_unattributed() {
    count(Counter::Unattributed, 1);
}
