//! Kernels whose times are those of something else.
//!
//! A tool that intercepts queues, as rocprofiler-sdk does while it traces kernels, puts a signal of its own on each kernel and has the one that
//! was there completed by a barrier behind it (`WriteInterceptor` in its `hsa/queue.cpp`). HIP reads times from that
//! signal for its tracer and for events, and gets those of the barrier, which takes next to no time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::events;

/// No kernel that a GPU starts and ends is as short as this; barriers are.
const SHORTEST_NS: u64 = 1000;
/// As many kernels in a row from the first on are no accident.
const ENOUGH: u32 = 16;

/// Whether a kernel took time.
static TOOK_TIME: AtomicBool = AtomicBool::new(false);
static INSTANT: AtomicU32 = AtomicU32::new(0);

/// Looks at the times of a kernel, and says once when no kernel takes any.
#[inline]
pub fn look(start_ns: u64, end_ns: u64) {
    if TOOK_TIME.load(Ordering::Relaxed) {
        return;
    }
    if end_ns.saturating_sub(start_ns) >= SHORTEST_NS {
        TOOK_TIME.store(true, Ordering::Relaxed);
    } else if INSTANT.fetch_add(1, Ordering::Relaxed).wrapping_add(1) == ENOUGH {
        say();
    }
}

#[cold]
fn say() {
    const WHY: &[u8] = b"kernels seem to take no time: another tool that traces kernels has put its own signals on them, so the times in the trace are when each ended, not how long it ran";
    events::fact(b"gpu times", WHY);
    events::note(WHY);
}
