//! No C++ runtime for the sake of panics that never happen.
//!
//! The standard library refers to the functions that throw and print panics, which would make every program of a profiled run
//! load libgcc_s: a fifth of what a small program pays for the agent. Here they do what a panic in the agent must end in anyway:
//! nothing is thrown, so the process aborts. The names are hidden; those of the program's own are not touched.

macro_rules! end_of_stack {
    () => {
        // _URC_END_OF_STACK (Itanium C++ ABI: Exception Handling, 1.2.1).
        "mov eax, 5\nret"
    };
}
macro_rules! null {
    () => {
        "xor eax, eax\nret"
    };
}
macro_rules! jump {
    () => {
        "jmp {abort}@PLT"
    };
}

/// Defines hidden functions that have the same body.
macro_rules! hidden {
    ($body:expr, [$($name:literal),+] $(, $operand:ident = sym $target:path)?) => {
        std::arch::global_asm!(
            ".text",
            $(concat!(".globl ", $name), concat!(".hidden ", $name), concat!(".type ", $name, ", @function"), concat!($name, ":"),)+
            $body,
            $($operand = sym $target)?
        );
    };
}

hidden!(
    end_of_stack!(),
    [
        "_Unwind_Backtrace",
        "_Unwind_GetDataRelBase",
        "_Unwind_GetIP",
        "_Unwind_GetIPInfo",
        "_Unwind_GetRegionStart",
        "_Unwind_GetTextRelBase",
        "_Unwind_RaiseException",
        "_Unwind_SetGR",
        "_Unwind_SetIP",
        "_Unwind_DeleteException",
        "_Unwind_GetCFA",
        "_Unwind_FindEnclosingFunction"
    ]
);
// `pthread_exit` in a handler unwinds through us: without tables of ours there is nothing to clean up, and it goes on
// (`handlers_may_end_their_thread`).
hidden!(null!(), ["_Unwind_GetLanguageSpecificData"]);
hidden!(jump!(), ["_Unwind_Resume"], abort = sym libc::abort);
