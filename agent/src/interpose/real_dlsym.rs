use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::interpose::symbols;

/// Under which versions glibc has it: in libc from 2.34 on, in libdl before.
pub const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

/// The real ones, on a page that the loader has written already.
#[unsafe(link_section = ".data")]
pub static REAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

#[unsafe(link_section = ".data")]
pub static REAL_VERSIONED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub type Function = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

pub type Versioned = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// Stands in for `dlsym` where no library has it: glibc before 2.34 had it in libdl, which not every program loads. Then only the
/// agent itself asks.
pub extern "C" fn search_behind(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if handle != libc::RTLD_NEXT || name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a C string of the agent's.
    symbols::behind(unsafe { CStr::from_ptr(name) }).cast()
}

/// Stands in for `dlvsym` where no library has it.
pub extern "C" fn nothing(
    _handle: *mut c_void,
    _name: *const c_char,
    _version: *const c_char,
) -> *mut c_void {
    std::ptr::null_mut()
}

// Never inlined and never a tail call: "next" is found by the caller's address.
#[inline(never)]
#[unsafe(link_section = "rsys_start")]
pub fn real() -> *const () {
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

/// The real `dlvsym`. By a search of our own without the loader: `dlsym` is found by it.
#[unsafe(link_section = "rsys_start")]
pub fn real_versioned() -> *const () {
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
