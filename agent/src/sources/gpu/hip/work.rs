//! What work the program has given to which GPUs, as far as the end of the process needs to know.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::sources::gpu::helper;
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::words;

/// GPUs that were given work, by HIP's numbers. Others must be left alone at the end: to synchronise one makes HIP 5 compile code for it first, with
/// a compiler that may be gone by then (`tests/tests/gpu/hip.rs`: `gpus_without_work_are_left_alone`).
static USED: AtomicU64 = AtomicU64::new(0);
/// Whether the program gave a GPU work since the last synchronisation of ours.
static HAS_WORK: AtomicBool = AtomicBool::new(false);
/// Streams that were destroyed: another one may have the handle now.
static DESTROYED: AtomicU64 = AtomicU64::new(0);

/// Handles up to this are names of streams of the thread's GPU.
const LAST_NAME: u64 = 2;

/// A stream is destroyed.
pub fn note_destroyed() {
    DESTROYED.fetch_add(1, Ordering::Relaxed);
}

/// The thread makes another GPU its own.
#[inline]
pub fn note_switch() {
    words::set_noted_stream(0);
}

/// The program gives a stream work, or null the thread's GPU.
#[inline]
pub fn note_work(stream: u64) {
    if !HAS_WORK.load(Ordering::Relaxed) {
        HAS_WORK.store(true, Ordering::Relaxed);
        helper::park();
    }
    // Addresses have 47 bits.
    let noted = (DESTROYED.load(Ordering::Relaxed) << 48 | stream).wrapping_add(1);
    if words::noted_stream() != noted {
        words::set_noted_stream(noted);
        note_device_of(stream);
    }
}

#[cold]
fn note_device_of(stream: u64) {
    // A HIP that does not say has the first at least.
    let bit = 1_u64.checked_shl(device_of(stream).unwrap_or(0));
    USED.fetch_or(bit.unwrap_or(0), Ordering::Relaxed);
}

/// The GPU of a stream, by HIP's number.
fn device_of(stream: u64) -> Option<u32> {
    let mut device: c_int = -1;
    words::set_asking(true);
    // SAFETY: HIP takes any handle, and a place for a number.
    unsafe {
        match hip_functions::stream_device::get() {
            Some(device_of) if stream > LAST_NAME => {
                device = device_of(std::ptr::with_exposed_provenance(stream as usize));
            }
            _ => {
                if let Some(current) = hip_functions::current_device::get() {
                    current(&raw mut device);
                }
            }
        }
    }
    words::set_asking(false);
    u32::try_from(device).ok()
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
