//! Looking into encoded messages, and copying them with changes, without decoding them.
//!
//! ```
//! use rsys_proto::message::{Fields, Value, put_bytes, put_u64};
//!
//! let mut message = Vec::new();
//! put_u64(&mut message, 10, 300);
//! put_bytes(&mut message, 11, b"event");
//! let mut copy = Vec::new();
//! for field in Fields::new(&message) {
//!     match field? {
//!         field if field.number == 10 => put_u64(&mut copy, 10, 7),
//!         field => copy.extend_from_slice(field.encoded),
//!     }
//! }
//! assert_eq!(copy, [0x50, 7, 0x5A, 5, b'e', b'v', b'e', b'n', b't']);
//! # Ok::<(), rsys_proto::message::Torn>(())
//! ```

use thiserror::Error;

pub use crate::wire::{put_bytes, put_fixed64, put_message, put_u64, put_varint};

/// A message ends within a field, or a field has no valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a torn field")]
pub struct Torn;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number, an enum or a bool.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// The number, whichever form it has; 0 for bytes.
    #[inline]
    pub fn number(self) -> u64 {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => u64::from(value),
            Self::Bytes(_) => 0,
        }
    }

    /// The number as a `uint32`, or an `int32` as its bits; what does not fit is cut off, as protobuf defines it.
    #[inline]
    pub fn number32(self) -> u32 {
        self.number() as u32
    }

    /// The bytes; none for numbers.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Key and value as they stand in the message.
    pub encoded: &'a [u8],
}

/// The fields of a message in their order. After an error there are no more.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `message`.
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// What comes after the fields so far.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    fn field(&mut self) -> Option<Field<'a>> {
        let message = self.rest;
        let mut rest = message;
        let key = varint(&mut rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|&number| number > 0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(*take(&mut rest)?)),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(*take(&mut rest)?)),
            _ => return None,
        };
        self.rest = rest;
        let encoded = &message[..message.len() - rest.len()];
        Some(Field {
            number,
            value,
            encoded,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Torn>;

    // Merging reads several fields per packet and tens of millions of packets: a call for each would take half of its time.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Torn))
    }
}

/// The numbers of a packed field.
pub fn packed_varints(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64, Torn>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let value = varint(&mut bytes);
        if value.is_none() {
            bytes = &[];
        }
        Some(value.ok_or(Torn))
    })
}

#[inline]
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(head)
}

/// Takes a varint from the front of `rest`; `None` if it does not end, and `rest` is as it was.
#[inline(always)]
pub fn varint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, tail) = rest.split_first()?;
    if first < 0x80 {
        *rest = tail;
        return Some(u64::from(first));
    }
    // Up to eight bytes at once: how long a varint is cannot be predicted.
    if let Some(word) = rest.first_chunk() {
        let word = u64::from_le_bytes(*word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            *rest = &rest[bits as usize / 8..];
            return Some(low_sevens(word & (u64::MAX >> (64 - bits))));
        }
    }
    long_varint(rest)
}

/// The lower seven bits of each byte, put together.
#[inline(always)]
fn low_sevens(word: u64) -> u64 {
    let word = word & 0x007F_007F_007F_007F | (word & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = word & 0x0000_3FFF_0000_3FFF | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    word & 0x0FFF_FFFF | (word & 0x0FFF_FFFF_0000_0000) >> 4
}

/// A varint at the end of a message, or one of more than eight bytes.
fn long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut tail = *rest;
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, after) = tail.split_first()?;
        tail = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            *rest = tail;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_fields_are_read() {
        let mut message = Vec::new();
        put_u64(&mut message, 1, u64::MAX);
        put_fixed64(&mut message, 2_000, 7);
        put_bytes(&mut message, 3, &[1; 300]);
        message.extend([4 << 3 | 5, 1, 0, 0, 0]);
        let fields: Vec<_> = Fields::new(&message).map(Result::unwrap).collect();
        let values: Vec<_> = fields
            .iter()
            .map(|field| (field.number, field.value))
            .collect();
        assert_eq!(
            values,
            [
                (1, Value::Varint(u64::MAX)),
                (2_000, Value::Fixed64(7)),
                (3, Value::Bytes(&[1; 300])),
                (4, Value::Fixed32(1)),
            ]
        );
        let copy: Vec<u8> = fields
            .iter()
            .flat_map(|field| field.encoded)
            .copied()
            .collect();
        assert_eq!(copy, message);
    }

    #[test]
    fn a_torn_field_ends_the_message() {
        let mut message = Vec::new();
        put_u64(&mut message, 1, 5);
        put_bytes(&mut message, 2, b"text");
        for length in 0..message.len() {
            let outcome: Vec<_> = Fields::new(&message[..length]).collect();
            let whole = usize::from(length >= 2);
            let torn = usize::from(length > 0 && length != 2);
            assert_eq!(outcome.len(), whole + torn, "{length}");
            assert_eq!(outcome.iter().filter(|field| field.is_err()).count(), torn);
        }
        for not_a_key in [[0x00, 0x00], [0x0B, 0x00], [0x0F, 0x00]] {
            assert!(Fields::new(&not_a_key).next().unwrap().is_err());
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_read_wherever_they_stand() {
        for bits in 0..64 {
            for value in [
                1_u64 << bits,
                u64::MAX >> bits,
                0x0123_4567_89AB_CDEF >> bits,
            ] {
                for behind in [0, 1, 7, 8, 20] {
                    let mut bytes = Vec::new();
                    put_varint(&mut bytes, value);
                    let length = bytes.len();
                    bytes.resize(length + behind, 0xFF);
                    let mut rest = bytes.as_slice();
                    assert_eq!(varint(&mut rest), Some(value), "{bytes:x?}");
                    assert_eq!(rest.len(), behind, "{bytes:x?}");
                }
            }
        }
        let mut endless = [0xFF_u8; 20].as_slice();
        assert_eq!((varint(&mut endless), endless.len()), (None, 20));
    }

    #[test]
    fn packed_numbers_are_read() {
        let numbers: Vec<_> = packed_varints(&[1, 0x80, 1, 0xFF]).collect();
        assert_eq!(numbers, [Ok(1), Ok(128), Err(Torn)]);
    }
}
