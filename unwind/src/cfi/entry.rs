//! Entries of `.eh_frame`: common information (CIE) and frame descriptions (FDE).

use super::cursor::{Cursor, ENCODING_ABSOLUTE, ENCODING_OMIT};
use crate::Memory;

/// What a CIE says for the FDEs that name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cie {
    pub(crate) code_alignment: u64,
    pub(crate) data_alignment: i64,
    pub(crate) pointer_encoding: u8,
    /// The frames of this code were made by a signal (`S`).
    pub(crate) signal: bool,
    /// FDEs have augmentation data (`z`).
    augmented: bool,
    pub(crate) instructions: u64,
    pub(crate) end: u64,
}

/// The call frame information of one stretch of code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fde {
    pub(crate) address: u64,
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) instructions: u64,
    pub(crate) end: u64,
    pub(crate) cie: Cie,
}

/// The frame around an entry's content.
pub(crate) struct Header {
    /// Where the field is that distinguishes CIE from FDE.
    pub(crate) id_address: u64,
    /// 0: this is a CIE; else how far back from `id_address` the CIE of this FDE is.
    pub(crate) id: u64,
    /// The first address of the content, after the id.
    pub(crate) content: u64,
    /// The first address after the entry.
    pub(crate) end: u64,
}

/// Reads an entry's length and id. `None` at the terminator, and where nothing can be read.
pub(crate) fn header<M: Memory>(memory: &M, address: u64) -> Option<Header> {
    let mut cursor = Cursor::new(memory, address);
    let mut length = u64::from(cursor.u32()?);
    let wide = length == 0xffff_ffff;
    if wide {
        length = cursor.u64()?;
    }
    if length == 0 || length > u64::from(u32::MAX) {
        return None;
    }
    let id_address = cursor.address();
    // In .eh_frame the id has four bytes, also in entries with a 64-bit length.
    let id = u64::from(cursor.u32()?);
    Some(Header {
        id_address,
        id,
        content: cursor.address(),
        end: id_address.wrapping_add(length),
    })
}

/// Reads the CIE at `address`.
pub(crate) fn cie<M: Memory>(memory: &M, address: u64) -> Option<Cie> {
    let header = header(memory, address)?;
    if header.id != 0 {
        return None;
    }
    let mut cursor = Cursor::new(memory, header.content);
    let version = cursor.u8()?;
    if version != 1 && version != 3 {
        return None;
    }
    let augmentation = cursor.address();
    let mut old_gcc = false;
    for place in 0..16 {
        match cursor.u8()? {
            0 => break,
            b'e' if place == 0 => old_gcc = true,
            _ if place == 15 => return None,
            _ => {}
        }
    }
    if old_gcc {
        cursor.u64()?; // "eh": a pointer to the exception table of GCC 2.
    }
    let code_alignment = cursor.uleb()?;
    let data_alignment = cursor.sleb()?;
    let return_address_register = if version == 1 {
        cursor.u8()?
    } else {
        cursor.register()?
    };
    if return_address_register != crate::arch::RETURN_ADDRESS {
        return None;
    }
    let mut cie = Cie {
        code_alignment,
        data_alignment,
        pointer_encoding: ENCODING_ABSOLUTE,
        signal: false,
        augmented: false,
        instructions: cursor.address(),
        end: header.end,
    };
    let mut letters = Cursor::new(memory, augmentation);
    if letters.u8()? == b'z' {
        cie.augmented = true;
        let length = cursor.uleb()?;
        cie.instructions = cursor.address().wrapping_add(length);
        for _ in 0..16 {
            match letters.u8()? {
                b'R' => cie.pointer_encoding = cursor.u8()?,
                b'S' => cie.signal = true,
                b'L' => _ = cursor.u8()?,
                b'P' => {
                    let encoding = cursor.u8()?;
                    if encoding != ENCODING_OMIT {
                        cursor.unbased(encoding)?;
                    }
                }
                b'B' | b'G' => {} // Of other processors: no data.
                _ => break, // The end, or a letter from the future, whose data the length skips.
            }
        }
    }
    Some(cie)
}

/// Reads the FDE at `address` and its CIE.
pub(crate) fn fde<M: Memory>(memory: &M, address: u64) -> Option<Fde> {
    let header = header(memory, address)?;
    if header.id == 0 {
        return None;
    }
    let cie = cie(memory, header.id_address.wrapping_sub(header.id))?;
    fde_of_cie(memory, address, &header, cie)
}

/// Reads the FDE whose header and CIE are known.
pub(crate) fn fde_of_cie<M: Memory>(
    memory: &M,
    address: u64,
    header: &Header,
    cie: Cie,
) -> Option<Fde> {
    let mut cursor = Cursor::new(memory, header.content);
    let start = cursor.pointer(cie.pointer_encoding, 0)?;
    let size = cursor.unbased(cie.pointer_encoding & 0x07)?;
    if cie.augmented {
        let length = cursor.uleb()?;
        cursor.skip(length);
    }
    Some(Fde {
        address,
        start,
        size,
        instructions: cursor.address(),
        end: header.end,
        cie,
    })
}

impl Fde {
    /// Whether this is the description of the code at `pc`.
    #[inline]
    pub(crate) fn contains(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.start) < self.size
    }
}
