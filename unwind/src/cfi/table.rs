//! Finding the FDE of an address: the sorted table in `.eh_frame_hdr`, or entry by entry where there is none.

use core::ops::Range;

use super::cursor::{Cursor, ENCODING_OMIT};
use super::entry::{self, Fde};
use crate::{Memory, ModuleTables};

/// How many entries of an `.eh_frame` without a table are looked at (a fraction of a millisecond, once per address).
const MAX_LINEAR_ENTRIES: u32 = 16_384;

/// The address of the FDE in a module's tables that describes the code at `pc`, if any does.
#[inline(never)]
pub(crate) fn find<M: Memory>(memory: &M, tables: &ModuleTables, pc: u64) -> Option<u64> {
    let mut eh_frame = tables.eh_frame;
    if tables.eh_frame_hdr != 0 {
        match search_table(memory, tables.eh_frame_hdr, pc) {
            Some(Search::Found(address)) => return Some(address),
            Some(Search::NotThere) => return None,
            Some(Search::NoTable(Some(start))) => eh_frame = start,
            Some(Search::NoTable(None)) | None => {}
        }
    }
    if eh_frame == 0 {
        return None;
    }
    search_entries(memory, eh_frame, pc)
}

enum Search {
    /// The last FDE that begins at or before the address; it may end before it, too.
    Found(u64),
    NotThere,
    /// The header has no table that can be searched; perhaps it says where `.eh_frame` is.
    NoTable(Option<u64>),
}

#[inline(never)]
fn search_table<M: Memory>(memory: &M, header: u64, pc: u64) -> Option<Search> {
    let mut cursor = Cursor::new(memory, header);
    let version = cursor.u8()?;
    let pointer_encoding = cursor.u8()?;
    let count_encoding = cursor.u8()?;
    let table_encoding = cursor.u8()?;
    if version != 1 {
        return None;
    }
    let eh_frame = cursor.pointer(pointer_encoding, header);
    let width = match table_encoding & 0x0f {
        0x02 | 0x0a => 2_u64,
        0x03 | 0x0b => 4,
        0x00 | 0x04 | 0x0c => 8,
        _ => 0, // LEB128 cannot be searched by index.
    };
    if count_encoding == ENCODING_OMIT || table_encoding == ENCODING_OMIT || width == 0 {
        return Some(Search::NoTable(eh_frame));
    }
    let count = cursor.pointer(count_encoding, header)?;
    let table = cursor.address();
    let row = width.wrapping_mul(2);

    // The common case without the general decoder: offsets from the header in four bytes.
    let plain = table_encoding == 0x3b;
    let wanted = pc.wrapping_sub(header).cast_signed();
    let mut low = 0_u64;
    let mut size = u64::from(u32::try_from(count).ok()?);
    // Invariant: rows below `low` begin at or before pc, rows from `low + size` on begin after it.
    while size > 0 {
        let half = size >> 1;
        let middle = low.wrapping_add(half);
        let at = table.wrapping_add(middle.wrapping_mul(row));
        let before = if plain {
            i64::from(memory.read_u32(at)?.cast_signed()) <= wanted
        } else {
            cursor.seek(at);
            cursor.pointer(table_encoding, header)? <= pc
        };
        if before {
            low = middle.wrapping_add(1);
            size = size.wrapping_sub(half).wrapping_sub(1);
        } else {
            size = half;
        }
    }
    if low == 0 {
        return Some(Search::NotThere);
    }
    let last = table.wrapping_add(low.wrapping_sub(1).wrapping_mul(row));
    cursor.seek(last.wrapping_add(width));
    Some(Search::Found(cursor.pointer(table_encoding, header)?))
}

#[inline(never)]
fn search_entries<M: Memory>(memory: &M, eh_frame: u64, pc: u64) -> Option<u64> {
    entries(memory, eh_frame, |fde| {
        fde.contains(pc).then_some(fde.address)
    })
}

/// Tells the code that the tables at `eh_frame` describe: the range of each function, and the address of its FDE. What cannot be
/// read is left out.
///
/// The tables end at an entry of length zero. Where the first entry is an FDE itself, there are no others: a run-time compiler may
/// hand over either. An FDE's address serves as [`ModuleTables::eh_frame`] of its range.
pub fn described_functions<M: Memory>(
    memory: &M,
    eh_frame: u64,
    mut visit: impl FnMut(Range<u64>, u64),
) {
    let single = entry::header(memory, eh_frame).is_some_and(|header| header.id != 0);
    entries(memory, eh_frame, |fde| {
        let end = fde.start.checked_add(fde.size);
        if let Some(end) = end.filter(|end| *end > fde.start) {
            visit(fde.start..end, fde.address);
        }
        single.then_some(())
    });
}

/// Goes over the FDEs from `eh_frame` on, until `visit` has an answer.
#[inline]
fn entries<M: Memory, T>(
    memory: &M,
    eh_frame: u64,
    mut visit: impl FnMut(&Fde) -> Option<T>,
) -> Option<T> {
    let mut address = eh_frame;
    let mut cie_address = 0;
    let mut cie = None;
    for _ in 0..MAX_LINEAR_ENTRIES {
        let header = entry::header(memory, address)?;
        if header.id != 0 {
            let named = header.id_address.wrapping_sub(header.id);
            if named != cie_address {
                cie_address = named;
                cie = entry::cie(memory, named);
            }
            if let Some(cie) = cie
                && let Some(fde) = entry::fde_of_cie(memory, address, &header, cie)
                && let Some(found) = visit(&fde)
            {
                return Some(found);
            }
        }
        address = header.end;
    }
    None
}
