//! Processes, threads, GPUs, queues and counters.

use serde::{Deserialize, Serialize};

use super::TextId;

/// Makes an id that is an index into one of the model's lists.
macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(u32);

        impl $name {
            /// The id at a place of the list.
            #[inline]
            #[must_use]
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Its place in the list.
            #[inline]
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

id! {
    /// A process instance: one program image of one process on one boot of one host.
    ProcessId;
    /// A thread of a process instance.
    ThreadId;
    /// A GPU as one process instance sees it.
    DeviceId;
    /// A stream or queue of a [`DeviceId`].
    QueueId;
    /// A track of a counter.
    CounterId;
}

/// A process instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id, as the trace shows it.
    pub pid: u32,
    /// Id of the process that made it; 0 if unknown.
    pub parent_pid: u32,
    /// Name.
    pub name: String,
    /// Command line, with spaces between the words.
    pub command_line: String,
    /// The rank in its job.
    pub rank: Option<u64>,
    /// How many ranks the job has.
    pub rank_count: Option<u64>,
    /// The host's name; empty if unknown.
    pub host: String,
    /// Identifies the boot of the host; empty if unknown.
    pub boot_id: String,
    /// BOOTTIME in nanoseconds at which it started; 0 if unknown.
    pub start_ns: u64,
    /// BOOTTIME in nanoseconds at which its trace ends; 0 if that is not finished, or does not say.
    pub end_ns: u64,
    /// CPU time between two of its samples; 0 if it was not sampled by time.
    pub sample_period_ns: u64,
    /// The file that it was read from.
    pub file: String,
    /// The backends with which it was recorded, with spaces between them; empty if its trace does not say.
    pub backends: String,
    /// How often waiting threads were looked at, in Hz; 0 if they were not, or if that is unknown.
    pub wait_frequency_hz: u64,
    /// Whether its context switches were recorded to its end, so that its threads are known to have run whenever they were not off the processor.
    pub has_switches: bool,
    /// Whether times in which its threads had been woken and had no processor are apart from those in which they were blocked.
    pub has_delays: bool,
    /// What its trace says of itself at its end; `None` if it does not, for it was cut off or is of another profiler.
    pub account: Option<Account>,
    /// BOOTTIME, and by how many nanoseconds the wall clock of its host was ahead of it then, as its trace has compared them.
    pub wall_clock: Vec<(i64, i64)>,
    /// Whose its operators are, if any were recorded.
    #[serde(skip)]
    pub framework: Framework,
}

/// A framework whose operators profilers record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framework {
    /// PyTorch.
    #[default]
    PyTorch,
    /// The compiler of JAX and TensorFlow.
    Xla,
}

impl Framework {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PyTorch => "PyTorch",
            Self::Xla => "XLA",
        }
    }
}

/// What was recorded of a process, by the count of whoever recorded it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Samples that were taken of it.
    pub samples: u64,
    /// Calls that were recorded, or operations of GPUs if those are more.
    pub events: u64,
    /// Samples, events and operations of GPUs that were lost.
    pub lost: u64,
    /// CPU time of the process; 0 if unknown.
    pub cpu_ns: u64,
    /// Process id of the sampler; 0 if unknown.
    pub sampler_pid: u64,
    /// CPU time of the sampler up to the end of the process, for all processes that it recorded.
    pub sampler_cpu_ns: u64,
}

impl Process {
    /// Whether it was recorded with a backend.
    #[must_use]
    pub fn has_backend(&self, name: &str) -> bool {
        self.backends.split(' ').any(|one| one == name)
    }

    /// Where it stands in output: ranks first, then by host, start and process id. No property of a file name counts, unless all else is
    /// equal.
    #[must_use]
    pub fn order(&self) -> (u64, &str, u64, u32, &str) {
        let rank = self.rank.unwrap_or(u64::MAX);
        (rank, &self.host, self.start_ns, self.pid, &self.file)
    }
}

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// Thread id, as the trace shows it.
    pub tid: u32,
    /// Name.
    pub name: TextId,
}

/// A GPU as a process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The process that used it.
    pub process: ProcessId,
    /// Its number: among the GPUs of the machine in traces of rsys, else as the trace has it.
    pub ordinal: u32,
    /// Name of the model; empty if unknown.
    pub name: String,
    /// Whether `ordinal` counts the GPUs of the machine, so that equal numbers of two processes of one boot are one GPU.
    pub is_physical: bool,
}

/// Operations of a GPU that follow each other: a stream, or a queue of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// The GPU.
    pub device: DeviceId,
    /// Its name: `stream 1`, `queue 2`, or what the program called it.
    pub name: TextId,
}

/// A track of a counter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counter {
    /// The process that read it.
    pub process: ProcessId,
    /// What it belongs to: `Sensors of GPU 0`, `counters`; empty if it stands alone.
    pub group: TextId,
    /// Name.
    pub name: TextId,
    /// Unit; empty for plain counts.
    pub unit: TextId,
}
