//! What a program would inherit of the agent, and must not: samples that wait, a mask without their signals, our handlers in place of
//! what the program ignores.
//!
//! perf's samples survive exec and would end the next program. (Those of timers are taken away by the kernel, with the timers.)

use crate::sampling::slots::Slot;
use crate::sampling::words;
use crate::signals::{self, Ignored, believed, program_mask};
use crate::state;
use crate::sys;
use crate::sys::calls;

/// What is put back where exec fails.
#[derive(Debug)]
pub struct HandedOver {
    mask: u64,
    ignored: Ignored,
}

/// Whether what the calling thread hands down is ours to change.
fn may_change() -> bool {
    signals::is_installed() && !calls::is_dispatched()
}

/// The slot of the calling thread, if it is sampled. A child after vfork has the words of its parent.
fn own_slot<'a>() -> Option<&'a mut Slot> {
    if state::is_active() && state::is_own_process() {
        words::own_slot()
    } else {
        None
    }
}

/// The calling thread is about to become another program: its samples come now, and no more come.
///
/// # Signal safety
/// System calls.
pub fn hand_over() -> Option<HandedOver> {
    if !may_change() {
        return None;
    }
    if let Some(slot) = own_slot() {
        slot.clock.pause_perf();
    }
    let mask = program_mask::let_samples_through();
    let blocked = mask & program_mask::of_samples() | believed::with(mask);
    if blocked != 0 {
        sys::sigmask(libc::SIG_BLOCK, blocked);
    }
    Some(HandedOver {
        mask,
        ignored: signals::ignore_as_wished(),
    })
}

/// The program was not executed: the thread goes on.
pub fn take_back(handed_over: Option<HandedOver>) {
    let Some(HandedOver { mask, ignored }) = handed_over else {
        return;
    };
    signals::handle_again(&ignored);
    sys::sigmask(libc::SIG_SETMASK, mask);
    if let Some(slot) = own_slot() {
        slot.clock.start_perf();
    }
}

/// Makes a call that starts a process or a thread, which inherits the mask that the calling thread believes to have: a signal that is sent to a thread before
/// its first instruction must find that mask.
pub fn with_own_mask<R>(call: impl FnOnce() -> R) -> R {
    if believed::is_none() {
        return call();
    }
    let blocked = if may_change() { believed::now() } else { 0 };
    if blocked == 0 {
        return call();
    }
    let mask = sys::sigmask(libc::SIG_BLOCK, blocked);
    let result = call();
    sys::sigmask(libc::SIG_SETMASK, mask);
    result
}

/// The same for a call that starts another program, which inherits also what the process ignores.
pub fn as_handed_down<R>(call: impl FnOnce() -> R) -> R {
    if !may_change() {
        return call();
    }
    let ignored = signals::ignore_as_wished();
    let result = with_own_mask(call);
    signals::handle_again(&ignored);
    result
}
