//! The settings as plain typed fields, for the code that uses them.

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::Settings;
use crate::value::Value;

/// The most that `SAMPLING_REALTIME_FREQ` inherits from `SAMPLING_FREQ`: each look costs a system call for each thread.
const INHERITED_REALTIME_HZ_MAX: f64 = 300.0;

/// Every setting as a plain field. Paths are as the user wrote them: their keys are expanded by [`crate::keys::expand`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Resolved {
    /// `ENABLED`.
    pub enabled: bool,
    /// `OUTPUT_PATH`, with its path keys.
    pub output_path: String,
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
    /// `SAMPLING_DELAY`: samples before this time after the start of the run are not kept.
    pub sampling_delay: Duration,
    /// `SAMPLING_DURATION`, counted from the end of the delay; `None` means until the end.
    pub sampling_duration: Option<Duration>,
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
    /// `FOLLOW`.
    pub follow: Follow,
    /// `LINGER`.
    pub linger: Duration,
    /// `MIN_SAMPLES`.
    pub min_samples: u64,
    /// `INCLUDE_BACKENDS`: known names, as the user chose among aliases.
    pub include_backends: Vec<String>,
    /// `EXCLUDE_BACKENDS`.
    pub exclude_backends: Vec<String>,
    /// `GPU_SOURCE`.
    pub gpu_source: GpuSource,
    /// `GPU_LEVEL`.
    pub gpu_level: GpuLevel,
    /// `LAUNCH_STACKS`.
    pub launch_stacks: bool,
    /// `VERBOSE`, from -1 (errors only) to 3 (everything, also when `DEBUG` is on).
    pub verbose: i8,
    /// `MONOCHROME`.
    pub monochrome: bool,
}

/// Which child processes are profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Every child.
    All,
    /// Children that execute a program.
    Exec,
    /// None.
    None,
}

/// How stacks are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwinder {
    /// Our own walker over call-frame information.
    Cfi,
    /// The framehop library.
    Framehop,
    /// Frame pointers only.
    FramePointers,
}

/// Which frames of Python programs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Python {
    /// Native and Python frames.
    On,
    /// Native frames.
    Off,
    /// Python frames.
    Only,
}

/// What makes the samples tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingClock {
    /// Timers, or perf events where these are better.
    Auto,
    /// CPU-time timers.
    Timer,
    /// `cpu-clock` perf events.
    Perf,
}

/// Which runtime tells of kernels and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuSource {
    /// HIP where it tells, else HSA.
    Auto,
    /// HIP.
    Hip,
    /// HSA.
    Hsa,
    /// None.
    Off,
}

/// How much the interception of HSA queues may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuLevel {
    /// Nothing.
    Lite,
    /// Signals of kernels.
    Standard,
    /// Batches and graphs too.
    Full,
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

/// Declares an enum's words in one place, both ways.
macro_rules! words {
    ($type:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $type {
            /// The word for it in files and on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn from_word(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => unreachable!("the table allows {other}, which has no meaning"),
                }
            }
        }
    };
}

words!(Follow { "all" => All, "exec" => Exec, "none" => None });
words!(Unwinder { "cfi" => Cfi, "framehop" => Framehop, "fp" => FramePointers });
words!(Python { "on" => On, "off" => Off, "only" => Only });
words!(GpuSource { "auto" => Auto, "hip" => Hip, "hsa" => Hsa, "off" => Off });
words!(GpuLevel { "lite" => Lite, "standard" => Standard, "full" => Full });
words!(SamplingClock { "auto" => Auto, "timer" => Timer, "perf" => Perf });

impl Resolved {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let read = Reader(settings);
        let duration = read.seconds("SAMPLING_DURATION");
        let verbose = read.int("VERBOSE").clamp(-1, 3);
        Self {
            enabled: read.bool("ENABLED"),
            output_path: read.text("OUTPUT_PATH").to_owned(),
            output_prefix: read.text("OUTPUT_PREFIX").to_owned(),
            time_output: read.bool("TIME_OUTPUT"),
            time_format: read.text("TIME_FORMAT").to_owned(),
            perfetto_file: read.text("PERFETTO_FILE").to_owned(),
            use_pid: read.bool("USE_PID"),
            compress_trace: read.bool("COMPRESS_TRACE"),
            sampling_freq_hz: read.float("SAMPLING_FREQ"),
            sampling_clock: SamplingClock::from_word(read.text("SAMPLING_CLOCK")),
            sampling_realtime: read.bool("SAMPLING_REALTIME"),
            sampling_realtime_freq_hz: match read.float("SAMPLING_REALTIME_FREQ") {
                own if own > 0.0 => own,
                _ => read.float("SAMPLING_FREQ").min(INHERITED_REALTIME_HZ_MAX),
            },
            unwinder: Unwinder::from_word(read.text("UNWINDER")),
            sampling_max_depth: u32::try_from(read.int("SAMPLING_MAX_DEPTH")).unwrap_or(u32::MAX),
            sampling_delay: read.seconds("SAMPLING_DELAY"),
            sampling_duration: (!duration.is_zero()).then_some(duration),
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
            follow: Follow::from_word(read.text("FOLLOW")),
            linger: read.seconds("LINGER"),
            min_samples: read.int("MIN_SAMPLES").unsigned_abs(),
            include_backends: read.list("INCLUDE_BACKENDS").to_vec(),
            exclude_backends: read.list("EXCLUDE_BACKENDS").to_vec(),
            gpu_source: GpuSource::from_word(read.text("GPU_SOURCE")),
            gpu_level: GpuLevel::from_word(read.text("GPU_LEVEL")),
            launch_stacks: read.bool("LAUNCH_STACKS"),
            verbose: if read.bool("DEBUG") {
                3
            } else {
                i8::try_from(verbose).unwrap_or(3)
            },
            monochrome: read.bool("MONOCHROME"),
        }
    }
}

/// Reads values whose type the table fixes; a test resolves the defaults, so a wrong type cannot go unseen.
struct Reader<'a>(&'a Settings);

impl<'a> Reader<'a> {
    fn bool(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true)))
    }

    fn int(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(Value::Int(value)) => *value,
            other => unreachable!("{name} is not a whole number: {other:?}"),
        }
    }

    fn float(&self, name: &str) -> f64 {
        match self.0.get(name) {
            Some(Value::Float(value)) => *value,
            other => unreachable!("{name} is not a number: {other:?}"),
        }
    }

    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.float(name))
    }

    fn text(&self, name: &str) -> &'a str {
        match self.0.get(name) {
            Some(Value::Text(value)) => value,
            other => unreachable!("{name} is not a text: {other:?}"),
        }
    }

    fn list(&self, name: &str) -> &'a [String] {
        match self.0.get(name) {
            Some(Value::List(values)) => values,
            other => unreachable!("{name} is not a list: {other:?}"),
        }
    }
}
