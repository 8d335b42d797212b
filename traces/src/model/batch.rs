//! Records. None holds memory of its own, so a batch is a few vectors that are used again.

use super::{
    Activity, CollectiveCall, Completion, CounterId, DeviceId, Effect, LockCounts, LockWait,
    MemoryEvent, MpiCall, ProcessId, ProxyRecord, QueueId, StackId, StreamOrder, TextId, ThreadId,
};

/// What a GPU operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum OpKind {
    /// A kernel.
    #[default]
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A barrier, scratch memory, or something else that is no work of the GPU's processors and engines.
    Other,
}

/// An operation of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuRecord {
    /// BOOTTIME of its begin (the file's own clock if it has no BOOTTIME).
    pub start_ns: u64,
    /// Its end, never before its begin; the interval is half-open.
    pub end_ns: u64,
    /// Links it with its call: [`HostSlice::link`] of the same process. 0: no call is known.
    pub link: u64,
    /// Bytes of a copy or fill; 0 if unknown.
    pub bytes: u64,
    /// The process whose work it is.
    pub process: ProcessId,
    /// The GPU.
    pub device: DeviceId,
    /// Stream or queue.
    pub queue: QueueId,
    /// Name of the kernel or operation.
    pub name: TextId,
    /// Grid as the trace writes it.
    pub grid: TextId,
    /// Where a kernel came from, `file:line`.
    pub source: TextId,
    /// Direction of a copy as the trace writes it, for instance `host to device`.
    pub direction: TextId,
    /// What it is.
    pub kind: OpKind,
    /// What it counts as.
    pub activity: Activity,
}

impl GpuRecord {
    /// How long it took.
    #[inline]
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// What a hardware counter counted of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelCounter {
    /// BOOTTIME of the kernel's begin.
    pub start_ns: u64,
    /// The kernel's process.
    pub process: ProcessId,
    /// Its GPU.
    pub device: DeviceId,
    /// Its stream or queue.
    pub queue: QueueId,
    /// Its name.
    pub kernel: TextId,
    /// Its grid as the trace writes it.
    pub grid: TextId,
    /// The counter, with [`KernelCounter::PREFIX`] in front of its name.
    pub counter: TextId,
    /// Its value.
    pub value: f64,
}

impl KernelCounter {
    /// What stands in front of the names of counters where a kernel has them among its arguments.
    pub const PREFIX: &str = "counter_";
}

/// A range of the program as a stream saw it: from the first operation that was launched in it to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuRange {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The GPU.
    pub device: DeviceId,
    /// Stream or queue.
    pub queue: QueueId,
    /// Name.
    pub name: TextId,
}

/// What a slice of a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum HostKind {
    /// A call of HIP, or of another runtime that gives work to GPUs.
    #[default]
    Runtime,
    /// A call of the HSA runtime.
    Hsa,
    /// A call of RCCL or MPI.
    Collective,
    /// A range that the program marked.
    Range,
    /// An operator of a framework.
    Operator,
    /// A function, where the profiler of a language recorded calls and returns.
    Function,
    /// A wait by the wall clock.
    Wait,
    /// A time off the processor.
    OffCpu,
    /// A time in which it could run, and had no processor.
    Runnable,
    /// What an OpenMP runtime does for a thread: regions, loops, barriers, tasks.
    OpenMp,
    /// A kernel, region, fence or copy of Kokkos.
    Kokkos,
}

impl HostKind {
    /// What times off the processor are called in which a thread could have run, in traces of rsys.
    const RUNNABLE: [&str; 2] = ["preempted", "woken"];

    /// The kind of a range with this name: NCCL and RCCL mark their calls as ranges, `ncclAllReduce`.
    #[must_use]
    pub fn of_range(name: &str) -> Self {
        let is_call = |call: &str| {
            call.starts_with(|one: char| one.is_ascii_uppercase())
                && call.bytes().all(|one| one.is_ascii_alphanumeric())
                && !call.contains("Kernel")
        };
        match name.strip_prefix("nccl").is_some_and(is_call) {
            true => Self::Collective,
            false => Self::Range,
        }
    }

    /// The kind of a slice with this name: a time off the processor may be one in which the thread could run.
    #[must_use]
    pub fn of_slice(self, name: &str) -> Self {
        match self {
            Self::OffCpu if Self::RUNNABLE.contains(&name) => Self::Runnable,
            kind => kind,
        }
    }
}

