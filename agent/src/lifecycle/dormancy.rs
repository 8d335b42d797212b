//! Less than sampling: a process that confines itself, and one in which sampling ends for good.

use crate::channel::counters;
use crate::sampling::slots;
use crate::state::{self, State};
use rsys_wire::layout::Counter;

/// Ends sampling in this process for good: the time cannot be read.
pub fn fall_asleep() {
    slots::for_each_active(|slot| slot.clock.pause());
    counters::set_counter(Counter::Dormant, 1);
    state::set(State::Dormant);
}

/// Notes that the process confines itself, or that it failed to. Returns what was noted before.
pub fn confine(confined: bool) -> bool {
    counters::set_counter(Counter::Seccomp, u64::from(confined));
    state::set_confined(confined)
}
