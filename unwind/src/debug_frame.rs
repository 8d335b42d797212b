//! `.debug_frame`, which is not loaded with its program, made into what is: a table as in `.eh_frame_hdr` with entries as in `.eh_frame`.
//!
//! Compilers write it instead of `.eh_frame` where they are told to make no unwind tables (`-fno-asynchronous-unwind-tables -g`). Whoever walks
//! reads the section from the file, converts it here, and hands the table in by [`crate::Modules::more_tables`].
//!
//! Format: DWARF 5, section 6.4.1. What differs from `.eh_frame`: a CIE is told by an id of all ones, an FDE names its CIE by the place in the
//! section, code is named by its address in the file, and from DWARF 4 on a CIE says how long addresses are.

/// Bytes of the table in front of its rows: version, three encodings, `.eh_frame` (none), the number of rows; and room to align.
const HEADER_BYTES: usize = 16;
/// Bytes of a row: two addresses.
const ROW_BYTES: usize = 16;
/// Encodings of pointers (Linux Standard Base): an address, a number of four bytes, nothing.
const ADDRESS: u8 = 0x00;
const FOUR_BYTES: u8 = 0x03;
const OMIT: u8 = 0xff;
/// Entries become shorter, or stay as they are.
const MORE_BYTES: usize = 64;

/// How many bytes [`convert`] needs for a section.
#[must_use]
pub fn bytes_for(section: &[u8]) -> Option<usize> {
    let rows = entries(section).filter(|entry| !entry.is_cie).count();
    rows.checked_mul(ROW_BYTES)?
        .checked_add(section.len())?
        .checked_add(HEADER_BYTES.wrapping_add(MORE_BYTES))
}

/// Converts a section into `out`, which will be read at the address `at` (a multiple of eight). `bias` is what the addresses of the code are more than those in the file.
/// Returns how many functions are described. Entries that are not understood are left out.
///
/// # Signal safety
/// Reads and writes the slices only; two passes and a sort.
pub fn convert(section: &[u8], bias: u64, at: u64, out: &mut [u8]) -> usize {
    let most = entries(section).filter(|entry| !entry.is_cie).count();
    let mut writer = Writer {
        out,
        place: HEADER_BYTES.wrapping_add(most.wrapping_mul(ROW_BYTES)),
    };
    let mut rows = 0_usize;
    // Most entries name the CIE of the one before.
    let mut known: Option<(usize, usize)> = None;
    for entry in entries(section).filter(|entry| !entry.is_cie) {
        let written = match known {
            Some((cie, place)) if cie == entry.cie => Some(place),
            _ => writer.cie(section, entry.cie),
        };
        let Some(cie) = written else { continue };
        known = Some((entry.cie, cie));
        let Some((start, place)) = writer.fde(&entry, cie, bias) else {
            continue;
        };
        let row = HEADER_BYTES.wrapping_add(rows.wrapping_mul(ROW_BYTES));
        let address = at.wrapping_add(place as u64);
        if writer.put_at(row, &start.to_le_bytes()).is_some()
            && writer
                .put_at(row.wrapping_add(8), &address.to_le_bytes())
                .is_some()
        {
            rows = rows.wrapping_add(1);
        }
    }
    let header = [1, OMIT, FOUR_BYTES, ADDRESS];
    let count = (rows as u32).to_le_bytes();
    // The number stands directly behind the encodings, and the rows behind it: so it begins eight bytes into the header's room.
    let is_written = writer
        .put_at(HEADER_BYTES.wrapping_sub(8), &header)
        .is_some()
        && writer
            .put_at(HEADER_BYTES.wrapping_sub(4), &count)
            .is_some();
    if !is_written {
        return 0;
    }
    sort(writer.out, rows);
    rows
}

/// Where in what [`convert`] has written the table begins.
pub const TABLE_OFFSET: u64 = HEADER_BYTES as u64 - 8;

