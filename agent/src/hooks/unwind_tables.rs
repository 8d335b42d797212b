use rsys_unwind::described_functions;
use std::ffi::c_void;

use crate::code::jit::table::{self, Function};
use crate::code::modules;
use crate::lifecycle::process;
use crate::state;
use crate::sys;
use crate::sys::guard::Guarded;
use crate::target::real;

/// More functions of one registration are not noted: 32 MiB of tables.
pub const MOST_FUNCTIONS: usize = 1 << 20;

pub fn note(begin: *mut c_void) {
    process::start_early();
    if !state::may_set_up() {
        return;
    }
    let registration = begin.addr() as u64;
    let mut count = 0_usize;
    described_functions(&Guarded, registration, |_, _| count += 1);
    let count = count.min(MOST_FUNCTIONS);
    let bytes = count * size_of::<Function>();
    if count == 0 {
        return;
    }
    // Memory of our own: the program may be in the middle of its allocator.
    let Ok(memory) = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1) else {
        return;
    };
    // SAFETY: just mapped with the length asked for, zeroed, and not shared.
    let functions = unsafe { std::slice::from_raw_parts_mut(memory.cast::<Function>(), count) };
    let mut free = functions.iter_mut();
    let mut filled = 0;
    described_functions(&Guarded, registration, |range, description| {
        if let Some(function) = free.next() {
            *function = Function {
                start: range.start,
                end: range.end,
                description,
                registration,
            };
            filled += 1;
        }
    });
    if let Some(functions) = functions.get_mut(..filled)
        && table::replace(registration, functions)
    {
        modules::forget_rules();
    }
    // SAFETY: mapped above, and the last use is over.
    unsafe { sys::munmap(memory.cast(), bytes) };
}

pub fn forget(begin: *mut c_void) {
    if state::is_active() && state::is_own_process() {
        let registration = begin.addr() as u64;
        // Others may be made in the same place: rules must not outlive their code.
        if table::replace(registration, &mut []) {
            modules::forget_rules();
        }
    }
}

/// # Safety
/// As libgcc's function of this name: `begin` is an `.eh_frame` that ends with a zero, or for LLVM's libunwind one FDE.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __register_frame(begin: *mut c_void) {
    if let Some(real) = real::register_frame::get() {
        // SAFETY: the caller's own argument.
        unsafe { real(begin) };
    }
    note(begin);
}

/// # Safety
/// As libgcc's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __register_frame_info(begin: *mut c_void, object: *mut c_void) {
    if let Some(real) = real::register_frame_info::get() {
        // SAFETY: the caller's own arguments.
        unsafe { real(begin, object) };
    }
    note(begin);
}

/// # Safety
/// As libgcc's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __register_frame_info_bases(
    begin: *mut c_void,
    object: *mut c_void,
    text: *mut c_void,
    data: *mut c_void,
) {
    if let Some(real) = real::register_frame_info_bases::get() {
        // SAFETY: the caller's own arguments.
        unsafe { real(begin, object, text, data) };
    }
    note(begin);
}

/// # Safety
/// As libgcc's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __deregister_frame(begin: *mut c_void) {
    forget(begin);
    if let Some(real) = real::deregister_frame::get() {
        // SAFETY: the caller's own argument.
        unsafe { real(begin) };
    }
}

/// # Safety
/// As libgcc's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __deregister_frame_info(begin: *mut c_void) -> *mut c_void {
    forget(begin);
    match real::deregister_frame_info::get() {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(begin) },
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// As libgcc's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __deregister_frame_info_bases(begin: *mut c_void) -> *mut c_void {
    forget(begin);
    match real::deregister_frame_info_bases::get() {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(begin) },
        None => std::ptr::null_mut(),
    }
}
