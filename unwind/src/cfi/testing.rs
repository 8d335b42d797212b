//! Memory made of a few bytes, for the unit tests of the parsers.

use crate::Memory;

pub(crate) struct Bytes([u8; 256]);

impl Bytes {
    pub(crate) const BASE: u64 = 0x7000;

    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut all = [0; 256];
        all[..bytes.len()].copy_from_slice(bytes);
        Self(all)
    }
}

impl Memory for Bytes {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(Self::BASE)?).ok()?;
        let bytes = self.0.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}
