//! Names, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// A text of a [`Texts`]. The empty text is [`TextId::EMPTY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TextId(u32);

impl TextId {
    /// The empty text, which stands for "none" as well.
    pub const EMPTY: Self = Self(0);

    /// The id of a place in tables by text.
    #[inline]
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Its place in tables by text.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it is the empty text.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// All texts that were interned.
#[derive(Debug)]
pub struct Texts {
    ids: HashMap<Arc<str>, TextId>,
    texts: Vec<Arc<str>>,
}

impl Default for Texts {
    fn default() -> Self {
        let empty: Arc<str> = Arc::from("");
        Self {
            ids: HashMap::from([(Arc::clone(&empty), TextId::EMPTY)]),
            texts: vec![empty],
        }
    }
}

impl Texts {
    /// The id of a text.
    pub fn intern(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = TextId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The id of a text in bytes; what is not UTF-8 is replaced.
    pub fn intern_bytes(&mut self, bytes: &[u8]) -> TextId {
        self.intern(&String::from_utf8_lossy(bytes))
    }

    /// A text. Ids of other tables are empty.
    #[must_use]
    pub fn get(&self, id: TextId) -> &str {
        self.texts.get(id.index()).map_or("", AsRef::as_ref)
    }

    /// The text at a place of tables by text.
    #[must_use]
    pub fn at(&self, index: usize) -> &str {
        self.texts.get(index).map_or("", AsRef::as_ref)
    }

    /// How many there are, the empty one among them.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the empty text is always there"
    )]
    pub fn len(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_id() {
        let mut texts = Texts::default();
        let (one, other) = (texts.intern("gemm"), texts.intern_bytes(b"gemm"));
        assert_eq!((one, texts.get(one)), (other, "gemm"));
        assert_eq!((texts.intern(""), texts.len()), (TextId::EMPTY, 2));
    }
}
