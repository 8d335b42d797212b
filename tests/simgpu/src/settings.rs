//! The simulated machine, as the launcher describes it to the driver in every process.
//!
//! The launcher makes this from its command line and the configuration file, has checked it, and stores it as JSON in
//! the file [`FILE_NAME`] of the machine's folder. The driver finds the folder by [`ENV_ROOT`].

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Environment variable with the folder of the simulated machine. Without it the driver does nothing at all.
pub const ENV_ROOT: &str = "RSYS_SIMGPU_ROOT";

/// The machine's description in that folder.
pub const FILE_NAME: &str = "machine.json";

/// Most GPUs of a machine.
pub const MAX_GPUS: usize = 16;

/// Minor number of the first render node.
pub const FIRST_RENDER_MINOR: u32 = 128;

/// Everything the driver has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// Path of the shared counters (see `board`).
    pub board: PathBuf,
    /// Folder for the ground truth, one file per process; none: nothing is recorded.
    pub truth: Option<PathBuf>,
    /// What the driver's own messages are appended to.
    pub log: Option<PathBuf>,
    /// The GPUs, in the order of their nodes.
    pub gpus: Vec<Gpu>,
    /// Minor version of the kernel driver's interface; the major one is 1.
    pub interface_minor: u32,
    /// The GPUs' clock.
    pub clock: Clock,
    /// How packets are processed.
    pub queues: Queues,
    /// How long copies take.
    pub copies: Copies,
    /// How long kernels take, first match first.
    pub kernels: Vec<KernelRule>,
    /// What goes wrong outside of kernels.
    pub faults: Faults,
    /// What the driver tells whoever watches GPUs.
    #[serde(default)]
    pub events: Vec<DriverEvent>,
    /// What performance counters count, beside those that are built in.
    #[serde(default)]
    pub counters: Vec<CounterRule>,
}

/// What an event of a block counts, in each of the block's instances.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterRule {
    /// The block: `SQ`, `TCC` …
    pub block: String,
    /// The event's number.
    pub event: u32,
    /// For each second since the counter was started.
    #[serde(default)]
    pub per_second: f64,
    /// For each wave of the kernels that ended meanwhile.
    #[serde(default)]
    pub per_wave: f64,
    /// For each of these kernels.
    #[serde(default)]
    pub per_kernel: f64,
}

/// One GPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gpu {
    /// The file that is its memory, shared by all processes.
    pub memory: PathBuf,
    /// Device number and inode of that file: a descriptor of it is a descriptor of the render node.
    pub memory_identity: (u64, u64),
    /// The kernel driver's identifier.
    pub gpu_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// Number of compute units.
    pub compute_units: u32,
    /// Number of shader engines.
    pub shader_engines: u32,
    /// Dies.
    pub dies: u32,
    /// Work-items of a wave.
    pub wave_size: u32,
    /// Greatest engine clock.
    pub clock_mhz: u32,
    /// The engine clock under load: kernels take as much longer as it is below the greatest.
    pub load_clock_mhz: u32,
    /// Greatest memory clock.
    pub memory_clock_mhz: u32,
    /// Bytes of memory.
    pub vram_bytes: u64,
    /// The DRM driver's family number.
    pub family: u32,
}

/// The clock that stamps signals and copies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Clock {
    /// Ticks per second.
    pub frequency_hz: u64,
    /// By how many millionths it is fast (or, negative, slow).
    pub drift_ppm: f64,
    /// CLOCK_BOOTTIME in nanoseconds at tick 0; usually long before the machine was made.
    pub origin_ns: i64,
}

/// How packets are processed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Queues {
    /// How many kernels of one queue run beside each other where no barrier bit forbids it.
    pub concurrent_kernels: usize,
    /// Whether packets without a doorbell are never executed. Otherwise they are, after 5 ms.
    pub strict_doorbell: bool,
    /// Whether access to unmapped memory is a fault even where the process itself could access it.
    pub strict_memory: bool,
    /// Whether kernels with private memory wait until the runtime has lent the queue scratch memory.
    pub scratch: bool,
}

