//! Hooks that open, list and control files.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use libc::{DIR, FILE};

use super::paths::{device, in_tree, strip_root};
use super::real;
use crate::device::{self as devices, Device};
use crate::{drm, kfd};

/// Calls the driver for a device node, the next library with the tree's path for other simulated paths, and with the
/// caller's own path else.
macro_rules! open_hook {
    ($name:ident($path:ident $(, $argument:ident: $type:ty)*), flags $flags:expr, real $real:expr) => {
        #[doc = concat!("Hook of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the function itself.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($path: *const c_char $(, $argument: $type)*) -> c_int {
            // SAFETY: the caller keeps the contract of the function of this name.
            unsafe {
                if let Some(device) = device($path) {
                    return devices::open(device, $flags);
                }
                let there = in_tree($path);
                let $path = there.as_ref().map_or($path, |there| there.as_ptr());
                $real
            }
        }
    };
}

open_hook!(open(path, flags: c_int, mode: c_uint), flags flags, real real::open(path, flags, mode));
open_hook!(open64(path, flags: c_int, mode: c_uint), flags flags, real real::open64(path, flags, mode));
open_hook!(__open_2(path, flags: c_int), flags flags, real real::__open_2(path, flags));
open_hook!(__open64_2(path, flags: c_int), flags flags, real real::__open64_2(path, flags));

macro_rules! openat_hook {
    ($name:ident) => {
        #[doc = concat!("Hook of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the function itself.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            folder: c_int,
            path: *const c_char,
            flags: c_int,
            mode: c_uint,
        ) -> c_int {
            // SAFETY: the caller keeps the contract of the function of this name.
            unsafe {
                if let Some(device) = device(path) {
                    return devices::open(device, flags);
                }
                let there = in_tree(path);
                let path = there.as_ref().map_or(path, |there| there.as_ptr());
                real::$name(folder, path, flags, mode)
            }
        }
    };
}

openat_hook!(openat);
openat_hook!(openat64);

/// Hooks that only need another path.
macro_rules! path_hooks {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* [path] $(, $after:ident: $after_type:ty)*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("Hook of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the function itself.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($before: $before_type,)* path: *const c_char $(, $after: $after_type)*) -> $result {
                // SAFETY: the caller keeps the contract of the function of this name.
                unsafe {
                    let there = in_tree(path);
                    let path = there.as_ref().map_or(path, |there| there.as_ptr());
                    real::$name($($before,)* path $(, $after)*)
                }
            }
        )*
    };
}

path_hooks! {
    fn fopen([path], mode: *const c_char) -> *mut FILE;
    fn fopen64([path], mode: *const c_char) -> *mut FILE;
    fn opendir([path]) -> *mut DIR;
    fn access([path], mode: c_int) -> c_int;
    fn faccessat(folder: c_int, [path], mode: c_int, flags: c_int) -> c_int;
    fn readlink([path], into: *mut c_char, size: usize) -> isize;
    fn readlinkat(folder: c_int, [path], into: *mut c_char, size: usize) -> isize;
}

/// Hook of `realpath`: the answer does not tell where the simulated tree is.
///
/// # Safety
/// As the function itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char {
    // SAFETY: the caller keeps the contract; the result is a string that belongs to the caller.
    unsafe {
        let Some(there) = in_tree(path) else {
            return real::realpath(path, into);
        };
        let answer = real::realpath(there.as_ptr(), into);
        strip_root(answer);
        answer
    }
}

/// Hook of `ioctl`.
///
/// # Safety
/// As the function itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    const KFD: u8 = b'K';
    const DRM: u8 = b'd';
    let family = (request >> 8) as u8;
    if family == KFD || family == DRM {
        match devices::of_descriptor(fd) {
            Some(Device::Kfd) if family == KFD => {
                // SAFETY: a caller of the driver's functions passes the structures that belong to them.
                return unsafe { kfd::call(request, argument) };
            }
            Some(Device::Render(gpu)) if family == DRM => {
                // SAFETY: as above.
                return unsafe { drm::call(gpu, request, argument) };
            }
            _ => {}
        }
    }
    // SAFETY: the caller keeps the contract.
    unsafe { real::ioctl(fd, request, argument) }
}
