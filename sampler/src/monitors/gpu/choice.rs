//! Which metrics of which GPUs are read.

use std::path::PathBuf;

use rsys_config::Numbers;
use rsys_config::gpu_metrics::{self, Word};
use rsys_machine::gpu::Gpu;

use crate::monitors::numbers::ranges;

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// `SAMPLING_GPUS`.
    pub gpus: Numbers,
    /// `GPU_METRICS`.
    pub metrics: String,
    /// Somebody asked: say so where there is no GPU.
    pub wanted: bool,
    /// `SMI_LIBRARY`.
    pub library: String,
    /// `GPU_EVENTS`, and the file that defines their names.
    pub events: String,
    /// See `events`.
    pub definitions: Option<PathBuf>,
    /// Whether nothing but errors is said.
    pub quiet: bool,
    /// `ROCR_VISIBLE_DEVICES` of the command, and its `HIP_VISIBLE_DEVICES` or else
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: [Option<String>; 2],
}

/// The metrics that were asked for.
pub(super) struct Wanted {
    pub(super) all: bool,
    names: Vec<&'static str>,
}

impl Wanted {
    pub(super) fn new(text: &str, complaints: &mut Vec<String>) -> Self {
        let mut wanted = Self {
            // As the original has it: nothing means everything.
            all: text.trim().is_empty(),
            names: Vec::new(),
        };
        for word in gpu_metrics::words(text) {
            match gpu_metrics::find(word) {
                Some(Word::All) => wanted.all = true,
                Some(Word::None) => {}
                Some(Word::Metric(metric)) => wanted.names.push(metric.name),
                Some(Word::NotHere(_)) | None => complaints.push(format!(
                    "GPU_METRICS: '{word}' is not a sensor of this build"
                )),
            }
        }
        wanted
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(&name)
    }
}

/// Places among the visible GPUs: numbers, or names `GPU-` and the GPU's unique id. Nothing where a
/// name is no known GPU's.
pub(super) fn places(list: &str, all: &[Gpu], visible: &[usize]) -> Option<Vec<usize>> {
    if let Some(places) = ranges(list) {
        return Some(places);
    }
    let words = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let mut places = Vec::new();
    for word in words {
        // As for the runtimes, a number below zero hides what follows.
        if word.starts_with('-') {
            break;
        }
        places.push(match word.strip_prefix("GPU-") {
            None => word.parse().ok()?,
            Some(id) => visible.iter().position(|index| {
                let gpu = all.iter().find(|gpu| gpu.index == *index);
                gpu.and_then(Gpu::unique_id)
                    .is_some_and(|own| own.eq_ignore_ascii_case(id))
            })?,
        });
    }
    Some(places)
}

/// The GPUs that were asked for and are visible to the command.
pub(super) fn chosen<'a>(all: &'a [Gpu], choice: &Choice) -> Vec<&'a Gpu> {
    let mut visible: Vec<usize> = all.iter().map(|gpu| gpu.index).collect();
    for list in choice.visible.iter().flatten() {
        // HIP counts among those that ROCR leaves.
        if let Some(places) = places(list, all, &visible) {
            visible = places
                .iter()
                .filter_map(|place| visible.get(*place).copied())
                .collect();
        }
    }
    visible.retain(|index| u32::try_from(*index).is_ok_and(|index| choice.gpus.contains(index)));
    all.iter()
        .filter(|gpu| visible.contains(&gpu.index))
        .collect()
}
