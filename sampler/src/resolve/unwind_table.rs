//! Where functions begin and end in a file without symbols: its unwind table knows, which stripping leaves in place.
//!
//! Format: Linux Standard Base, "Exception Frames" (`.eh_frame`, `.eh_frame_hdr`). Only the encodings that linkers write are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, ReadCache};

/// Larger tables of functions are not read.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a frame description entry up to the length of its function: length, common entry, start, size.
const ENTRY_BYTES: usize = 16;
/// Bytes of a row of the table.
const ROW_BYTES: usize = 8;

/// The functions of an ELF file, by its unwind table.
#[derive(Debug)]
pub(super) struct UnwindTable {
    file: File,
    rows: Rows,
    /// What has to be subtracted from an address in `.eh_frame` to have its place in the file.
    bias: u64,
}

impl UnwindTable {
    /// The table of the file at `path`. `None` when it has none, or one that is not understood.
    pub fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let (rows, bias) = {
            let cache = ReadCache::new(&file);
            // The sections alone: a file as a whole is read with its symbols.
            let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
            let sections = header.sections(LittleEndian, &cache).ok()?;
            let named = |name: &[u8]| sections.section_by_name(LittleEndian, name);
            let (_, entries) = named(b".eh_frame")?;
            let (_, table) = named(b".eh_frame_hdr")?;
            let address = table.sh_addr(LittleEndian);
            let table = (table.sh_size(LittleEndian) <= TABLE_BYTES_MAX)
                .then(|| table.data(LittleEndian, &cache).ok())
                .flatten()?;
            let (offset, _) = entries.file_range(LittleEndian)?;
            let bias = entries.sh_addr(LittleEndian).wrapping_sub(offset);
            (Rows::new(table, address)?, bias)
        };
        Some(Self { file, rows, bias })
    }

    /// The first address of the function that `vaddr` lies in.
    pub fn function_start(&self, vaddr: u64) -> Option<u64> {
        let (start, entry) = self.rows.get(self.rows.after(vaddr).checked_sub(1)?)?;
        let mut bytes = [0; ENTRY_BYTES];
        let place = entry.wrapping_sub(self.bias);
        self.file.read_exact_at(&mut bytes, place).ok()?;
        let size = function_bytes(&bytes, entry, start)?;
        (vaddr - start < size).then_some(start)
    }
}

/// The rows of an `.eh_frame_hdr`, as they stand there: a compiler has 45,000, of which a run asks for some.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    address: u64,
}

impl Rows {
    /// The rows of a table that is at an address. `None` when it is not understood.
    pub fn new(table: &[u8], address: u64) -> Option<Self> {
        // Version 1; a relative pointer, a plain number, then pairs of 32-bit offsets from here, as all linkers write it.
        let rest = table.strip_prefix(&[1, 0x1b, 0x03, 0x3b])?.get(4..)?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let rows = rest.len() / ROW_BYTES;
        let count = rows.min(u32::from_le_bytes(*count) as usize);
        let bytes = rest.get(..count * ROW_BYTES)?.to_vec();
        Some(Self { bytes, address })
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / ROW_BYTES
    }

    /// A row: first address of a function and address of its entry. They ascend.
    pub fn get(&self, row: usize) -> Option<(u64, u64)> {
        let bytes = self.bytes.get(row.checked_mul(ROW_BYTES)?..)?;
        let (start, rest) = bytes.split_first_chunk::<4>()?;
        let address = |offset: &[u8; 4]| {
            let offset = i64::from(i32::from_le_bytes(*offset));
            self.address.wrapping_add_signed(offset)
        };
        Some((address(start), address(rest.first_chunk()?)))
    }

    /// The first row whose function begins behind `vaddr`.
    pub fn after(&self, vaddr: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) {
                Some((start, _)) if start <= vaddr => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }
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
        let all = |rows: &Rows| (0..9).map_while(|row| rows.get(row)).collect::<Vec<_>>();
        let rows = Rows::new(&table, 0x1000).unwrap();
        assert_eq!(all(&rows), [(0xf00, 0x1007), (0x1020, 0x1008)]);
        let after = [0xeff, 0xf00, 0x101f, 0x1020, 0x2000].map(|vaddr| rows.after(vaddr));
        assert_eq!(after, [0, 1, 1, 2, 2]);
        let cut = Rows::new(&table[..20], 0x1000).unwrap();
        assert_eq!(all(&cut), [(0xf00, 0x1007)]);
        assert_eq!(Rows::new(&[1, 0x1b, 0x03, 0x1b], 0x1000), None);
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
