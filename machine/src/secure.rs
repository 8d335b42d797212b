//! Programs that gain rights when they start. The kernel tells their loader, which then leaves out what `LD_PRELOAD` names.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{getegid, geteuid};

/// Why a program gains rights when this user starts it, as words behind its name: `is a setuid program`.
#[must_use]
pub fn gained_rights(path: &Path) -> Option<&'static str> {
    let metadata = fs::metadata(path).ok()?;
    let mode = metadata.permissions().mode();
    let euid = geteuid();
    if mode & libc::S_ISUID != 0 && metadata.uid() != euid.as_raw() {
        return Some("is a setuid program");
    }
    if mode & libc::S_ISGID != 0 && metadata.gid() != getegid().as_raw() {
        return Some("is a setgid program");
    }
    (!euid.is_root() && has_file_capabilities(path)).then_some("has file capabilities")
}

/// Whether a file has capabilities.
fn has_file_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in NUL, and a size of 0 asks for the length only.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    length > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_gained_by_who_lacks_them() {
        assert_eq!(gained_rights(Path::new("/bin/sh")), None);
        assert_eq!(gained_rights(Path::new("/nowhere")), None);
        let su = gained_rights(Path::new("/bin/su"));
        assert_eq!(su.is_none(), geteuid().is_root(), "{su:?}");
    }
}
