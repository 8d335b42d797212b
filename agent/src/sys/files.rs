//! Descriptors and files.

use std::ffi::c_int;

use crate::sys::calls;
use crate::sys::{address, checked};

/// Closes a descriptor.
pub fn close(fd: c_int) {
    // SAFETY: a number.
    unsafe { calls::close(fd as u64) };
}

/// Reads a symbolic link into a buffer; returns the number of bytes.
pub fn readlink(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let (name, room) = (address(path.as_ptr()), address(buffer.as_mut_ptr()));
    // SAFETY: a NUL-terminated path, and a buffer with its length.
    let result = unsafe { calls::readlinkat(at, name, room, buffer.len() as u64) };
    usize::try_from(result).unwrap_or(0)
}

/// The path of what `path` leads to where its last part is a symbolic link, to another perhaps, in a buffer. `None` where that cannot be known:
/// it is not there, too long, or behind too many links.
#[unsafe(link_section = "rsys_start")]
pub fn follow_links<'a>(path: &std::ffi::CStr, buffer: &'a mut [u8; 1024]) -> Option<&'a [u8]> {
    const LINKS_MAX: usize = 8;
    let mut length = put(buffer, 0, path.to_bytes())?;
    for _ in 0..=LINKS_MAX {
        let mut target = [0_u8; 256];
        let (name, room) = (address(buffer.as_ptr()), address(target.as_mut_ptr()));
        let bytes = target.len() as u64;
        // SAFETY: a NUL-terminated path, and a buffer with its length.
        let result = unsafe { calls::readlinkat(libc::AT_FDCWD as u64, name, room, bytes) };
        if result == -i64::from(libc::EINVAL) {
            return buffer.get(..length);
        }
        // One that fills the buffer may be longer.
        let bytes = usize::try_from(result).ok();
        let target = target.get(..bytes.filter(|bytes| *bytes < target.len())?)?;
        let before = buffer.iter().take(length);
        let start = match target.first()? {
            b'/' => 0,
            _ => length - before.rev().take_while(|byte| **byte != b'/').count(),
        };
        length = put(buffer, start, target)?;
    }
    None
}

/// Writes a text with a NUL behind it to a place in a buffer, and says where the NUL is; `None` if there is no room.
#[inline]
fn put(buffer: &mut [u8; 1024], start: usize, text: &[u8]) -> Option<usize> {
    let end = start + text.len();
    let room = buffer.get_mut(start..end + 1)?;
    let bytes = text.iter().copied().chain(std::iter::once(0));
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = from;
    }
    Some(end)
}

/// `fcntl`. A negative result is `-errno`.
///
/// # Safety
/// As `fcntl(2)`: for some commands the argument is an object's address.
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: u64) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { calls::fcntl(fd as u64, command as u64, argument) }
}

/// The signal that a descriptor sends when something can be read; 0 for SIGIO, negative when there is no such descriptor.
///
/// # Signal safety
/// One system call.
pub fn signal_of(fd: c_int) -> i64 {
    /// F_GETSIG, from include/uapi/asm-generic/fcntl.h.
    const GET_SIGNAL: c_int = 11;
    // SAFETY: the command takes no argument.
    unsafe { fcntl(fd, GET_SIGNAL, 0) }
}

/// Sets the signal that [`signal_of`] returns. Returns whether that was done.
pub fn set_signal_of(fd: c_int, signal: c_int) -> bool {
    /// F_SETSIG, from the same.
    const SET_SIGNAL: c_int = 10;
    // SAFETY: the command takes a number.
    unsafe { fcntl(fd, SET_SIGNAL, signal as u64) >= 0 }
}

/// Duplicates a descriptor to the lowest free number from `lowest` on, close-on-exec.
///
/// # Errors
/// The kernel's error number.
pub fn duplicate_from(fd: c_int, lowest: u64) -> Result<c_int, i32> {
    // SAFETY: the command takes a number.
    checked(unsafe { fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) }).map(|fd| fd as c_int)
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
    let attributes = address(&raw const *attributes);
    let group = i64::from(group) as u64;
    // SAFETY: the attributes say their own size, and are only read but for that.
    let result =
        unsafe { calls::perf_event_open(attributes, u64::from(tid), any_cpu, group, flags) };
    checked(result).map(|fd| fd as c_int)
}

/// Reads words from a descriptor; returns the number of bytes, 0 when it cannot be read.
///
/// # Signal safety
/// One system call.
pub fn read<const N: usize>(fd: c_int, words: &mut [u64; N]) -> usize {
    let bytes = size_of::<[u64; N]>() as u64;
    // SAFETY: the words have this many bytes, and any bytes are words.
    let result = unsafe { calls::read(fd as u64, address(words.as_mut_ptr()), bytes) };
    usize::try_from(result).unwrap_or(0)
}

