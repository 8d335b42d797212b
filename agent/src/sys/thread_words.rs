//! Per-thread state that a signal handler may read: words of initial-exec TLS.
//!
//! `thread_local!` in a cdylib goes through `__tls_get_addr`, which may lock and allocate on a
//! thread's first access. These words are part of the static TLS block that every thread has from
//! its first instruction. (`tests/tests/agent/purity.rs` fails when the handler reaches the former.)

/// Sets words of every thread aside, all zero when it starts, under a symbol; the function returns those of the calling thread.
///
/// # Signal safety
/// The function reads the thread pointer; the words are allocated with the thread itself.
#[macro_export]
macro_rules! thread_words {
    ($(#[$about:meta])* $visible:vis fn $name:ident() -> *mut $words:ty = $symbol:literal) => {
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
            // SAFETY: reads the offset of our TLS words and the thread pointer at fs:0.
            unsafe {
                std::arch::asm!(
                    "mov {words}, qword ptr fs:[0]",
                    concat!("add {words}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    words = out(reg) words,
                    options(nostack, pure, readonly),
                );
            }
            words
        }
    };
}
