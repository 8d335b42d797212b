//! Settings of the original that are accepted and have no effect here.

use crate::setting::bare_name;

/// A setting of the original that has no effect here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredSetting {
    /// Its name without prefix; a `*` at its end (or beginning) stands for anything.
    pub name: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

const fn row(name: &'static str, reason: &'static str) -> IgnoredSetting {
    IgnoredSetting { name, reason }
}

const ALWAYS_PERFETTO: &str = "the trace is a Perfetto trace";
const SUMMARY_FORM: &str = "summaries have one form in text and one in JSON";
const NO_COMPARISON: &str = "comparing with an older run is not part of rsys-sample";
const NO_REGIONS: &str = "recording by region is not part of this build";
const NO_BACKEND: &str = "this backend is not part of this build";
const NO_GPU: &str =
    "of GPUs, calls and operations are recorded as INCLUDE_BACKENDS says, without further choices";
const NO_MONITORS: &str = "sensors of network cards are not read";
const NO_PAPI: &str = "events are counted by the kernel, without PAPI";
const NO_BUFFER: &str = "the trace is streamed to its file; there is no buffer to size or fill";
const DEBUG_PARTS: &str = "DEBUG counts for all parts";
const NO_CAUSAL: &str = "causal profiling is not part of this profiler";
const NO_INSTRUMENTATION: &str = "there is no binary instrumentation here";
const NO_LOCKS: &str = "TRACE_THREAD_LOCKS counts for barriers and the ends of threads, too";
const NUMBERS: &str = "number formats of the original's text tables have no use here";
const INTERNAL: &str = "an internal of the original";

