//! Small files of the kernel that are read again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Room for a file: larger ones are cut.
pub const SCRATCH_BYTES: usize = 64 << 10;

/// A file that stays open: reading it from the start makes the kernel write it anew.
#[derive(Debug)]
pub struct KeptFile(File);

impl KeptFile {
    /// Opens it.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// What it holds now.
    ///
    /// # Errors
    /// What the system says; for instance `ESRCH` of a process that is gone.
    pub fn read<'a>(&self, scratch: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let mut filled = 0;
        // The kernel hands out at most a page at a time of some files.
        while filled < scratch.len() {
            match self.0.read_at(&mut scratch[filled..], filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(&scratch[..filled])
    }
}
