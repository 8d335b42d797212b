//! What is handed from the collector to the writer.

/// The words of one ring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RingWords {
    /// Number of the ring in its process.
    pub ring: u32,
    /// Whole records, or nothing when the ring was corrupt.
    pub words: Vec<u64>,
    /// Whether something before these words was lost to corruption.
    pub after_damage: bool,
}

/// What one pass over the rings of a process found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// What the first look found.
    pub words: Vec<RingWords>,
    /// What was found when all rings were looked at once more. Every module that `words` need is in
    /// one of the two.
    pub later: Vec<RingWords>,
}

impl Batch {
    /// Memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words
            .iter()
            .chain(&self.later)
            .map(|ring| ring.words.len() * 8 + size_of::<RingWords>())
            .sum()
    }
}