/// How long copies take: latency + bytes / bandwidth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Copies {
    /// Between host and GPU. Gigabytes (10^9) per second are bytes per nanosecond.
    pub host_gb_per_s: f64,
    /// Between GPUs.
    pub peer_gb_per_s: f64,
    /// Within a GPU.
    pub local_gb_per_s: f64,
    /// Of every copy.
    pub latency_ns: u64,
    /// Links that differ.
    pub links: Vec<Link>,
}

/// One link that differs from the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Link {
    /// Index of the GPU that is read; none: the host.
    pub from: Option<usize>,
    /// Index of the GPU that is written; none: the host.
    pub to: Option<usize>,
    /// Its bandwidth.
    pub gb_per_s: f64,
    /// Its latency.
    pub latency_ns: u64,
}

/// How long the kernels that match take, and what goes wrong with them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelRule {
    /// Pattern of the (mangled) name with `*` and `?`; matches anywhere in the name.
    pub name: String,
    /// Fewest work-items.
    pub min_grid: u64,
    /// How long; none: this rule is only about the fault.
    pub time: Option<KernelTime>,
    /// What goes wrong.
    pub fault: Option<KernelFault>,
    /// The fault happens at every n-th match only.
    pub fault_every: u64,
    /// How many GPUs have a kernel of the same collective, which ends after all of them have started. None: each is on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<NonZeroU32>,
}

/// How long a kernel takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum KernelTime {
    /// Always the same.
    Fixed {
        /// How long.
        nanoseconds: f64,
    },
    /// For each work-item.
    PerItem {
        /// How long in all cases.
        base_nanoseconds: f64,
        /// For each work-item of the grid.
        nanoseconds: f64,
    },
    /// Evenly distributed.
    Random {
        /// Least.
        low_nanoseconds: f64,
        /// Most.
        high_nanoseconds: f64,
        /// Equal seeds give equal sequences for each queue.
        seed: u64,
    },
    /// Computed, in nanoseconds.
    Formula(String),
}

/// What goes wrong with a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelFault {
    /// It never ends.
    Hang,
    /// It accesses memory that is not there.
    MemoryFault,
    /// The queue stops with an error (illegal instruction).
    QueueError,
    /// Start and end are stamped zero.
    ZeroTimes,
    /// The end is stamped before the start.
    BackwardTimes,
    /// The signal completes first and is stamped a moment later.
    LateTimes,
}

/// Something that happens to the process whose dispatch it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DriverEvent {
    /// What.
    pub kind: DriverEventKind,
    /// On the GPU with this index.
    pub gpu: usize,
    /// With this dispatch of the GPU, counted from 1.
    pub after_dispatches: u64,
    /// How long it took by then.
    pub duration_ns: u64,
    /// How much moves.
    pub bytes: u64,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverEventKind {
    /// A kernel waits for a page.
    PageFault,
    /// Memory moves to the GPU.
    MigrationIn,
    /// Memory moves to the host.
    MigrationOut,
    /// The queues do not run for a while.
    Eviction,
    /// The GPU is slowed down.
    Throttle,
    /// The GPU is reset, without any harm.
    Reset,
}

/// What goes wrong outside of kernels.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Faults {
    /// Every n-th driver call is interrupted; 0: none.
    pub interrupt_every: u64,
    /// How many of the first opens of devices are interrupted.
    pub interrupt_opens: u64,
    /// How long the first open of the driver takes.
    pub open_delay_ms: u64,
    /// Which allocations of device memory fail, counted from 1.
    pub failing_allocations: Vec<u64>,
    /// After how many dispatches GPU 0 is gone; 0: never.
    pub vanish_after_dispatches: u64,
    /// Completions raise no event: waits must still end by looking at the signal.
    pub silent_events: bool,
}
