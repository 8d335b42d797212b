//! The functions behind the hooks, looked up with `dlsym(RTLD_NEXT)` when first needed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{DIR, FILE, stat as Stat, stat64 as Stat64, statx as Statx};

// Never inlined and never a tail call: dlsym finds "next" by its caller's address.
#[inline(never)]
fn look_up(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: the name is NUL-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    known.store(found, Ordering::Relaxed);
    std::hint::black_box(found)
}

macro_rules! reals {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty, else $missing:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the next library.")]
            ///
            /// # Safety
            /// As the function itself.
            pub unsafe fn $name($($argument: $type),*) -> $result {
                static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let mut address = KNOWN.load(Ordering::Relaxed);
                if address.is_null() {
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the literal ends with its only NUL.
                    let name = unsafe { CStr::from_bytes_with_nul_unchecked(name.as_bytes()) };
                    address = look_up(&KNOWN, name);
                    if address.is_null() {
                        crate::sys::fail(libc::ENOSYS);
                        return $missing;
                    }
                }
                // SAFETY: the C library's function of this name has this type.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(address) };
                // SAFETY: the caller keeps the function's contract.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

reals! {
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int, else -1;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, else -1;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, else std::ptr::null_mut();
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE, else std::ptr::null_mut();
    fn opendir(path: *const c_char) -> *mut DIR, else std::ptr::null_mut();
    fn access(path: *const c_char, mode: c_int) -> c_int, else -1;
    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, else -1;
    fn readlink(path: *const c_char, into: *mut c_char, size: usize) -> isize, else -1;
    fn readlinkat(folder: c_int, path: *const c_char, into: *mut c_char, size: usize) -> isize, else -1;
    fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char, else std::ptr::null_mut();
    fn stat(path: *const c_char, into: *mut Stat) -> c_int, else -1;
    fn stat64(path: *const c_char, into: *mut Stat64) -> c_int, else -1;
    fn lstat(path: *const c_char, into: *mut Stat) -> c_int, else -1;
    fn lstat64(path: *const c_char, into: *mut Stat64) -> c_int, else -1;
    fn fstat(fd: c_int, into: *mut Stat) -> c_int, else -1;
    fn fstat64(fd: c_int, into: *mut Stat64) -> c_int, else -1;
    fn fstatat(folder: c_int, path: *const c_char, into: *mut Stat, flags: c_int) -> c_int, else -1;
    fn fstatat64(folder: c_int, path: *const c_char, into: *mut Stat64, flags: c_int) -> c_int, else -1;
    fn __xstat(version: c_int, path: *const c_char, into: *mut Stat) -> c_int, else -1;
    fn __xstat64(version: c_int, path: *const c_char, into: *mut Stat64) -> c_int, else -1;
    fn __lxstat(version: c_int, path: *const c_char, into: *mut Stat) -> c_int, else -1;
    fn __lxstat64(version: c_int, path: *const c_char, into: *mut Stat64) -> c_int, else -1;
    fn __fxstat(version: c_int, fd: c_int, into: *mut Stat) -> c_int, else -1;
    fn __fxstat64(version: c_int, fd: c_int, into: *mut Stat64) -> c_int, else -1;
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut Statx) -> c_int, else -1;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int, else -1;
}
