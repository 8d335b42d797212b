//! Numbers in sentences.

/// A time in the largest unit of which there is one at least: `3600.000 s`, `90 ns`.
#[must_use]
pub fn nanoseconds(ns: u64) -> String {
    let units = [
        (1_000_000_000_u64, "s"),
        (1_000_000, "ms"),
        (1_000, "\u{b5}s"),
    ];
    match units.iter().find(|(size, _)| ns >= *size) {
        Some((size, unit)) => format!("{:.3} {unit}", ns as f64 / *size as f64),
        None => format!("{ns} ns"),
    }
}

/// `1 range`, `2 ranges`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
