//! The settings as plain typed fields, for the code that uses them.

use std::path::PathBuf;
use std::time::Duration;

use crate::backends::{self, Selection};
use crate::choices::{
    CategoryNames, Closing, ContextSwitches, Flows, Follow, GpuLevel, GpuSource, Python,
    SamplingClock, Unwinder, WindowClock,
};
use crate::limits::FileLimits;
use crate::nodes::Nodes;
use crate::numbers::Numbers;
use crate::origin::Origin;
use crate::reader::Reader;
use crate::settings::Settings;
use crate::text::event_names;
use crate::windows::Window;

/// The most that `SAMPLING_REALTIME_FREQ` inherits from `SAMPLING_FREQ`, which is the most that it may be: each look costs a system call for each thread.
const INHERITED_REALTIME_HZ_MAX: f64 = 1000.0;

/// The most that `PROCESS_SAMPLING_FREQ` inherits from `SAMPLING_FREQ`.
const INHERITED_PROCESS_SAMPLING_HZ_MAX: f64 = 100.0;

/// Every setting as a plain field. Paths are as the user wrote them: their keys are expanded by [`crate::keys::expand`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Resolved {
    /// `ENABLED`.
    pub enabled: bool,
    /// `OUTPUT_PATH`, with its path keys.
    pub output_path: String,
    /// Whether `-o` named the trace itself, of which [`Self::output_path`] is the folder then.
    pub output_is_file: bool,
    /// `OUTPUT_PREFIX`, with its path keys.
    pub output_prefix: String,
    /// `TIME_OUTPUT`.
    pub time_output: bool,
    /// `TIME_FORMAT`, for strftime.
    pub time_format: String,
    /// `PERFETTO_FILE`, with its path keys.
    pub perfetto_file: String,
    /// `USE_PID`.
    pub use_pid: bool,
    /// `CATEGORY_NAMES`.
    pub category_names: CategoryNames,
    /// `FLOWS`.
    pub flows: Flows,
    /// `MERGE`.
    pub merge: bool,
    /// `SPLIT_TRACE`.
    pub split_trace: FileLimits,
    /// `COMPRESS_TRACE`.
    pub compress_trace: bool,
    /// `SAMPLING_FREQ`.
    pub sampling_freq_hz: f64,
    /// `SAMPLING_CLOCK`.
    pub sampling_clock: SamplingClock,
    /// `SAMPLING_REALTIME`.
    pub sampling_realtime: bool,
    /// `SAMPLING_REALTIME_FREQ`, or what it inherits.
    pub sampling_realtime_freq_hz: f64,
    /// `UNWINDER`.
    pub unwinder: Unwinder,
    /// `SAMPLING_MAX_DEPTH`.
    pub sampling_max_depth: u32,
    /// When samples of CPU time are kept: `SAMPLING_DELAY`, `SAMPLING_DURATION`, `SAMPLING_PERIODS`, `SAMPLING_CPUTIME_DELAY`.
    pub sampling_window: Window,
    /// When what blocked threads do is kept: the same with `SAMPLING_REALTIME_DELAY`.
    pub realtime_window: Window,
    /// When calls, GPU activity and markers are kept: `TRACE_DELAY`, `TRACE_DURATION`, `TRACE_PERIODS`.
    pub trace_window: Window,
    /// When counters of host and GPU are kept: `PROCESS_SAMPLING_DELAY`, `PROCESS_SAMPLING_DURATION`.
    pub process_window: Window,
    /// `TRACE_PERIOD_CLOCK_ID` asks for windows in the CPU time of each process.
    pub windows_by_cpu_time: bool,
    /// `SAMPLING_TIDS` or `SAMPLING_CPUTIME_TIDS`.
    pub sampling_tids: Numbers,
    /// `SAMPLING_TIDS` or `SAMPLING_REALTIME_TIDS`.
    pub realtime_tids: Numbers,
    /// `TRACE`; also where nothing else would be written.
    pub trace: bool,
    /// `PROFILE` and the settings that say in which forms; `None` for no summary.
    pub profile: Option<ProfileForms>,
    /// `SAMPLING_INCLUDE_INLINES`.
    pub sampling_include_inlines: bool,
    /// `PYTHON`.
    pub python: Python,
    /// `PYTHON_NATIVE`.
    pub python_native: bool,
    /// `RING_SIZE_KB`, in bytes.
    pub ring_bytes: usize,
    /// `SYMBOL_CACHE`.
    pub symbol_cache: SymbolCache,
    /// `SUMMARY`.
    pub closing: Closing,
    /// `FOLLOW`.
    pub follow: Follow,
    /// `LINGER`.
    pub linger: Duration,
    /// `RANKS`; empty for all.
    pub ranks: Numbers,
    /// `LOCAL_RANKS`; empty for all.
    pub local_ranks: Numbers,
    /// `NODES`; empty for all.
    pub nodes: Nodes,
    /// `MIN_SAMPLES`.
    pub min_samples: u64,
    /// `USE_PROCESS_SAMPLING`.
    pub process_sampling: bool,
    /// `PROCESS_SAMPLING_FREQ`, or what it inherits.
    pub process_sampling_freq_hz: f64,
    /// Whether somebody chose that rate, rather than that it is the default.
    pub process_sampling_freq_chosen: bool,
    /// `HOST_SAMPLING`.
    pub host_sampling: bool,
    /// `SAMPLING_CPUS`.
    pub sampling_cpus: Numbers,
    /// `USE_ROCM_SMI`, with what `-I` and `-E` say.
    pub gpu_sensors: bool,
    /// Whether somebody asked for GPU sensors, rather than that they are there by default.
    pub gpu_sensors_wanted: bool,
    /// `SAMPLING_GPUS`.
    pub sampling_gpus: Numbers,
    /// `GPU_METRICS`.
    pub gpu_metrics: String,
    /// `SMI_LIBRARY`: `auto`, `none`, or a path.
    pub smi_library: String,
    /// `GPU_EVENTS`, where the backend `rocprofiler` is not excluded.
    pub gpu_events: String,
    /// Whether somebody asked for the backend without naming an event.
    pub gpu_events_missing: bool,
    /// `GPU_COUNTERS`, where the backend `rocprofiler` is not excluded.
    pub gpu_counters: String,
    /// `GPU_COUNTERS_KERNELS`.
    pub gpu_counters_kernels: String,
    /// `GPU_COUNTERS_EVERY`.
    pub gpu_counters_every: u32,
    /// `COUNTER_DEFINITIONS`, if it was set.
    pub counter_definitions: Option<PathBuf>,
    /// `CPU_EVENTS`: names of events.
    pub cpu_events: Vec<String>,
    /// `OVERFLOW`, or what `SAMPLING_OVERFLOW` stands for: an event and how often it must happen, if that was said.
    pub overflow: Option<(String, Option<u64>)>,
    /// `OFF_CPU`.
    pub off_cpu: bool,
    /// `CONTEXT_SWITCHES`.
    pub context_switches: ContextSwitches,
    /// `OFF_CPU_SHORTEST`.
    pub off_cpu_shortest: Duration,
    /// `INCLUDE_BACKENDS`: known names, as the user chose among aliases.
    pub include_backends: Vec<String>,
    /// `EXCLUDE_BACKENDS`.
    pub exclude_backends: Vec<String>,
    /// What becomes of both, with the settings of single backends (`USE_ROCTX`) and `ROCM_DOMAINS`.
    pub backends: Selection,
    /// `GPU_SOURCE`.
    pub gpu_source: GpuSource,
    /// `GPU_LEVEL`.
    pub gpu_level: GpuLevel,
    /// `LOCKS_SHORTEST`.
    pub locks_shortest: Duration,
    /// `LAUNCH_STACKS`.
    pub launch_stacks: bool,
    /// `KOKKOSP_NAME_LENGTH_MAX`.
    pub kokkos_name_bytes: u32,
    /// `KOKKOSP_DEEP_COPY`.
    pub kokkos_deep_copy: bool,
    /// `TORCH_SHAPES`.
    pub torch_shapes: bool,
    /// `MPI_FUNCTIONS`, with what `MPIP_PERMIT_LIST` and `MPIP_REJECT_LIST` say.
    pub mpi_functions: String,
    /// `OPENMP_RUNTIME`: `program`, `libomp`, or a path.
    pub openmp_runtime: String,
    /// `VERBOSE`, from -1 (errors only) to 3 (everything, also when `DEBUG` is on).
    pub verbose: i8,
    /// `DEBUG_SETTINGS`.
    pub list_settings: bool,
    /// `MONOCHROME`.
    pub monochrome: bool,
}

