//! Names of kernels: from the dynamic symbols of the code object in device memory.
//!
//! The loader copies whole code objects, ELF header and dynamic symbols included, to the start of an allocation.

use crate::memory::Place;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const PROGRAM_DYNAMIC: u32 = 2;
const DYNAMIC_HASH: u64 = 4;
const DYNAMIC_STRINGS: u64 = 5;
const DYNAMIC_SYMBOLS: u64 = 6;
const SYMBOL_BYTES: u64 = 24;
/// Names end with this in the symbol of the descriptor.
const DESCRIPTOR_ENDING: &str = ".kd";

/// The name of the kernel whose descriptor is at `object`, in the allocation of `place`.
pub fn kernel_name(place: &Place, object: u64) -> Option<String> {
    let offset = object - place.allocation_address;
    let image = Image {
        start: place.allocation,
        bytes: offset + place.bytes,
    };
    let name = image.symbol_at(offset)?;
    let name = String::from_utf8_lossy(name).into_owned();
    let name = name.strip_suffix(DESCRIPTOR_ENDING).map(str::to_owned);
    name.filter(|name| !name.is_empty())
}

/// A code object in memory.
struct Image {
    start: *const u8,
    bytes: u64,
}

impl Image {
    fn bytes(&self, offset: u64, count: u64) -> Option<&[u8]> {
        let end = offset.checked_add(count)?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: within the allocation, which the caller's place keeps mapped; code is not written while it runs.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(offset as usize), count as usize) })
    }

    fn number(&self, offset: u64, count: u64) -> Option<u64> {
        let bytes = self.bytes(offset, count)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    }

    fn symbol_at(&self, offset: u64) -> Option<&[u8]> {
        if self.bytes(0, 4)? != ELF_MAGIC {
            return None;
        }
        let headers = self.number(32, 8)?;
        let count = self.number(56, 2)?;
        let dynamic = (0..count)
            .map(|index| headers + 56 * index)
            .find(|header| self.number(*header, 4) == Some(PROGRAM_DYNAMIC.into()))?;
        let dynamic = self.number(dynamic + 16, 8)?;
        let (mut hash, mut strings, mut symbols) = (None, None, None);
        for index in 0.. {
            let (tag, value) = (
                self.number(dynamic + 16 * index, 8)?,
                self.number(dynamic + 16 * index + 8, 8)?,
            );
            match tag {
                0 => break,
                DYNAMIC_HASH => hash = Some(value),
                DYNAMIC_STRINGS => strings = Some(value),
                DYNAMIC_SYMBOLS => symbols = Some(value),
                _ => {}
            }
        }
        // The loader may or may not have relocated these addresses.
        let (hash, strings, symbols) = (hash?, strings?, symbols?);
        let count = self.number(hash + 4, 4)?;
        let symbol = (0..count)
            .map(|index| symbols + SYMBOL_BYTES * index)
            .find(|symbol| self.number(symbol + 8, 8) == Some(offset))?;
        let name = strings + self.number(symbol, 4)?;
        let rest = self.bytes(name, self.bytes.checked_sub(name)?)?;
        rest.split(|byte| *byte == 0).next()
    }
}
