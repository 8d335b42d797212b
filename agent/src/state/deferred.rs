//! A process whose start is deferred, and how it is started when something is to be recorded; see [`crate::lifecycle::deferred_start`].

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::state;

/// What starts the process; null until the constructor has run.
static START: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Says what starts the process. Once, in the constructor.
pub fn set_start(start: fn()) {
    START.store(start as *mut (), Ordering::Relaxed);
}

/// Starts the process if that was deferred: something is to be recorded. False when that cannot be.
#[inline]
pub fn start() -> bool {
    if state::is_deferred() {
        start_now();
    }
    state::is_active() && !state::is_deferred()
}

#[cold]
#[inline(never)]
fn start_now() {
    let start = START.load(Ordering::Relaxed);
    if !start.is_null() {
        // SAFETY: `set_start` stored a function of this type.
        unsafe { std::mem::transmute::<*mut (), fn()>(start)() };
    }
}