/// A slice of a thread. Slices of a thread that are of one kind nest. They come when they end, unless their depth is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostSlice {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Links a call with the GPU operations that it caused: [`GpuRecord::link`] of the same process. 0: none.
    pub link: u64,
    /// Bytes, if the call tells; of allocations, copies and collectives.
    pub bytes: u64,
    /// The memory that a call made or gave back, or the event that it is about, if it tells; else 0.
    pub address: u64,
    /// The handle of the stream that a call is about, plus one; 0 if it tells none.
    pub stream: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread. Ranges that any thread may end have [`HostSlice::NO_THREAD`].
    pub thread: ThreadId,
    /// Name.
    pub name: TextId,
    /// Types and dimensions of an operator's arguments, if they were asked for ([`Kinds::shapes`]); else empty.
    pub shapes: TextId,
    /// All that the trace says of an operator's arguments, as [`crate::work::Arguments`] reads it, if that was asked for ([`Kinds::arguments`]); else empty.
    pub arguments: TextId,
    /// Of operators of PyTorch, if [`Kinds::arguments`] was asked for: one more than the number that autograd gives to an operator and to the one that computes its gradient.
    /// 0: none.
    pub sequence: u64,
    /// Of operators, functions and ranges of one thread that begin and end together, those with smaller numbers are outside; 0: they come in this order.
    pub number: u64,
    /// How many slices of the same track contain it, or [`HostSlice::UNKNOWN_DEPTH`].
    pub depth: u32,
    /// What it is.
    pub kind: HostKind,
    /// What a call puts into its stream, besides operations.
    pub order: StreamOrder,
    /// What else a call does.
    pub effect: Effect,
    /// The trace ends before it did.
    pub is_open: bool,
}

impl HostSlice {
    /// In place of a thread for slices that belong to a process.
    pub const NO_THREAD: usize = u32::MAX as usize;
    /// In place of a depth where the file does not say it: then slices come in any order, too.
    pub const UNKNOWN_DEPTH: u32 = u32::MAX;
}

/// A point in time that the program marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// BOOTTIME.
    pub time_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// Its text.
    pub name: TextId,
}

/// What the weight of a sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Basis {
    /// Nanoseconds of CPU time.
    #[default]
    CpuTime,
    /// Nanoseconds that a thread waited.
    WaitTime,
    /// Nanoseconds that a kernel ran, under the stack that launched it; 0 at its launch if it had not ended when the trace ended.
    GpuTime,
    /// Nanoseconds of a call, under the stack from which it was made: the sample has the thread of the call's slice and the time of its begin.
    CallTime,
    /// Events that overflow a counter.
    Event,
}

/// A sampled call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// BOOTTIME.
    pub time_ns: u64,
    /// What it stands for, in the unit of its basis.
    pub weight: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// The stack; [`StackId::ROOT`] if it could not be walked.
    pub stack: StackId,
    /// What the weight counts.
    pub basis: Basis,
}

/// A value of a counter, which holds until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CounterValue {
    /// BOOTTIME.
    pub time_ns: u64,
    /// The counter.
    pub counter: CounterId,
    /// The value, in the counter's unit.
    pub value: f64,
}

/// Kinds of records. Readers leave out the others, which makes them faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds {
    /// Operations of GPUs.
    pub gpu: bool,
    /// Slices of threads.
    pub host: bool,
    /// Operators and functions that were recorded. `host` has them too, and this none of the others.
    pub recorded: bool,
    /// What operators were called with: [`HostSlice::shapes`].
    pub shapes: bool,
    /// The same with strides and the values of arguments that are no tensors: [`HostSlice::arguments`].
    pub arguments: bool,
    /// Marks.
    pub marks: bool,
    /// Samples.
    pub samples: bool,
    /// Values of counters.
    pub counters: bool,
    /// Locks, and waits for them.
    pub locks: bool,
    /// What RCCL's proxies did.
    pub proxies: bool,
}

impl Kinds {
    /// None.
    pub const NONE: Self = Self {
        gpu: false,
        host: false,
        recorded: false,
        shapes: false,
        arguments: false,
        marks: false,
        samples: false,
        counters: false,
        locks: false,
        proxies: false,
    };
    /// Operations of GPUs alone.
    pub const GPU: Self = Self {
        gpu: true,
        ..Self::NONE
    };
    /// Operations of GPUs, and slices of threads.
    pub const GPU_AND_HOST: Self = Self {
        host: true,
        ..Self::GPU
    };
    /// The same with samples.
    pub const GPU_HOST_AND_SAMPLES: Self = Self {
        samples: true,
        ..Self::GPU_AND_HOST
    };
    /// All that is kept in tables: operators without what they were called with, and not what RCCL's proxies did.
    pub const ALL: Self = Self {
        recorded: true,
        marks: true,
        counters: true,
        locks: true,
        ..Self::GPU_HOST_AND_SAMPLES
    };

