//! Per-thread state that a signal handler may read: words of initial-exec TLS.
//!
//! `thread_local!` in a cdylib goes through `__tls_get_addr`, which may lock and allocate on a
//! thread's first access. These words are part of the static TLS block that every thread has from
//! its first instruction. (`tests/tests/purity.rs` fails when the handler reaches the former.)

/// Sets words of every thread aside, all zero when it starts, under a symbol; the function returns those of the calling thread.
///
/// # Signal safety
/// The function reads the thread pointer; the words are allocated with the thread itself.
#[macro_export]
macro_rules! thread_words {
    ($(#[$about:meta])* $visible:vis fn $name:ident() -> *mut $words:ty = $symbol:literal) => {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        std::arch::global_asm!(
            ".section .tbss,\"awT\",%nobits",
            ".balign 8",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", %object"),
            concat!(".size ", $symbol, ", {bytes}"),
            concat!($symbol, ": .zero {bytes}"),
            ".text",
            bytes = const size_of::<$words>(),
        );

        $(#[$about])*
        #[inline]
        $visible fn $name() -> *mut $words {
            const { assert!(align_of::<$words>() <= 8) };
            let words: *mut $words;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: reads the offset of our TLS words and the thread pointer at fs:0.
            unsafe {
                std::arch::asm!(
                    "mov {words}, qword ptr fs:[0]",
                    concat!("add {words}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    words = out(reg) words,
                    options(nostack, pure, readonly),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: reads the thread pointer and the offset of our TLS words.
            unsafe {
                std::arch::asm!(
                    "mrs {words}, tpidr_el0",
                    concat!("adrp {offset}, :gottprel:", $symbol),
                    concat!("ldr {offset}, [{offset}, :gottprel_lo12:", $symbol, "]"),
                    "add {words}, {words}, {offset}",
                    words = out(reg) words,
                    offset = out(reg) _,
                    options(nostack, pure, readonly),
                );
            }
            words
        }
    };
}
