//! Descriptors and files.

use std::ffi::c_int;

use super::{address, call, checked};

/// Closes a descriptor.
pub fn close(fd: c_int) {
    call(libc::SYS_close, &[fd as u64]);
}

/// Reads a symbolic link into a buffer; returns the number of bytes.
pub fn readlink(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let result = call(
        libc::SYS_readlinkat,
        &[
            at,
            address(path.as_ptr()),
            address(buffer.as_mut_ptr()),
            buffer.len() as u64,
        ],
    );
    usize::try_from(result).unwrap_or(0)
}

/// `fcntl` with a number.
pub fn fcntl(fd: c_int, command: c_int, argument: u64) -> i64 {
    call(libc::SYS_fcntl, &[fd as u64, command as u64, argument])
}

/// `fcntl` with an object.
pub fn fcntl_object<T>(fd: c_int, command: c_int, object: &T) -> i64 {
    fcntl(fd, command, address(&raw const *object))
}

/// `perf_event_open` for a thread on any CPU, in the group of another event or (-1) in none.
///
/// # Errors
/// The kernel's error number.
pub fn perf_event_open<T>(
    attributes: &T,
    tid: u32,
    group: c_int,
    flags: u64,
) -> Result<c_int, i32> {
    let any_cpu = u64::MAX;
    let result = call(
        libc::SYS_perf_event_open,
        &[
            address(&raw const *attributes),
            u64::from(tid),
            any_cpu,
            i64::from(group) as u64,
            flags,
        ],
    );
    checked(result).map(|fd| fd as c_int)
}

/// Reads words from a descriptor; returns the number of bytes, 0 when it cannot be read.
///
/// # Signal safety
/// One system call.
pub fn read<const N: usize>(fd: c_int, words: &mut [u64; N]) -> usize {
    let bytes = size_of::<[u64; N]>() as u64;
    let result = call(
        libc::SYS_read,
        &[fd as u64, address(words.as_mut_ptr()), bytes],
    );
    usize::try_from(result).unwrap_or(0)
}

/// Reads the start of a file into a buffer; returns the number of bytes, 0 when it cannot be read.
pub fn read_file(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let opened = call(libc::SYS_openat, &[at, address(path.as_ptr()), flags, 0]);
    let Ok(fd) = checked(opened) else {
        return 0;
    };
    let destination = address(buffer.as_mut_ptr());
    let result = call(
        libc::SYS_read,
        &[fd as u64, destination, buffer.len() as u64],
    );
    close(fd as c_int);
    usize::try_from(result).unwrap_or(0)
}

/// `ioctl` with a number.
pub fn ioctl(fd: c_int, request: u64, argument: u64) -> i64 {
    call(libc::SYS_ioctl, &[fd as u64, request, argument])
}

/// The soft limit on open descriptors.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let resource = libc::RLIMIT_NOFILE as u64;
    call(
        libc::SYS_prlimit64,
        &[0, resource, 0, address(&raw mut limit)],
    );
    limit.rlim_cur
}
