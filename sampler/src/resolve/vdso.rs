//! The vDSO: a small ELF file that the kernel maps into every process and that lies in no file
//! system.
//!
//! One kernel has one vDSO for all processes of a kind, so ours serves for theirs; the build-id
//! tells when it does not (a 32-bit process, a record from another machine). It is copied into a
//! memory file so that it can be opened like any other.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// No vDSO is larger than a few pages.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// Whether a module's path stands for the vDSO.
pub(super) fn is_vdso(path: &Path) -> bool {
    let Some(path) = path.to_str() else {
        return false;
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "[vdso]"
        || (name.starts_with("linux-vdso") || name.starts_with("linux-gate"))
            && name.contains(".so")
}

/// A copy of our own vDSO. The path is good as long as the file is open.
pub(super) fn copy_to_memory_file() -> io::Result<(File, PathBuf)> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = maps
        .lines()
        .find(|line| line.ends_with("[vdso]"))
        .and_then(|line| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            Some((
                u64::from_str_radix(start, 16).ok()?,
                u64::from_str_radix(end, 16).ok()?,
            ))
        })
        .filter(|&(start, end)| end > start && end - start <= VDSO_BYTES_MAX)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this process has no vDSO"))?;

    let mut image = vec![0; (end - start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut image, start)?;
    let mut file = File::from(memfd_create(c"rsys-vdso", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&image)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok((file, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_vdso() {
        for path in [
            "[vdso]",
            "linux-vdso.so.1",
            "/lib/linux-vdso64.so.1",
            "linux-gate.so.1",
        ] {
            assert!(is_vdso(Path::new(path)), "{path}");
        }
        for path in ["[vsyscall]", "/usr/lib/libvdso.so", "linux-vdso"] {
            assert!(!is_vdso(Path::new(path)), "{path}");
        }
    }
}
