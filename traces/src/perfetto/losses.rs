//! What a trace of rsys says at its end that it lost: the one list of the keys that count, for whoever judges or sums up losses.

use std::collections::BTreeMap;

use super::facts::{Datum, Facts};

/// What can be lost, and the keys of what was kept of it.
const KINDS: [&[&str]; 3] = [&["samples"], &EVENTS, &GPU_OPERATIONS];
const SAMPLES: usize = 0;
const EVENT: usize = 1;
const GPU_OPERATION: usize = 2;

const GPU_OPERATIONS: [&str; 3] = ["gpu_kernels", "gpu_moves", "gpu_other_operations"];
/// Operations of GPUs are records like calls, too.
const EVENTS: [&str; 7] = [
    "event_calls",
    "event_marks",
    "event_ranges",
    "event_locks",
    "gpu_kernels",
    "gpu_moves",
    "gpu_other_operations",
];

/// What was lost, of one process or of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many records, by cause.
    pub by_cause: BTreeMap<String, u64>,
    /// Of each kind, how many were lost and how many were kept.
    kinds: [(u64, u64); KINDS.len()],
}

impl Losses {
    /// Adds what a process says at its end.
    pub fn add(&mut self, end: &Facts) {
        for ((_, kept), keys) in self.kinds.iter_mut().zip(KINDS) {
            *kept += keys.iter().filter_map(|key| end.count(key)).sum::<u64>();
        }
        let samples_before = self.kinds[SAMPLES].0;
        for (key, value) in &end.0 {
            if let Datum::Count(count @ 1..) = value
                && let Some((kind, cause)) = cause(key)
            {
                self.lose(kind, cause, *count);
            }
        }
        // Samples that were dropped for a cause that is not named.
        let named = self.kinds[SAMPLES].0 - samples_before;
        let rest = end.count("dropped").unwrap_or(0).saturating_sub(named);
        if rest > 0 {
            self.lose(SAMPLES, "dropped".to_owned(), rest);
        }
        if let Some(count @ 1..) = end.count("corrupt_records") {
            self.lose(SAMPLES, "corrupt records".to_owned(), count);
        }
    }

    fn lose(&mut self, kind: usize, cause: String, count: u64) {
        self.kinds[kind].0 += count;
        *self.by_cause.entry(cause).or_default() += count;
    }

    /// All records that were lost.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_cause.values().sum()
    }

    /// The share that was lost of the kind of which most was lost: a few lost kernels are not made good by many samples.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let share = |&(lost, kept): &(u64, u64)| 100.0 * lost as f64 / (lost + kept).max(1) as f64;
        self.kinds.iter().map(share).fold(0.0, f64::max)
    }
}

/// The kind and cause that a key of the metadata counts lost records of, if it does.
fn cause(key: &str) -> Option<(usize, String)> {
    let words = |text: &str| text.replace('_', " ");
    // The sum of the causes, and the periods that the lost samples stood for.
    if matches!(key, "dropped" | "dropped_weight") {
        None
    } else if let Some(cause) = key.strip_prefix("dropped_") {
        Some((SAMPLES, words(cause)))
    } else if key == "events_dropped" {
        Some((EVENT, "events".to_owned()))
    } else if let Some(cause) = key.strip_prefix("gpu_dropped_") {
        Some((GPU_OPERATION, format!("GPU operations {}", words(cause))))
    } else {
        let is_drop = key.split('_').any(|word| word == "dropped");
        is_drop.then(|| (EVENT, words(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(facts: &[(&str, u64)]) -> Losses {
        let facts = facts
            .iter()
            .map(|&(key, count)| (key.to_owned(), Datum::Count(count)));
        let mut losses = Losses::default();
        losses.add(&Facts(facts.collect()));
        losses
    }

    #[test]
    fn each_key_of_a_loss_counts_once() {
        for (facts, causes, percent) in [
            (&[("samples", 9), ("dropped_weight", 7)][..], "", 0.0),
            (
                &[("samples", 9), ("dropped", 3), ("dropped_ring_full", 3)],
                "3 ring full",
                25.0,
            ),
            (
                &[("samples", 6), ("dropped", 2), ("dropped_ring_full", 1)],
                "1 dropped, 1 ring full",
                25.0,
            ),
            (
                &[
                    ("samples", 1 << 40),
                    ("event_marks", 3),
                    ("events_dropped", 1),
                ],
                "1 events",
                25.0,
            ),
            (
                &[
                    ("samples", 1 << 40),
                    ("event_calls", 1 << 40),
                    ("gpu_dropped_no_queue", 1),
                    ("gpu_dropped_time_failed", 2),
                    ("gpu_seen", 3),
                ],
                "1 GPU operations no queue, 2 GPU operations time failed",
                100.0,
            ),
            (
                &[("proxy_dropped_later", 4)],
                "4 proxy dropped later",
                100.0,
            ),
            (
                &[("samples", 3), ("corrupt_records", 1)],
                "1 corrupt records",
                25.0,
            ),
        ] {
            let losses = of(facts);
            let told: Vec<String> = losses
                .by_cause
                .iter()
                .map(|(cause, count)| format!("{count} {cause}"))
                .collect();
            assert_eq!(told.join(", "), causes, "{facts:?}");
            assert!((losses.percent() - percent).abs() < 1e-6, "{losses:?}");
        }
    }
}
