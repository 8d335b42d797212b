//! A process whose start is deferred, and how it is started when something is to be recorded; see [`crate::lifecycle::deferred_start`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::state;
use crate::state::handed_down::HandedDown;
use crate::sys::lock::without_signals;

/// What starts the process.
static START: HandedDown = HandedDown::none();
/// Set while the process is being started: a handler of the program may want to record something then.
static IS_STARTING: AtomicBool = AtomicBool::new(false);

/// Says what starts the process. Once, in the constructor.
pub fn set_start(start: fn()) {
    START.set(start);
}

/// The start is deferred, in the child of a fork anew.
pub fn set() {
    IS_STARTING.store(false, Ordering::Relaxed);
    state::set(state::State::Deferred);
}

/// Starts the process if that was deferred: something is to be recorded. False when that cannot be, or not in the middle of it.
#[inline]
pub fn start() -> bool {
    if state::is_deferred() {
        start_now();
    }
    state::is_active() && !state::is_deferred() && !IS_STARTING.load(Ordering::Relaxed)
}

#[cold]
#[inline(never)]
fn start_now() {
    without_signals(|| {
        // The process has one thread.
        if state::is_deferred() && !IS_STARTING.swap(true, Ordering::Relaxed) {
            START.call();
            IS_STARTING.store(false, Ordering::Relaxed);
        }
    });
}
