//! The sampler has left, or was killed: the program gets back what it had.
//!
//! What remains is this library, silent: frames of threads that it has seen begin lie below those of the program, and a handler of the program may
//! be in the middle of a function of ours for as long as it likes.

use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::interpose::late::Hooks;
use crate::lifecycle::{announcement, dormancy};
use crate::sampling::{closing, slots};
use crate::signals;
use crate::state;
use crate::sys;

/// Gives everything back. Waits for samples that have begun, in any thread.
pub fn detach(hooks: &Hooks) {
    counters::set_counter(Counter::CpuTime, announcement::cpu_time_ns());
    // As long as there are timers that bring samples.
    closing::close_masks();
    // A sample may have seen the mark first, and have begun with this.
    dormancy::leave();
    hooks.take_back();
    if !state::is_own_process() {
        return;
    }
    withdraw();
}

/// Waits until no thread takes a sample, which none begins any more, and gives the program its handlers back.
pub fn withdraw() {
    // A sample either saw that the process is dormant, or we see that it is being taken.
    sys::barrier_of_all_threads();
    while slots::any_busy() {
        sys::nap(100_000);
    }
    signals::uninstall();
    // What was on its way meanwhile has come.
    while slots::any_busy() {
        sys::nap(100_000);
    }
    slots::lay_aside();
}
