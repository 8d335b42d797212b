//! How a process makes itself known to the sampler.
//!
//! The sampler binds a datagram socket in the abstract namespace and puts its name into the
//! environment of the target. An agent sends one [`Hello`] per segment, with the segment's memfd as
//! ancillary data, and closes both descriptors: nothing of ours stays in the target's table. The
//! kernel keeps the datagram and the descriptor even when the sender is killed at once.

use crate::VERSION;
use crate::counting::{EventList, Overflow};
use crate::name_list::NameList;
use crate::pattern::Pattern;
use crate::sources::EventChoice;
use crate::text::{number, parts, signed, split_at};

/// Environment variable with the name of the sampler's abstract socket (without the leading NUL).
pub const ENV_SESSION: &str = "RSYS_AGENT_SESSION";

/// Environment variable with the agent's settings; see [`AgentSettings`].
pub const ENV_SETTINGS: &str = "RSYS_AGENT_SETTINGS";

/// First word of every datagram and segment: "rsyswire" in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"rsyswire");

/// What a datagram announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum HelloKind {
    /// A process (or a new program in it) with its first segment.
    Process = 1,
    /// One more segment of a process that is known.
    Segment = 2,
    /// A process that cannot be sampled, because it could get no segment; [`Hello::segment`] holds the error number.
    Failed = 3,
    /// A segment whose rings hold [events](crate::event), of a process that is known.
    Events = 4,
    /// A process that ended with too little recorded for a segment; [`Hello::segment`] holds the periods of CPU time that it lived for, and
    /// up to [`PATH_BYTES`] of its program's name follow.
    Short = 5,
    /// A program that runs without the agent; [`Hello::segment`] holds the number of the [`Obstacle`](crate::program::Obstacle), and
    /// up to [`PATH_BYTES`] of its path follow.
    LeftOut = 6,
}

/// How much of a path follows a [`Hello`] at most.
pub const PATH_BYTES: usize = 256;

/// The datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`HelloKind`] as a number.
    pub kind: u32,
    /// Identifies this program run in this process: differs after fork and after exec.
    pub instance: u64,
    /// The process id as the sender sees it (it may live in another pid namespace).
    pub pid: u32,
    /// Number of this segment, counted from 0; see [`HelloKind::Failed`], [`HelloKind::Short`] and [`HelloKind::LeftOut`].
    pub segment: u32,
    /// Number of rings in the segment.
    pub ring_count: u32,
    /// Capacity of each ring in 64-bit words, a power of two.
    pub ring_words: u32,
    /// Size of the segment in bytes.
    pub segment_bytes: u64,
}

const _: () = assert!(size_of::<Hello>() == Hello::BYTES);

impl Hello {
    /// Size of the datagram.
    pub const BYTES: usize = 48;

    /// The datagram's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.magic.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.kind.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.instance.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.pid.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.segment.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.ring_count.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.ring_words.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes
    }

    /// Reads a datagram: what it says, and the path behind it.
    ///
    /// # Errors
    /// [`HelloError`] says what is wrong with it.
    pub fn with_path(bytes: &[u8]) -> Result<(Hello, &[u8]), HelloError> {
        let (hello, path) = bytes
            .split_at_checked(Self::BYTES)
            .ok_or(HelloError::Size)?;
        let hello = Self::from_bytes(hello)?;
        let most = match hello.kind()? {
            HelloKind::LeftOut | HelloKind::Short => PATH_BYTES,
            _ => 0,
        };
        if path.len() > most {
            return Err(HelloError::Size);
        }
        Ok((hello, path))
    }

    /// Reads a datagram without a path.
    ///
    /// # Errors
    /// [`HelloError`] says what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Hello, HelloError> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| HelloError::Size)?;
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let hello = Hello {
            magic: u64_at(0),
            version: u32_at(8),
            kind: u32_at(12),
            instance: u64_at(16),
            pid: u32_at(24),
            segment: u32_at(28),
            ring_count: u32_at(32),
            ring_words: u32_at(36),
            segment_bytes: u64_at(40),
        };
        if hello.magic != MAGIC {
            return Err(HelloError::Magic);
        }
        if hello.version != VERSION {
            return Err(HelloError::Version(hello.version));
        }
        if hello.kind()? == HelloKind::Process && hello.segment != 0 {
            return Err(HelloError::Kind);
        }
        Ok(hello)
    }

    /// What the datagram announces.
    ///
    /// # Errors
    /// [`HelloError::Kind`] when the number is unknown.
    pub fn kind(&self) -> Result<HelloKind, HelloError> {
        match self.kind {
            1 => Ok(HelloKind::Process),
            2 => Ok(HelloKind::Segment),
            3 => Ok(HelloKind::Failed),
            4 => Ok(HelloKind::Events),
            5 => Ok(HelloKind::Short),
            6 => Ok(HelloKind::LeftOut),
            _ => Err(HelloError::Kind),
        }
    }
}

