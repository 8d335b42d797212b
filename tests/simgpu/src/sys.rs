//! System calls that must not pass through our own hooks, and the few mappings that the driver makes.

use std::ffi::CStr;
use std::io;
use std::ptr;

/// Sets `errno` and returns -1, as system calls do.
pub fn fail(error: i32) -> i32 {
    // SAFETY: errno is a plain variable of the calling thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Opens a file of our own.
///
/// # Errors
/// What the system says.
pub fn open(path: &CStr, flags: i32) -> io::Result<i32> {
    // SAFETY: the path is NUL-terminated.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) };
    if fd < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(fd as i32)
    }
}

/// Closes a descriptor of our own.
pub fn close(fd: i32) {
    // SAFETY: callers own the descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Whether a file is there.
pub fn exists(path: &CStr) -> bool {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::syscall(libc::SYS_access, path.as_ptr(), libc::F_OK) == 0 }
}

/// Device number and inode of an open file; none when it is not open.
pub fn identity(fd: i32) -> Option<(u64, u64)> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the structure of the C library for 64-bit machines is that of the system call.
    let status = unsafe {
        if libc::syscall(libc::SYS_fstat, fd, status.as_mut_ptr()) != 0 {
            return None;
        }
        status.assume_init()
    };
    Some((status.st_dev, status.st_ino))
}

/// A new memory file of this size, with nothing in it.
///
/// # Errors
/// What the system says.
pub fn memory_file(name: &CStr, size: u64) -> io::Result<i32> {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = fd as i32;
    // SAFETY: `fd` is a file of our own.
    if unsafe { libc::ftruncate(fd, size.cast_signed()) } != 0 {
        let error = io::Error::last_os_error();
        close(fd);
        return Err(error);
    }
    Ok(fd)
}

/// Writes the first bytes of a file of our own.
///
/// # Errors
/// What the system says.
pub fn write_at_start(fd: i32, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the bytes are there.
    let written = unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), 0) };
    if written.try_into() == Ok(bytes.len()) {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads the first bytes of a file. Returns whether there are so many.
pub fn read_at_start(fd: i32, into: &mut [u8]) -> bool {
    // SAFETY: there is room for the bytes.
    let read = unsafe { libc::pread(fd, into.as_mut_ptr().cast(), into.len(), 0) };
    read.try_into() == Ok(into.len())
}

/// Lets a descriptor of our own survive `exec`.
pub fn keep_over_exec(fd: i32) {
    // SAFETY: only the descriptor's flag changes.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, 0) };
}

/// Maps a part of a file for reading and writing, shared.
///
/// # Errors
/// What the system says.
pub fn map(fd: i32, offset: u64, size: usize) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, at an address of the system's choice, overwrites nothing.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            protection,
            flags,
            fd,
            offset.cast_signed(),
        )
    };
    if address == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(address.cast())
    }
}

/// Removes a mapping made by [`map`].
///
/// # Safety
/// Nobody may use it any more.
pub unsafe fn unmap(address: *mut u8, size: usize) {
    // SAFETY: the caller says so.
    unsafe { libc::munmap(address.cast(), size) };
}

/// Gives the memory of a part of a file back to the system.
pub fn punch(fd: i32, offset: u64, size: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: only the content of a file of our own changes. A failure costs memory, nothing else.
    unsafe { libc::fallocate(fd, mode, offset.cast_signed(), size.cast_signed()) };
}

/// Reads memory of our own process that may not be there. Returns whether it is.
pub fn read_guarded(address: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(address as usize),
        iov_len: into.len(),
    };
    // SAFETY: the system checks the address; `into` is ours.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    read.try_into() == Ok(into.len())
}

/// Writes memory of our own process that may not be there. Returns whether it is.
pub fn write_guarded(address: u64, from: &[u8]) -> bool {
    let local = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: from.len(),
    };
    let remote = libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(address as usize),
        iov_len: from.len(),
    };
    // SAFETY: the system checks the address; `from` is only read.
    let written = unsafe {
        libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    written.try_into() == Ok(from.len())
}
