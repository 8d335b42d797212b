//! Libraries that the program has loaded, found without loading any.

use std::ffi::{CStr, c_int, c_void};

use crate::interpose::real_dlsym;
use crate::sys::guard;

/// Longest path of a library that is looked at.
pub const MOST_PATH: usize = 1024;

#[derive(Debug)]
struct Search<'a> {
    part: &'a [u8],
    path: [u8; MOST_PATH],
    bytes: usize,
}

/// The path of the loaded library whose path contains `part`, with its NUL.
pub fn path_of<'a>(part: &[u8], path: &'a mut [u8; MOST_PATH]) -> Option<&'a CStr> {
    let mut search = Search {
        part,
        path: [0; MOST_PATH],
        bytes: 0,
    };
    // SAFETY: the callback gets the search back, which lives across the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    if search.bytes == 0 {
        return None;
    }
    *path = search.path;
    CStr::from_bytes_until_nul(path).ok()
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a [`Search`].
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `path_of` passes its search, and the loader valid information.
    let (search, name) = unsafe { (&mut *data.cast::<Search<'_>>(), (*info).dlpi_name) };
    // The last byte stays 0.
    let room = search.path.get_mut(..MOST_PATH - 1).unwrap_or(&mut []);
    let bytes = guard::copy_c_string(name.addr() as u64, room);
    let found = room
        .get(..bytes)
        .is_some_and(|path| path.windows(search.part.len()).any(|at| at == search.part));
    if found {
        search.bytes = bytes;
    } else {
        search.path = [0; MOST_PATH];
    }
    c_int::from(found)
}

/// Whether a library is loaded whose path contains `part`.
pub fn is_loaded(part: &[u8]) -> bool {
    path_of(part, &mut [0; MOST_PATH]).is_some()
}

/// A handle of the loaded library whose path contains `part`, or null. The library stays for ever.
pub fn handle(part: &[u8]) -> *mut c_void {
    let mut path = [0; MOST_PATH];
    path_of(part, &mut path).map_or(std::ptr::null_mut(), |path| {
        // SAFETY: nothing is loaded; the handle is never closed.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) }
    })
}

/// A function of a library, or null.
pub fn symbol(handle: *mut c_void, name: &CStr) -> *mut () {
    if handle.is_null() {
        return std::ptr::null_mut();
    }
    let found = real_dlsym::of_library(handle, name);
    if found.is_null() {
        // A name that was not found must not be the program's next `dlerror`.
        // SAFETY: no arguments.
        unsafe { libc::dlerror() };
    }
    found
}

/// The function that stands behind ours: the next of this name, or, where its library was loaded for others only, that in the loaded library
/// whose path contains `part`. Null when there is none.
// Never inlined and never a tail call: dlsym finds "next" by its caller's address.
#[inline(never)]
pub fn next_or_in(name: &CStr, part: &[u8]) -> *mut () {
    // SAFETY: the name is NUL-terminated.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.cast::<()>();
    if !next.is_null() {
        return std::hint::black_box(next);
    }
    // SAFETY: no arguments.
    unsafe { libc::dlerror() };
    symbol(handle(part), name)
}
