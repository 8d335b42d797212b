//! An archive (tar, as POSIX has it) of several traces with a manifest, which newer viewers open as one.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::FileExt;

use crate::{BUFFER_BYTES, Failure};

const BLOCK: usize = 512;

/// An archive that is being written.
pub(super) struct Archive {
    out: BufWriter<File>,
}

impl Archive {
    pub(super) fn new(file: File) -> Self {
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
        }
    }

    /// Adds a file, which `write` writes. Its size need not be known before.
    ///
    /// # Errors
    /// When `write` fails, or the archive cannot be written.
    pub(super) fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let head_at = self.out.stream_position()?;
        self.out.write_all(&[0; BLOCK])?;
        write(&mut self.out)?;
        let end = self.out.stream_position()?;
        let bytes = end - head_at - BLOCK as u64;
        let rest = bytes.next_multiple_of(BLOCK as u64) - bytes;
        self.out.write_all(&[0; BLOCK][..rest as usize])?;
        self.out.flush()?;
        Ok(self
            .out
            .get_ref()
            .write_all_at(&head(name, bytes), head_at)?)
    }

    /// Two empty blocks end it.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()
    }
}

/// What stands in front of a file.
fn head(name: &str, bytes: u64) -> [u8; BLOCK] {
    let mut head = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    let name = name.as_bytes();
    put(0, &name[..name.len().min(99)]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    match bytes < 1 << 33 {
        true => put(124, format!("{bytes:011o}\0").as_bytes()),
        // What has no room in octal digits is written in bytes (GNU).
        false => {
            put(124, &[0x80, 0, 0, 0]);
            put(128, &bytes.to_be_bytes());
        }
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}
