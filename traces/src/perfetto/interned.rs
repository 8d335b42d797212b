//! What packets refer to by number: the interning tables of a sequence.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rsys_proto::fields::{annotation, interned};
use rsys_proto::message::{Fields, Value, varint};

use super::packet_head::EventHead;
use crate::model::{TextId, Texts};

/// Values by the interning ids of a sequence, which are small numbers in most traces.
#[derive(Debug)]
pub struct IidTable<T> {
    dense: Vec<T>,
    sparse: HashMap<u64, T, BuildHasherDefault<IidHasher>>,
}

/// Ids are numbers that a writer counts up: one multiplication spreads them well enough.
#[derive(Debug, Default)]
struct IidHasher(u64);

impl Hasher for IidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl<T> Default for IidTable<T> {
    fn default() -> Self {
        Self {
            dense: Vec::new(),
            sparse: HashMap::default(),
        }
    }
}

/// A table may have so many empty places beside as many as it has values.
const EMPTY_PLACES: u64 = 256;

impl<T: Copy + Default> IidTable<T> {
    /// The value of an id; the default if it has none.
    #[inline]
    #[must_use]
    pub fn get(&self, iid: u64) -> T {
        let place = usize::try_from(iid).unwrap_or(usize::MAX);
        match self.dense.get(place) {
            Some(&value) => value,
            None if self.sparse.is_empty() => T::default(),
            None => self.sparse.get(&iid).copied().unwrap_or_default(),
        }
    }

    /// Gives an id its value.
    pub fn set(&mut self, iid: u64, value: T) {
        let length = self.dense.len() as u64;
        if iid >= length && iid > 2 * length + EMPTY_PLACES {
            self.sparse.insert(iid, value);
            return;
        }
        let place = iid as usize;
        if place >= self.dense.len() {
            self.dense.resize(place + 1, T::default());
            // What lay beyond the end before is looked for here now.
            for (&iid, &value) in &self.sparse {
                if let Some(at) = usize::try_from(iid)
                    .ok()
                    .and_then(|place| self.dense.get_mut(place))
                {
                    *at = value;
                }
            }
            let length = self.dense.len() as u64;
            self.sparse.retain(|&iid, _| iid >= length);
        }
        self.dense[place] = value;
    }
}

/// One entry of `InternedData`.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'p> {
    /// The field of `InternedData`, one of [`interned`].
    pub table: u32,
    /// The id.
    pub iid: u64,
    /// The text of entries that have one.
    pub text: &'p [u8],
    /// The whole entry, encoded.
    pub body: &'p [u8],
}

/// The entries of an encoded `InternedData`; torn ones are left out.
pub fn entries(message: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    Fields::new(message).flatten().map(|field| {
        let mut entry = Entry {
            table: field.number,
            iid: 0,
            text: &[],
            body: field.value.bytes(),
        };
        for field in Fields::new(entry.body).flatten() {
            match (field.number, field.value) {
                (interned::IID, value) => entry.iid = value.number(),
                (interned::TEXT, Value::Bytes(text)) => entry.text = text,
                _ => {}
            }
        }
        entry
    })
}

/// The names that the events of a sequence refer to.
#[derive(Debug, Default)]
pub struct EventNames {
    names: IidTable<TextId>,
    categories: IidTable<TextId>,
    keys: IidTable<TextId>,
    values: IidTable<TextId>,
}

/// What an annotation holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum<'p> {
    /// Nothing that is understood.
    None,
    /// A whole number.
    Uint(u64),
    /// A whole number with a sign.
    Int(i64),
    /// A measured number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// An address or handle.
    Pointer(u64),
    /// A text that was interned.
    Interned(TextId),
    /// A text that was written out.
    Text(&'p [u8]),
}

impl Datum<'_> {
    /// The number, if it is one.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Uint(value) => Some(value as f64),
            Self::Int(value) => Some(value as f64),
            Self::Double(value) => Some(value),
            _ => None,
        }
    }

    /// The number, if it is one that is not negative.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Uint(value) | Self::Pointer(value) => Some(value),
            Self::Int(value) => u64::try_from(value).ok(),
            Self::Double(value) if value >= 0.0 => Some(value as u64),
            _ => None,
        }
    }

    /// The id of the text, if it is one.
    pub fn text(self, texts: &mut Texts) -> Option<TextId> {
        match self {
            Self::Interned(id) => Some(id),
            Self::Text(bytes) => Some(texts.intern_bytes(bytes)),
            _ => None,
        }
    }
}

