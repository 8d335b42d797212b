//! Less than sampling: a process that confines itself, and one in which sampling ends for good.

use std::sync::atomic::{Ordering, fence};

use crate::channel::counters;
use crate::events;
use crate::sampling::slots;
use crate::state::{self, State};
use rsys_wire::layout::Counter;

/// Ends sampling in this process for good: the time cannot be read.
pub fn fall_asleep() {
    slots::for_each_active(|slot| slot.clock.pause());
    counters::set_counter(Counter::Dormant, 1);
    state::set(State::Dormant);
}

/// The sampler is gone, and the process goes on as if it had never been sampled: timers, perf events and shared memory are given back. What each
/// thread has for itself (a signal stack, a few pages) goes with the thread.
///
/// # Signal safety
/// Makes system calls.
pub fn leave() {
    // A child after vfork has the memory of its parent, but not its timers.
    if state::is_own_process() && state::cease() {
        fence(Ordering::SeqCst);
        slots::give_back();
        events::give_back();
    }
}

/// Notes that the process confines itself, or that it failed to. Returns what was noted before.
pub fn confine(confined: bool) -> bool {
    counters::set_counter(Counter::Seccomp, u64::from(confined));
    state::set_confined(confined)
}
