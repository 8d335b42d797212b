//! Who records GPU operations: the HIP source or the HSA source. Never both, or each kernel would be recorded twice.

use std::sync::atomic::{AtomicBool, Ordering};

static HIP: AtomicBool = AtomicBool::new(false);
static HSA: AtomicBool = AtomicBool::new(false);

/// Whether HIP reports the operations of its queues: then no other source may record them.
#[inline]
pub fn is_hip() -> bool {
    HIP.load(Ordering::Acquire)
}

/// Says whether HIP does. Does not change while HIP has operations whose reports we asked for.
pub fn set_hip(records: bool) {
    HIP.store(records, Ordering::Release);
}

/// Whether operations are recorded at the queues of the HSA runtime.
#[inline]
pub fn is_hsa() -> bool {
    HSA.load(Ordering::Acquire)
}

/// Says whether they are.
pub fn set_hsa(records: bool) {
    HSA.store(records, Ordering::Release);
}