/// Why a datagram is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// It has not the size of a [`Hello`].
    Size,
    /// It is not ours.
    Magic,
    /// It comes from an agent of another version.
    Version(u32),
    /// It announces something unknown.
    Kind,
}

impl std::fmt::Display for HelloError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HelloError::Size => write!(f, "a datagram of the wrong size"),
            HelloError::Magic => write!(f, "a datagram that no agent sent"),
            HelloError::Version(theirs) => {
                write!(
                    f,
                    "an agent of wire version {theirs}; this sampler speaks {VERSION}"
                )
            }
            HelloError::Kind => write!(f, "a datagram of an unknown kind"),
        }
    }
}

impl std::error::Error for HelloError {}

/// Which clock the samples of a thread follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockChoice {
    /// The CPU timer up to the kernel's tick, perf above it where it opens.
    #[default]
    Auto,
    /// The thread's POSIX CPU timer.
    Timer,
    /// perf `cpu-clock` with the timer as its accountant.
    Perf,
}

/// Which unwinder walks the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnwinderChoice {
    /// Call-frame information (the default).
    #[default]
    Cfi,
    /// The framehop crate.
    Framehop,
    /// Frame pointers.
    FramePointer,
}

/// Which descendants are profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FollowChoice {
    /// Children by fork and programs by exec.
    #[default]
    All,
    /// Programs by exec only: forked children are left alone until they exec.
    Exec,
    /// The first process only.
    None,
}

/// Which frames are read of a thread that runs Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PythonChoice {
    /// The native ones only.
    Off,
    /// Native and Python frames.
    #[default]
    On,
    /// The Python ones only.
    Only,
}

/// Where GPU operations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuSource {
    /// The HIP runtime where it reports them, else the HSA runtime.
    #[default]
    Auto,
    /// The HIP runtime.
    Hip,
    /// The profiler within the HIP runtime, where it has one; else as `Auto`.
    HipProfiler,
    /// The HSA runtime.
    Hsa,
    /// Nowhere.
    Off,
}

/// How much an interception of GPU queues may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuLevel {
    /// Nothing in the packets.
    Lite,
    /// Signals of ours where a kernel has none.
    #[default]
    Standard,
    /// All that can be recorded.
    Full,
}

/// What the agent must know, as one line of `key=value` words in [`ENV_SETTINGS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentSettings {
    /// Samples per CPU-second and thread.
    pub frequency_hz: f64,
    /// Which clock to use.
    pub clock: ClockChoice,
    /// Which unwinder to use.
    pub unwinder: UnwinderChoice,
    /// Which descendants to profile.
    pub follow: FollowChoice,
    /// Frames kept of one stack.
    pub max_depth: u32,
    /// Capacity of a ring in words.
    pub ring_words: u32,
    /// Whether Python frames are read.
    pub python: PythonChoice,
    /// Which events are recorded.
    pub events: EventChoice,
    /// Where GPU operations come from.
    pub gpu_source: GpuSource,
    /// How much an interception of GPU queues may change.
    pub gpu_level: GpuLevel,
    /// Whether launches record their call stacks.
    pub launch_stacks: bool,
    /// The shortest wait for a lock that is recorded, in nanoseconds.
    pub shortest_wait_ns: u64,
    /// Kernels and the like of Kokkos whose names have so many bytes or more are left out; 0 for none.
    pub kokkos_name_bytes: u32,
    /// Whether deep copies of Kokkos are recorded.
    pub kokkos_deep_copy: bool,
    /// Whether operators of PyTorch are recorded with the shapes of their inputs.
    pub torch_shapes: bool,
    /// Whether a profiler plug-in that RCCL finds by itself goes on beside the agent: the user has not said that there is to be none.
    pub rccl_default_plugin: bool,
    /// What each thread counts beside its samples.
    pub counters: EventList,
    /// By which event samples are taken, instead of by a clock.
    pub overflow: Option<Overflow>,
    /// By how many nanoseconds the sampler's CLOCK_BOOTTIME is ahead of the machine's; see [`crate::clocks`].
    pub boot_offset_ns: i64,
    /// The process id of the sampler, if processes that are no children of it may begin late: when they have something to record. 0 when
    /// all begin at once.
    pub late_unless_child_of: u32,
    /// Which functions of MPI are recorded: all where it is empty. Names and patterns with `*`; with a minus in front, what is left out.
    pub mpi_functions: NameList,
    /// What is counted of each kernel, on which GPUs: words of [`crate::kernel_counters::CounterSet`]. Nothing where it is empty.
    pub kernel_counters: NameList,
    /// Of which kernels.
    pub counted_kernels: Pattern,
    /// Of each how manieth of these.
    pub counted_every: u32,
    /// Print what the agent does on standard error.
    pub verbose: bool,
}

