//! Numbers in sentences.

/// A number with its noun, which is given for one: `1 trace`, `2 traces`, `3 processes`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let plural = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}