/// An entry of the section.
struct Entry<'a> {
    is_cie: bool,
    /// Of an FDE: where its CIE is.
    cie: usize,
    /// What stands behind the id.
    content: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

/// The entry at a place, and where the next one is.
fn entry_at(section: &[u8], place: usize) -> Option<(Entry<'_>, usize)> {
    let short = u32_at(section, place)?;
    let (length, id_at, id_bytes) = match short {
        u32::MAX => (
            usize::try_from(u64_at(section, place.checked_add(4)?)?).ok()?,
            place.checked_add(12)?,
            8,
        ),
        _ => (short as usize, place.checked_add(4)?, 4),
    };
    let end = id_at.checked_add(length)?;
    let content = section.get(id_at.checked_add(id_bytes)?..end)?;
    let (id, all_ones) = match id_bytes {
        8 => (u64_at(section, id_at)?, u64::MAX),
        _ => (u64::from(u32_at(section, id_at)?), u64::from(u32::MAX)),
    };
    let entry = Entry {
        is_cie: id == all_ones,
        cie: usize::try_from(id).ok()?,
        content,
    };
    Some((entry, end))
}

fn entries(section: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut place = 0;
    core::iter::from_fn(move || {
        let (entry, next) = entry_at(section, place)?;
        place = next;
        Some(entry)
    })
}

struct Writer<'a> {
    out: &'a mut [u8],
    place: usize,
}

impl Writer<'_> {
    fn put_at(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let end = at.checked_add(bytes.len())?;
        self.out.get_mut(at..end)?.copy_from_slice(bytes);
        Some(())
    }

    /// Writes an entry of these parts, behind its length, and returns where it begins.
    fn put(&mut self, id: u32, parts: &[&[u8]]) -> Option<usize> {
        let start = self.place;
        let length = parts
            .iter()
            .fold(4_usize, |sum, part| sum.wrapping_add(part.len()));
        self.put_at(start, &u32::try_from(length).ok()?.to_le_bytes())?;
        self.put_at(start.checked_add(4)?, &id.to_le_bytes())?;
        let mut at = start.checked_add(8)?;
        for part in parts {
            self.put_at(at, part)?;
            at = at.checked_add(part.len())?;
        }
        self.place = at;
        Some(start)
    }

    /// The CIE at a place of the section, without what `.eh_frame` does not have. One with an augmentation is not understood.
    fn cie(&mut self, section: &[u8], place: usize) -> Option<usize> {
        let (entry, _) = entry_at(section, place)?;
        let version = *entry.content.first()?;
        if !entry.is_cie || *entry.content.get(1)? != 0 {
            return None;
        }
        let rest = match version {
            1 | 3 => entry.content.get(2..)?,
            // Addresses of eight bytes, and no segments.
            4 if entry.content.get(2..4)? == [8, 0] => entry.content.get(4..)?,
            _ => return None,
        };
        // The return address column is a byte in version 1 alone.
        self.put(0, &[&[version.min(3), 0], rest])
    }

    /// An FDE whose CIE was written to a place. Returns where its function begins, and where it is.
    fn fde(&mut self, entry: &Entry<'_>, cie: usize, bias: u64) -> Option<(u64, usize)> {
        let start = u64_at(entry.content, 0)?;
        // What the linker has thrown away is at zero.
        if start == 0 {
            return None;
        }
        let start = start.wrapping_add(bias);
        let back = self.place.wrapping_add(4).checked_sub(cie)?;
        let place = self.put(
            u32::try_from(back).ok()?,
            &[&start.to_le_bytes(), entry.content.get(8..)?],
        )?;
        Some((start, place))
    }
}

