//! The protobuf wire format: keys, varints and length-delimited messages, appended to a byte vector.

/// Wire type of varints.
const VARINT: u32 = 0;
/// Wire type of eight-byte little-endian values.
const FIXED64: u32 = 1;
/// Wire type of strings, bytes and messages.
const BYTES: u32 = 2;

/// Longest encoding of a 64-bit varint.
const VARINT_BYTES_MAX: usize = 10;

/// Key of a varint field.
#[inline]
pub const fn varint_key(field: u32) -> u32 {
    field << 3 | VARINT
}

/// Key of a length-delimited field.
#[inline]
pub const fn bytes_key(field: u32) -> u32 {
    field << 3 | BYTES
}

/// Key of a length-delimited field below 16, which is a single byte.
#[inline]
pub const fn short_bytes_key(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3 | BYTES) as u8
}

/// Key of a varint field below 16, which is a single byte.
#[inline]
pub const fn short_varint_key(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3 | VARINT) as u8
}

/// Appends a varint.
#[inline]
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a varint field.
#[inline]
pub fn put_u64(bytes: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(bytes, u64::from(varint_key(field)));
    put_varint(bytes, value);
}

/// Appends an `int64` field: negative values take ten bytes, as protobuf defines it.
#[inline]
pub fn put_i64(bytes: &mut Vec<u8>, field: u32, value: i64) {
    put_u64(bytes, field, value.cast_unsigned());
}

/// Appends a `fixed64` field.
#[inline]
pub fn put_fixed64(bytes: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(bytes, u64::from(field << 3 | FIXED64));
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Appends a `double` field.
#[inline]
pub fn put_f64(bytes: &mut Vec<u8>, field: u32, value: f64) {
    put_fixed64(bytes, field, value.to_bits());
}

/// Appends a string or bytes field.
#[inline]
pub fn put_bytes(bytes: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(bytes, u64::from(bytes_key(field)));
    put_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

/// Appends a nested message whose body `write` appends.
///
/// The length is written into a one-byte gap; only bodies of 128 bytes and more are moved to make room for a longer one.
#[inline]
pub fn put_message(bytes: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(bytes, u64::from(bytes_key(field)));
    let gap = bytes.len();
    bytes.push(0);
    write(bytes);
    let length = bytes.len() - gap - 1;
    if length < 0x80 {
        bytes[gap] = length as u8;
    } else {
        widen_length(bytes, gap, length);
    }
}

#[cold]
fn widen_length(bytes: &mut Vec<u8>, gap: usize, length: usize) {
    let mut encoded = Short::<{ VARINT_BYTES_MAX.next_power_of_two() }>::new();
    encoded.varint(length as u64);
    bytes.splice(gap..=gap, encoded.as_bytes().iter().copied());
}

/// A short piece of output of at most `N` bytes, built on the stack and appended with one copy.
///
/// `N` is a power of two, so that masking an index stands in for the check that it is in bounds.
pub struct Short<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Short<N> {
    #[inline]
    pub fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        debug_assert!(self.length < N);
        self.bytes[self.length & (N - 1)] = byte;
        self.length += 1;
    }

    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Bytes so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Overwrites a byte that was left as a gap.
    #[inline]
    pub fn set(&mut self, at: usize, byte: u8) {
        self.bytes[at & (N - 1)] = byte;
    }

    /// Appends all to `out`: copying the whole array and cutting it is faster than a copy of a length that is not known when compiling.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_the_shortest_form() {
        for (value, length) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::MAX, 10),
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), length, "{value}");
            assert_eq!(
                prost::encoding::decode_varint(&mut bytes.as_slice()).unwrap(),
                value
            );
            let mut short = Short::<16>::new();
            short.varint(value);
            assert_eq!(short.as_bytes(), bytes);
        }
    }

    #[test]
    fn messages_get_the_right_length_at_every_width() {
        for length in [0, 1, 127, 128, 300, 20_000] {
            let mut bytes = vec![0xAA];
            put_message(&mut bytes, 7, |body| body.resize(body.len() + length, 0x55));
            let mut expected = vec![0xAA];
            put_bytes(&mut expected, 7, &vec![0x55; length]);
            assert_eq!(bytes, expected, "{length}");
        }
    }
}
