//! Memory: mapped, unmapped, made to be shared.

use std::ffi::{c_int, c_void};

use super::{address, call, checked, close};

/// Unmaps memory.
///
/// # Safety
/// Nothing may refer to it any more.
pub unsafe fn munmap(base: *mut c_void, bytes: usize) {
    call(libc::SYS_munmap, &[address(base), bytes as u64]);
}

/// Maps memory of our own or of a descriptor, readable and writable.
///
/// # Errors
/// The kernel's error number.
pub fn mmap(bytes: usize, flags: c_int, fd: c_int) -> Result<*mut u8, i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let result = call(
        libc::SYS_mmap,
        &[
            0,
            bytes as u64,
            protection as u64,
            flags as u64,
            fd as u64,
            0,
        ],
    );
    if (-4095..0).contains(&result) {
        return Err(-result as i32);
    }
    Ok(std::ptr::with_exposed_provenance_mut(result as usize))
}

/// Makes memory inaccessible.
pub fn forbid(base: *mut u8, bytes: usize) {
    call(
        libc::SYS_mprotect,
        &[address(base), bytes as u64, libc::PROT_NONE as u64],
    );
}

/// Makes a memfd of a fixed size that can neither shrink nor grow.
///
/// # Errors
/// The kernel's error number; `EFBIG` when the process's file-size limit forbids the size.
pub fn sealed_memfd(bytes: usize) -> Result<c_int, i32> {
    // A file-size limit would kill the process with SIGXFSZ in ftruncate: look before.
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let resource = libc::RLIMIT_FSIZE as u64;
    call(
        libc::SYS_prlimit64,
        &[0, resource, 0, address(&raw mut limit)],
    );
    let raised = limit.rlim_cur < bytes as u64;
    if raised {
        // Beyond the hard limit only for the privileged.
        let most = limit.rlim_max.max(bytes as u64);
        let wider = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        let wide = address(&raw const wider);
        if call(libc::SYS_prlimit64, &[0, resource, wide, 0]) < 0 {
            return Err(libc::EFBIG);
        }
    }
    let made = memfd_of_size(bytes);
    if raised {
        call(
            libc::SYS_prlimit64,
            &[0, resource, address(&raw const limit), 0],
        );
    }
    made
}

fn memfd_of_size(bytes: usize) -> Result<c_int, i32> {
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let fd = checked(call(
        libc::SYS_memfd_create,
        &[address(c"rsys".as_ptr()), flags],
    ))? as c_int;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let sized = checked(call(libc::SYS_ftruncate, &[fd as u64, bytes as u64])).and_then(|_| {
        checked(call(
            libc::SYS_fcntl,
            &[fd as u64, libc::F_ADD_SEALS as u64, seals as u64],
        ))
    });
    match sized {
        Ok(_) => Ok(fd),
        Err(error) => {
            close(fd);
            Err(error)
        }
    }
}