/// In which forms summaries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one setting")]
pub struct ProfileForms {
    /// `TEXT_OUTPUT`.
    pub text: bool,
    /// `JSON_OUTPUT`.
    pub json: bool,
    /// `COUT_OUTPUT`.
    pub console: bool,
    /// Not `FLAT_PROFILE`.
    pub tree: bool,
    /// `MAX_DEPTH`.
    pub max_depth: u32,
}

/// Where resolved symbols are kept between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolCache {
    /// In the user's cache folder.
    DefaultFolder,
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere.
    Off,
}

impl Settings {
    /// The settings as plain typed fields.
    #[must_use]
    pub fn resolve(&self) -> Resolved {
        Resolved::of(self)
    }
}

impl Resolved {
    fn of(settings: &Settings) -> Self {
        let read = Reader(settings);
        let selected = read.backends();
        let sampling = Window {
            delay: read.seconds("SAMPLING_DELAY"),
            duration: nonzero(read.seconds("SAMPLING_DURATION")),
            periods: read.periods("SAMPLING_PERIODS"),
        };
        let with_delay = |name| Window {
            delay: read.seconds_or(name).unwrap_or(sampling.delay),
            ..sampling.clone()
        };
        let tids = |name| match read.numbers(name) {
            Numbers::Unsaid => read.numbers("SAMPLING_TIDS"),
            own => own,
        };
        let verbose = read.int("VERBOSE").clamp(-1, 3);
        let file = read.output_file();
        let time_output = match &file {
            Some(_) if !matches!(settings.origin("TIME_OUTPUT"), Some(Origin::CommandLine(_))) => {
                false
            }
            _ => read.bool("TIME_OUTPUT"),
        };
        let output_is_file = file.is_some();
        let counts_gpus = selected.is_on("rocprofiler", true);
        let gpu_counters = match counts_gpus {
            true => read.text("GPU_COUNTERS").trim().to_owned(),
            false => String::new(),
        };
        let (output_path, perfetto_file) = file.unwrap_or_else(|| {
            let text = |name| read.text(name).to_owned();
            (text("OUTPUT_PATH"), text("PERFETTO_FILE"))
        });
        Self {
            enabled: read.bool("ENABLED"),
            output_path,
            output_is_file,
            output_prefix: read.text("OUTPUT_PREFIX").to_owned(),
            time_output,
            time_format: read.text("TIME_FORMAT").to_owned(),
            perfetto_file,
            use_pid: read.bool("USE_PID"),
            category_names: CategoryNames::from_word(read.text("CATEGORY_NAMES")),
            flows: Flows::from_word(read.text("FLOWS")),
            merge: read.bool("MERGE"),
            split_trace: FileLimits::parse(read.text("SPLIT_TRACE")).unwrap_or_default(),
            compress_trace: read.bool("COMPRESS_TRACE"),
            sampling_freq_hz: match read.float("SAMPLING_CPUTIME_FREQ") {
                own if own >= 1.0 => own,
                _ => read.float("SAMPLING_FREQ"),
            },
            sampling_clock: SamplingClock::from_word(read.text("SAMPLING_CLOCK")),
            sampling_realtime: read.bool("SAMPLING_REALTIME") || read.bool("OFF_CPU"),
            sampling_realtime_freq_hz: match read.float("SAMPLING_REALTIME_FREQ") {
                own if own > 0.0 => own,
                _ => read.float("SAMPLING_FREQ").min(INHERITED_REALTIME_HZ_MAX),
            },
            unwinder: Unwinder::from_word(read.text("UNWINDER")),
            sampling_max_depth: u32::try_from(read.int("SAMPLING_MAX_DEPTH")).unwrap_or(u32::MAX),
            sampling_window: with_delay("SAMPLING_CPUTIME_DELAY"),
            realtime_window: with_delay("SAMPLING_REALTIME_DELAY"),
            trace_window: Window {
                delay: read.seconds("TRACE_DELAY"),
                duration: nonzero(read.seconds("TRACE_DURATION")),
                periods: read.periods("TRACE_PERIODS"),
            },
            process_window: Window {
                delay: read
                    .seconds_or("PROCESS_SAMPLING_DELAY")
                    .unwrap_or(sampling.delay),
                duration: read
                    .seconds_or("PROCESS_SAMPLING_DURATION")
                    .map_or(sampling.duration, nonzero),
                periods: sampling.periods.clone(),
            },
            windows_by_cpu_time: WindowClock::from_word(read.text("TRACE_PERIOD_CLOCK_ID"))
                == WindowClock::CpuTime,
            sampling_tids: tids("SAMPLING_CPUTIME_TIDS"),
            realtime_tids: tids("SAMPLING_REALTIME_TIDS"),
            trace: read.bool("TRACE") || !read.bool("PROFILE"),
            profile: read.bool("PROFILE").then(|| ProfileForms {
                text: read.bool("TEXT_OUTPUT"),
                json: read.bool("JSON_OUTPUT"),
                console: read.bool("COUT_OUTPUT"),
                tree: !read.bool("FLAT_PROFILE"),
                max_depth: u32::try_from(read.int("MAX_DEPTH")).unwrap_or(u32::MAX),
            }),
            sampling_include_inlines: read.bool("SAMPLING_INCLUDE_INLINES"),
            python: Python::from_word(read.text("PYTHON")),
            python_native: read.bool("PYTHON_NATIVE"),
            ring_bytes: usize::try_from(read.int("RING_SIZE_KB")).unwrap_or(usize::MAX / 1024)
                * 1024,
            symbol_cache: match read.text("SYMBOL_CACHE") {
                "" => SymbolCache::DefaultFolder,
                "none" => SymbolCache::Off,
                path => SymbolCache::Folder(path.into()),
            },
            closing: Closing::from_word(read.text("SUMMARY")),
            follow: Follow::from_word(read.text("FOLLOW")),
            linger: read.seconds("LINGER"),
            ranks: read.numbers("RANKS"),
            local_ranks: read.numbers("LOCAL_RANKS"),
            nodes: Nodes::parse(read.text("NODES")),
            min_samples: read.int("MIN_SAMPLES").unsigned_abs(),
            process_sampling: read.bool("USE_PROCESS_SAMPLING"),
            process_sampling_freq_hz: match read.float("PROCESS_SAMPLING_FREQ") {
                own if own > 0.0 => own,
                _ => read
                    .float("SAMPLING_FREQ")
                    .min(INHERITED_PROCESS_SAMPLING_HZ_MAX),
            },
            process_sampling_freq_chosen: settings.is_asked_for("PROCESS_SAMPLING_FREQ"),
            host_sampling: read.bool("HOST_SAMPLING"),
            sampling_cpus: read.numbers("SAMPLING_CPUS"),
            gpu_sensors: selected.is_on("rocm-smi", true),
            gpu_sensors_wanted: selected
                .only_switches(|switch| settings.is_asked_for(switch))
                .is_on("rocm-smi", false),
            sampling_gpus: read.numbers("SAMPLING_GPUS"),
            gpu_metrics: read.text("GPU_METRICS").to_owned(),
            smi_library: read.text("SMI_LIBRARY").to_owned(),
            gpu_events: match counts_gpus {
                true => read.text("GPU_EVENTS").trim().to_owned(),
                false => String::new(),
            },
            gpu_events_missing: read.text("GPU_EVENTS").trim().is_empty()
                && gpu_counters.is_empty()
                && read.list("INCLUDE_BACKENDS").iter().any(|name| {
                    backends::find(name).is_some_and(|found| found.name == "rocprofiler")
                }),
            gpu_counters_kernels: read.text("GPU_COUNTERS_KERNELS").to_owned(),
            gpu_counters_every: u32::try_from(read.int("GPU_COUNTERS_EVERY")).unwrap_or(1),
            counter_definitions: match read.text("COUNTER_DEFINITIONS") {
                "" => None,
                path => Some(PathBuf::from(path)),
            },
            cpu_events: event_names(read.text("CPU_EVENTS")),
            overflow: match (read.text("OVERFLOW"), read.bool("SAMPLING_OVERFLOW")) {
                ("", false) => None,
                ("", true) => Some((
                    read.text("SAMPLING_OVERFLOW_EVENT").to_owned(),
                    u64::try_from(read.int("SAMPLING_OVERFLOW_FREQ"))
                        .ok()
                        .filter(|period| *period > 0),
                )),
                (text, _) => Some(split_period(text)),
            },
            off_cpu: read.bool("OFF_CPU"),
            context_switches: ContextSwitches::from_word(read.text("CONTEXT_SWITCHES")),
            locks_shortest: read.seconds("LOCKS_SHORTEST"),
            off_cpu_shortest: read.seconds("OFF_CPU_SHORTEST"),
            include_backends: read.list("INCLUDE_BACKENDS").to_vec(),
            exclude_backends: read.list("EXCLUDE_BACKENDS").to_vec(),
            backends: selected,
            gpu_source: GpuSource::from_word(read.text("GPU_SOURCE")),
            gpu_counters,
            gpu_level: GpuLevel::from_word(read.text("GPU_LEVEL")),
            launch_stacks: read.bool("LAUNCH_STACKS"),
            kokkos_name_bytes: u32::try_from(read.int("KOKKOSP_NAME_LENGTH_MAX")).unwrap_or(0),
            kokkos_deep_copy: read.bool("KOKKOSP_DEEP_COPY"),
            torch_shapes: read.bool("TORCH_SHAPES"),
            mpi_functions: mpi_functions(&read),
            openmp_runtime: read.text("OPENMP_RUNTIME").to_owned(),
            verbose: if read.bool("DEBUG") {
                3
            } else {
                i8::try_from(verbose).unwrap_or(3)
            },
            list_settings: read.bool("DEBUG_SETTINGS"),
            monochrome: read.bool("MONOCHROME"),
        }
    }
}

/// `EVENT:PERIOD`; names of events may hold colons, but none ends in one and a number.
fn split_period(text: &str) -> (String, Option<u64>) {
    let parts = text.rsplit_once(':').and_then(|(event, period)| {
        let period = period.parse().ok().filter(|period| *period > 0)?;
        Some((event.to_owned(), Some(period)))
    });
    parts.unwrap_or_else(|| (text.to_owned(), None))
}

/// The functions of MPI that are recorded, and with a minus those that are not.
fn mpi_functions(read: &Reader<'_>) -> String {
    let rejected = read.text("MPIP_REJECT_LIST");
    let rejected = rejected.split([',', ' ']).filter(|name| !name.is_empty());
    rejected.fold(read.text("MPI_FUNCTIONS").to_owned(), |list, name| {
        format!("{list} -{name}")
    })
}

fn nonzero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_may_have_a_period() {
        assert_eq!(split_period("faults:10"), ("faults".to_owned(), Some(10)));
        for name in ["faults", "perf::PAGE-FAULTS", "sched:sched_switch"] {
            assert_eq!(split_period(name), (name.to_owned(), None));
        }
    }
}
