//! The original's words for sensors of GPUs.

/// Other words, of which most are the original's, and our names for the same.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("temperature", "temp"),
    ("mem-usage", "mem_usage"),
    ("memory", "mem_usage"),
    ("gfx_clock", "clock"),
    ("umc_activity", "mem_busy"),
    ("pcie", "link"),
];

/// Sensors of the original that this build does not read.
const ELSEWHERE: [&str; 4] = ["vcn_activity", "jpeg_activity", "xgmi", "sdma_usage"];

/// Our name for what has another name too.
pub(crate) fn our_name(word: &str) -> Option<&'static str> {
    let row = OTHER_NAMES.iter().find(|(other, _)| *other == word);
    row.map(|(_, name)| *name)
}

/// The words that have another name here.
pub(crate) fn other_names() -> impl Iterator<Item = &'static str> {
    OTHER_NAMES.iter().map(|(other, _)| *other)
}

/// The sensor of that name, if only the original reads it.
pub(crate) fn elsewhere(word: &str) -> Option<&'static str> {
    ELSEWHERE.iter().copied().find(|known| *known == word)
}
