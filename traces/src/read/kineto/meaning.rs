//! What categories and names mean that profilers of PyTorch write.

use memchr::memmem;

use crate::model::{HostKind, OpKind};

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An operation of a GPU.
    Gpu(OpKind),
    /// A slice of a thread.
    Host(HostKind),
    /// A range as a GPU saw it.
    GpuRange,
    /// Values of performance counters while something ran.
    Counters,
    /// A point in time.
    Mark,
    /// Nothing that is asked for: arrows, what the profiler says of itself.
    None,
}

/// What an event of a category is. Versions before 1.12 spell categories differently, and builds of
/// PyTorch without Kineto have none; the process of their events is called `CPU functions`.
#[inline]
pub(super) fn of_category(category: &[u8], pid: &[u8]) -> Meaning {
    match category {
        b"kernel" | b"Kernel" => Meaning::Gpu(OpKind::Kernel),
        b"gpu_memcpy" | b"Memcpy" => Meaning::Gpu(OpKind::Copy),
        b"gpu_memset" | b"Memset" => Meaning::Gpu(OpKind::Fill),
        b"cuda_runtime"
        | b"cuda_driver"
        | b"hip_runtime"
        | b"hip_driver"
        | b"Runtime"
        | b"xpu_runtime"
        | b"xpu_driver"
        | b"privateuse1_runtime"
        | b"privateuse1_driver"
        | b"mtia_runtime"
        | b"glow_runtime"
        | b"hpu_op" => Meaning::Host(HostKind::Runtime),
        // Of accelerators that are no GPUs.
        b"mtia_ccp_events" => Meaning::Gpu(OpKind::Kernel),
        b"cpu_op" | b"Operator" => Meaning::Host(HostKind::Operator),
        b"gpu_user_annotation" => Meaning::GpuRange,
        b"cuda_profiler_range" => Meaning::Counters,
        b"user_annotation" => Meaning::Host(HostKind::Range),
        b"python_function" => Meaning::Host(HostKind::Function),
        b"cpu_instant_event" => Meaning::Mark,
        // Of `rsys-report export --to chrome`.
        b"gpu_other" => Meaning::Gpu(OpKind::Other),
        b"wait" => Meaning::Host(HostKind::Wait),
        b"off_processor" => Meaning::Host(HostKind::OffCpu),
        // Of traces of rocprofv3 and rocprof-sys that were converted.
        b"kernel_dispatch" | b"rocm_kernel_dispatch" => Meaning::Gpu(OpKind::Kernel),
        b"memory_copy" | b"rocm_memory_copy" => Meaning::Gpu(OpKind::Copy),
        b"scratch_memory" | b"rocm_scratch_memory" => Meaning::Gpu(OpKind::Other),
        b"hip_api" | b"hip_runtime_api" | b"rocm_hip_api" => Meaning::Host(HostKind::Runtime),
        b"hsa_api" | b"rocm_hsa_api" => Meaning::Host(HostKind::Hsa),
        b"rccl_api" | b"rocm_rccl_api" => Meaning::Host(HostKind::Collective),
        b"marker_api" | b"rocm_marker_api" => Meaning::Host(HostKind::Range),
        b"" if pid == b"CPU functions" => Meaning::Host(HostKind::Operator),
        _ => Meaning::None,
    }
}

/// Whether a category that is not known looks like one of calls of a runtime, or of work of a device.
pub(super) fn may_be_of_device(category: &[u8]) -> bool {
    // Known, and nothing that is asked for.
    let is_left = matches!(category, b"cuda_sync" | b"gpu_pm_counter");
    let has = |part: &&str| memmem::find(category, part.as_bytes()).is_some();
    let ends = ["_runtime", "_driver", "_ccp_events"];
    let parts = ["kernel", "memcpy", "memset", "gpu", "device"];
    !is_left && (ends.iter().any(|end| category.ends_with(end.as_bytes())) || parts.iter().any(has))
}
