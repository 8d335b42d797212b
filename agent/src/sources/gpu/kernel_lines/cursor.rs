//! Reads bytes one after another; what lies beyond their end is `None`.

/// Bytes that were not read yet.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// The next number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.take(2)?.first_chunk()?))
    }

    /// The next number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    /// The next number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// The next number of four bytes, or of eight if `wide`.
    pub fn offset(&mut self, wide: bool) -> Option<usize> {
        if wide {
            usize::try_from(self.u64()?).ok()
        } else {
            self.u32().map(|offset| offset as usize)
        }
    }

    /// The next number in LEB128, without a sign. Bits beyond the 64th are lost.
    pub fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// The next number in LEB128, with a sign.
    pub fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0;
                let sign = u64::MAX.checked_shl(shift).unwrap_or(0);
                return Some((value | if is_negative { sign } else { 0 }).cast_signed());
            }
        }
    }

    /// The next text, which ends with a zero.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.take(1)?;
        Some(text)
    }
}

/// The text at an offset of a table of texts.
pub fn text_at(table: &[u8], offset: usize) -> Option<&[u8]> {
    Cursor(table.get(offset..)?).text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_dwarf_writes_them() {
        // The examples of the standard (DWARF 5, 7.6).
        let unsigned: [(&[u8], u64); 4] = [
            (&[2], 2),
            (&[127], 127),
            (&[0x80, 1], 128),
            (&[57 + 0x80, 100], 12857),
        ];
        for (bytes, value) in unsigned {
            assert_eq!(Cursor(bytes).unsigned(), Some(value));
        }
        let signed: [(&[u8], i64); 6] = [
            (&[2], 2),
            (&[0x7e], -2),
            (&[127 + 0x80, 0], 127),
            (&[1 + 0x80, 0x7f], -127),
            (&[0x80, 1], 128),
            (&[0x80, 0x7f], -128),
        ];
        for (bytes, value) in signed {
            assert_eq!(Cursor(bytes).signed(), Some(value));
        }
        assert_eq!(Cursor(&[0x80]).unsigned(), None);
        assert_eq!(Cursor(&[0x80; 40]).signed(), None);
    }
}
