//! Thrift's compact protocol, as far as Parquet needs it (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use super::ParquetError;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Thrift {
    Bool(bool),
    /// 32 bits.
    Int(i64),
    /// 64 bits.
    Long(i64),
    Double(f64),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    /// Fields by number, which rises.
    Struct(Vec<(i16, Self)>),
}

/// Nesting beyond this is none of Parquet's.
const DEPTH: usize = 16;

impl Thrift {
    pub(super) fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }

    /// The number of its type in the protocol.
    fn kind(&self) -> u8 {
        match self {
            Self::Bool(true) => 1,
            Self::Bool(false) => 2,
            Self::Int(_) => 5,
            Self::Long(_) => 6,
            Self::Double(_) => 7,
            Self::Bytes(_) => 8,
            Self::List(_) => 9,
            Self::Struct(_) => 12,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            // In a field, its type says it.
            Self::Bool(_) => {}
            Self::Int(value) | Self::Long(value) => varint(out, zigzag(*value)),
            Self::Double(value) => out.extend(value.to_le_bytes()),
            Self::Bytes(bytes) => {
                varint(out, bytes.len() as u64);
                out.extend(bytes);
            }
            Self::List(list) => {
                let kind = list.first().map_or(12, Self::kind);
                match list.len() {
                    short @ 0..15 => out.push((short as u8) << 4 | kind),
                    long => {
                        out.push(0xF0 | kind);
                        varint(out, long as u64);
                    }
                }
                list.iter().for_each(|value| value.write(out));
            }
            Self::Struct(fields) => {
                let mut last = 0;
                for (number, value) in fields {
                    match number - last {
                        near @ 1..=15 => out.push((near as u8) << 4 | value.kind()),
                        _ => {
                            out.push(value.kind());
                            varint(out, zigzag(i64::from(*number)));
                        }
                    }
                    value.write(out);
                    last = *number;
                }
                out.push(0);
            }
        }
    }

    /// A field of a struct.
    pub(super) fn field(&self, number: i16) -> Option<&Self> {
        let Self::Struct(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(known, _)| *known == number);
        found.map(|(_, value)| value)
    }

    /// A whole number in a field.
    pub(super) fn count(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Self::Int(value) | Self::Long(value) => Some(*value),
            _ => None,
        }
    }

    /// A text in a field.
    pub(super) fn string(&self, number: i16) -> Option<String> {
        match self.field(number)? {
            Self::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    /// A list in a field; empty if there is none.
    pub(super) fn list(&self, number: i16) -> &[Self] {
        match self.field(number) {
            Some(Self::List(list)) => list,
            _ => &[],
        }
    }
}

pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are read from the front.
#[derive(Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], ParquetError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(ParquetError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ParquetError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn varint(&mut self) -> Result<u64, ParquetError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ParquetError::Damaged)
    }

    pub(super) fn zigzag(&mut self) -> Result<i64, ParquetError> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A struct.
    pub(super) fn structure(&mut self) -> Result<Thrift, ParquetError> {
        self.value(12, DEPTH)
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Thrift, ParquetError> {
        let depth = depth.checked_sub(1).ok_or(ParquetError::Damaged)?;
        Ok(match kind {
            1 => Thrift::Bool(true),
            2 => Thrift::Bool(false),
            3 => Thrift::Int(i64::from(self.byte()?)),
            4 | 5 => Thrift::Int(self.zigzag()?),
            6 => Thrift::Long(self.zigzag()?),
            7 => {
                let bytes = self.take(8)?.try_into();
                Thrift::Double(f64::from_le_bytes(
                    bytes.map_err(|_| ParquetError::Damaged)?,
                ))
            }
            8 => {
                let length = usize::try_from(self.varint()?);
                let bytes = self.take(length.map_err(|_| ParquetError::Damaged)?)?;
                Thrift::Bytes(bytes.to_vec())
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    short => u64::from(short),
                };
                let mut list = Vec::new();
                for _ in 0..count {
                    // Each value takes a byte at least.
                    if self.0.is_empty() {
                        return Err(ParquetError::Damaged);
                    }
                    list.push(self.value(head & 15, depth)?);
                }
                Thrift::List(list)
            }
            12 => {
                let (mut fields, mut last) = (Vec::new(), 0_i16);
                loop {
                    let head = self.byte()?;
                    if head == 0 {
                        break;
                    }
                    let number = match head >> 4 {
                        0 => i16::try_from(self.zigzag()?).map_err(|_| ParquetError::Damaged)?,
                        near => last.saturating_add(i16::from(near)),
                    };
                    fields.push((number, self.value(head & 15, depth)?));
                    last = number;
                }
                Thrift::Struct(fields)
            }
            _ => return Err(ParquetError::Unknown("a kind of value")),
        })
    }
}