    /// Whether slices of this kind are wanted.
    #[inline]
    #[must_use]
    pub fn wants(self, kind: HostKind) -> bool {
        let is_recorded = || {
            matches!(
                kind,
                HostKind::Operator | HostKind::Function | HostKind::OffCpu | HostKind::Runnable
            )
        };
        self.host || self.recorded && is_recorded()
    }

    /// What either wants.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            gpu: self.gpu | other.gpu,
            host: self.host | other.host,
            recorded: self.recorded | other.recorded,
            shapes: self.shapes | other.shapes,
            arguments: self.arguments | other.arguments,
            marks: self.marks | other.marks,
            samples: self.samples | other.samples,
            counters: self.counters | other.counters,
            locks: self.locks | other.locks,
            proxies: self.proxies | other.proxies,
        }
    }
}

/// Records of one file, of each kind in the order of the file.
///
/// Records of one queue or thread are nearly in order of time; between queues, threads and kinds there is no order.
#[derive(Debug, Default)]
pub struct Batch {
    /// Operations of GPUs.
    pub gpu: Vec<GpuRecord>,
    /// Slices of threads.
    pub host: Vec<HostSlice>,
    /// Marks.
    pub marks: Vec<Mark>,
    /// Samples.
    pub samples: Vec<Sample>,
    /// Values of counters.
    pub counters: Vec<CounterValue>,
    /// Calls that move data between ranks, beside their slices in `host`.
    pub collectives: Vec<CollectiveCall>,
    /// Messages between two ranks that have no number, whose calls had not returned when the trace ended.
    pub open_messages: Vec<CollectiveCall>,
    /// Calls of MPI, beside their slices in `host`.
    pub mpi: Vec<MpiCall>,
    /// Requests of MPI that calls have completed; with marks only.
    pub completions: Vec<Completion>,
    /// What was counted of locks.
    pub locks: Vec<LockCounts>,
    /// Waits for locks.
    pub lock_waits: Vec<LockWait>,
    /// What RCCL's proxies did.
    pub proxies: Vec<ProxyRecord>,
    /// What frameworks say of their memory.
    pub memory: Vec<MemoryEvent>,
    /// Ranges of the program as streams saw them; with operations and slices only.
    pub gpu_ranges: Vec<GpuRange>,
    /// Hardware counters of kernels, beside these in `gpu`.
    pub kernel_counters: Vec<KernelCounter>,
}

impl Batch {
    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gpu.len()
            + self.host.len()
            + self.marks.len()
            + self.samples.len()
            + self.counters.len()
            + self.collectives.len()
            + self.open_messages.len()
            + self.mpi.len()
            + self.completions.len()
            + self.locks.len()
            + self.lock_waits.len()
            + self.proxies.len()
            + self.memory.len()
            + self.gpu_ranges.len()
            + self.kernel_counters.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all records out; the memory stays.
    pub fn clear(&mut self) {
        self.gpu.clear();
        self.host.clear();
        self.marks.clear();
        self.samples.clear();
        self.counters.clear();
        self.collectives.clear();
        self.open_messages.clear();
        self.mpi.clear();
        self.completions.clear();
        self.locks.clear();
        self.lock_waits.clear();
        self.proxies.clear();
        self.memory.clear();
        self.gpu_ranges.clear();
        self.kernel_counters.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::HostKind;

    #[test]
    fn ranges_of_nccl_are_its_calls() {
        for (name, expected) in [
            ("ncclAllReduce", HostKind::Collective),
            ("ncclGroupEnd", HostKind::Collective),
            ("nccl:all_reduce", HostKind::Range),
            ("nccl", HostKind::Range),
            ("ncclDevKernel_Generic_1", HostKind::Range),
            ("ncclKernelAllReduce", HostKind::Range),
            ("ncclAllReduce of gradients", HostKind::Range),
            ("step 1", HostKind::Range),
        ] {
            assert_eq!(HostKind::of_range(name), expected, "{name}");
        }
    }
}
