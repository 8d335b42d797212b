//! Short texts, put together without allocation.

use crate::sys;

/// Text in a buffer, without allocation.
#[derive(Debug)]
pub struct Text<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Text<'a> {
    /// Nothing yet.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Text { buffer, used: 0 }
    }

    /// What was put together, as long as the buffer lives.
    pub fn into_bytes(self) -> &'a [u8] {
        self.buffer.get(..self.used).unwrap_or(&[])
    }

    /// Adds text, as far as there is room.
    pub fn put(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(to) = self.buffer.get_mut(self.used) {
                *to = *byte;
                self.used += 1;
            }
        }
    }

    /// What was put together.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.used).unwrap_or(&[])
    }

    /// Adds a number in hexadecimal, padded with zeros to at least `digits` digits.
    pub fn hex(&mut self, number: u64, digits: u32) {
        let needed = (64 - number.leading_zeros()).div_ceil(4).max(digits);
        for place in (0..needed).rev() {
            let digit = (number >> (4 * place) & 15) as usize;
            self.put(b"0123456789abcdef".get(digit..=digit).unwrap_or(&[]));
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        let mut digits = [0; 20];
        self.put(sys::decimal(number, &mut digits));
    }
}
