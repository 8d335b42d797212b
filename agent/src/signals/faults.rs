//! Walks in a thread that is handling a fault.
//!
//! The kernel blocks a fault's signal while its handler runs, the program's as well as ours, which stands in front. A guarded read
//! that faults would kill then. So the signal is let through for the time of the walk, which goes on from the handler into the code
//! that faulted. One that was sent meanwhile by `kill` is not taken now: it is sent again when the walk is over, and waits as it would have.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::state;
use crate::sys;
use crate::thread_words;

/// What a walk holds open in the calling thread.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Signals that the thread blocks, and that we let through.
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
    send_again(std::mem::take(&mut words.held_back));
}

fn send_again(signals: u64) {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, SAMPLE_SIGNAL] {
        if signals & sys::bit(signal) != 0 {
            sys::tgkill(sys::gettid(), signal);
        }
    }
}

/// Lets signals of ours through that a thread has inherited blocked. Those that wait there already are the program's, and go on waiting.
pub fn open_inherited(blocked: u64) {
    // SAFETY: the thread's own words.
    let words = unsafe { &mut *words() };
    words.let_through = blocked;
    sys::sigmask(libc::SIG_UNBLOCK, blocked);
    words.let_through = 0;
    let waiting = std::mem::take(&mut words.held_back);
    if waiting != 0 {
        sys::sigmask(libc::SIG_BLOCK, waiting);
        send_again(waiting);
    }
}

/// Keeps a signal that was sent for later, if the thread has blocked it and is only letting it through.
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
