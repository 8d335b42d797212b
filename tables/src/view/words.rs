//! Texts with numbers.

/// In place of the number of a text where there is none.
pub const NO_WORD: u32 = u32::MAX;

/// Texts, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    content: String,
    ends: Vec<usize>,
}

impl Words {
    /// Texts in the order of their numbers.
    pub fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Self {
        let mut words = Self::default();
        texts.for_each(|text| words.push(text));
        words
    }

    /// Adds a text; its number is [`Words::len`] before.
    pub fn push(&mut self, text: &str) {
        self.content.push_str(text);
        self.ends.push(self.content.len());
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// A text; none for [`NO_WORD`] and numbers that have none.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let end = *self.ends.get(number)?;
        let start = match number {
            0 => 0,
            _ => self.ends[number - 1],
        };
        self.content.get(start..end)
    }

    /// The number itself if it has a text that is not empty, else [`NO_WORD`].
    pub(super) fn present(&self, number: u64) -> u32 {
        let number = u32::try_from(number).unwrap_or(NO_WORD);
        match self.get(number) {
            None | Some("") => NO_WORD,
            Some(_) => number,
        }
    }
}
