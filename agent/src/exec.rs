//! The functions by which a process becomes another program.
//!
//! What the GPU runtimes have not told by then nobody will tell: [`gpu::before_exec`] gets it. Each of these functions keeps its arguments,
//! some of which are of unknown number, as they are, and goes on in the C library's.

use std::ffi::CStr;

use crate::gpu;
use crate::real;

/// What the functions are called, in the order of their numbers.
const NAMES: [&CStr; 9] = [
    c"execve",
    c"execv",
    c"execvp",
    c"execvpe",
    c"fexecve",
    c"execveat",
    c"execl",
    c"execlp",
    c"execle",
];

/// Called with the number of the function that the program called; returns the C library's.
extern "C" fn before(number: u32) -> *const () {
    // A child after vfork has its parent's memory, but not its runtimes; `before_exec` knows.
    gpu::before_exec();
    let found = NAMES
        .get(number as usize)
        .map_or(std::ptr::null_mut(), |name| real::next(name));
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

#[cfg(target_arch = "x86_64")]
macro_rules! function {
    ($name:literal, $number:literal) => {
        std::arch::global_asm!(
            ".pushsection .text, \"ax\", @progbits",
            ".balign 16",
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
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
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            before = sym before,
        );
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! function {
    ($name:literal, $number:literal) => {
        std::arch::global_asm!(
            ".pushsection .text, \"ax\", @progbits",
            ".balign 16",
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
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
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            before = sym before,
        );
    };
}

function!("execve", "0");
function!("execv", "1");
function!("execvp", "2");
function!("execvpe", "3");
function!("fexecve", "4");
function!("execveat", "5");
function!("execl", "6");
function!("execlp", "7");
function!("execle", "8");
