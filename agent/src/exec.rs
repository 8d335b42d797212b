//! The functions by which a process becomes another program.
//!
//! What the GPU runtimes have not told by then nobody will tell: [`gpu::before_exec`] gets it. Each of these functions keeps its arguments,
//! some of which are of unknown number, as they are, and goes on in the C library's.

use crate::gpu;
use crate::real::{self, Real};

/// The C library's functions, in the order of their numbers.
static REALS: [&Real; 9] = [
    &real::execve::REAL,
    &real::execv::REAL,
    &real::execvp::REAL,
    &real::execvpe::REAL,
    &real::fexecve::REAL,
    &real::execveat::REAL,
    &real::execl::REAL,
    &real::execlp::REAL,
    &real::execle::REAL,
];

/// Called with the number of the function that the program called; returns the C library's.
///
/// In a child, after vfork or of a process with threads: nothing below may lock, and so the functions were looked up before.
extern "C" fn before(number: u32) -> *const () {
    gpu::before_exec();
    let found = REALS
        .get(number as usize)
        .map_or(std::ptr::null_mut(), |real| real.address());
    if found.is_null() {
        missing as *const ()
    } else {
        found
    }
}

/// Stands in where the C library has no such function.
extern "C" fn missing() -> i32 {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

macro_rules! functions {
    ($($name:ident = $number:literal, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg(target_arch = "x86_64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    ".cfi_adjust_cfa_offset 56",
                    concat!("mov edi, ", $number),
                    "call {before}",
                    "mov r11, rax",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_adjust_cfa_offset -56",
                    "jmp r11",
                    ".cfi_endproc",
                    before = sym before,
                );
            }

            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg(target_arch = "aarch64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    "stp x29, x30, [sp, #-80]!",
                    ".cfi_adjust_cfa_offset 80",
                    ".cfi_offset x29, -80",
                    ".cfi_offset x30, -72",
                    "stp x0, x1, [sp, #16]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    concat!("mov w0, #", $number),
                    "bl {before}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "ldp x29, x30, [sp], #80",
                    ".cfi_adjust_cfa_offset -80",
                    ".cfi_restore x29",
                    ".cfi_restore x30",
                    "br x16",
                    ".cfi_endproc",
                    before = sym before,
                );
            }
        )*
    };
}

functions! {
    execve = "0", "execve(2)";
    execv = "1", "execv(3)";
    execvp = "2", "execvp(3)";
    execvpe = "3", "execvpe(3)";
    fexecve = "4", "fexecve(3)";
    execveat = "5", "execveat(2)";
    execl = "6", "execl(3)";
    execlp = "7", "execlp(3)";
    execle = "8", "execle(3)";
}
