//! How what GPUs do is learnt.

use super::{Category, Choice, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Backends,
        "GPU_SOURCE",
        Kind::Choice(&[
            Choice {
                name: "auto",
                help: "the HIP runtime where it tells of its operations, else the HSA runtime",
            },
            Choice {
                name: "hip",
                help: "the tracer interface of the HIP runtime",
            },
            Choice {
                name: "hsa",
                help: "interception of the HSA runtime's queues and copies",
            },
            Choice {
                name: "off",
                help: "calls only, no kernels or copies",
            },
        ]),
        "auto",
        "Which runtime tells of kernels and copies",
    )
    .details("Counts only with a backend of ROCm, as in `-I roctracer`.")
    .option(None, "gpu-source", "SOURCE"),
    Setting::new(
        Category::Backends,
        "GPU_LEVEL",
        Kind::Choice(&[
            Choice {
                name: "lite",
                help: "nothing in the packets is changed: what can be learnt from the program's own signals",
            },
            Choice {
                name: "standard",
                help: "kernels without a signal get one of ours",
            },
            Choice {
                name: "full",
                help: "also in batches and replayed graphs",
            },
        ]),
        "standard",
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
    .details("GPU time can then be read as a flame graph over the functions of the program.")
    .option(None, "launch-stacks", ""),
];
