//! Times of GPU operations, as HIP reports them, in CLOCK_BOOTTIME.
//!
//! What the GPU stamped is in CLOCK_BOOTTIME; what the host finished in the GPU's stead is stamped with CLOCK_MONOTONIC, by the same runtime
//! and without a mark. The two differ by the time that the machine has slept, or by as much as a time namespace says. Where they
//! are far apart, only one reading lies between the call and now.

use crate::sys;

/// How far the translation of GPU time may be beyond now.
const SLACK_NS: u64 = 1_000_000;

/// When something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began, CLOCK_BOOTTIME ns.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What was impossible and has been moved.
    pub moved: Option<&'static [u8]>,
}

/// The span of an operation that was asked for at or after `asked_ns` and has ended by `now` (CLOCK_BOOTTIME ns).
pub fn place(start_ns: u64, end_ns: u64, asked_ns: u64, now: u64) -> Span {
    let is_possible = |start: u64, end: u64| {
        asked_ns <= start && start <= end && end <= now.saturating_add(SLACK_NS)
    };
    if is_possible(start_ns, end_ns) {
        return Span {
            start_ns,
            end_ns,
            moved: None,
        };
    }
    let apart = now.wrapping_sub(sys::monotonic_ns());
    let (start, end) = (start_ns.wrapping_add(apart), end_ns.wrapping_add(apart));
    if start_ns != 0 && is_possible(start, end) {
        return Span {
            start_ns: start,
            end_ns: end,
            moved: None,
        };
    }
    move_into(start_ns, end_ns, asked_ns.min(now), now)
}

/// What cannot be, moved to where it can be: between the call and now, and never at time 0.
fn move_into(start_ns: u64, end_ns: u64, asked_ns: u64, now: u64) -> Span {
    let (start, end, moved): (u64, u64, &'static [u8]) = match (start_ns, end_ns) {
        (0, 0) => (now, now, b"no times"),
        (0, end) => (end, end, b"no start"),
        (start, 0) => (start, start, b"no end"),
        (start, end) if start > end => (end, start, b"ended before it began"),
        (start, end) if end > now => (start, end, b"later than its report"),
        (start, end) => (start, end, b"earlier than its call"),
    };
    Span {
        start_ns: start.clamp(asked_ns, now),
        end_ns: end.clamp(asked_ns, now),
        moved: Some(moved),
    }
}
