//! SIGTRAP in the masks of the program's own handlers.
//!
//! Where SIGTRAP brings samples it must not be blocked while memory may be read in vain ([`crate::clocks::perf`]): the program's handlers
//! may do so as well as our walks in them. The kernel gets their masks without it; the program is told what it asked for.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clocks::perf;
use crate::signals::sets;
use crate::sys;

/// The signals (bit n - 1: signal n) in whose handlers the program believes SIGTRAP blocked.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// A mask for the kernel.
pub fn without_traps(mask: u64) -> u64 {
    if perf::uses_traps() {
        mask & !sys::bit(libc::SIGTRAP)
    } else {
        mask
    }
}

/// `sigaction` for a signal that is not ours: `real` is the C library's.
///
/// # Safety
/// `new` and `old` must be null or valid.
pub unsafe fn exchange(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
    real: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
) -> c_int {
    let bit = match signal {
        1..=64 if perf::uses_traps() => sys::bit(signal),
        // SAFETY: the caller's own arguments.
        _ => return unsafe { real(signal, new, old) },
    };
    let trap = sys::bit(libc::SIGTRAP);
    let believed = ASKED.load(Ordering::Relaxed) & bit != 0;
    // SAFETY: null or valid, as the caller says.
    let asked = unsafe { new.as_ref() }.map(|new| sets::set_of(&new.sa_mask) & trap != 0);
    let changed = asked.unwrap_or(false).then(|| {
        // SAFETY: not null, or nothing would have been asked.
        let mut open = unsafe { *new };
        open.sa_mask = sets::sigset(sets::set_of(&open.sa_mask) & !trap);
        open
    });
    let new = changed.as_ref().map_or(new, |open| &raw const *open);
    // SAFETY: the caller's own arguments, or a structure of ours.
    let result = unsafe { real(signal, new, old) };
    if result != 0 {
        return result;
    }
    match asked {
        Some(true) => _ = ASKED.fetch_or(bit, Ordering::Relaxed),
        Some(false) => _ = ASKED.fetch_and(!bit, Ordering::Relaxed),
        None => {}
    }
    // SAFETY: null or valid, as the caller says.
    if believed && let Some(old) = unsafe { old.as_mut() } {
        old.sa_mask = sets::sigset(sets::set_of(&old.sa_mask) | trap);
    }
    result
}
