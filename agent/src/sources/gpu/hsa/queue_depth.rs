//! How full the runtime's own queue is behind an intercepted one, as far as is known.
//!
//! Runtimes up to 5.5 do not expect a second packet while they keep one that found no room there: they abort, or stand still for ever. Those that break when
//! they take many packets at once ([`crate::sources::gpu::hsa::doorbell`]) take whatever waits when there is room again.
//! So their queues are made large, and a thread that fills one nevertheless waits, as a program without us does when its queue is full.
//! How far the GPU has come is known from the packets whose signals are watched. Where many in a row are not, because they share a
//! signal or are not recorded, a packet that does nothing but complete a signal of ours is put among them.
//! Where kernels are counted, four or five packets come of each: then all queues are made large.
//! (`tests/tests/gpu/hsa.rs`: `old_queues_never_overflow`.)

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::sources::gpu::hsa::Layout;
use crate::sources::gpu::hsa::doorbell;
use crate::sources::gpu::hsa::kernel_counters;
use crate::sys;
use crate::sys::apart::Apart;

/// Packets that a queue of such a runtime holds at least.
const LEAST_SIZE: u32 = 4096;
/// A queue that is nearly full is waited for so long: programs may expect to be able to submit more while a kernel waits for them.
const PATIENCE_NS: u64 = 1_000_000_000;
const NAP_NS: u64 = 20_000;

/// How full one queue is, as far as is known.
#[derive(Debug)]
pub struct QueueDepth {
    /// Packets that the queue holds at most.
    size: AtomicU32,
    /// Packets that were written on.
    written: AtomicU64,
    /// The last of them that is watched.
    watched: AtomicU64,
    /// The last that is known to be over.
    over: Apart<AtomicU64>,
    /// Waiting was of no use: a kernel takes long. Only a full queue is waited for.
    hopeless: AtomicBool,
}

/// Whether queues must not get full: those of this runtime, or any where several packets come of one.
pub fn is_needed() -> bool {
    is_old() || kernel_counters::is_on()
}

/// Whether the runtime is one whose queues must not get full.
fn is_old() -> bool {
    crate::sources::gpu::hsa::layout() == Layout::UpTo55 || doorbell::is_needed()
}

/// The size to make a queue with, where `wished` is asked for; and the one if the runtime refuses that.
///
/// Where kernels are counted, as many packets of the program's fit as without us, and the commands around those that are counted.
pub fn sizes(wished: u32) -> [u32; 2] {
    let most = wished.max(LEAST_SIZE);
    let size = if is_old() { most } else { wished };
    if kernel_counters::is_on() {
        [most.saturating_mul(2), size]
    } else {
        [size; 2]
    }
}

impl QueueDepth {
    /// That of no queue.
    pub const fn none() -> Self {
        Self {
            size: AtomicU32::new(0),
            written: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            over: Apart(AtomicU64::new(0)),
            hopeless: AtomicBool::new(false),
        }
    }

    /// That of a new queue.
    pub fn reset(&self, size: u32) {
        for counter in [&self.written, &self.watched, &self.over.0] {
            counter.store(0, Ordering::Relaxed);
        }
        self.hopeless.store(false, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// One more packet is written on. Under the queue's lock, as all calls of the handler of packets.
    pub fn written(&self) {
        let number = self.written.load(Ordering::Relaxed).wrapping_add(1);
        self.written.store(number, Ordering::Relaxed);
    }

    /// The number of the last packet.
    pub fn number(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// It will be reported when the packet with this number is over.
    pub fn is_watched(&self, number: u64) {
        self.watched.store(number, Ordering::Relaxed);
    }

    /// The packet with this number is over.
    pub fn is_over(&self, number: u64) {
        self.over.0.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether a sixteenth of the queue was written without a watched packet, so that the next one is watched.
    pub fn wants_mark(&self) -> bool {
        let since = self
            .written
            .load(Ordering::Relaxed)
            .saturating_sub(self.watched.load(Ordering::Relaxed));
        since >= u64::from(self.size.load(Ordering::Relaxed)) / 16
    }

    /// The last packet that is watched.
    pub fn watched(&self) -> u64 {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether more than `sixteenths` of the queue's size may be pending, with this watched packet among them that reports their end.
    fn is_beyond(&self, sixteenths: u64, watched: u64) -> bool {
        let over = self.over.0.load(Ordering::Acquire);
        let room = u64::from(self.size.load(Ordering::Relaxed)) / 16 * sixteenths;
        self.written.load(Ordering::Relaxed).saturating_sub(over) > room && watched > over
    }

    /// Waits until there is room, as far as is known. `watched` is the last watched packet that the GPU has already: those that are about to be written
    /// do not end before this returns. `wake` has the collector look.
    pub fn wait(&self, watched: u64, wake: impl Fn()) {
        const NEARLY_FULL: u64 = 12;
        const FULL: u64 = 15;
        if !self.is_beyond(NEARLY_FULL, watched) {
            return;
        }
        let since = sys::boottime_ns();
        while crate::sources::gpu::hsa::is_recording() {
            let hopeless = self.hopeless.load(Ordering::Relaxed);
            let sixteenths = if hopeless { FULL } else { NEARLY_FULL };
            if !self.is_beyond(sixteenths, watched) {
                return;
            }
            if !hopeless && sys::boottime_ns().saturating_sub(since) > PATIENCE_NS {
                self.hopeless.store(true, Ordering::Relaxed);
            }
            wake();
            sys::nap(NAP_NS);
        }
    }
}