/// Reads the start of a file into a buffer; returns the number of bytes, 0 when it cannot be read.
pub fn read_file(path: &std::ffi::CStr, buffer: &mut [u8]) -> usize {
    let at = libc::AT_FDCWD as u64;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    // SAFETY: a NUL-terminated path.
    let opened = unsafe { calls::openat(at, address(path.as_ptr()), flags, 0) };
    let Ok(fd) = checked(opened) else {
        return 0;
    };
    let destination = address(buffer.as_mut_ptr());
    // SAFETY: a buffer with its length.
    let result = unsafe { calls::read(fd as u64, destination, buffer.len() as u64) };
    close(fd as c_int);
    usize::try_from(result).unwrap_or(0)
}

/// Opens a file for reading, without waiting for anything. The kernel looks whether there is a path at all.
///
/// # Errors
/// The kernel's error number.
pub fn open_at(folder: c_int, path: *const std::ffi::c_char) -> Result<c_int, i32> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let at = i64::from(folder) as u64;
    // SAFETY: the kernel refuses an address that is no path.
    let opened = unsafe { calls::openat(at, address(path), flags as u64, 0) };
    checked(opened).map(|fd| fd as c_int)
}

/// Reads a part of a file into a buffer; returns the number of bytes, 0 when it cannot be read.
pub fn pread(fd: c_int, buffer: &mut [u8], offset: u64) -> usize {
    let destination = address(buffer.as_mut_ptr());
    // SAFETY: a buffer with its length.
    let result = unsafe { calls::pread64(fd as u64, destination, buffer.len() as u64, offset) };
    usize::try_from(result).unwrap_or(0)
}

/// Whether the process may use a file so (`R_OK`, `X_OK`), by its real user, who it is after an exec.
///
/// # Errors
/// The kernel's error number.
pub fn access(path: *const std::ffi::c_char, mode: c_int) -> Result<(), i32> {
    let at = libc::AT_FDCWD as u64;
    // SAFETY: the kernel refuses an address that is no path.
    let result = unsafe { calls::faccessat(at, address(path), mode as u64) };
    checked(result).map(drop)
}

/// `ioctl`. A negative result is `-errno`.
///
/// # Safety
/// As `ioctl(2)`: what the argument must be depends on the request.
pub unsafe fn ioctl(fd: c_int, request: u64, argument: u64) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { calls::ioctl(fd as u64, request, argument) }
}

/// The soft limit on open descriptors.
pub fn descriptor_limit() -> u64 {
    limit_on(libc::RLIMIT_NOFILE as u64).rlim_cur
}

/// The soft limit on the first thread's stack.
pub fn stack_limit() -> u64 {
    limit_on(libc::RLIMIT_STACK as u64).rlim_cur
}

/// The soft limits on the memory of data, and on all memory.
pub fn memory_limits() -> [u64; 2] {
    [libc::RLIMIT_DATA, libc::RLIMIT_AS].map(|resource| limit_on(resource as u64).rlim_cur)
}

/// The soft limit on signals that this user may have pending, of which each timer takes one.
pub fn pending_signals_limit() -> u64 {
    limit_on(libc::RLIMIT_SIGPENDING as u64).rlim_cur
}

/// A limit of this process (`RLIMIT_*`); zeros when the kernel does not say.
pub(super) fn limit_on(resource: u64) -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for what the kernel writes.
    unsafe { calls::prlimit64(0, resource, 0, address(&raw mut limit)) };
    limit
}

/// Sets a limit of this process. Returns whether that was done.
pub(super) fn set_limit_on(resource: u64, limit: &libc::rlimit) -> bool {
    // SAFETY: the kernel reads the limit.
    unsafe { calls::prlimit64(0, resource, address(&raw const *limit), 0) >= 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::CString;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = std::env::temp_dir().join(format!("rsys-links-{}", std::process::id()));
        let text = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let follow = |path: &str| {
            let path = CString::new(path).unwrap();
            let mut buffer = [0; 1024];
            let found = follow_links(&path, &mut buffer)?;
            Some(String::from_utf8(found.to_vec()).unwrap())
        };
        fs::create_dir_all(folder.join("lib/x")).unwrap();
        fs::write(folder.join("lib/x/program-12"), "").unwrap();
        symlink("program-12", folder.join("lib/x/program")).unwrap();
        symlink(text("lib/x/program"), folder.join("whole")).unwrap();
        symlink("lib/x/program", folder.join("relative")).unwrap();
        symlink("round", folder.join("round")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        // What fits into the buffer leads to a folder, which is no link.
        symlink(
            format!("{}lib/x/program", "./".repeat(125)),
            folder.join("long"),
        )
        .unwrap();
        let end = text("lib/x/program-12");
        for name in ["lib/x/program-12", "lib/x/program", "whole", "relative"] {
            assert_eq!(follow(&text(name)), Some(end.clone()), "{name}");
        }
        for name in ["round", "dangling", "long", "not/there"] {
            assert_eq!(follow(&text(name)), None, "{name}");
        }
        assert_eq!(follow(&"x/".repeat(600)), None);
        assert_eq!(follow("/"), Some("/".to_owned()));
        fs::remove_dir_all(folder).unwrap();
    }
}
