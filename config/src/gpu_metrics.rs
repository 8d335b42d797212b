//! The names for `GPU_METRICS`: sensors of GPUs that a user may ask for.

use crate::problem::ProblemKind;

/// The words for every sensor and for no sensor.
pub const ALL: &str = "all";
/// See [`ALL`].
pub const NONE: &str = "none";

/// Sensors of this build. docs/counters.md explains them.
pub const NAMES: [&str; 17] = [
    "busy",
    "mem_busy",
    "mm_busy",
    "temp",
    "temp_edge",
    "temp_junction",
    "temp_memory",
    "power",
    "energy",
    "mem_usage",
    "gtt",
    "clock",
    "mem_clock",
    "voltage",
    "fan",
    "link",
    "occupancy",
];

/// Other words, of which most are the original's, for the same sensors.
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

/// What a word of `GPU_METRICS` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Every sensor.
    All,
    /// No sensor.
    None,
    /// One of [`NAMES`].
    Sensor(&'static str),
    /// One that only the original reads.
    NotHere(&'static str),
}

/// The words of a value of `GPU_METRICS`.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ';', ' ', '\t'])
        .filter(|word| !word.is_empty())
}

/// What a word means; nothing if it is not known.
#[must_use]
pub fn find(word: &str) -> Option<Metric> {
    let word = word.to_ascii_lowercase();
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == word);
    let name = other.map_or(word.as_str(), |(_, name)| name);
    let in_list = |list: &'static [&'static str]| list.iter().copied().find(|known| *known == name);
    match name {
        ALL => Some(Metric::All),
        NONE => Some(Metric::None),
        _ => in_list(&NAMES)
            .map(Metric::Sensor)
            .or_else(|| in_list(&ELSEWHERE).map(Metric::NotHere)),
    }
}

/// Looks for a word that is not known.
pub(crate) fn check(text: &str) -> Result<(), ProblemKind> {
    match words(text).find(|word| find(word).is_none()) {
        None => Ok(()),
        Some(word) => Err(ProblemKind::UnknownMetric {
            name: word.to_owned(),
            nearest: nearest(word),
        }),
    }
}

fn nearest(word: &str) -> Option<&'static str> {
    let others = OTHER_NAMES.iter().map(|(other, _)| *other);
    let known = [ALL, NONE].into_iter().chain(NAMES).chain(others);
    crate::nearest::nearest(&word.to_ascii_lowercase(), known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_versions_are_known() {
        for (word, meaning) in [
            ("busy", Metric::Sensor("busy")),
            ("Temperature", Metric::Sensor("temp")),
            ("gfx_clock", Metric::Sensor("clock")),
            ("pcie", Metric::Sensor("link")),
            ("all", Metric::All),
            ("none", Metric::None),
            ("xgmi", Metric::NotHere("xgmi")),
        ] {
            assert_eq!(find(word), Some(meaning), "{word}");
        }
        let error = |text| check(text).expect_err(text);
        assert_eq!(check("busy;temp, power\tmem_usage,vcn_activity"), Ok(()));
        assert_eq!(check(""), Ok(()));
        assert_eq!(
            error("busy, pwoer").remedy().as_deref(),
            Some("did you mean 'power'?")
        );
        let remedy = error("busy, 12").remedy().unwrap_or_default();
        assert!(
            remedy.starts_with("known sensors: busy mem_busy"),
            "{remedy}"
        );
    }
}