/// Settings of the original that have no effect here. The first row that fits counts.
pub const IGNORED_SETTINGS: &[IgnoredSetting] = &[
    row("MODE", "call stacks are always sampled"),
    row("USE_SAMPLING", "call stacks are always sampled"),
    row("TRACE_LEGACY", ALWAYS_PERFETTO),
    row("USE_ROCPD", ALWAYS_PERFETTO),
    row("PERFETTO_BACKEND", ALWAYS_PERFETTO),
    row("STRICT_CONFIG", "an unknown setting is always an error"),
    row("SUPPRESS_PARSING", "the environment is always read"),
    row("PERFETTO_BACKEND_SYSTEM", ALWAYS_PERFETTO),
    row("CI", INTERNAL),
    row("CI_*", INTERNAL),
    row("DL_VERBOSE", "VERBOSE counts for all parts"),
    row("DL_DEBUG", DEBUG_PARTS),
    row("VERBOSE_*", "VERBOSE counts for all parts"),
    row("DEBUG_INIT", DEBUG_PARTS),
    row("DEBUG_FINALIZE", DEBUG_PARTS),
    row("DEBUG_AVAIL", DEBUG_PARTS),
    row("DEBUG_MARK", DEBUG_PARTS),
    row("DEBUG_PIDS", DEBUG_PARTS),
    row("DEBUG_TIDS", DEBUG_PARTS),
    row("DEBUG_PUSH", DEBUG_PARTS),
    row("DEBUG_POP", DEBUG_PARTS),
    row("DEBUG_SAMPLING", DEBUG_PARTS),
    row("DEBUG_USER_REGIONS", DEBUG_PARTS),
    row("LOG_*", "VERBOSE says how much is printed"),
    row("NUM_THREADS", "threads need no preparation here"),
    row("NUM_THREADS_HINT", "threads need no preparation here"),
    row("THREAD_POOL_SIZE", "threads need no preparation here"),
    row(
        "SAMPLING_ALLOCATOR_SIZE",
        "threads need no preparation here",
    ),
    row(
        "ENABLE_SIGNAL_HANDLER",
        "traces survive signals without a handler in the target",
    ),
    row(
        "ALLOW_SIGNAL_HANDLER",
        "traces survive signals without a handler in the target",
    ),
    row(
        "ENABLE_ALL_SIGNALS",
        "traces survive signals without a handler in the target",
    ),
    row(
        "DISABLE_ALL_SIGNALS",
        "traces survive signals without a handler in the target",
    ),
    row("KILL_DELAY", "what was recorded survives SIGKILL"),
    row("SAMPLING_CPUTIME", "CPU-time sampling is always on"),
    row("SAMPLING_TIMER", "SAMPLING_CLOCK chooses the clock"),
    row(
        "SAMPLING_KEEP_INTERNAL",
        "the profiler's own frames are never recorded",
    ),
    row(
        "SAMPLING_CPUTIME_SIGNAL",
        "no signal of the program's is used",
    ),
    row("SAMPLING_REALTIME_SIGNAL", "waits are seen without signals"),
    row(
        "SAMPLING_OVERFLOW_TIDS",
        "SAMPLING_TIDS counts for all samples",
    ),
    row("SAMPLING_OVERFLOW_SIGNAL", "there is one sample signal"),
    row("SAMPLING_AINICS", NO_MONITORS),
    row("SAMPLING_KEEP_DYNINST_SUFFIX", NO_INSTRUMENTATION),
    row("SELECTED_REGIONS", NO_REGIONS),
    row("TRACE_THREAD_BARRIERS", NO_LOCKS),
    row("TRACE_THREAD_JOIN", NO_LOCKS),
    row("PERFETTO_BUFFER_SIZE_KB", NO_BUFFER),
    row("PERFETTO_SHMEM_SIZE_HINT_KB", NO_BUFFER),
    row("PERFETTO_FILL_POLICY", NO_BUFFER),
    row("PERFETTO_FLUSH_PERIOD_MS", NO_BUFFER),
    row("USE_TEMPORARY_FILES", NO_BUFFER),
    row("TMPDIR", NO_BUFFER),
    row(
        "PERFETTO_COMBINE_TRACES",
        "each process has its own trace; MERGE (--merge) puts them into one",
    ),
    row(
        "MERGE_PERFETTO_FILES",
        "each process has its own trace; MERGE (--merge) puts them into one",
    ),
    row("COLLAPSE_THREADS", "each thread has its own track"),
    row(
        "COLLAPSE_PROCESSES",
        "each process has its own trace; MERGE (--merge) puts them into one",
    ),
    row("PERFETTO_ROCTRACER_PER_STREAM", NO_GPU),
    row("PERFETTO_COMPACT_ROCTRACER_ANNOTATIONS", NO_GPU),
    row(
        "PERFETTO_ANNOTATIONS",
        "annotations are always written where there are any",
    ),
    row("ENABLE_CATEGORIES", "categories are chosen in the viewer"),
    row("DISABLE_CATEGORIES", "categories are chosen in the viewer"),
    row("TIMELINE_PROFILE", SUMMARY_FORM),
    row("FILE_OUTPUT", SUMMARY_FORM),
    row("TREE_OUTPUT", SUMMARY_FORM),
    row("PLOT_OUTPUT", SUMMARY_FORM),
    row("AUTO_OUTPUT", SUMMARY_FORM),
    row("FLAMEGRAPH_OUTPUT", SUMMARY_FORM),
    row("DIFF_OUTPUT", NO_COMPARISON),
    row("INPUT_*", NO_COMPARISON),
    row("NODE_COUNT", SUMMARY_FORM),
    row("TIMEMORY_COMPONENTS", SUMMARY_FORM),
    row("COMPONENTS", SUMMARY_FORM),
    row("*_COMPONENTS", SUMMARY_FORM),
    row("PRECISION", NUMBERS),
    row("WIDTH", NUMBERS),
    row("MAX_WIDTH", NUMBERS),
    row("SCIENTIFIC", NUMBERS),
    row("SEPARATOR_FREQ", NUMBERS),
    row("TIMING_*", NUMBERS),
    row("MEMORY_*", NUMBERS),
    row("USE_CAUSAL", NO_CAUSAL),
    row("CAUSAL_*", NO_CAUSAL),
    row("USE_CODE_COVERAGE", NO_INSTRUMENTATION),
    row("COVERAGE_*", NO_INSTRUMENTATION),
    row("IGNORE_DYNINST_TRAMPOLINE", NO_INSTRUMENTATION),
    row("INSTRUMENTATION_INTERVAL", NO_INSTRUMENTATION),
    row("INSTRUMENT_MODE", NO_INSTRUMENTATION),
    row("DEFAULT_MIN_INSTRUCTIONS", NO_INSTRUMENTATION),
    row("REGEX_*", NO_INSTRUMENTATION),
    row(
        "CRITICAL_TRACE*",
        "critical traces are not part of this profiler",
    ),
    row(
        "USE_MPI",
        "ranks are known without it; USE_MPIP records calls",
    ),
    row("USE_UCX", NO_BACKEND),
    row("USE_SHMEM", NO_BACKEND),
    row("USE_HIPFILE", NO_BACKEND),
    row("USE_AINIC", NO_BACKEND),
    row("USE_UNIFIED_MEMORY_PROFILING", NO_BACKEND),
    row(
        "KOKKOS_*",
        "names of early versions: KOKKOSP_NAME_LENGTH_MAX and KOKKOSP_DEEP_COPY are used",
    ),
    row(
        "KOKKOSP_KERNEL_LOGGER",
        "kernels stand in the trace; nothing is printed while the program runs",
    ),
    row(
        "KOKKOSP_PREFIX",
        "names stand as the program gives them, in a category of their own",
    ),
    row("SHMEM_*", NO_BACKEND),
    row("MPI_MAX_COMM_UPDATES", INTERNAL),
    row("MPI_INIT", INTERNAL),
    row("MPI_FINALIZE", INTERNAL),
    row("MPI_THREAD*", INTERNAL),
    row("ROCTRACER_*", NO_GPU),
    row("ROCM_GROUP_BY_QUEUE", NO_GPU),
    row("*_OPERATIONS", NO_GPU),
    row("*_OPERATIONS_EXCLUDE", NO_GPU),
    row("*_ANNOTATE_BACKTRACE", NO_GPU),
    row("CPU_FREQ", "PROCESS_SAMPLING_FREQ counts for all counters"),
    row(
        "CPU_METRICS",
        "HOST_SAMPLING reads all counters of the host",
    ),
    row("NETWORK_INTERFACE", "the sum of all interfaces is recorded"),
    row("PAPI_*", NO_PAPI),
    row("CRAYPAT", INTERNAL),
    row("INSTRUCTION_ROOFLINE", INTERNAL),
    row("RANK_FILTER_*", "use RANKS, LOCAL_RANKS or NODES"),
    row("PRESET_DIR", "it is a folder for --preset, not a setting"),
    row(
        "REATTACH_ADD_SESSION_ID",
        "attaching is not part of this build",
    ),
    row("CPU_AFFINITY", "the target's threads are never pinned"),
    row("PRELOAD", INTERNAL),
    row("ROOT", INTERNAL),
    row("ROOT_PROCESS", INTERNAL),
    row("SCRIPT_PATH", INTERNAL),
    row("SCRIPT_DIR", INTERNAL),
    row("ROCM_PATH", INTERNAL),
    row("LAUNCHER", "launchers such as srun are recognised"),
    row("FORK", "the command is always a process of its own"),
    row("FORCE_*", INTERNAL),
    row("COMMAND_LINE", INTERNAL),
    row("INIT_*", INTERNAL),
    row("PRINT_ENV", "-v says what is set"),
    row("SETTINGS_DESC*", "rsys-avail -G -d writes descriptions"),
    row("RECYCLE_TIDS", "threads have the kernel's numbers here"),
    row("LIBRARY", INTERNAL),
    row("DL_LIBRARY", INTERNAL),
    row("USER_LIBRARY", INTERNAL),
    row("USE_ROCTRACER_CLOCK_SKEW", NO_GPU),
    row("PYTHON_EXE", INTERNAL),
    row("BANNER", INTERNAL),
    row("DESTRUCTOR_REPORT", INTERNAL),
    row("STACK_CLEARING", INTERNAL),
    row("TARGET_PID", INTERNAL),
    row("THROTTLE_*", INTERNAL),
    row("CTEST_NOTES", INTERNAL),
    row("ADD_SECONDARY", INTERNAL),
    row("MAX_THREAD_BOOKMARKS", INTERNAL),
    row("ERT_*", INTERNAL),
    row("DART_*", INTERNAL),
    row("UPCXX_*", INTERNAL),
    row("ROOFLINE_*", INTERNAL),
    row("CUDA_*", INTERNAL),
    row("NVTX_*", INTERNAL),
    row("CUPTI_*", INTERNAL),
];

