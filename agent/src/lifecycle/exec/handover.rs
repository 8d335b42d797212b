//! What a program would inherit of the agent, and must not: samples that wait, a mask without our signals, our handlers in place of
//! what the program ignores.
//!
//! perf's samples survive exec and would end the next program. (Those of timers are taken away by the kernel, with the timers.)

use crate::sampling::words;
use crate::signals::{self, Ignored, believed};
use crate::state;
use crate::sys;
use crate::sys::calls;

/// What is put back where exec fails.
#[derive(Debug)]
pub struct HandedOver {
    blocked: u64,
    ignored: Ignored,
}

/// The calling thread is about to become another program: its samples come now, and no more come. A child after vfork has none, and
/// its words are the parent's.
///
/// # Signal safety
/// System calls.
pub fn hand_over() -> Option<HandedOver> {
    if !state::is_active() || calls::is_dispatched() || !state::is_own_process() {
        return None;
    }
    if let Some(slot) = words::own_slot() {
        slot.clock.pause_perf();
    }
    let blocked = signals::unblock_ours() | believed::get();
    if blocked != 0 {
        sys::sigmask(libc::SIG_BLOCK, blocked);
    }
    Some(HandedOver {
        blocked,
        ignored: signals::ignore_as_wished(),
    })
}

/// The program was not executed: the thread goes on.
pub fn take_back(handed_over: Option<HandedOver>) {
    let Some(HandedOver { blocked, ignored }) = handed_over else {
        return;
    };
    signals::handle_again(&ignored);
    if blocked != 0 {
        signals::unblock_ours();
    }
    if let Some(slot) = words::own_slot() {
        slot.clock.start_perf();
    }
}

/// Makes a call that starts a process, which inherits the mask that the calling thread believes to have.
pub fn with_own_mask<R>(call: impl FnOnce() -> R) -> R {
    let blocked = believed::get();
    if blocked == 0 || !state::is_active() || calls::is_dispatched() || !state::is_own_process() {
        return call();
    }
    sys::sigmask(libc::SIG_BLOCK, blocked);
    let result = call();
    signals::unblock_ours();
    result
}
