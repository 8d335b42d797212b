//! How what GPUs do is learnt.

use super::{Category, Kind, Setting};
use crate::choices::{GpuLevel, GpuSource};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Backends,
        "GPU_SOURCE",
        Kind::Choice(GpuSource::CHOICES),
        GpuSource::Auto.as_str(),
        "Which runtime reports kernels and copies",
    )
    .details("Counts only with a backend of ROCm, as in `-I roctracer`.")
    .option(None, "gpu-source", "SOURCE"),
    Setting::new(
        Category::Backends,
        "GPU_LEVEL",
        Kind::Choice(GpuLevel::CHOICES),
        GpuLevel::Standard.as_str(),
        "How much the interception of HSA queues may change",
    )
    .option(None, "gpu-level", "LEVEL"),
    Setting::new(
        Category::Backends,
        "LAUNCH_STACKS",
        Kind::Bool,
        "true",
        "Record for each kernel the call stack that launched it",
    )
    .details("GPU time, and the time of calls that wait, copy, or make memory and give it back, can then be read as a flame graph over the functions of the program.")
    .option(None, "launch-stacks", ""),
];
