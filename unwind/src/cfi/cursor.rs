//! Reading bytes, LEB128 numbers and encoded pointers through a guarded memory reader.

use crate::Memory;

/// A position in unwind tables.
///
/// Bytes come from a window of one aligned word, so that a run of them costs one guarded read per eight.
pub(crate) struct Cursor<'m, M> {
    memory: &'m M,
    address: u64,
    window_address: u64,
    window: u64,
}

/// `DW_EH_PE_omit`: there is no pointer.
pub(crate) const ENCODING_OMIT: u8 = 0xff;
/// `DW_EH_PE_absptr`.
pub(crate) const ENCODING_ABSOLUTE: u8 = 0;

impl<'m, M: Memory> Cursor<'m, M> {
    #[inline]
    pub(crate) fn new(memory: &'m M, address: u64) -> Self {
        Self {
            memory,
            address,
            window_address: 1, // Not aligned: no window yet.
            window: 0,
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn seek(&mut self, address: u64) {
        self.address = address;
    }

    pub(crate) fn skip(&mut self, bytes: u64) {
        self.address = self.address.wrapping_add(bytes);
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let base = self.address & !7;
        if base != self.window_address {
            self.window = self.memory.read_u64(base)?;
            self.window_address = base;
        }
        let byte = (self.window >> ((self.address & 7) * 8)) as u8;
        self.skip(1);
        Some(byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let value = self.memory.read_u16(self.address)?;
        self.skip(2);
        Some(value)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let value = self.memory.read_u32(self.address)?;
        self.skip(4);
        Some(value)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let value = self.memory.read_u64(self.address)?;
        self.skip(8);
        Some(value)
    }

    /// An unsigned LEB128 number; bits beyond 64 are dropped, more than ten bytes are refused.
    #[inline]
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for group in 0..10_u32 {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << (group.wrapping_mul(7) & 63);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed LEB128 number.
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let mut value = 0_u64;
        for group in 0..10_u32 {
            let byte = self.u8()?;
            let shift = group.wrapping_mul(7);
            value |= u64::from(byte & 0x7f) << (shift & 63);
            if byte & 0x80 == 0 {
                let used = shift.wrapping_add(7);
                if byte & 0x40 != 0 && used < 64 {
                    value |= u64::MAX << (used & 63);
                }
                return Some(value.cast_signed());
            }
        }
        None
    }

    /// A register number. Numbers beyond 255 do not exist on our architectures and become 255, which is no register.
    pub(crate) fn register(&mut self) -> Option<u8> {
        let number = self.uleb()?;
        Some(u8::try_from(number).unwrap_or(u8::MAX))
    }

    /// A pointer in the encoding `encoding` (`DW_EH_PE_*`), of which `data_base` is the base of data-relative ones.
    pub(crate) fn pointer(&mut self, encoding: u8, data_base: u64) -> Option<u64> {
        if encoding == ENCODING_OMIT {
            return None;
        }
        let position = self.address;
        let value = self.unbased(encoding)?;
        if value == 0 && encoding & 0x80 != 0 {
            return Some(0);
        }
        let value = match encoding & 0x70 {
            0x00 => value,
            0x10 => value.wrapping_add(position),
            0x30 if data_base != 0 => value.wrapping_add(data_base),
            _ => return None, // Relative to text, a function, or aligned: not in this use on ELF.
        };
        if encoding & 0x80 == 0 {
            Some(value)
        } else {
            self.memory.read_u64(value)
        }
    }

    /// The number that an encoded pointer consists of, without its base.
    pub(crate) fn unbased(&mut self, encoding: u8) -> Option<u64> {
        Some(match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.u16()?),
            0x03 => u64::from(self.u32()?),
            0x09 => self.sleb()?.cast_unsigned(),
            0x0a => i64::from(self.u16()?.cast_signed()).cast_unsigned(),
            0x0b => i64::from(self.u32()?.cast_signed()).cast_unsigned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfi::testing::Bytes;

    #[test]
    fn leb_numbers_are_read() {
        let cases: &[(&[u8], u64, i64)] = &[
            (&[0x02], 2, 2),
            (&[0x7f], 127, -1),
            (&[0x80, 0x01], 128, 128),
            (&[0x80, 0x7f], 0x3f80, -128),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                u64::MAX,
                -1,
            ),
        ];
        for (bytes, unsigned, signed) in cases {
            let memory = Bytes::new(bytes);
            assert_eq!(Cursor::new(&memory, Bytes::BASE).uleb(), Some(*unsigned));
            assert_eq!(Cursor::new(&memory, Bytes::BASE).sleb(), Some(*signed));
        }
    }

    #[test]
    fn an_endless_leb_number_is_refused() {
        let memory = Bytes::new(&[0x80; 32]);
        assert_eq!(Cursor::new(&memory, Bytes::BASE).uleb(), None);
        assert_eq!(Cursor::new(&memory, Bytes::BASE).sleb(), None);
    }

    #[test]
    fn pointers_are_relative_to_what_their_encoding_says() {
        let minus_16 = 0xffff_fff0_u32.to_le_bytes();
        let memory = Bytes::new(&minus_16);
        let read = |encoding| Cursor::new(&memory, Bytes::BASE).pointer(encoding, 0x5000);
        assert_eq!(read(0x03), Some(0xffff_fff0), "udata4");
        assert_eq!(read(0x1b), Some(Bytes::BASE - 16), "pcrel sdata4");
        assert_eq!(read(0x3b), Some(0x5000 - 16), "datarel sdata4");
        assert_eq!(read(0x2b), None, "textrel");
        assert_eq!(read(ENCODING_OMIT), None, "omit");
    }
}
