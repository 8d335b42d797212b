//! The names for `GPU_METRICS`: what can be recorded of a GPU, where it is shown and in which unit.
//! Everything else that knows these names follows from [`METRICS`].

use crate::original::sensors;
pub use crate::text::words;

/// The word for every metric.
pub const ALL: &str = "all";
/// The word for no metric.
pub const NONE: &str = "none";

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name for `GPU_METRICS`.
    pub name: &'static str,
    /// What it is, in one line without a full stop.
    pub summary: &'static str,
    /// Its tracks: one for each GPU; none for what belongs to a process.
    pub tracks: &'static [Track],
}

/// A track of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Its name, before the number of the GPU. These are the names of the original where it has them.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// The sensors, by their names in rsys-avail, of which the first that a GPU has is read.
    pub sensors: &'static [&'static str],
}

/// The unit of metrics of memory. Their sensors are in MiB.
pub const BYTES: &str = "B";

const fn metric(name: &'static str, summary: &'static str, tracks: &'static [Track]) -> Metric {
    Metric {
        name,
        summary,
        tracks,
    }
}

const fn track(name: &'static str, unit: &'static str, sensors: &'static [&'static str]) -> Track {
    Track {
        name,
        unit,
        sensors,
    }
}

/// All metrics, in the order of their tracks.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    metric("busy", "share of time with work",
        &[track("GPU Busy", "%", &["busy"])]),
    metric("mem_busy", "share of time with memory traffic",
        &[track("GPU Memory Busy", "%", &["mem_busy"])]),
    metric("mm_busy", "load of the video engines, from the SMI library",
        &[track("GPU MM Busy", "%", &["mm_busy"])]),
    metric("temp", "temperature: the first of edge, junction and memory that the GPU has",
        &[track("GPU Temperature", "\u{b0}C", &["temp_edge", "temp_junction", "temp_memory"])]),
    metric("temp_edge", "temperature at the edge of the chip",
        &[track("GPU Temperature edge", "\u{b0}C", &["temp_edge"])]),
    metric("temp_junction", "highest temperature on the chip",
        &[track("GPU Temperature junction", "\u{b0}C", &["temp_junction"])]),
    metric("temp_memory", "temperature of the memory",
        &[track("GPU Temperature memory", "\u{b0}C", &["temp_memory"])]),
    metric("power", "power",
        &[track("GPU Power", "W", &["power"])]),
    metric("energy", "energy since the driver was loaded",
        &[track("GPU Energy", "J", &["energy"])]),
    metric("mem_usage", "GPU memory in use, of each GPU and of each process",
        &[track("GPU Memory Usage", BYTES, &["vram_used"])]),
    metric("mem_total", "memory of the GPU, used or not",
        &[track("GPU Memory Size", BYTES, &["vram_total"])]),
    metric("gtt", "host memory that the GPU uses",
        &[track("GPU Host Memory Usage", BYTES, &["gtt_used"])]),
    metric("clock", "clock of the compute units",
        &[track("GPU Clock", "MHz", &["clock_gfx"])]),
    metric("mem_clock", "clock of the memory",
        &[track("GPU Memory Clock", "MHz", &["clock_memory"])]),
    metric("voltage", "voltage of the compute units",
        &[track("GPU Voltage", "V", &["voltage"])]),
    metric("fan", "speed of the fan",
        &[track("GPU Fan", "rpm", &["fan"])]),
    metric("link", "speed and width of the PCIe link",
        &[track("GPU Link Speed", "GT/s", &["link_speed"]), track("GPU Link Width", "lanes", &["link_width"])]),
    metric("engines", "what the graphics driver says of each process: time of each engine, memory", &[]),
    metric("events", "what the driver tells: page faults, migrations, evicted queues, throttling, resets", &[]),
    metric("occupancy", "compute units that a process occupies, of each process", &[]),
];

/// The names of all metrics.
pub fn names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|metric| metric.name)
}

/// What a word of `GPU_METRICS` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Every metric.
    All,
    /// No metric.
    None,
    /// One of [`METRICS`].
    Metric(&'static Metric),
    /// One that only the original records.
    NotHere(&'static str),
}

/// What a word means; nothing if it is not known.
#[must_use]
pub fn find(word: &str) -> Option<Word> {
    let word = word.to_ascii_lowercase();
    let name = sensors::our_name(&word).unwrap_or(&word);
    match name {
        ALL => Some(Word::All),
        NONE => Some(Word::None),
        _ => METRICS
            .iter()
            .find(|metric| metric.name == name)
            .map(Word::Metric)
            .or_else(|| sensors::elsewhere(name).map(Word::NotHere)),
    }
}

/// The first word of a list that is not known.
pub(crate) fn unknown(text: &str) -> Option<&str> {
    words(text).find(|word| find(word).is_none())
}

/// The name that a word was probably meant to be.
pub(crate) fn nearest(word: &str) -> Option<&'static str> {
    let known = [ALL, NONE].into_iter().chain(names());
    crate::nearest::nearest(
        &word.to_ascii_lowercase(),
        known.chain(sensors::other_names()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_versions_are_known() {
        let meaning = |word| match find(word) {
            Some(Word::Metric(metric)) => metric.name,
            Some(Word::NotHere(_)) => "not here",
            Some(Word::All) => "everything",
            Some(Word::None) => "nothing",
            None => "unknown",
        };
        for (word, expected) in [
            ("busy", "busy"),
            ("Temperature", "temp"),
            ("gfx_clock", "clock"),
            ("pcie", "link"),
            ("all", "everything"),
            ("none", "nothing"),
            ("xgmi", "not here"),
            ("pwoer", "unknown"),
        ] {
            assert_eq!(meaning(word), expected, "{word}");
        }
    }

    #[test]
    fn the_first_unknown_word_is_found() {
        let known = "busy;temp, power\tmem_usage,vcn_activity";
        assert_eq!(unknown(known), None);
        assert_eq!(unknown(""), None);
        assert_eq!(unknown("busy, pwoer"), Some("pwoer"));
        assert_eq!(nearest("pwoer"), Some("power"));
        assert_eq!(nearest("12"), None);
    }
}
