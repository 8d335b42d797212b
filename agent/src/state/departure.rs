//! The sampler has ended before the process; what is done then is in [`crate::lifecycle::dormancy`].

use crate::state::handed_down::HandedDown;

static LEAVE: HandedDown = HandedDown::none();

/// Says what ends the sampling of this process for good. Once, in the constructor.
pub fn set_leave(leave: fn()) {
    LEAVE.set(leave);
}

/// The sampler is gone: nothing is recorded in this process any more, and what was taken for that is given back.
///
/// # Signal safety
/// Makes system calls, once in a process.
pub fn leave() {
    LEAVE.call();
}
