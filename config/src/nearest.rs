//! Guessing what a misspelt word was meant to be.

/// How alike two words must be (Jaro–Winkler, 0 to 1) before one is offered for the other.
const ALIKE_ENOUGH: f64 = 0.84;

/// The candidate that is most like `word`, if any is like it at all.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE_ENOUGH)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}
