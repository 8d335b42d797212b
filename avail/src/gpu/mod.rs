//! What can be read and counted on AMD GPUs. No GPU runtime is touched.
//!
//! Sensors are files of the amdgpu driver, which [`rsys_machine::gpu`] reads; `definitions` are the counters that an installed ROCm
//! describes.

pub mod definitions;

mod loose_xml;

use std::path::PathBuf;

use anyhow::Result;
use rsys_config::backends;
use rsys_machine::events::{Access, Counter};
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
                access: access(present, roots),
            }
        }));
    }
    Ok(counters)
}

fn access(present: bool, roots: &Roots) -> Access {
    if !present {
        return Access::No(NO_GPU.to_owned(), no_gpu_remedy(roots));
    }
    let built = backends::find("rocprofiler").is_some_and(|backend| backend.is_built());
    if built {
        Access::Yes
    } else {
        Access::No(
            "GPU counters are not part of this build".to_owned(),
            "rocprofv3 of ROCm counts them.".to_owned(),
        )
    }
}
