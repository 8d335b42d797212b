//! Fields of protobuf messages from a stream: messages that are larger than memory are entered, not held.

use std::io::{BufReader, Read};

/// The largest message that is held at once: an event, or a name.
const HELD_BYTES: u64 = 64 << 20;

/// What stands behind the number of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    /// So many bytes follow.
    Length(u64),
}

/// Reads fields one after another.
pub(super) struct Stream<R> {
    input: BufReader<R>,
    position: u64,
    held: Vec<u8>,
    /// Where something is torn.
    torn: Option<u64>,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(256 << 10, input),
            position: 0,
            held: Vec::new(),
            torn: None,
        }
    }

    /// How many bytes were read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Where the file ends too early, or holds something else, if it does.
    pub(super) fn torn(&self) -> Option<u64> {
        self.torn
    }

    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte).ok()?;
        self.position += 1;
        Some(byte[0])
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The number and value of the next field; of texts and messages, what follows is theirs. `None` at the end of the file, and where it is torn.
    pub(super) fn field(&mut self) -> Option<(u32, Value)> {
        let begin = self.position;
        let field = self.read_field();
        if field.is_none() && self.position > begin {
            self.torn.get_or_insert(begin);
        }
        field
    }

    fn read_field(&mut self) -> Option<(u32, Value)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            2 => Value::Length(self.varint()?),
            kind @ (1 | 5) => {
                let mut bytes = [0; 8];
                let length = if kind == 1 { 8 } else { 4 };
                self.input.read_exact(&mut bytes[..length]).ok()?;
                self.position += length as u64;
                Value::Number(u64::from_le_bytes(bytes))
            }
            _ => return None,
        };
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        Some((number, value))
    }

    /// The bytes of a value.
    pub(super) fn take(&mut self, length: u64) -> Option<&[u8]> {
        let begin = self.position;
        if length > HELD_BYTES {
            self.torn.get_or_insert(begin);
            return None;
        }
        self.held.clear();
        let read = self.input.by_ref().take(length).read_to_end(&mut self.held);
        self.position += self.held.len() as u64;
        if read.is_err() || self.held.len() as u64 != length {
            self.torn.get_or_insert(begin);
            return None;
        }
        Some(&self.held)
    }

    /// Goes past a value.
    pub(super) fn skip(&mut self, length: u64) -> Option<()> {
        let begin = self.position;
        let skipped = std::io::copy(&mut self.input.by_ref().take(length), &mut std::io::sink());
        self.position += skipped.as_ref().copied().unwrap_or(0);
        if skipped.ok() != Some(length) {
            self.torn.get_or_insert(begin);
            return None;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_proto::message::{put_bytes, put_u64};

    #[test]
    fn fields_come_one_after_another_and_what_is_torn_is_told() {
        let mut message = Vec::new();
        put_u64(&mut message, 1, 300);
        put_bytes(&mut message, 2, b"skipped");
        put_bytes(&mut message, 3, b"text");
        let mut stream = Stream::new(message.as_slice());
        assert_eq!(stream.field(), Some((1, Value::Number(300))));
        assert_eq!(stream.field(), Some((2, Value::Length(7))));
        stream.skip(7).unwrap();
        assert_eq!(stream.field(), Some((3, Value::Length(4))));
        assert_eq!(stream.take(4), Some(&b"text"[..]));
        assert_eq!((stream.field(), stream.torn()), (None, None));
        let mut short = Stream::new(&message[..message.len() - 1]);
        short.field();
        short.field();
        short.skip(7).unwrap();
        short.field();
        assert_eq!(short.take(4), None);
        assert_eq!(short.torn(), Some(14));
    }
}
