//! Memory: mapped, unmapped, made to be shared.

use std::ffi::{c_int, c_void};

use crate::sys::calls;
use crate::sys::files::{limit_on, set_limit_on};
use crate::sys::{address, checked, close};

/// Unmaps memory.
///
/// # Safety
/// Nothing may refer to it any more.
pub unsafe fn munmap(base: *mut c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { calls::munmap(address(base), bytes as u64) };
}

/// Maps memory of our own or of a descriptor, readable and writable.
///
/// # Errors
/// The kernel's error number.
pub fn mmap(bytes: usize, flags: c_int, fd: c_int) -> Result<*mut u8, i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (protection, flags) = (protection as u64, (flags & !libc::MAP_FIXED) as u64);
    // SAFETY: the kernel chooses a place where nothing is.
    let result = unsafe { calls::mmap(0, bytes as u64, protection, flags, fd as u64, 0) };
    if (-4095..0).contains(&result) {
        return Err(-result as i32);
    }
    Ok(std::ptr::with_exposed_provenance_mut(result as usize))
}

/// Gives shared memory back and leaves private memory of zeros in its place, which takes none until it is written.
///
/// # Safety
/// Whole pages of a mapping of ours, of which nothing is needed any more; others may still read and write there.
pub unsafe fn replace(base: *mut u8, bytes: usize) {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let no_file = u64::MAX;
    // SAFETY: the caller's promise.
    unsafe {
        calls::mmap(
            address(base),
            bytes as u64,
            protection,
            flags as u64,
            no_file,
            0,
        )
    };
}

/// Puts shared memory of a descriptor in the place of private memory of ours.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// Whole pages of a mapping of ours, of which nothing is needed any more.
pub unsafe fn share_in_place(base: *mut u8, bytes: usize, fd: c_int) -> Result<*mut u8, i32> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_FIXED | libc::MAP_SHARED) as u64;
    // SAFETY: the caller's promise.
    let made = unsafe { calls::mmap(address(base), bytes as u64, protection, flags, fd as u64, 0) };
    checked(made).map(|_| base)
}

/// Leaves memory out of core files.
pub fn leave_out_of_core(base: *mut u8, bytes: usize) {
    // SAFETY: changes nothing but what the kernel writes when the process dies.
    unsafe { calls::madvise(address(base), bytes as u64, libc::MADV_DONTDUMP as u64) };
}

/// Makes memory inaccessible.
///
/// # Safety
/// Nothing may refer to it any more, but in order to fault.
pub unsafe fn forbid(base: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { calls::mprotect(address(base), bytes as u64, libc::PROT_NONE as u64) };
}

/// Makes memory writable, or readable alone. Returns whether that was done.
///
/// # Safety
/// Whole pages of data, which may be as they become.
pub unsafe fn set_writable(start: u64, bytes: u64, is_writable: bool) -> bool {
    let write = if is_writable { libc::PROT_WRITE } else { 0 };
    // SAFETY: the caller's promise.
    unsafe { calls::mprotect(start, bytes, (libc::PROT_READ | write) as u64) == 0 }
}

/// Makes a memfd of a fixed size that can neither shrink nor grow.
///
/// # Errors
/// The kernel's error number; `EFBIG` when the process's file-size limit forbids the size.
pub fn sealed_memfd(bytes: usize) -> Result<c_int, i32> {
    // A file-size limit would kill the process with SIGXFSZ in ftruncate: look before.
    let resource = libc::RLIMIT_FSIZE as u64;
    let limit = limit_on(resource);
    let raised = limit.rlim_cur < bytes as u64;
    if raised {
        // Beyond the hard limit only for the privileged.
        let most = limit.rlim_max.max(bytes as u64);
        let wider = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        if !set_limit_on(resource, &wider) {
            return Err(libc::EFBIG);
        }
    }
    let made = memfd_of_size(bytes);
    if raised {
        set_limit_on(resource, &limit);
    }
    made
}

fn memfd_of_size(bytes: usize) -> Result<c_int, i32> {
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    // SAFETY: a NUL-terminated name.
    let made = unsafe { calls::memfd_create(address(c"rsys".as_ptr()), flags) };
    let fd = checked(made)? as c_int;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: numbers.
    let sized = checked(unsafe { calls::ftruncate(fd as u64, bytes as u64) }).and_then(|_| {
        // SAFETY: the command takes a number.
        checked(unsafe { calls::fcntl(fd as u64, libc::F_ADD_SEALS as u64, seals as u64) })
    });
    match sized {
        Ok(_) => Ok(fd),
        Err(error) => {
            close(fd);
            Err(error)
        }
    }
}
