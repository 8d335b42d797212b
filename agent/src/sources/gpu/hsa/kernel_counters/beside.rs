//! Whether a kernel was alone on its GPU, as far as this process knows: what others do is counted with it.
//!
//! A GPU belongs to one queue as long as all kernels in flight are of that queue. A kernel of another queue makes it shared, until none is in flight any
//! more. Values count of kernels that were in flight only while the GPU was not shared.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::events;
use crate::sources::gpu::hsa::kernel_counters;
use crate::sources::gpu::hsa::kernel_counters::gpu::Counting;

/// Time after which counters that have not stopped behind their kernel are lost.
const PATIENCE_NS: u64 = 1_000_000_000;
/// In place of a queue's number plus one: kernels of several queues are in flight.
const SHARED: u64 = 0xffff_ffff;
/// [`Beside::submit`] of a kernel that is submitted to a shared GPU.
const NEVER_ALONE: u64 = u64::MAX;

/// Which kernels are in flight on a GPU. Zeroes are none.
#[derive(Debug)]
pub struct Beside {
    /// The number of the queue that has the GPU, plus one, in the upper half; in the lower half how many kernels are in flight.
    in_flight: AtomicU64,
    /// How often a kernel came beside those of another queue.
    times_shared: AtomicU64,
}

/// What is found out about the values of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not yet.
    Unknown,
    /// They are those of this kernel alone.
    Alone,
    /// They are not: its commands are free.
    Shared,
    /// They are lost: its commands may still be executed.
    Lost,
}

impl Beside {
    /// A kernel is about to be submitted to a queue, and is in flight until [`Self::done`]. Returns a number, never 0, for [`Self::was_alone`].
    pub fn submit(&self, queue: u32) -> u64 {
        let own = u64::from(queue).wrapping_add(1) & SHARED;
        let mut before = self.in_flight.load(Ordering::Acquire);
        let is_shared = loop {
            let (of, count) = (before >> 32, before & SHARED);
            let to = match of {
                _ if count == 0 => own,
                of if of == own => own,
                _ => SHARED,
            };
            let after = to << 32 | count.wrapping_add(1) & SHARED;
            let change = self.in_flight.compare_exchange_weak(
                before,
                after,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match change {
                Ok(_) => break to == SHARED,
                Err(now) => before = now,
            }
        };
        if is_shared {
            self.times_shared.fetch_add(1, Ordering::AcqRel);
            return NEVER_ALONE;
        }
        self.times_shared.load(Ordering::Acquire).wrapping_add(1)
    }

    /// A kernel is not in flight any more.
    pub fn done(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no kernel of another queue has come since one was submitted, which got this number then.
    fn was_alone(&self, number: u64) -> bool {
        number == self.times_shared.load(Ordering::Acquire).wrapping_add(1)
    }
}

impl Counting {
    /// What becomes of the values of a kernel that has ended; `number` is what it got when it was submitted. Only for the holder of the collector's lock.
    pub fn verdict(&self, number: u64, now_ns: u64) -> Verdict {
        let ended_ns = self.ended(now_ns);
        if !kernel_counters::is_on() {
            return Verdict::Lost;
        }
        if self.stopped().is_none() {
            return match now_ns.saturating_sub(ended_ns) > PATIENCE_NS {
                true => Verdict::Lost,
                false => Verdict::Unknown,
            };
        }
        if self.gpu().beside.was_alone(number) {
            return Verdict::Alone;
        }
        say_neighbour();
        Verdict::Shared
    }
}

/// Says once that values are left out, and what helps.
fn say_neighbour() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        events::note(b"counters of some kernels are left out: kernels of other queues ran beside them; GPU_MAX_HW_QUEUES=1 has HIP use one queue");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_alone_while_no_other_queue_has_one_in_flight() {
        let beside = Beside {
            in_flight: AtomicU64::new(0),
            times_shared: AtomicU64::new(0),
        };
        let [first, second] = [beside.submit(3), beside.submit(3)];
        assert!(beside.was_alone(first) && beside.was_alone(second));
        beside.done();
        let other = beside.submit(0);
        for number in [first, second, other] {
            assert!(!beside.was_alone(number));
        }
        beside.done();
        assert!(
            !beside.was_alone(beside.submit(0)),
            "one is still in flight"
        );
        (0..2).for_each(|_| beside.done());
        assert!(beside.was_alone(beside.submit(0)), "all were done");
    }
}