impl IgnoredSetting {
    /// Why data does not go where this value sends it, if it does not.
    #[must_use]
    pub(crate) fn elsewhere(&self, value: &str) -> Option<&'static str> {
        let sends = |word: &str| value.trim().eq_ignore_ascii_case(word);
        (self.name == "PERFETTO_BACKEND" && (sends("system") || sends("all")))
            .then_some("traces go to files, not to the tracing service of the system (traced)")
    }

    /// Whether data is missing for it, and not only something to turn.
    #[must_use]
    pub fn is_lack(&self) -> bool {
        self.reason.contains("not part of")
    }
}

/// The row for that name, in any case, with or without a prefix.
#[must_use]
pub(crate) fn find(name: &str) -> Option<&'static IgnoredSetting> {
    let bare = bare_name(name);
    IGNORED_SETTINGS
        .iter()
        .find(|row| match row.name.strip_suffix('*') {
            Some(beginning) => bare.starts_with(beginning),
            None => match row.name.strip_prefix('*') {
                Some(end) => bare.ends_with(end),
                None => bare == row.name,
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_in_use_is_not_ignored() {
        for setting in crate::table::all() {
            assert!(find(setting.name).is_none(), "{}", setting.name);
        }
    }

    #[test]
    fn names_with_and_without_prefix() {
        for name in [
            "USE_UCX",
            "rocprofsys_causal_mode",
            "OMNITRACE_USE_AINIC",
            "WALL_COMPONENTS",
        ] {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("SAMPLNG_FREQ").is_none());
    }
}
