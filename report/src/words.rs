//! Numbers in sentences.

/// A number with its noun, which is given for one and takes an `s` otherwise: `1 trace`, `2 traces`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
