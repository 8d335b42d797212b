//! Copies of unpacked debug information in the symbol cache: opened, and kept for later runs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::fstatfs;
use nix::unistd::geteuid;

/// A temporary file this old was left behind by a process that died: a copy takes seconds to write at most.
const COPY_ABANDONED_AFTER: Duration = Duration::from_secs(120);

/// Where a copy of debug information is kept, or is to be.
#[derive(Debug)]
pub(super) struct CopyPlace<'a> {
    pub directory: &'a Path,
    pub name: String,
    pub bytes: u64,
}

impl CopyPlace<'_> {
    /// Opens the copy, if it is there and of the right size. It counts as used now.
    pub fn open(&self) -> Option<File> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .open(self.directory.join(&self.name))
            .ok()?;
        let metadata = file.metadata().ok()?;
        // It will be mapped, and its owner could truncate it meanwhile.
        let is_trusted = [0, geteuid().as_raw()].contains(&metadata.uid());
        if !is_trusted || !metadata.is_file() || metadata.len() != self.bytes {
            return None;
        }
        touch(&file);
        if is_local(&file) {
            return Some(file);
        }
        // On a network file system, access to a mapped file that another host has removed is a SIGBUS.
        private_copy(&file, self.bytes)
    }

    /// Keeps a copy. One process at a time writes it: of a thousand ranks that share the directory, all others do without.
    pub fn keep(&self, mut file: &File) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.directory)?;
        let temporary = self.directory.join(format!(".{}.tmp", self.name));
        let age = fs::symlink_metadata(&temporary).and_then(|metadata| metadata.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > COPY_ABANDONED_AFTER) {
            fs::remove_file(&temporary).unwrap_or_default();
        }
        let mut copy = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        let written = io::copy(&mut file, &mut copy)
            // Unlike the other files it has no check of its content: it must not be there before that is.
            .and_then(|_| copy.sync_data())
            .and_then(|()| fs::rename(&temporary, self.directory.join(&self.name)));
        if written.is_err() {
            fs::remove_file(&temporary).unwrap_or_default();
        }
        written
    }
}

/// Marks a file as used now. In a read-only cache that fails, and there nothing is pruned either.
pub(super) fn touch(file: &File) {
    file.set_modified(SystemTime::now()).unwrap_or_default();
}

/// An empty file in memory, for debug information.
pub(super) fn memory_file() -> Option<File> {
    let file = memfd_create(c"rsys-debug", MFdFlags::MFD_CLOEXEC);
    file.ok().map(File::from)
}

/// A copy of a file of so many bytes, in memory.
fn private_copy(mut file: &File, bytes: u64) -> Option<File> {
    let mut own = memory_file()?;
    let copied = io::copy(&mut file, &mut own).ok()?;
    (copied == bytes).then_some(own)
}

/// Whether a file lies on a file system of this machine, where what is open stays as long as it is open.
fn is_local(file: &File) -> bool {
    /// ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, ramfs and overlays of such, by the numbers of linux/magic.h and OpenZFS.
    const LOCAL: [u32; 8] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0x0102_1994,
        0x8584_58f6,
        0x794c_7630,
    ];
    let found = fstatfs(file).map(|found| found.filesystem_type().0 as u32);
    found.is_ok_and(|found| LOCAL.contains(&found))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_private_copy_is_whole_or_none() {
        let copied = |bytes: u64| {
            let mut file = memory_file().unwrap();
            file.write_all(&[7; 1_000]).unwrap();
            let again = File::open(format!(
                "/proc/self/fd/{}",
                std::os::fd::AsRawFd::as_raw_fd(&file)
            ));
            private_copy(&again.unwrap(), bytes)
        };
        let mut read = [0; 1_000];
        copied(1_000).unwrap().read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read, [7; 1_000]);
        assert!(copied(999).is_none());
    }
}
