//! Runs without any sense, of which every record is known: for what must hold whatever a run consists of.
//!
//! The same number makes the same run. Names are those that break writers: of any script, with quotes, backslashes, control characters, line ends,
//! or empty. Records take no time, begin at the same moment, and processes of several hosts have the same ids.

mod draw;
mod names;
mod writing;

pub use names::any_name;
pub use writing::write_process;

/// A run.
#[derive(Debug, Clone, Default)]
pub struct RandomRun {
    /// Its processes; their ids may be those of others on another host.
    pub processes: Vec<Process>,
}

/// A process and what was recorded of it.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its number in the run.
    pub number: u32,
    /// Its id.
    pub pid: u32,
    /// Its rank, in a job of as many as there are processes.
    pub rank: Option<u64>,
    /// The number of its host.
    pub host: u64,
    /// When it started (BOOTTIME).
    pub start_ns: u64,
    /// By how much the wall clock is ahead of BOOTTIME; it may be behind.
    pub wall_offset_ns: i64,
    /// Its threads; the first has the process's id.
    pub threads: Vec<u32>,
    /// Operations of its GPUs.
    pub operations: Vec<Operation>,
    /// Calls of runtimes.
    pub calls: Vec<Call>,
    /// Ranges that it marked.
    pub ranges: Vec<Range>,
    /// Points in time that it marked.
    pub marks: Vec<Mark>,
    /// Samples of its threads.
    pub samples: Vec<Sample>,
    /// Values of sensors of its GPUs.
    pub sensors: Vec<Sensor>,
    /// Whether the trace has the stacks from which two calls of three were made: `main`, and the function itself.
    pub has_call_stacks: bool,
}

/// What kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A barrier.
    Barrier,
}

/// An operation of a GPU.
#[derive(Debug, Clone)]
pub struct Operation {
    /// What it is.
    pub kind: OperationKind,
    /// Its name.
    pub name: String,
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The number of the GPU.
    pub device: u32,
    /// The number of the stream.
    pub stream: u32,
    /// Which of the calls caused it.
    pub call: Option<usize>,
    /// Bytes of a copy or fill.
    pub bytes: u64,
    /// Of copies, as traces write it.
    pub direction: &'static str,
    /// Of kernels, as traces write it.
    pub grid: &'static str,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The category of its slice: `hip`, `hsa`, `rccl` or `mpi`.
    pub category: &'static str,
    /// The function.
    pub name: &'static str,
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Which of the threads made it.
    pub thread: usize,
    /// What it shares with its operations, unlike all other calls of the process.
    pub correlation: u64,
    /// An argument; 0: none.
    pub bytes: u64,
    /// What a collective says of itself.
    pub collective: Option<Collective>,
}

/// What a call of RCCL says of its operation.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    /// The communicator.
    pub communicator: u64,
    /// Its number there.
    pub sequence: u64,
    /// The type of the elements.
    pub data_type: &'static str,
    /// The caller's rank there.
    pub rank: u64,
    /// How many ranks there are.
    pub ranks: u64,
}

/// A range of a thread.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its text.
    pub name: String,
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Which of the threads.
    pub thread: usize,
}

/// A point in time.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Its text.
    pub name: String,
    /// BOOTTIME.
    pub time_ns: u64,
    /// Which of the threads.
    pub thread: usize,
}

/// What the weight of a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Nanoseconds of CPU time.
    Cpu,
    /// Nanoseconds for which the thread waited.
    Wait,
}

/// A sample of a thread.
#[derive(Debug, Clone)]
pub struct Sample {
    /// BOOTTIME.
    pub time_ns: u64,
    /// What its weight is.
    pub basis: Basis,
    /// What it stands for.
    pub weight: u64,
    /// Which of the threads.
    pub thread: usize,
    /// Functions, outermost first.
    pub functions: Vec<String>,
}

/// A value of a sensor.
#[derive(Debug, Clone)]
pub struct Sensor {
    /// BOOTTIME.
    pub time_ns: u64,
    /// The GPU.
    pub device: u32,
    /// The value.
    pub value: f64,
}

impl RandomRun {
    /// The run of a number.
    #[must_use]
    pub fn draw(number: u64) -> Self {
        draw::run(number)
    }
}
