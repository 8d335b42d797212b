//! Where functions begin and end in a file without symbols: its unwind table knows, which stripping leaves in place.
//!
//! Format: Linux Standard Base, "Exception Frames" (`.eh_frame`, `.eh_frame_hdr`). Only the encodings that linkers write are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::{Object, ObjectSection, ReadCache};

/// Larger tables of functions are not read.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a frame description entry up to the length of its function: length, common entry, start, size.
const ENTRY_BYTES: usize = 16;

/// The functions of an ELF file, by its unwind table.
#[derive(Debug)]
pub(super) struct UnwindTable {
    file: File,
    /// First address and address of the frame description entry, in the order of the former.
    rows: Vec<(u64, u64)>,
    /// What has to be subtracted from an address in `.eh_frame` to have its place in the file.
    bias: u64,
}

impl UnwindTable {
    /// The table of the file at `path`. `None` when it has none, or one that is not understood.
    pub fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let (rows, bias) = {
            let cache = ReadCache::new(&file);
            let object = object::File::parse(&cache).ok()?;
            let header = object.section_by_name(".eh_frame_hdr")?;
            let entries = object.section_by_name(".eh_frame")?;
            let table = (header.size() <= TABLE_BYTES_MAX)
                .then(|| header.data().ok())
                .flatten()?;
            let (offset, _) = entries.file_range()?;
            let rows = rows(table, header.address())?;
            (rows, entries.address().wrapping_sub(offset))
        };
        Some(Self { file, rows, bias })
    }

    /// The first address of the function that `vaddr` lies in.
    pub fn function_start(&self, vaddr: u64) -> Option<u64> {
        let after = self.rows.partition_point(|(start, _)| *start <= vaddr);
        let &(start, entry) = self.rows.get(after.checked_sub(1)?)?;
        let mut bytes = [0; ENTRY_BYTES];
        let place = entry.wrapping_sub(self.bias);
        self.file.read_exact_at(&mut bytes, place).ok()?;
        let size = function_bytes(&bytes, entry, start)?;
        (vaddr - start < size).then_some(start)
    }
}

/// The rows of an `.eh_frame_hdr` at an address: first address of each function and address of its entry, ascending.
pub(super) fn rows(table: &[u8], address: u64) -> Option<Vec<(u64, u64)>> {
    // Version 1; a relative pointer, a plain number, then pairs of 32-bit offsets from here, as all linkers write it.
    let rest = table.strip_prefix(&[1, 0x1b, 0x03, 0x3b])?.get(4..)?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let offset = |bytes: &[u8; 4]| {
        let offset = i32::from_le_bytes(*bytes);
        address.wrapping_add_signed(i64::from(offset))
    };
    let rows = rest.chunks_exact(8).take(count);
    Some(
        rows.filter_map(|row| {
            let (start, entry) = row.split_first_chunk::<4>()?;
            Some((offset(start), offset(entry.first_chunk()?)))
        })
        .collect(),
    )
}

/// The size of the function at `start` by its entry at address `entry`; `None` where the entry is not of this function, or in another encoding
/// than a relative 32-bit start.
fn function_bytes(bytes: &[u8; ENTRY_BYTES], entry: u64, start: u64) -> Option<u64> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let is_entry = !matches!(word(0)?, 0 | u32::MAX) && word(4)? != 0;
    let relative = i64::from(word(8)?.cast_signed());
    let begins = entry.wrapping_add(8).wrapping_add_signed(relative);
    (is_entry && begins == start)
        .then(|| word(12))
        .flatten()
        .map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_functions_is_read() {
        let mut table = vec![1, 0x1b, 0x03, 0x3b, 9, 9, 9, 9, 2, 0, 0, 0];
        for (start, entry) in [(-0x100_i32, 7_i32), (0x20, 8), (0x30, 9)] {
            table.extend(start.to_le_bytes());
            table.extend(entry.to_le_bytes());
        }
        assert_eq!(
            rows(&table, 0x1000),
            Some(vec![(0xf00, 0x1007), (0x1020, 0x1008)])
        );
        assert_eq!(rows(&table[..20], 0x1000), Some(vec![(0xf00, 0x1007)]));
        assert_eq!(rows(&[1, 0x1b, 0x03, 0x1b], 0x1000), None);
    }

    #[test]
    fn an_entry_counts_if_it_is_of_the_function() {
        let entry = |words: [u32; 4]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            <[u8; ENTRY_BYTES]>::try_from(bytes).unwrap()
        };
        let good = entry([20, 4, 0x1000, 0x30]);
        assert_eq!(function_bytes(&good, 0x500, 0x1508), Some(0x30));
        assert_eq!(function_bytes(&good, 0x500, 0x1500), None);
        // A common entry, the end of the table, the 64-bit form.
        for words in [
            [20, 0, 0x1000, 0x30],
            [0, 4, 0x1000, 0x30],
            [u32::MAX, 4, 0x1000, 0x30],
        ] {
            assert_eq!(function_bytes(&entry(words), 0x500, 0x1508), None);
        }
    }
}