impl Default for AgentSettings {
    #[inline]
    fn default() -> Self {
        AgentSettings {
            frequency_hz: 300.0,
            clock: ClockChoice::Auto,
            unwinder: UnwinderChoice::Cfi,
            follow: FollowChoice::All,
            max_depth: 512,
            ring_words: 32 * 1024,
            python: PythonChoice::On,
            events: EventChoice::default(),
            gpu_source: GpuSource::Auto,
            gpu_level: GpuLevel::Standard,
            launch_stacks: true,
            shortest_wait_ns: 1_000,
            kokkos_name_bytes: 0,
            kokkos_deep_copy: true,
            torch_shapes: false,
            rccl_default_plugin: true,
            counters: EventList::default(),
            overflow: None,
            boot_offset_ns: 0,
            late_unless_child_of: 0,
            mpi_functions: NameList::default(),
            kernel_counters: NameList::default(),
            counted_kernels: Pattern::default(),
            counted_every: 1,
            verbose: false,
        }
    }
}

/// The smallest ring in words: it must hold the largest record twice over.
pub const LEAST_RING_WORDS: u32 = 8 * 1024;

/// The deepest stack that fits a record; see [`AgentSettings::max_depth`].
pub const MAX_DEPTH: u32 = 2048;

impl AgentSettings {
    /// The line for the environment.
    #[must_use]
    pub fn to_line(&self) -> String {
        let clock = match self.clock {
            ClockChoice::Auto => "auto",
            ClockChoice::Timer => "timer",
            ClockChoice::Perf => "perf",
        };
        let unwinder = match self.unwinder {
            UnwinderChoice::Cfi => "cfi",
            UnwinderChoice::Framehop => "framehop",
            UnwinderChoice::FramePointer => "fp",
        };
        let follow = match self.follow {
            FollowChoice::All => "all",
            FollowChoice::Exec => "exec",
            FollowChoice::None => "none",
        };
        let python = match self.python {
            PythonChoice::Off => "off",
            PythonChoice::On => "on",
            PythonChoice::Only => "only",
        };
        let overflow = self
            .overflow
            .map_or_else(String::new, |overflow| overflow.to_string());
        let gpu_source = match self.gpu_source {
            GpuSource::Auto => "auto",
            GpuSource::Hip => "hip",
            GpuSource::HipProfiler => "hip-profiler",
            GpuSource::Hsa => "hsa",
            GpuSource::Off => "off",
        };
        let gpu_level = match self.gpu_level {
            GpuLevel::Lite => "lite",
            GpuLevel::Standard => "standard",
            GpuLevel::Full => "full",
        };
        format!(
            "freq={} clock={clock} unwinder={unwinder} follow={follow} depth={} ring={} python={python} \
             counters={} overflow={overflow} events={} gpu={gpu_source} level={gpu_level} stacks={} waits={} kokkos={} copies={} shapes={} plugin={} boot={} late={} mpi={} \
             kernelcounters={} countedkernels={} countedevery={} verbose={}",
            self.frequency_hz,
            self.max_depth,
            self.ring_words,
            self.counters,
            self.events.to_words(),
            u8::from(self.launch_stacks),
            self.shortest_wait_ns,
            self.kokkos_name_bytes,
            u8::from(self.kokkos_deep_copy),
            u8::from(self.torch_shapes),
            u8::from(self.rccl_default_plugin),
            self.boot_offset_ns,
            self.late_unless_child_of,
            self.mpi_functions,
            self.kernel_counters,
            self.counted_kernels,
            self.counted_every,
            u8::from(self.verbose)
        )
    }

