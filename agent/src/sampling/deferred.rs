//! The timer of a process whose start is deferred: its first signal starts the process.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::sampling::slots::Slot;
use crate::state::deferred;

/// The kernel's id of the timer, or -1.
pub static TIMER: AtomicI32 = AtomicI32::new(-1);

/// The slot that the timer belongs to since the start.
pub static SLOT: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// What the signals of the timer carry: no address of a slot.
#[inline]
pub fn mark() -> *mut c_void {
    (&raw const TIMER).cast_mut().cast()
}

/// The slot of the thread whose first timer expired. Makes system calls, once in a process.
#[inline]
pub fn slot_of_timer(timer: c_int) -> Option<*mut Slot> {
    if timer != TIMER.load(Ordering::Relaxed) {
        return None;
    }
    deferred::start();
    let slot = SLOT.load(Ordering::Relaxed);
    // SAFETY: slots are never unmapped.
    let valid = unsafe { slot.as_ref() }.is_some_and(|slot| {
        // The thread may have ended, and another have its slot.
        slot.clock.is_timer(timer) && slot.active.load(Ordering::Relaxed)
    });
    valid.then_some(slot)
}
