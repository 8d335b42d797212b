//! Rows as bytes (2.1): the types of all values, then the values.

use super::value::Value;

/// Appends a number of one to nine bytes (1.6, "varint").
#[inline]
pub(super) fn put_varint(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    // The ninth byte has eight bits of the number, all others seven.
    if number >> 56 != 0 {
        for place in (1..=8).rev() {
            out.push((number >> (7 * place + 1)) as u8 | 0x80);
        }
        out.push(number as u8);
        return;
    }
    let bits = u64::BITS - number.leading_zeros();
    for place in (1..bits.div_ceil(7)).rev() {
        out.push((number >> (7 * place)) as u8 | 0x80);
    }
    out.push(number as u8 & 0x7f);
}

/// The type of a whole number, and in how many bytes it stands.
#[inline]
fn integer_type(number: i64) -> (u64, usize) {
    // Of a negative number the bits that are not all ones.
    let magnitude = if number < 0 { !number } else { number };
    match u64::BITS - magnitude.cast_unsigned().leading_zeros() {
        _ if number == 0 => (8, 0),
        _ if number == 1 => (9, 0),
        0..8 => (1, 1),
        8..16 => (2, 2),
        16..24 => (3, 3),
        24..32 => (4, 4),
        32..48 => (5, 6),
        _ => (6, 8),
    }
}

/// Rows that are being made, in memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    types: Vec<u8>,
    values: Vec<u8>,
}

impl Encoder {
    /// Appends a value to the row.
    #[inline]
    pub(super) fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.types.push(0),
            // SQLite has no numbers that are none.
            Value::Number(number) if number.is_nan() => self.types.push(0),
            Value::Integer(number) => {
                let (kind, bytes) = integer_type(number);
                self.types.push(kind as u8);
                self.values
                    .extend_from_slice(&number.to_be_bytes()[8 - bytes..]);
            }
            Value::Number(number) => {
                self.types.push(7);
                self.values.extend_from_slice(&number.to_be_bytes());
            }
            Value::Text(text) => {
                put_varint(2 * text.len() as u64 + 13, &mut self.types);
                self.values.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Appends the row to `out`, and begins the next.
    #[inline]
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        // The length of the types counts itself.
        let types = self.types.len() as u64;
        let bytes = if types + 1 < 0x80 { 1 } else { 2 };
        put_varint(types + bytes, out);
        out.extend_from_slice(&self.types);
        out.extend_from_slice(&self.values);
        self.types.clear();
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_in_a_byte() {
        for (number, expected) in [
            (0, &[0][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0x81, 0]),
            (0x3fff, &[0xff, 0x7f]),
            (0x4000, &[0x81, 0x80, 0]),
            ((1 << 56) - 1, &[255, 255, 255, 255, 255, 255, 255, 0x7f]),
            (
                1 << 56,
                &[0x80, 0xc0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
            ),
            (u64::MAX, &[255; 9]),
        ] {
            let mut found = Vec::new();
            put_varint(number, &mut found);
            assert_eq!(found, expected, "{number:#x}");
        }
    }
}
