//! Threads that blocked the signal of the samples before they were recorded get that back in their last sample.
//!
//! Where a sampler attaches, it lets that signal through in threads that block it, from outside, and blocks it again when it leaves. If it is killed,
//! nobody can do so but a handler in the thread itself, which returns to the mask that its context holds.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::sampling::slots::{self, Slot};
use crate::sys;

/// How long is waited for samples of threads that run: periods of the slowest rates, on a busy machine. Almost always some ticks of the kernel do.
const PATIENCE_NS: u64 = 10_000_000_000;

/// CPU time that no sample takes.
const MOST_IN_HANDLER_NS: u64 = 2_000_000;

/// Whether samples are the last ones.
static ARE_LAST: AtomicBool = AtomicBool::new(false);

/// Has threads that run block the signal again if they did before. Those that sleep are as they are: nothing reaches them without interrupting them.
pub fn close_masks() {
    ARE_LAST.store(true, Ordering::Release);
    let begin_ns = sys::monotonic_ns();
    let mut nap_ns = 1_000_000;
    while is_any_open() && sys::monotonic_ns().saturating_sub(begin_ns) < PATIENCE_NS {
        sys::nap(nap_ns);
        nap_ns = (nap_ns * 2).min(50_000_000);
    }
    ARE_LAST.store(false, Ordering::Release);
}

/// Whether a thread that is about to take a sample has not given its mask back.
fn is_any_open() -> bool {
    let mut any = false;
    slots::for_each_active(|slot| {
        any |= slot.blocked_before.load(Ordering::Relaxed)
            && sys::thread_state(slot.clock.tid).is_some_and(|thread| {
                if thread.blocked & sys::bit(SAMPLE_SIGNAL) == 0 {
                    slot.used_in_handler_ns.store(0, Ordering::Relaxed);
                    !thread.sleeps()
                } else {
                    thread.runs() && may_be_in_handler(slot)
                }
            });
    });
    any
}

/// A thread that blocks the signal may be in our handler, having seen that its sample is not the last one: until it has used the processor for longer.
fn may_be_in_handler(slot: &Slot) -> bool {
    let used_ns = sys::cpu_ns_of_thread(slot.clock.tid).max(1);
    let since_ns = match slot.used_in_handler_ns.load(Ordering::Relaxed) {
        0 => used_ns,
        since_ns => since_ns,
    };
    slot.used_in_handler_ns.store(since_ns, Ordering::Relaxed);
    used_ns - since_ns < MOST_IN_HANDLER_NS
}

/// A sample by the timer with this value is over, and its handler about to return to `context`.
///
/// # Signal safety
/// Atomics, and a store into the context.
///
/// # Safety
/// In the handler, with its third argument.
#[inline]
pub unsafe fn after_sample(value: u64, context: *mut c_void) {
    if !ARE_LAST.load(Ordering::Relaxed) {
        return;
    }
    let value = std::ptr::with_exposed_provenance_mut(value as usize);
    let Some(slot) = slots::look_up(value) else {
        return;
    };
    // SAFETY: an active slot, of which an atomic is used.
    if unsafe { (*slot).blocked_before.swap(false, Ordering::Relaxed) } {
        let machine = context.cast::<libc::ucontext_t>();
        // SAFETY: the kernel's context; its signal set is the first eight bytes of a sigset_t.
        unsafe { *(&raw mut (*machine).uc_sigmask).cast::<u64>() |= sys::bit(SAMPLE_SIGNAL) };
    }
}
