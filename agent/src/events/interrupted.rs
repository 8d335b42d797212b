//! Whether a record that is being written will ever be finished.
//!
//! A handler of the program may interrupt it and record something itself, which is dropped, or leave by `siglongjmp`: then the record is abandoned, and
//! its thread must not wait for its end for ever.

use crate::sys;
use crate::sys::signal_stack;

/// Where the stack of any thread is looked for, below its top.
const MOST_STACK_BYTES: usize = 8 << 20;

/// A place in the frame of the caller, or of its caller if this is inlined: frames that are made later lie below.
#[inline(always)]
pub fn frame() -> usize {
    let local = 0_u8;
    std::hint::black_box(&raw const local).addr()
}

/// Whether the frame at `writer` of the calling thread, which was writing a record, is gone, seen from the frame at `here`. Where that is not certain,
/// it is not: on an alternate stack, or on that of a coroutine, another frame may lie above it and yet come after it.
///
/// # Signal safety
/// System calls.
#[cold]
#[inline(never)]
pub fn is_gone(writer: usize, here: usize) -> bool {
    // SAFETY: zero is a valid value.
    let mut alternate: libc::stack_t = unsafe { std::mem::zeroed() };
    let asked = sys::sigaltstack(None, Some(&mut alternate)) == 0;
    let top = own_stack_top();
    asked
        && alternate.ss_flags & libc::SS_ONSTACK == 0
        && !signal_stack::contains(here)
        && here >= writer
        && here < top
        && top - writer <= MOST_STACK_BYTES
}

/// One past the calling thread's own stack.
fn own_stack_top() -> usize {
    if sys::known_tid() == Some(sys::getpid()) {
        // The kernel put the path above all frames.
        return sys::execution_path().map_or(0, |path| path.as_ptr().addr());
    }
    // The C library keeps a thread's block of control at the top of its stack.
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper() -> usize {
        frame()
    }

    #[test]
    fn a_frame_is_gone_when_its_caller_goes_on() {
        let gone = deeper();
        let here = frame();
        assert!(is_gone(gone, here));
        assert!(is_gone(gone, gone), "the same call again");
        assert!(!is_gone(here, gone), "a handler that interrupts it");
        assert!(!is_gone(gone, own_stack_top() + 1), "another stack");
    }
}