    /// Reads the line; unknown or malformed words keep their defaults, since a target must never
    /// fail for our sake, and numbers are forced into their ranges.
    #[must_use]
    #[inline]
    pub fn from_line(line: &str) -> AgentSettings {
        let mut settings = AgentSettings::default();
        for (key, value) in parts(line, b' ').filter_map(|word| split_at(word, b'=')) {
            match (key, value) {
                ("freq", _) => {
                    // Nearly always a whole number, which is read by less code.
                    let whole = number::<u32>(value).map(f64::from);
                    let hz = whole.or_else(|| value.parse::<f64>().ok());
                    if let Some(hz) = hz.filter(|hz| hz.is_finite()) {
                        settings.frequency_hz = hz.clamp(0.01, 100_000.0);
                    }
                }
                ("clock", "timer") => settings.clock = ClockChoice::Timer,
                ("clock", "perf") => settings.clock = ClockChoice::Perf,
                ("unwinder", "framehop") => settings.unwinder = UnwinderChoice::Framehop,
                ("unwinder", "fp") => settings.unwinder = UnwinderChoice::FramePointer,
                ("follow", "exec") => settings.follow = FollowChoice::Exec,
                ("follow", "none") => settings.follow = FollowChoice::None,
                ("python", "off") => settings.python = PythonChoice::Off,
                ("python", "only") => settings.python = PythonChoice::Only,
                ("events", words) => settings.events = EventChoice::from_words(words),
                ("gpu", "hip") => settings.gpu_source = GpuSource::Hip,
                ("gpu", "hip-profiler") => settings.gpu_source = GpuSource::HipProfiler,
                ("gpu", "hsa") => settings.gpu_source = GpuSource::Hsa,
                ("gpu", "off") => settings.gpu_source = GpuSource::Off,
                ("level", "lite") => settings.gpu_level = GpuLevel::Lite,
                ("level", "full") => settings.gpu_level = GpuLevel::Full,
                ("stacks", _) => settings.launch_stacks = value == "1",
                ("kokkos", _) => settings.kokkos_name_bytes = number(value).unwrap_or(0),
                ("copies", _) => settings.kokkos_deep_copy = value == "1",
                ("shapes", _) => settings.torch_shapes = value == "1",
                ("plugin", _) => settings.rccl_default_plugin = value == "1",
                ("depth", _) => {
                    settings.max_depth = number(value)
                        .unwrap_or(settings.max_depth)
                        .clamp(1, MAX_DEPTH);
                }
                ("ring", _) => {
                    let words: u32 = number(value).unwrap_or(settings.ring_words);
                    settings.ring_words =
                        words.clamp(LEAST_RING_WORDS, 1 << 24).next_power_of_two();
                }
                ("counters" | "overflow" | "mpi" | "kernelcounters" | "countedkernels", "") => {}
                ("counters", _) => settings.counters = EventList::parse(value),
                ("overflow", _) => settings.overflow = Overflow::parse(value),
                ("waits", _) => {
                    settings.shortest_wait_ns = number(value).unwrap_or(settings.shortest_wait_ns);
                }
                ("boot", _) => settings.boot_offset_ns = signed(value).unwrap_or(0),
                ("late", _) => settings.late_unless_child_of = number(value).unwrap_or(0),
                ("mpi", names) => settings.mpi_functions = NameList::parse(names),
                ("kernelcounters", sets) => settings.kernel_counters = NameList::parse(sets),
                ("countedkernels", text) => {
                    settings.counted_kernels = Pattern::from_setting(text);
                }
                ("countedevery", _) => settings.counted_every = number(value).unwrap_or(1).max(1),
                ("verbose", _) => settings.verbose = value == "1",
                _ => {}
            }
        }
        settings
    }
}
