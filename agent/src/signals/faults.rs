//! Walks in a thread that is handling a fault.
//!
//! The kernel blocks a fault's signal while its handler runs, the program's as well as ours, which stands in front. A guarded read
//! that faults would kill then. So the signal is let through for the time of the walk, which goes on from the handler into the code
//! that faulted. One that was sent meanwhile by `kill` is not taken now: it is sent again when the walk is over, and waits as it would have.

use std::ffi::c_int;

use crate::state;
use crate::sys;
use crate::thread_words;

/// What a walk holds open in the calling thread.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Fault signals that the thread blocks, and that the walk lets through.
    let_through: u64,
    /// Those of them that were sent meanwhile.
    held_back: u64,
}

thread_words! {
    /// The calling thread's words.
    fn words() -> *mut Words = "rsys_fault_words"
}

/// SIGSEGV and SIGBUS, as a kernel set.
const FAULTS: u64 = sys::bit(libc::SIGSEGV) | sys::bit(libc::SIGBUS);

/// Lets the fault signals through of those that were `blocked` in the sampled code. Returns whether guarded reads are safe now.
///
/// # Signal safety
/// One system call where one is blocked, none else.
#[inline]
pub fn let_through(blocked: u64) -> bool {
    blocked & FAULTS == 0 || (!state::is_confined() && open(blocked & FAULTS))
}

#[inline(never)]
fn open(blocked: u64) -> bool {
    // SAFETY: the thread's own words.
    unsafe { (*words()).let_through = blocked };
    sys::sigmask(libc::SIG_UNBLOCK, blocked);
    true
}

/// Ends what [`let_through`] began.
///
/// # Signal safety
/// A system call where one is to be blocked again, and one for each signal that came meanwhile.
#[inline]
pub fn block_again() {
    // SAFETY: the thread's own words.
    if unsafe { (*words()).let_through } != 0 {
        close();
    }
}

#[inline(never)]
fn close() {
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    sys::sigmask(libc::SIG_BLOCK, words.let_through);
    words.let_through = 0;
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        if words.held_back & sys::bit(signal) != 0 {
            sys::tgkill(sys::gettid(), signal);
        }
    }
    words.held_back = 0;
}

/// Keeps a fault signal that was sent for later, if the thread has blocked it and only a walk lets it through.
///
/// # Signal safety
/// Writes the thread's own words.
pub fn hold_back(signal: c_int) -> bool {
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    let is_early = words.let_through & sys::bit(signal) != 0;
    if is_early {
        words.held_back |= sys::bit(signal);
    }
    is_early
}
