//! Threads that no hook of ours has seen begin: those that were there before us, and those that are made past the hooks.
//!
//! They get their timers from our own thread: nothing is sent to them, and so no system call of theirs is interrupted. Their first sample comes
//! when they have used the processor for a period.

use std::sync::atomic::Ordering;

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::sampling::{adopt, slots};
use crate::sys;

/// A thread that has used less has perhaps not come to the point where it gives itself a clock.
const BEGUN_NS: u64 = 2_000_000;

/// Gives all threads a timer but the calling one. Until no new one is found: the hooks do not see yet which are made.
pub fn adopt_all() {
    loop {
        let mut found = false;
        sys::for_each_thread(|tid| found |= adopt_one(tid));
        if !found {
            return;
        }
    }
}

fn adopt_one(tid: u32) -> bool {
    if tid == sys::gettid() || slots::has_thread(tid) {
        return false;
    }
    let Some(slot) = slots::claim_for(tid) else {
        return false;
    };
    // The sampler lets it through from now on.
    let blocks =
        sys::thread_state(tid).is_some_and(|thread| thread.blocked & sys::bit(SAMPLE_SIGNAL) != 0);
    slot.blocked_before.store(blocks, Ordering::Relaxed);
    adopt::record_other(slot);
    true
}

/// What is known from the last look.
#[derive(Debug, Default)]
pub struct Known {
    looks: u32,
}

impl Known {
    /// Looks for threads that work without a timer.
    pub fn look(&mut self) {
        sys::for_each_thread(|tid| {
            if tid != sys::gettid()
                && !slots::has_thread(tid)
                && sys::cpu_ns_of_thread(tid) > BEGUN_NS
            {
                adopt_one(tid);
            }
        });
        // No hook sees them end.
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(20) {
            slots::reclaim();
        }
    }
}
