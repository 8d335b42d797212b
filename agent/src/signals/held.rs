//! Sample signals that the program sends while it has them blocked.
//!
//! The kernel delivers them, since it never blocks sample signals. Such a signal is then really blocked and sent again: it stays pending, and
//! `sigwait` gets it, until the program unblocks it. Meanwhile the thread gets no samples by that signal.

use std::ffi::c_int;

use crate::signals::again::Sent;
use crate::signals::{believed, faults};
use crate::sys;
use crate::thread_words;

#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Signals that are really blocked for one of them waits.
    held: u64,
    /// Those that the mask of the wait that the thread is in lets through.
    open_in_wait: u64,
    /// Those that have come since that wait began.
    came: u64,
}

thread_words! {
    /// The calling thread's words.
    fn words() -> *mut Words = "rsys_held_signals"
}

/// The signals that are really blocked in the calling thread.
pub fn all() -> u64 {
    // SAFETY: the thread's own words.
    unsafe { (*words()).held }
}

/// Whether a signal that has interrupted code with this mask comes while the program believes it to be blocked.
///
/// # Signal safety
/// Reads the thread's own words.
pub fn is_early(signal: c_int, mask: u64) -> bool {
    // SAFETY: the thread's own words.
    let open = unsafe { (*words()).open_in_wait };
    // Signals of faults that a walk lets through are the program's to block.
    believed::with(mask | faults::opened()) & !open & sys::bit(signal) != 0
}

/// Keeps a signal for later. False where that may not be.
///
/// # Signal safety
/// Some system calls.
pub fn hold_back(sent: Sent, signal: c_int, machine: &mut libc::ucontext_t) -> bool {
    let bit = sys::bit(signal);
    let Some(before) = sys::try_sigmask(libc::SIG_BLOCK, bit) else {
        return false;
    };
    if !sent.send_again() {
        sys::sigmask(libc::SIG_SETMASK, before);
        return false;
    }
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    unsafe { *(&raw mut machine.uc_sigmask).cast::<u64>() |= bit };
    // SAFETY: the thread's own words.
    unsafe { (*words()).held |= bit };
    true
}

/// A signal of the program's has come: none waits any more. Where it was held, samples come again when its handler returns.
pub fn has_come(signal: c_int, machine: &mut libc::ucontext_t) {
    let bit = sys::bit(signal);
    // SAFETY: the thread's own words.
    unsafe { (*words()).came |= bit };
    if all() & bit != 0 {
        forget(bit);
        // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
        unsafe { *(&raw mut machine.uc_sigmask).cast::<u64>() &= !bit };
    }
}

fn forget(signals: u64) {
    // SAFETY: the thread's own words.
    unsafe { (*words()).held &= !signals };
}

/// Lets those of these signals through that are held.
pub fn let_go(signals: u64) {
    let open = all() & signals;
    if open != 0 {
        forget(open);
        sys::sigmask(libc::SIG_UNBLOCK, open);
    }
}

/// The calling thread is about to wait with a mask that lets these signals of samples through. What is held of them comes now, before samples
/// that wait with it could end the wait. Returns whether it did: that is the end of the wait.
pub fn begin_wait(open: u64) -> bool {
    // SAFETY: the thread's own words.
    unsafe {
        (*words()).open_in_wait = open;
        (*words()).came = 0;
    }
    let_go(open);
    // SAFETY: as above.
    unsafe { (*words()).came & open != 0 }
}

/// Ends what [`begin_wait`] began.
pub fn end_wait() {
    // SAFETY: the thread's own words.
    unsafe { (*words()).open_in_wait = 0 };
}

/// Signals that wait do not pass to the child of a fork.
pub fn after_fork_in_child() {
    let_go(u64::MAX);
}
