//! A zip archive of files that are small enough to be in memory.
//!
//! Compressed by libdeflate at its best, which takes some percent less room than what Python packs with; any reader of zip reads it.
//! Layout: APPNOTE 6.3.3, sections 4.3.7 (local headers), 4.3.12 (directory) and 4.3.16 (its end).

use anyhow::{Context, Result};
use libdeflater::{CompressionLvl, Compressor, Crc};

const DEFLATED: u16 = 8;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const VERSION_NEEDED: u16 = 20;
/// Made on Unix, so that the upper half of the attributes are its permissions.
const MADE_BY: u16 = 3 << 8 | VERSION_NEEDED;
/// 1980-01-01, the first day that there is: installers give files their own times.
const DATE: u16 = 1 << 5 | 1;
const REGULAR_FILE: u32 = 0o100_000;

/// An archive that grows.
#[derive(Debug, Default)]
pub struct Archive {
    files: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Archive {
    /// Adds a file with these permissions.
    pub fn add(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let packed = deflated(content)?;
        let mut sum = Crc::new();
        sum.update(content);
        let offset = u32::try_from(self.files.len())?;
        // What both headers have.
        let mut common = Vec::new();
        for word in [VERSION_NEEDED, FLAGS, DEFLATED, 0, DATE] {
            common.extend(word.to_le_bytes());
        }
        let sizes = [u32::try_from(packed.len())?, u32::try_from(content.len())?];
        for word in [sum.sum(), sizes[0], sizes[1]] {
            common.extend(word.to_le_bytes());
        }
        for word in [u16::try_from(name.len())?, 0] {
            common.extend(word.to_le_bytes());
        }
        self.files.extend(b"PK\x03\x04");
        self.files.extend(&common);
        self.files.extend(name.as_bytes());
        self.files.extend(packed);

        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(MADE_BY.to_le_bytes());
        self.directory.extend(&common);
        // No comment, the first disk, no kind of content.
        self.directory.extend([0; 6]);
        let attributes = (REGULAR_FILE | mode) << 16;
        self.directory.extend(attributes.to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count = self.count.checked_add(1).context("too many files")?;
        Ok(())
    }

    /// The archive's bytes.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut bytes = self.files;
        let start = u32::try_from(bytes.len())?;
        let length = u32::try_from(self.directory.len())?;
        bytes.extend(self.directory);
        bytes.extend(b"PK\x05\x06");
        for word in [0, 0, self.count, self.count] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(length.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend([0; 2]);
        Ok(bytes)
    }
}

fn deflated(content: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut packed = vec![0; compressor.deflate_compress_bound(content.len())];
    let length = compressor
        .deflate_compress(content, &mut packed)
        .map_err(|error| anyhow::anyhow!("cannot compress: {error:?}"))?;
    packed.truncate(length);
    Ok(packed)
}
