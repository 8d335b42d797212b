//! Hooks of the `stat` family: device nodes look like character devices.

use std::ffi::{c_char, c_int, c_uint};

use libc::{stat as Stat, stat64 as Stat64, statx as Statx};

use super::paths::{device, in_tree};
use super::real;
use crate::device::{self as devices, Device};
use crate::settings::FIRST_RENDER_MINOR;

/// Major number of DRM devices.
const DRM_MAJOR: u32 = 226;
/// The compute driver's major number is dynamic on real machines; this one is of the range for that.
const KFD_MAJOR: u32 = 235;

/// Major and minor number of a device.
fn number(device: Device) -> (u32, u32) {
    match device {
        Device::Kfd => (KFD_MAJOR, 0),
        Device::Render(index) => (DRM_MAJOR, FIRST_RENDER_MINOR + index as u32),
    }
}

/// Makes the answer for `device` that of a character device. `Stat` and `Stat64` are the same on 64-bit machines.
///
/// # Safety
/// `into` must be a complete answer.
unsafe fn dress(device: Option<Device>, status: c_int, into: *mut Stat) -> c_int {
    if let (0, Some(device)) = (status, device) {
        let (major, minor) = number(device);
        // SAFETY: says the caller.
        let into = unsafe { &mut *into };
        into.st_mode = libc::S_IFCHR | 0o666;
        into.st_rdev = libc::makedev(major, minor);
        into.st_size = 0;
    }
    status
}

/// Hooks with a path.
macro_rules! stat_hooks {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* [path], into: *mut $into:ty $(, $after:ident: $after_type:ty)*);)*) => {
        $(
            #[doc = concat!("Hook of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the function itself.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $($before: $before_type,)* path: *const c_char, into: *mut $into $(, $after: $after_type)*
            ) -> c_int {
                // SAFETY: the caller keeps the contract of the function of this name.
                unsafe {
                    let there = in_tree(path);
                    let device = there.as_ref().and_then(|_| device(path));
                    let path = there.as_ref().map_or(path, |there| there.as_ptr());
                    dress(device, real::$name($($before,)* path, into $(, $after)*), into.cast())
                }
            }
        )*
    };
}

stat_hooks! {
    fn stat([path], into: *mut Stat);
    fn stat64([path], into: *mut Stat64);
    fn lstat([path], into: *mut Stat);
    fn lstat64([path], into: *mut Stat64);
    fn __xstat(version: c_int, [path], into: *mut Stat);
    fn __xstat64(version: c_int, [path], into: *mut Stat64);
    fn __lxstat(version: c_int, [path], into: *mut Stat);
    fn __lxstat64(version: c_int, [path], into: *mut Stat64);
}

/// Hooks with a descriptor.
macro_rules! fstat_hooks {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* [fd], into: *mut $into:ty);)*) => {
        $(
            #[doc = concat!("Hook of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the function itself.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($before: $before_type,)* fd: c_int, into: *mut $into) -> c_int {
                // SAFETY: the caller keeps the contract of the function of this name.
                unsafe { dress(devices::of_descriptor(fd), real::$name($($before,)* fd, into), into.cast()) }
            }
        )*
    };
}

fstat_hooks! {
    fn fstat([fd], into: *mut Stat);
    fn fstat64([fd], into: *mut Stat64);
    fn __fxstat(version: c_int, [fd], into: *mut Stat);
    fn __fxstat64(version: c_int, [fd], into: *mut Stat64);
}

/// Hooks with a folder and a path, or with a descriptor and an empty path.
macro_rules! fstatat_hooks {
    ($($name:ident($into:ty);)*) => {
        $(
            #[doc = concat!("Hook of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the function itself.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, into: *mut $into, flags: c_int) -> c_int {
                // SAFETY: the caller keeps the contract of the function of this name.
                unsafe {
                    let there = in_tree(path);
                    let device = if there.is_some() { device(path) } else { by_descriptor(folder, path, flags) };
                    let path = there.as_ref().map_or(path, |there| there.as_ptr());
                    dress(device, real::$name(folder, path, into, flags), into.cast())
                }
            }
        )*
    };
}

fstatat_hooks! {
    fstatat(Stat);
    fstatat64(Stat64);
}

/// Hook of `statx`.
///
/// # Safety
/// As the function itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut Statx,
) -> c_int {
    // SAFETY: the caller keeps the contract; after success the answer is complete.
    unsafe {
        let there = in_tree(path);
        let device = if there.is_some() {
            device(path)
        } else {
            by_descriptor(folder, path, flags)
        };
        let path = there.as_ref().map_or(path, |there| there.as_ptr());
        let status = real::statx(folder, path, flags, mask, into);
        if let (0, Some(device)) = (status, device) {
            let into = &mut *into;
            into.stx_mode = (libc::S_IFCHR | 0o666) as u16;
            (into.stx_rdev_major, into.stx_rdev_minor) = number(device);
            into.stx_size = 0;
        }
        status
    }
}

/// The device of `folder` when path and flags say that it is meant itself.
///
/// # Safety
/// The path must be null or NUL-terminated.
unsafe fn by_descriptor(folder: c_int, path: *const c_char, flags: c_int) -> Option<Device> {
    // SAFETY: says the caller.
    let empty = path.is_null() || unsafe { *path } == 0;
    (empty && flags & libc::AT_EMPTY_PATH != 0)
        .then(|| devices::of_descriptor(folder))
        .flatten()
}
