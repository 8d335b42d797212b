//! Per-thread state that a signal handler may read: three words of initial-exec TLS.
//!
//! `thread_local!` in a cdylib goes through `__tls_get_addr`, which may lock and allocate on a
//! thread's first access. These words are part of the static TLS block that every thread has from
//! its first instruction. (`tests/tests/purity.rs` fails when the handler reaches the former.)

use crate::events::EventRing;
use crate::slots::Slot;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl rsys_thread_words",
    ".hidden rsys_thread_words",
    ".type rsys_thread_words, @object",
    ".size rsys_thread_words, 24",
    "rsys_thread_words: .zero 24",
    ".text",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl rsys_thread_words",
    ".hidden rsys_thread_words",
    ".type rsys_thread_words, @object",
    ".size rsys_thread_words, 24",
    "rsys_thread_words: .zero 24",
    ".text",
);

/// The words of one thread.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadWords {
    /// The slot that the thread records into, or null.
    pub slot: *mut Slot,
    /// Signals of ours that the thread believes to be blocked ([`crate::sys::bit`]s).
    pub signals: u64,
    /// The ring of the thread's events, or null.
    pub events: *mut EventRing,
}

/// The calling thread's words.
///
/// # Signal safety
/// Reads the thread pointer; allocated with the thread itself.
#[inline]
pub fn words() -> *mut ThreadWords {
    let words: *mut ThreadWords;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the offset of our TLS words and the thread pointer at fs:0.
    unsafe {
        std::arch::asm!(
            "mov {words}, qword ptr fs:[0]",
            "add {words}, qword ptr [rip + rsys_thread_words@GOTTPOFF]",
            words = out(reg) words,
            options(nostack, pure, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread pointer and the offset of our TLS words.
    unsafe {
        std::arch::asm!(
            "mrs {words}, tpidr_el0",
            "adrp {offset}, :gottprel:rsys_thread_words",
            "ldr {offset}, [{offset}, :gottprel_lo12:rsys_thread_words]",
            "add {words}, {words}, {offset}",
            words = out(reg) words,
            offset = out(reg) _,
            options(nostack, pure, readonly),
        );
    }
    words
}

/// The slot of the calling thread, or null.
///
/// # Signal safety
/// As [`words`].
#[inline]
pub fn slot() -> *mut Slot {
    // SAFETY: `words` is valid for the calling thread.
    unsafe { (*words()).slot }
}

/// Sets the slot of the calling thread.
pub fn set_slot(slot: *mut Slot) {
    // SAFETY: as above; only the thread itself writes.
    unsafe { (*words()).slot = slot }
}
