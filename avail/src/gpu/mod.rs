//! What can be read and counted on AMD GPUs. No GPU runtime is touched.
//!
//! Sensors are files of the amdgpu driver, which [`rsys_machine::gpu`] reads; [`rsys_machine::gpu::definitions`] are the counters that an installed ROCm
//! describes.

use std::path::PathBuf;

use anyhow::Result;
use rsys_machine::events::{Access, Counter};
use rsys_machine::gpu::definitions::{self, Formula};
use rsys_machine::gpu::expression::Expression;
use rsys_machine::gpu::{NO_GPU, find, no_gpu_remedy, sensors};
use rsys_machine::roots::Roots;

/// Sensors and counters of all GPUs, or of all architectures that a file describes where there is no GPU.
pub(crate) fn counters(
    roots: &Roots,
    files: &[PathBuf],
    notes: &mut Vec<String>,
) -> Result<Vec<Counter>> {
    let gpus = find(roots);
    if gpus.is_empty() {
        notes.push(format!("GPU: {NO_GPU}. {}", no_gpu_remedy(roots)));
    }
    let mut counters: Vec<Counter> = gpus.iter().flat_map(sensors::counters).collect();
    let definitions = if files.is_empty() {
        definitions::installed(roots, notes)
    } else {
        definitions::read_all(files)?
    };
    if definitions.is_empty() && !gpus.is_empty() {
        notes.push(
            "GPU counters: no definitions are installed. They come with ROCm (share/rocprofiler-sdk/counter_defs.yaml); \
             --gpu-counters FILE reads another file."
                .to_owned(),
        );
    }
    for definition in &definitions {
        let on: Vec<(String, bool)> = if gpus.is_empty() {
            vec![(
                format!("GPU ({})", definition.architectures.join(", ")),
                false,
            )]
        } else {
            gpus.iter()
                .filter(|gpu| definition.fits(&gpu.architecture))
                .map(|gpu| (gpu.title(), true))
                .collect()
        };
        counters.extend(on.into_iter().map(|(device, present)| {
            Counter {
                name: definition.name.clone(),
                also: Vec::new(),
                device,
                kind: "Counter",
                summary: definition.summary(),
                details: format!("{} {}", definition.description, definition.formula)
                    .trim()
                    .to_owned(),
                access: access(&definition.formula, present, roots),
            }
        }));
    }
    Ok(counters)
}

fn access(formula: &Formula, present: bool, roots: &Roots) -> Access {
    if !present {
        return Access::No(NO_GPU.to_owned(), no_gpu_remedy(roots));
    }
    let refused = match formula {
        Formula::Event { .. } => return Access::Yes,
        Formula::Computed(text) => match Expression::parse(text) {
            Ok(_) => return Access::Yes,
            Err(reason) => format!("it cannot be computed here: {reason}"),
        },
        Formula::Unknown => "its definition does not say what it counts".to_owned(),
    };
    Access::No(refused, "rocprofv3 of ROCm counts it.".to_owned())
}
