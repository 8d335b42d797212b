//! The original's settings whose work other settings do here, as they stand in old configuration files.

use crate::setting::{Category, Kind, Setting};

const fn switch(name: &'static str, summary: &'static str) -> Setting {
    Setting::new(Category::Backends, name, Kind::Bool, "false", summary)
        .details(
            "As INCLUDE_BACKENDS where it is set to true, as EXCLUDE_BACKENDS where it is set to false. Where these lists name the \
             backend too, the list counts, unless it stands in a weaker place.",
        )
        .advanced()
}

/// Switches of single backends.
pub(crate) const BACKENDS: &[Setting] = &[
    switch("USE_ROCM", "Record what ROCm programs do, as -I rocm (without the sensors)"),
    switch("USE_ROCTRACER", "Record HIP calls, kernels and copies, as -I roctracer"),
    switch("USE_ROCPROFILER", "Count the events of GPU_EVENTS, as -I rocprofiler"),
    switch("USE_ROCTX", "Record ROCTx ranges and marks, as -I roctx"),
    switch("USE_OMPT", "Record what OpenMP runtimes do, as -I ompt"),
    switch("USE_KOKKOSP", "Record what Kokkos tells its tools, as -I kokkosp"),
    Setting::new(
        Category::Backends,
        "KOKKOSP_NAME_LENGTH_MAX",
        Kind::Int { min: 0, max: 4096, unit: "bytes" },
        "0",
        "Leave out kernels, regions and fences of Kokkos whose names have this many bytes or more; 0: none",
    )
    .details("Kokkos names what the program has not named by the type of its function, which may be very long.")
    .advanced(),
    Setting::new(
        Category::Backends,
        "KOKKOSP_DEEP_COPY",
        Kind::Bool,
        "true",
        "Record deep copies of Kokkos, with -I kokkosp",
    )
    .advanced(),
    switch("USE_RCCLP", "Record RCCL collectives, as -I rcclp").aliases(&["USE_RCCL"]),
    switch("TRACE_THREAD_LOCKS", "Record waits for mutexes, conditions and the like, as -I mutex-locks"),
    switch("TRACE_THREAD_RW_LOCKS", "Record waits for reader-writer locks, as -I rw-locks"),
    switch("TRACE_THREAD_SPIN_LOCKS", "Record waits for spin locks, as -I spin-locks"),
    switch("USE_MPIP", "Record MPI calls, as -I mpip"),
    Setting::new(
        Category::Backends,
        "ROCM_DOMAINS",
        Kind::Text,
        "",
        "Which parts of ROCm are recorded; also what `rocm` stands for in -I, INCLUDE_BACKENDS and USE_ROCM",
    )
    .details(
        "Naming any switches them on, unless USE_ROCM is off in the same or a stronger place. Domains of the original: hip_api, hip_runtime_api, kernel_dispatch, memory_copy and scratch_memory are the backend roctracer, \
         hsa_api is hsa, marker_api is roctx, rccl_api is rcclp; others have no effect. Nothing means roctracer, roctx and rcclp.",
    )
    .advanced(),
];

/// What OVERFLOW says in one.
pub(crate) const OVERFLOW: &[Setting] = &[
    Setting::new(
        Category::Counters,
        "SAMPLING_OVERFLOW",
        Kind::Bool,
        "false",
        "The original's switch for OVERFLOW: take samples by SAMPLING_OVERFLOW_EVENT",
    )
    .advanced(),
    Setting::new(
        Category::Counters,
        "SAMPLING_OVERFLOW_EVENT",
        Kind::Text,
        "perf::PERF_COUNT_HW_CACHE_REFERENCES",
        "The event of SAMPLING_OVERFLOW",
    )
    .advanced(),
    Setting::new(
        Category::Counters,
        "SAMPLING_OVERFLOW_FREQ",
        Kind::Int {
            min: -1,
            max: 1_000_000_000_000,
            unit: "events",
        },
        "-1",
        "How often the event of SAMPLING_OVERFLOW happens between two samples; 0 or less: as OVERFLOW without a period",
    )
    .advanced(),
];
