//! The signals of ours that a thread believes to be blocked: a word of initial-exec TLS.

use crate::thread_words;

thread_words! {
    /// The calling thread's word.
    fn word() -> *mut u64 = "rsys_believed_signals"
}

/// The signals of ours that the calling thread believes blocked ([`crate::sys::bit`]s).
#[inline]
pub fn get() -> u64 {
    // SAFETY: the thread's own word.
    unsafe { *word() }
}

/// Sets what the calling thread believes.
#[inline]
pub fn set(signals: u64) {
    // SAFETY: as above.
    unsafe { *word() = signals }
}

/// Adds signals to those that the calling thread believes blocked.
pub fn add(signals: u64) {
    set(get() | signals);
}
