//! Whether a kernel was alone on its GPU, as far as this process knows: what others do is counted with it.
//!
//! The collector decides when all kernels of other queues that were submitted before its end have ended too. Only the collector, under its lock,
//! uses what is here, but for the numbers of kernels.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::events;
use crate::sources::gpu::hsa::kernel_counters;
use crate::sources::gpu::hsa::kernel_counters::gpu::Counting;

/// Ended kernels that are remembered.
const RECENT: usize = 1024;
/// Queues with kernels in flight that are told apart.
const QUEUES: usize = 64;
/// So long before a kernel its counters may have been started, and so long after it they may have been read: 20 µs in ticks of 10 ns.
const MARGIN_TICKS: u64 = 2_000;
/// Kernels in flight that are remembered because others waited for them in vain.
const LONG: usize = 16;
/// A kernel whose fate is not known for so long is recorded without values.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A kernel that has ended, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    /// The queue's number in the trace.
    queue: u32,
    start: u64,
    end: u64,
}

#[derive(Debug)]
struct Known {
    recent: [Interval; RECENT],
    next: usize,
    /// The last end of those that were forgotten.
    forgotten_end: u64,
    /// The first kernel in flight of each queue: the queue's number, and the kernel's. As of the last look.
    oldest: [(u32, u64); QUEUES],
    oldest_used: usize,
    /// There were more queues.
    has_more: bool,
    /// Kernels, as in `oldest`, that outlasted the patience: nothing waits for them any more.
    long: [(u32, u64); LONG],
    next_long: usize,
}

/// What may still run beside a kernel that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbours {
    /// Nothing.
    None,
    /// Kernels that may have begun before its end.
    Some,
    /// One of these takes long.
    TakeLong,
}

/// Which kernels of a GPU run beside which. Zeroes are none.
#[derive(Debug)]
pub struct Beside {
    submitted: AtomicU64,
    /// Kernels that are to give up their values, because a thread that launches needs their commands.
    wanted: AtomicU32,
    known: UnsafeCell<Known>,
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
    /// They cannot be had: its commands may still be executed.
    Lost,
}

impl Beside {
    /// A kernel is submitted: its number on this GPU, from 1 on.
    pub fn submit(&self) -> u64 {
        self.submitted
            .fetch_add(1, Ordering::AcqRel)
            .wrapping_add(1)
    }

    /// The number of the last kernel.
    pub fn newest(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Has so many kernels that wait for others be recorded without values, the oldest first; with 0, no more.
    pub fn want_commands(&self, kernels: u32) {
        self.wanted.store(kernels, Ordering::Relaxed);
    }

    /// Whether the next kernel that waits is to give up its values.
    fn gives_up(&self) -> bool {
        let fewer = |wanted: u32| wanted.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.wanted.fetch_update(set, fetch, fewer).is_ok()
    }

    fn with_known<R>(&self, what: impl FnOnce(&mut Known) -> R) -> R {
        // SAFETY: only the collector gets here, under its lock, and what is done with it does not come here again.
        what(unsafe { &mut *self.known.get() })
    }

    /// A look begins: no kernel is known to be in flight. Only for the holder of the collector's lock.
    pub fn begin_look(&self) {
        self.with_known(|known| (known.oldest_used, known.has_more) = (0, false));
    }

    /// The first kernel in flight of a queue. Only for the holder of the collector's lock.
    pub fn in_flight(&self, queue: u32, sequence: u64) {
        self.with_known(|known| match known.oldest.get_mut(known.oldest_used) {
            Some(place) => {
                *place = (queue, sequence);
                known.oldest_used = known.oldest_used.wrapping_add(1);
            }
            None => known.has_more = true,
        });
    }

    /// A kernel has ended: its ticks. Only for the holder of the collector's lock.
    pub fn ended(&self, queue: u32, (start, end): (u64, u64)) {
        self.with_known(|known| {
            if let Some(place) = known.recent.get_mut(known.next % RECENT) {
                known.forgotten_end = known.forgotten_end.max(place.end);
                *place = Interval { queue, start, end };
                known.next = known.next.wrapping_add(1);
            }
        });
    }

    /// Which kernels of other queues may still be running that were submitted by the time of this number. With `is_late`, they are remembered as long.
    fn neighbours(&self, queue: u32, newest: u64, is_late: bool) -> Neighbours {
        self.with_known(|known| {
            let in_flight = known.oldest.get(..known.oldest_used).unwrap_or(&[]);
            let is_beside = |(other, number): &&(u32, u64)| *other != queue && *number <= newest;
            let mut found = match known.has_more {
                true => Neighbours::Some,
                false => Neighbours::None,
            };
            for kernel in in_flight.iter().filter(is_beside) {
                if known.long.contains(kernel) {
                    return Neighbours::TakeLong;
                }
                found = Neighbours::Some;
                if is_late && let Some(place) = known.long.get_mut(known.next_long % LONG) {
                    *place = *kernel;
                    known.next_long = known.next_long.wrapping_add(1);
                }
            }
            found
        })
    }

    /// Whether a kernel of another queue ran within these ticks.
    fn had_neighbour(&self, queue: u32, (start, end): (u64, u64)) -> bool {
        let (from, to) = (
            start.saturating_sub(MARGIN_TICKS),
            end.saturating_add(MARGIN_TICKS),
        );
        self.with_known(|known| {
            let mut others = known.recent.iter().filter(|other| other.queue != queue);
            known.forgotten_end > from || others.any(|other| other.start < to && other.end > from)
        })
    }
}

impl Counting {
    /// What becomes of the values of a kernel that has ended, with these ticks. Only for the holder of the collector's lock.
    pub fn verdict(&self, queue: u32, (start, end): (u64, u64), now_ns: u64) -> Verdict {
        let beside = &self.gpu().beside;
        let is_first = !self.has_ended();
        if is_first {
            beside.ended(queue, (start, end));
        }
        let (ended_ns, newest) = self.ended(now_ns);
        if !kernel_counters::is_on() {
            return Verdict::Lost;
        }
        // Kernels that were submitted since this look began are in no list yet: the next look has them.
        if is_first {
            return Verdict::Unknown;
        }
        let is_late = now_ns.saturating_sub(ended_ns) > PATIENCE_NS;
        let Some(stopped) = self.stopped() else {
            return match is_late {
                true => Verdict::Lost,
                false => Verdict::Unknown,
            };
        };
        let is_shared = match beside.neighbours(queue, newest, is_late) {
            Neighbours::None => false,
            Neighbours::Some if is_late || beside.gives_up() => true,
            Neighbours::Some => return Verdict::Unknown,
            Neighbours::TakeLong => true,
        };
        if is_shared || beside.had_neighbour(queue, (start, end.max(stopped))) {
            say_neighbour();
            return Verdict::Shared;
        }
        Verdict::Alone
    }
}

/// Says once that values are left out, and what helps.
fn say_neighbour() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        events::note(b"counters of some kernels are left out: kernels of other queues ran beside them; GPU_MAX_HW_QUEUES=1 has HIP use one queue");
    }
}