/// Sorts the rows by their first word: they are in order but for what the linker moved away.
fn sort(out: &mut [u8], rows: usize) {
    let at = |number: usize| HEADER_BYTES.wrapping_add(number.wrapping_mul(ROW_BYTES));
    let key = |out: &[u8], number: usize| u64_at(out, at(number)).unwrap_or(0);
    // Shell's: in place, without recursion.
    let mut gap = rows / 2;
    while gap > 0 {
        for right in gap..rows {
            let mut number = right;
            while number >= gap && key(out, number.wrapping_sub(gap)) > key(out, number) {
                for byte in 0..ROW_BYTES {
                    let left = at(number.wrapping_sub(gap)).wrapping_add(byte);
                    let right = at(number).wrapping_add(byte);
                    if left < out.len() && right < out.len() {
                        out.swap(left, right);
                    }
                }
                number = number.wrapping_sub(gap);
            }
        }
        gap /= 2;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::Memory;
    use crate::described_functions;
    use proptest::prelude::*;

    const AT: u64 = 0x10_0000;

    struct Made(Vec<u8>);

    impl Memory for Made {
        fn read_u64(&self, address: u64) -> Option<u64> {
            u64_at(&self.0, usize::try_from(address.checked_sub(AT)?).ok()?)
        }
        fn read_u32(&self, address: u64) -> Option<u32> {
            u32_at(&self.0, usize::try_from(address.checked_sub(AT)?).ok()?)
        }
    }

    /// An entry of DWARF with offsets of four or eight bytes.
    fn entry(is_wide: bool, id: u64, content: &[u8]) -> Vec<u8> {
        let length = content.len() as u64 + if is_wide { 8 } else { 4 };
        match is_wide {
            true => [
                &[0xff; 4],
                &length.to_le_bytes()[..],
                &id.to_le_bytes()[..],
                content,
            ]
            .concat(),
            false => [&length.to_le_bytes()[..4], &id.to_le_bytes()[..4], content].concat(),
        }
    }

    /// A CIE, and functions of 16 bytes at these addresses.
    fn section(is_wide: bool, version: u8, starts: &[u64]) -> Vec<u8> {
        let sizes: &[u8] = if version == 4 { &[8, 0] } else { &[] };
        let (code, data, ra) = (1, 0x78, crate::arch::RETURN_ADDRESS);
        let cie = [&[version, 0], sizes, &[code, data, ra]].concat();
        let mut section = entry(is_wide, u64::MAX, &cie);
        for start in starts {
            let fde = [start.to_le_bytes(), 16_u64.to_le_bytes()].concat();
            section.extend(entry(is_wide, 0, &fde));
        }
        section
    }

    fn converted(section: &[u8], bias: u64) -> (usize, Made) {
        let mut out = vec![0; bytes_for(section).unwrap()];
        let functions = convert(section, bias, AT, &mut out);
        (functions, Made(out))
    }

    #[test]
    fn functions_are_found_where_they_were_loaded() {
        for is_wide in [false, true] {
            for version in [1, 3, 4] {
                // 0: thrown away by the linker.
                let (functions, made) =
                    converted(&section(is_wide, version, &[0x40, 0, 0x20, 0x60]), 0x1000);
                assert_eq!(functions, 3);
                let starts: Vec<u64> = (0..3)
                    .map(|row| made.read_u64(AT + 16 + 16 * row).unwrap())
                    .collect();
                assert_eq!(starts, [0x1020, 0x1040, 0x1060]);
                for (row, start) in starts.iter().enumerate() {
                    let fde = made.read_u64(AT + 24 + 16 * row as u64).unwrap();
                    let mut described = Vec::new();
                    described_functions(&made, fde, |range, at| described.push((range, at)));
                    assert_eq!(described, [(*start..start + 16, fde)]);
                }
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for version in [0, 2, 5] {
            assert_eq!(converted(&section(false, version, &[0x40]), 0).0, 0);
        }
        assert_eq!(converted(&[1, 0, 0], 0).0, 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(section: Vec<u8>, bias: u64, missing in 0..200_usize) {
            let mut out = vec![0; bytes_for(&section).unwrap().saturating_sub(missing)];
            convert(&section, bias, AT, &mut out);
        }
    }
}