impl EventNames {
    /// Takes in an entry of the sequence's interned data, if it is one of these tables.
    pub fn define(&mut self, entry: &Entry<'_>, texts: &mut Texts) {
        let table = match entry.table {
            interned::EVENT_NAMES => &mut self.names,
            interned::EVENT_CATEGORIES => &mut self.categories,
            interned::DEBUG_ANNOTATION_NAMES => &mut self.keys,
            interned::DEBUG_ANNOTATION_STRING_VALUES => &mut self.values,
            _ => return,
        };
        table.set(entry.iid, texts.intern_bytes(entry.text));
    }

    /// The name of an event.
    #[inline]
    pub fn name(&self, event: &EventHead<'_>, texts: &mut Texts) -> TextId {
        match event.name {
            Some(text) => texts.intern_bytes(text),
            None => self.names.get(event.name_iid),
        }
    }

    /// The first category of an event.
    #[inline]
    pub fn category(&self, event: &EventHead<'_>, texts: &mut Texts) -> TextId {
        match event.category {
            Some(text) => texts.intern_bytes(text),
            None => self.categories.get(event.category_iid),
        }
    }

    /// The key of an encoded annotation and what follows it, where it stands in front and is below 2^14, as in all that `rsys-sample` writes.
    #[inline]
    pub fn key_in_front<'p>(&self, encoded: &'p [u8]) -> Option<(TextId, &'p [u8])> {
        const NAME_IID: u8 = (annotation::NAME_IID << 3) as u8;
        let (iid, rest) = match encoded {
            [NAME_IID, iid, rest @ ..] if *iid < 0x80 => (u64::from(*iid), rest),
            [NAME_IID, low, high, rest @ ..] if *high < 0x80 => {
                (u64::from(*low & 0x7F) | u64::from(*high) << 7, rest)
            }
            _ => return None,
        };
        Some((self.keys.get(iid), rest))
    }

    /// The number that an annotation holds, if `behind_key` is that and nothing else.
    #[inline]
    pub fn number_behind_key(behind_key: &[u8]) -> Option<u64> {
        const UINT: u8 = (annotation::UINT_VALUE << 3) as u8;
        const POINTER: u8 = (annotation::POINTER_VALUE << 3) as u8;
        let [UINT | POINTER, value @ ..] = behind_key else {
            return None;
        };
        let mut rest = value;
        let number = varint(&mut rest)?;
        rest.is_empty().then_some(number)
    }

    /// Key and value of an encoded annotation.
    #[inline]
    pub fn annotation<'p>(&self, encoded: &'p [u8], texts: &mut Texts) -> (TextId, Datum<'p>) {
        let (mut key, mut value) = (TextId::EMPTY, Datum::None);
        for field in Fields::new(encoded) {
            let Ok(field) = field else { break };
            let number = field.value.number();
            match field.number {
                annotation::NAME_IID => key = self.keys.get(number),
                annotation::NAME => key = texts.intern_bytes(field.value.bytes()),
                annotation::UINT_VALUE => value = Datum::Uint(number),
                annotation::INT_VALUE => value = Datum::Int(number.cast_signed()),
                annotation::DOUBLE_VALUE => value = Datum::Double(f64::from_bits(number)),
                annotation::BOOL_VALUE => value = Datum::Bool(number != 0),
                annotation::POINTER_VALUE => value = Datum::Pointer(number),
                annotation::STRING_VALUE_IID => value = Datum::Interned(self.values.get(number)),
                annotation::STRING_VALUE => value = Datum::Text(field.value.bytes()),
                _ => {}
            }
        }
        (key, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_be_small_or_large() {
        let mut table = IidTable::default();
        for iid in [3, 1 << 40, 800, 270, u64::MAX, 190, 0] {
            table.set(iid, iid);
        }
        for iid in [3, 1 << 40, 800, 270, u64::MAX, 190, 0] {
            assert_eq!(table.get(iid), iid);
        }
        assert_eq!((table.get(4), table.get(1 << 41)), (0, 0));
    }
}
