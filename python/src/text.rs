//! `str` and `bytes` objects, as they lie in memory.

use rsys_unwind::Memory;

use crate::layout::TextLayout;

/// The characters of a `str` or the bytes of a `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Text {
    /// Address of the first.
    pub start: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// Bytes of one character: 1 (Latin-1), 2 or 4.
    pub width: u8,
}

impl Text {
    /// The characters of the compact `str` at `object`.
    #[must_use]
    pub fn of_str(memory: &impl Memory, layout: &TextLayout, object: u64) -> Option<Self> {
        let length = memory.read_u64(object.wrapping_add(layout.length))?;
        let state = memory.read_u32(object.wrapping_add(layout.state))?;
        let state = state >> layout.kind_bit.unwrap_or_else(|| kind_bit(state));
        let width = (state & 7) as u8;
        let compact = state & 8 != 0;
        let ascii = state & 16 != 0;
        let known = matches!(width, 1 | 2 | 4) && compact && length < 1 << 30;
        let head = if ascii { layout.ascii } else { layout.compact };
        known.then_some(Self {
            start: object.wrapping_add(head),
            bytes: length.wrapping_mul(u64::from(width)),
            width,
        })
    }

    /// The contents of the `bytes` at `object`.
    #[must_use]
    pub fn of_bytes(memory: &impl Memory, layout: &TextLayout, object: u64) -> Option<Self> {
        let length = memory.read_u64(object.wrapping_add(layout.bytes_length))?;
        (length < 1 << 30).then_some(Self {
            start: object.wrapping_add(layout.bytes),
            bytes: length,
            width: 1,
        })
    }

    /// As much of it as takes at most `bytes`.
    #[must_use]
    pub fn cut(self, bytes: u64) -> Self {
        Self {
            // Whole characters: `bytes` is a multiple of four.
            bytes: self.bytes.min(bytes & !3),
            ..self
        }
    }

    /// Eight bytes of it, the first of them `offset` bytes behind its start; zeros behind its end and where it cannot be read.
    #[must_use]
    pub fn word(&self, memory: &impl Memory, offset: u64) -> u64 {
        let left = self.bytes.saturating_sub(offset);
        let at = self.start.wrapping_add(offset);
        if left >= 8 {
            return memory.read_u64(at).unwrap_or(0);
        }
        (0..left).fold(0, |word, number| {
            let byte = memory.read_u8(at.wrapping_add(number)).unwrap_or(0);
            word | u64::from(byte) << number.wrapping_mul(8)
        })
    }

    /// Whether it is this ASCII text.
    #[must_use]
    pub fn is(&self, memory: &impl Memory, text: &[u8]) -> bool {
        self.width == 1
            && self.bytes == text.len() as u64
            && text
                .iter()
                .zip(0_u64..)
                .all(|(byte, at)| memory.read_u8(self.start.wrapping_add(at)) == Some(*byte))
    }
}

/// Where the character size, which is never 0, starts in these flags of 3.14. In front of it is a number below 4, behind the flags
/// there may be anything.
fn kind_bit(state: u32) -> u32 {
    if state & 0xff >= 4 {
        2
    } else if state & 0x3f00 != 0 {
        8
    } else {
        16
    }
}
