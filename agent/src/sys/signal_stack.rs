//! The alternate signal stack that a thread has from us where the program has set none: a sample must not need room on a stack that may be tiny.
//!
//! The program's handlers with SA_ONSTACK run there, too. The kernel takes the stack away meanwhile (SS_AUTODISARM): one that is left by a switch of
//! contexts, and gone on with later, finds its frames as they were. It is told to a program that asks, for one that sets a smaller one of its own, as the
//! runtimes of some languages do where there is none, has samples of less depth.

use std::ffi::{c_int, c_void};

use crate::sys;
use crate::thread_words;

/// Room for the largest register state (AMX: 11 KiB), our handler, and a handler of the target's that asks for an alternate stack.
pub const SIGNAL_STACK_BYTES: usize = 256 * 1024;

/// Linux 4.7, `include/uapi/linux/signal.h`; older kernels refuse it.
const SS_AUTODISARM: c_int = 1 << 31;

const NONE: libc::stack_t = libc::stack_t {
    ss_sp: std::ptr::null_mut(),
    ss_flags: libc::SS_DISABLE,
    ss_size: 0,
};

thread_words! {
    /// The lowest address of the stack that the calling thread has from us, or 0.
    fn lowest() -> *mut usize = "rsys_signal_stack"
}

fn is_ours(stack: &libc::stack_t) -> bool {
    // SAFETY: the thread's own word.
    let lowest = unsafe { lowest().read() };
    lowest != 0 && stack.ss_sp.addr() == lowest
}

/// Whether an address lies on the stack that the calling thread has from us.
///
/// # Signal safety
/// Reads a word of the thread.
pub fn contains(address: usize) -> bool {
    // SAFETY: the thread's own word.
    let lowest = unsafe { lowest().read() };
    lowest != 0 && address.wrapping_sub(lowest) < SIGNAL_STACK_BYTES
}

/// Gives the calling thread [`SIGNAL_STACK_BYTES`] from `bottom` on, unless it has a stack of the program's.
#[unsafe(link_section = "rsys_start")]
pub fn enter(bottom: *mut c_void) {
    let mut before = NONE;
    arm(bottom, &mut before);
    if before.ss_flags & libc::SS_DISABLE == 0 && !is_ours(&before) {
        sys::sigaltstack(Some(&before), None);
    }
    // SAFETY: the thread's own word.
    unsafe { lowest().write(bottom.addr()) };
}

#[unsafe(link_section = "rsys_start")]
fn arm(bottom: *mut c_void, before: &mut libc::stack_t) {
    let mut stack = libc::stack_t {
        ss_sp: bottom,
        ss_flags: SS_AUTODISARM,
        ss_size: SIGNAL_STACK_BYTES,
    };
    if sys::sigaltstack(Some(&stack), Some(before)) != 0 {
        stack.ss_flags = 0;
        sys::sigaltstack(Some(&stack), Some(before));
    }
}

/// Takes the stack away again, before another thread gets it.
pub fn leave() {
    let mut before = NONE;
    sys::sigaltstack(Some(&NONE), Some(&mut before));
    if before.ss_flags & libc::SS_DISABLE == 0 && !is_ours(&before) {
        sys::sigaltstack(Some(&before), None);
    }
    // SAFETY: the thread's own word.
    unsafe { lowest().write(0) };
}
