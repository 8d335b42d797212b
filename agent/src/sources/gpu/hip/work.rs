//! What work the program has given to which GPUs, as far as the end of the process needs to know.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// GPUs that were used, by HIP's numbers; the first is everybody's.
static USED: AtomicU64 = AtomicU64::new(1);
/// Whether the program gave a GPU work since the last synchronisation of ours.
static HAS_WORK: AtomicBool = AtomicBool::new(false);

/// A thread uses a GPU.
pub fn note_device(ordinal: u32) {
    if let Some(bit) = 1_u64.checked_shl(ordinal) {
        // Mostly it is known: a load is cheaper than a store that others see.
        if USED.load(Ordering::Relaxed) & bit == 0 {
            USED.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// The program gives a GPU work.
#[inline]
pub fn note_work() {
    if !HAS_WORK.load(Ordering::Relaxed) {
        HAS_WORK.store(true, Ordering::Relaxed);
    }
}

/// Whether there is work that no synchronisation of ours has waited for.
pub fn is_outstanding() -> bool {
    HAS_WORK.load(Ordering::Relaxed)
}

/// All work up to now is waited for.
pub fn note_synchronised() {
    HAS_WORK.store(false, Ordering::Relaxed);
}

/// The GPUs that were used, by HIP's numbers.
pub fn devices() -> impl Iterator<Item = c_int> {
    let used = USED.load(Ordering::Relaxed);
    (0..64).filter(move |ordinal| used >> ordinal & 1 != 0)
}
