//! Finding functions in the libraries behind us, without `dlsym`.
//!
//! `dlsym(RTLD_NEXT)` does not see libraries that were loaded with `RTLD_LOCAL`, though their functions are called through ours:
//! Python loads PyTorch so, and with it RCCL. It also leaves an error for the program's next `dlerror`. So the symbol tables of
//! what is loaded are read here, in the loader's order, which for libraries of the global scope is the order of `RTLD_NEXT`.

use std::ffi::CStr;

use crate::code::modules;
use crate::sys::guard::{copy_c_string, read_u64};
use crate::target::objects::{MOST_PATH, Where, here, pointer, search};
use crate::target::other_libc;
use crate::target::tables::Tables;

pub use crate::target::objects::behind;

/// No process has more objects.
const MOST_OBJECTS: u64 = 1 << 12;

/// The function of this name in the first object that has it, the program before all libraries, or null.
pub fn first(name: &CStr) -> *mut () {
    pointer(search(name, Where::Anywhere).found)
}

/// As [`behind`]. The library then stays loaded.
pub fn next(name: &CStr) -> *mut () {
    let search = search(name, Where::Behind);
    if search.found != 0 {
        pin(&search.path);
    }
    pointer(search.found)
}

/// The loader's first object, the program itself: the address of its `link_map`. `None` without glibc.
fn first_object() -> Option<u64> {
    let list = other_libc::loader_list();
    // Guarded reads are not guarded before the agent has started.
    if list.is_null() {
        return None;
    }
    // `struct r_debug` of <link.h>: a version, then the first object.
    read_u64((list.addr() as u64).wrapping_add(8))
}

/// The dynamic section of the program itself.
#[unsafe(link_section = "rsys_start")]
pub fn program() -> Option<u64> {
    read_u64(first_object()?.wrapping_add(16)).filter(|dynamic| *dynamic != 0)
}

/// The function of this name in the C library, or null. Calls nothing: it may be asked for before any library has started.
#[unsafe(link_section = "rsys_start")]
pub fn in_c_library(name: &CStr) -> *mut () {
    let Some(mut object) = first_object() else {
        return std::ptr::null_mut();
    };
    // Fields of link_map: bias, path, dynamic section, next.
    let mut path = [0_u8; MOST_PATH];
    for _ in 0..MOST_OBJECTS {
        let field = |at: u64| read_u64(object.wrapping_add(at));
        let (Some(bias), Some(name_at), Some(dynamic), Some(next)) =
            (field(0), field(8), field(16), field(24))
        else {
            break;
        };
        let bytes = copy_c_string(name_at, &mut path);
        let file = path
            .get(..bytes)
            .and_then(|path| path.rsplit(|byte| *byte == b'/').next());
        // glibc before 2.34 has it in a library of its own.
        let is_c =
            file.is_some_and(|file| file.starts_with(b"libc.so") || file.starts_with(b"libdl.so"));
        if is_c
            && let Some(tables) = Tables::read(bias, dynamic)
            && let Some(found) = tables.find(name)
        {
            return pointer(found);
        }
        if next == 0 {
            break;
        }
        object = next;
    }
    std::ptr::null_mut()
}

/// The function of this name in the library with code at `address`, or null.
pub fn beside(address: *const (), name: &CStr) -> *mut () {
    pointer(search(name, Where::At(address.addr() as u64)).found)
}

/// What this library exports under a name, or null.
pub fn own(name: &CStr) -> *const () {
    pointer(search(name, Where::At(here())).found)
}

/// Whether an address lies in this library.
pub fn is_ours(address: *const ()) -> bool {
    let ours = modules::find(here());
    ours.is_some_and(|ours| (ours.start..ours.end).contains(&(address.addr() as u64)))
}

/// Keeps the library with code at `address` loaded: its functions are called through pointers that we keep.
pub fn keep(address: *const ()) {
    if let Some(object) = modules::find(address.addr() as u64) {
        let mut path = [0_u8; MOST_PATH];
        copy_c_string(object.path, &mut path[..MOST_PATH - 1]);
        pin(&path);
    }
}

fn pin(path: &[u8]) {
    // The program itself has no path and is never unloaded.
    let Ok(path) = CStr::from_bytes_until_nul(path) else {
        return;
    };
    if !path.is_empty() {
        // SAFETY: the library is loaded under this very name; nothing is run.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found_in_its_own_tables() {
        assert_eq!(
            in_c_library(c"getpid").addr(),
            libc::getpid as *const () as usize
        );
        assert!(in_c_library(c"no_such_function_anywhere").is_null());
    }
}
