//! `dlsym` and `dlvsym`: a caller that asks for a function which the agent wraps gets the wrapper.
//!
//! The real `dlsym` finds out who asks from its return address, on which `RTLD_NEXT` and `RTLD_DEFAULT` depend. So what is exported here
//! is not a function that calls the real one but a jump to it, with registers and stack as the caller left them. Only where a
//! handle's library has one of our functions, the answer comes from here.

use std::ffi::{CStr, c_char, c_void};

use crate::interpose::interposed::Interposed;
use crate::interpose::real_dlsym::{Function, Versioned, real, real_versioned};
use crate::sources;
use crate::state;

/// What the exported function does: in two registers.
#[derive(Debug)]
#[repr(C)]
pub struct Answer {
    /// 1: return the address; 0: jump to it.
    decided: usize,
    address: *const (),
}

/// # Safety
/// As `dlsym(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(not(test), unsafe(link_section = "rsys_start"))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {answer}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "mov rax, rdx",
        "jz 2f",
        "ret",
        "2:",
        "jmp rax",
        ".cfi_endproc",
        answer = sym answer,
    )
}

/// # Safety
/// As `dlvsym(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(not(test), unsafe(link_section = "rsys_start"))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {answer}",
        "mov r11, rdx",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "mov rax, r11",
        "jz 2f",
        "ret",
        "2:",
        "jmp rax",
        ".cfi_endproc",
        answer = sym answer_versioned,
    )
}

/// Decides what `dlsym(handle, name)` returns. May run before any constructor.
///
/// # Safety
/// As `dlsym` has it: the name is a C string.
#[unsafe(link_section = "rsys_start")]
unsafe extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    let real = real();
    // SAFETY: the C library's function or ours of the same signature.
    let function = unsafe { std::mem::transmute::<*const (), Function>(real) };
    // SAFETY: the caller's own name. A failure leaves the error that the caller is to find; so below.
    let ask = |handle| unsafe { function(handle, name) }.cast_const().cast();
    // SAFETY: null, or the caller's C string.
    let decided = unsafe { decide(handle, name, ask) };
    Answer {
        decided: usize::from(decided.is_some()),
        address: decided.unwrap_or(real),
    }
}

/// Decides what `dlvsym(handle, name, version)` returns.
///
/// # Safety
/// As `dlvsym` has it: name and version are C strings.
#[unsafe(link_section = "rsys_start")]
unsafe extern "C" fn answer_versioned(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> Answer {
    let real = real_versioned();
    // SAFETY: as above.
    let function = unsafe { std::mem::transmute::<*const (), Versioned>(real) };
    let ask = |handle| {
        // SAFETY: the caller's own name and version.
        unsafe { function(handle, name, version) }
            .cast_const()
            .cast()
    };
    // SAFETY: as above.
    let decided = unsafe { decide(handle, name, ask) };
    Answer {
        decided: usize::from(decided.is_some()),
        address: decided.unwrap_or(real),
    }
}

/// What is returned for a name; `None`: what the real function returns. `ask` is the real function for another handle.
///
/// # Safety
/// `name` must be null or a C string.
unsafe fn decide(
    handle: *mut c_void,
    name: *const c_char,
    ask: impl Fn(*mut c_void) -> *const (),
) -> Option<*const ()> {
    if name.is_null() || !state::is_active() {
        return None;
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) };
    if handle != libc::RTLD_NEXT
        && let Some(answer) = sources::answer(name)
    {
        return Some(answer(ask(handle), &|| ask(libc::RTLD_NEXT)));
    }
    let sources::Found {
        function,
        is_on,
        is_always_there,
    } = sources::find(name)?;
    let is_there = || is_always_there || function.is_in_a_library();
    if !is_on {
        // What no library has, the program must not find with us either.
        let is_only_ours = handle != libc::RTLD_NEXT && Interposed::is_ours(ask(handle));
        return (is_only_ours && !is_there()).then(|| ask(libc::RTLD_NEXT));
    }
    if handle == libc::RTLD_NEXT && is_there() {
        // What comes behind whom only the real one can tell.
        return None;
    }
    let found: *const () = match handle {
        libc::RTLD_NEXT => std::ptr::null(),
        _ => ask(handle),
    };
    let ours = handle == libc::RTLD_NEXT || Interposed::is_ours(found);
    Some(if ours {
        // What only we have, the program must not find.
        if is_there() {
            found
        } else {
            ask(libc::RTLD_NEXT)
        }
    } else if found.is_null() {
        found
    } else {
        match function.in_front_of(found) {
            wrapper if wrapper.is_null() => found,
            wrapper => wrapper,
        }
    })
}
