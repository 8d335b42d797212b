//! `dlsym` and `dlvsym`: whoever asks for a function that the agent wraps gets the wrapper.
//!
//! The real `dlsym` finds out who asks from its return address, on which `RTLD_NEXT` and `RTLD_DEFAULT` depend. So what is exported here
//! is not a function that calls the real one but a jump to it, with registers and stack as the caller left them. Only where a
//! handle's library has one of our functions, the answer comes from here.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::gpu::{hip, init};
use crate::markers;
use crate::process;
use crate::symbols;

/// Under which versions glibc has it: in libc from 2.34 on, in libdl before.
#[cfg(target_arch = "x86_64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
#[cfg(target_arch = "aarch64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.17"];

/// The real ones.
static REAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static REAL_VERSIONED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

type Function = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Versioned = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

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
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
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
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
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

/// # Safety
/// As `dlvsym(3)`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset x29, -48",
        ".cfi_offset x30, -40",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "str x2, [sp, #32]",
        "bl {answer}",
        "mov x16, x1",
        "mov x17, x0",
        "ldr x2, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #48",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cbz x17, 2f",
        "mov x0, x16",
        "ret",
        "2:",
        "br x16",
        ".cfi_endproc",
        answer = sym answer_versioned,
    )
}

/// # Safety
/// As `dlsym(3)`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {answer}",
        "mov x16, x1",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cbz x17, 2f",
        "mov x0, x16",
        "ret",
        "2:",
        "br x16",
        ".cfi_endproc",
        answer = sym answer,
    )
}

/// Stands in for `dlsym` where no library has it: glibc before 2.34 had it in libdl, which not every program loads. Then only the
/// agent itself asks.
extern "C" fn search_behind(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if handle != libc::RTLD_NEXT || name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a C string of the agent's.
    symbols::behind(unsafe { CStr::from_ptr(name) }).cast()
}

/// Stands in for `dlvsym` where no library has it.
extern "C" fn nothing(
    _handle: *mut c_void,
    _name: *const c_char,
    _version: *const c_char,
) -> *mut c_void {
    std::ptr::null_mut()
}

// Never inlined and never a tail call: "next" is found by the caller's address.
#[inline(never)]
fn real() -> *const () {
    let known = REAL.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // Not by a search of our own: sanitizers ask while they start, before the functions that they stand in front of can be called.
    let found = VERSIONS
        .iter()
        .map(|version| {
            // SAFETY: both are C strings.
            unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) }
        })
        .find(|found| !found.is_null());
    // musl has no versions, and only one `dlsym`.
    let found = found.map_or_else(|| symbols::behind(c"dlsym"), <*mut c_void>::cast::<()>);
    if found.is_null() {
        return search_behind as *const ();
    }
    REAL.store(found, Ordering::Relaxed);
    found
}

/// The real `dlvsym`. By a search of our own that asks nobody: `dlsym` is found by it.
fn real_versioned() -> *const () {
    let known = REAL_VERSIONED.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = symbols::in_c_library(c"dlvsym");
    if found.is_null() {
        return nothing as *const ();
    }
    REAL_VERSIONED.store(found, Ordering::Relaxed);
    found
}

/// A function of a loaded library, as the real `dlsym` finds it, or null. Not for `RTLD_NEXT` and `RTLD_DEFAULT`.
pub fn of_library(handle: *mut c_void, name: &CStr) -> *mut () {
    // SAFETY: the C library's function or ours of the same signature.
    let real = unsafe { std::mem::transmute::<*const (), Function>(real()) };
    // SAFETY: a handle of the caller's and a C string.
    unsafe { real(handle, name.as_ptr()) }.cast()
}

/// Decides what `dlsym(handle, name)` returns. May run before any constructor.
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
    if name.is_null() || !process::is_active() {
        return None;
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) };
    if name == hip::TAKE_TRACER && handle != libc::RTLD_NEXT {
        // Whoever takes the place of HIP's tracer shall not find that we have it.
        let found = ask(handle);
        return Some(if found.is_null() {
            found
        } else {
            hip::hipRegisterTracerCallback as *const ()
        });
    }
    if name == init::NAME && handle != libc::RTLD_NEXT {
        return Some(init::answer(ask(handle), || ask(libc::RTLD_NEXT)));
    }
    let wrapped = markers::find(name)?;
    let is_there = || markers::is_always_there(name) || !wrapped.real::<0>().is_null();
    if handle == libc::RTLD_NEXT && is_there() {
        // What comes behind whom only the real one can tell.
        return None;
    }
    let found: *const () = match handle {
        libc::RTLD_NEXT => std::ptr::null(),
        _ => ask(handle),
    };
    let ours = handle == libc::RTLD_NEXT || (!found.is_null() && symbols::is_ours(found));
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
        match wrapped.wrapper_of(found) {
            wrapper if wrapper.is_null() => found,
            wrapper => wrapper,
        }
    })
}
