//! The thread pointer (the base of `fs`), by which the C library and our own words of a thread are found.
//!
//! A thread may have taken it for something else: one that was made by a raw `clone` with an area of its own, or code of another runtime that puts it back
//! before it calls the C library. A signal handler must not look for our words there.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::guard::read_u64;

/// Programs may read the thread pointer without a system call: Linux 5.9 on processors since 2012 (Intel) and 2017 (AMD).
static IS_READABLE: AtomicBool = AtomicBool::new(false);

/// No memory of a process is below (the smallest `vm.mmap_min_addr` that is not 0 is a page).
const LEAST: u64 = 4096;

/// Looks whether it can be read. Before any handler is there.
pub fn learn() {
    /// HWCAP2_FSGSBASE (arch/x86/include/uapi/asm/hwcap2.h).
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: takes a number only.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    IS_READABLE.store(features & FSGSBASE != 0, Ordering::Relaxed);
}

/// Whether it is the C library's. Where it cannot be read, it is taken for that.
///
/// # Signal safety
/// One instruction, and two guarded loads.
#[inline]
pub fn is_of_c_library() -> bool {
    if !IS_READABLE.load(Ordering::Relaxed) {
        return true;
    }
    let base: u64;
    // SAFETY: the instruction is there; see `learn`.
    unsafe {
        std::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags))
    };
    // None, mostly. A load in vain is mended with faults blocked, and perf's next sample may come meanwhile: its own would end the process.
    if base < LEAST {
        return false;
    }
    // Its block refers to itself twice: `tcb` and `self` of `tcbhead_t` (glibc, sysdeps/x86_64/nptl/tls.h).
    read_u64(base) == Some(base) && read_u64(base.wrapping_add(16)) == Some(base)
}
