use rsys_wire::layout::{Counter, SAMPLER_GONE, SegmentHeader};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sys;

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

/// Whether the sampler has ended or was killed, so that the rings have no reader. The process stops recording then; see [`crate::state::departure`].
///
/// # Signal safety
/// Atomic loads.
#[inline]
pub fn is_sampler_gone() -> bool {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.is_some_and(|header| header.sampler.load(Ordering::Relaxed) & SAMPLER_GONE != 0)
}

/// Sleeps until the sampler has left, at most for a time.
pub fn wait_for_departure(ns: u64) {
    // SAFETY: as in `count`.
    let Some(header) = (unsafe { COUNTERS.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let now = header.sampler.load(Ordering::Relaxed);
    if now & SAMPLER_GONE == 0 {
        sys::futex_wait_shared(&header.sampler, now, ns);
    }
}

/// Whether the sampler has taken this process in, and so [`is_sampler_gone`] will be true when it ends.
pub fn has_sampler() -> bool {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.is_some_and(|header| header.sampler.load(Ordering::Relaxed) != 0)
}

/// Changes while the sampler works.
pub fn sampler_work() -> u64 {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.map_or(0, |header| header.work.load(Ordering::Relaxed))
}

/// The process is about to execute a program: waits until no signal of the sampler's is under way, and none is sent from now on. (The new program
/// would die of it.)
///
/// # Signal safety
/// Atomic operations and system calls.
pub fn before_exec() {
    /// A sampler that was stopped in the middle must not hold up the program.
    const PATIENCE_NS: u64 = 100_000_000;
    // SAFETY: as in `count`.
    let Some(header) = (unsafe { COUNTERS.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let begin_ns = sys::boottime_ns();
    // Either we see that the sampler asks, or it sees this.
    header.executing_ns.store(begin_ns, Ordering::SeqCst);
    while header.asking.load(Ordering::SeqCst) != 0
        && sys::boottime_ns().saturating_sub(begin_ns) < PATIENCE_NS
    {
        // Nobody wakes us: it takes microseconds.
        sys::futex_wait(&header.asking, 1, 50_000);
    }
    // A signal that is pending comes at the end of a system call, when there still is a handler.
    sys::gettid();
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
