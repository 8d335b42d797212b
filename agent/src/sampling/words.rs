//! The slot of the calling thread: a word of initial-exec TLS.

use crate::sampling::slots::Slot;
use crate::thread_words;

thread_words! {
    /// The calling thread's word.
    fn word() -> *mut *mut Slot = "rsys_sampling_slot"
}

/// The slot of the calling thread, or null.
///
/// # Signal safety
/// Reads the thread's own word.
#[inline]
pub fn slot() -> *mut Slot {
    // SAFETY: the word is valid for the calling thread, and only the thread itself writes it.
    unsafe { *word() }
}

/// Sets the slot of the calling thread.
pub fn set_slot(slot: *mut Slot) {
    // SAFETY: as above.
    unsafe { *word() = slot }
}

/// The slot of the calling thread, if it has one that belongs to it: a thread made by a raw clone may share the words of its maker.
/// Makes a system call.
pub fn own_slot<'a>() -> Option<&'a mut Slot> {
    // SAFETY: slots are never unmapped; the thread's handler uses it only while the thread is interrupted.
    let slot = unsafe { slot().as_mut() }?;
    (slot.clock.tid == crate::sys::gettid()).then_some(slot)
}
