//! What the calling thread is in the midst of: words of initial-exec TLS, as [`crate::tls`] explains.

macro_rules! words {
    ($size:literal) => {
        std::arch::global_asm!(
            ".section .tbss,\"awT\",@nobits",
            ".balign 8",
            ".globl rsys_gpu_words",
            ".hidden rsys_gpu_words",
            ".type rsys_gpu_words, @object",
            concat!(".size rsys_gpu_words, ", $size),
            concat!("rsys_gpu_words: .zero ", $size),
            ".text",
        );
    };
}

words!("16");
const _: () = assert!(size_of::<Words>() == 16);

/// The words of one thread.
#[derive(Debug)]
#[repr(C)]
struct Words {
    /// Correlation id of the call of a GPU runtime that the thread is in, or 0.
    call: u64,
    /// Whether that call launches one kernel which was not counted yet.
    uncounted: u32,
    /// Whether the thread is a helper of ours, whose calls are nobody's business.
    helper: u32,
}

#[inline]
fn words() -> *mut Words {
    let words: *mut Words;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the offset of our TLS words and the thread pointer at fs:0.
    unsafe {
        std::arch::asm!(
            "mov {words}, qword ptr fs:[0]",
            "add {words}, qword ptr [rip + rsys_gpu_words@GOTTPOFF]",
            words = out(reg) words,
            options(nostack, pure, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread pointer and the offset of our TLS words.
    unsafe {
        std::arch::asm!(
            "mrs {words}, tpidr_el0",
            "adrp {offset}, :gottprel:rsys_gpu_words",
            "ldr {offset}, [{offset}, :gottprel_lo12:rsys_gpu_words]",
            "add {words}, {words}, {offset}",
            words = out(reg) words,
            offset = out(reg) _,
            options(nostack, pure, readonly),
        );
    }
    words
}

/// The correlation id of the GPU runtime's call that the thread is in, or 0.
#[inline]
pub fn call() -> u64 {
    // SAFETY: the words of the calling thread, which nobody else touches; so below.
    unsafe { (*words()).call }
}

/// Notes the call that the thread is in from now on; returns the one before.
#[inline]
pub fn set_call(correlation: u64) -> u64 {
    // SAFETY: as above.
    unsafe { std::mem::replace(&mut (*words()).call, correlation) }
}

/// Notes whether the thread's call launches one kernel that is to be counted when it is made; returns what was noted before.
#[inline]
pub fn set_uncounted(uncounted: bool) -> bool {
    // SAFETY: as above.
    unsafe { std::mem::replace(&mut (*words()).uncounted, u32::from(uncounted)) != 0 }
}

/// Whether the thread is a helper of ours.
#[inline]
pub fn is_helper() -> bool {
    // SAFETY: as above.
    unsafe { (*words()).helper != 0 }
}

/// The thread is a helper of ours from now on.
pub fn set_helper() {
    // SAFETY: as above.
    unsafe { (*words()).helper = 1 }
}
