//! Events without categories, as the profilers of JAX and TensorFlow write them: the names of processes and threads say what they are.
//!
//! | process | thread | event |
//! |---|---|---|
//! | `/device:GPU:0` | `Stream #14(…)` | an operation of that GPU |
//! | `/device:GPU:0` | any other | drawn from those once more: nothing |
//! | `GPU2`, as rpd2tracing and rocprof 1 write it | | an operation of that GPU |
//! | `0 CPU HIP API`, any other process beside a GPU | | a call of the runtime, a range or a function |
//! | `/host:CPU` | | an operator of XLA if it has `hlo_op`, a call of the runtime, or a function: of Python if it begins with `$` |

use std::collections::{HashMap, HashSet};

use super::event::Args;
use super::meaning::Meaning;
use super::places::Key;
use crate::model::{HostKind, OpKind};

/// What processes and threads are.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    processes: HashMap<Key, Lane>,
    streams: HashSet<(Key, Key)>,
}

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Gpu(u32),
    /// Every thread of which is a queue.
    GpuOfQueues(u32),
    Host,
    Calls,
}

impl Lanes {
    /// A process has a name.
    pub(super) fn process(&mut self, pid: Key, name: &str) {
        let number = |prefix: &str| name.rsplit_once(prefix)?.1.parse().ok();
        // rocprof 1 puts a number for sorting in front: `6 GPU0`.
        let plain = name.trim_start_matches(|one: char| one.is_ascii_digit());
        let plain = plain.trim_start();
        let lane = match number("/device:GPU:") {
            Some(ordinal) => Some(Lane::Gpu(ordinal)),
            None if name.ends_with("/host:CPU") => Some(Lane::Host),
            None if plain.starts_with("CPU ") || plain == "Markers and Ranges" => Some(Lane::Calls),
            None => {
                let ordinal = plain.strip_prefix("GPU").and_then(|rest| rest.parse().ok());
                ordinal.map(Lane::GpuOfQueues)
            }
        };
        if let Some(lane) = lane {
            self.processes.insert(pid, lane);
        }
    }

    /// A thread has a name.
    pub(super) fn thread(&mut self, pid: Key, tid: Key, name: &[u8]) {
        if name.starts_with(b"Stream #") {
            self.streams.insert((pid, tid));
        }
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The number of the GPU that a process stands for.
    #[inline]
    pub(super) fn gpu(&self, pid: Key) -> Option<u32> {
        match self.processes.get(&pid)? {
            Lane::Gpu(ordinal) | Lane::GpuOfQueues(ordinal) => Some(*ordinal),
            Lane::Host | Lane::Calls => None,
        }
    }

    /// What an event without a category is.
    pub(super) fn meaning(
        &self,
        (pid, tid): (Key, Key),
        name: &[u8],
        (args, bytes): (&Args, &[u8]),
    ) -> Meaning {
        let has_queues = || {
            let mut lanes = self.processes.values();
            lanes.any(|lane| matches!(lane, Lane::GpuOfQueues(_)))
        };
        match self.processes.get(&pid) {
            Some(Lane::Calls) => Meaning::Host(call(name)),
            None if has_queues() => Meaning::Host(call(name)),
            None => Meaning::None,
            Some(Lane::GpuOfQueues(_)) => Meaning::Gpu(operation(name, args.kind.of(bytes))),
            Some(Lane::Host) => Meaning::Host(host_kind(name, args.is_hlo_operator, args.is_step)),
            Some(Lane::Gpu(_)) if !self.streams.contains(&(pid, tid)) => Meaning::None,
            Some(Lane::Gpu(_)) => Meaning::Gpu(match name {
                name if name.starts_with(b"Memcpy") => OpKind::Copy,
                name if name.starts_with(b"Memset") => OpKind::Fill,
                _ => OpKind::Kernel,
            }),
        }
    }
}

/// What an operation is by its name and kind: `KernelExecution`, `CopyHostToDevice`, `FillBuffer`, `Barrier`.
fn operation(name: &[u8], kind: &[u8]) -> OpKind {
    let is = |start: &[u8]| kind.starts_with(start) || kind.is_empty() && name.starts_with(start);
    match () {
        () if is(b"Copy") || is(b"Memcpy") => OpKind::Copy,
        () if is(b"Fill") || is(b"Memset") => OpKind::Fill,
        () if is(b"Barrier") || is(b"Marker") => OpKind::Other,
        () => OpKind::Kernel,
    }
}

/// What something on a thread is by its name, where all of a file are calls but what begins like no call.
fn call(name: &[u8]) -> HostKind {
    match () {
        () if name.starts_with(b"hsa_") => HostKind::Hsa,
        () if name.starts_with(b"nccl") || name.starts_with(b"rccl") => HostKind::Collective,
        () if is_call(name, b"hip") || is_call(name, b"cuda") || is_call(name, b"cu") => {
            HostKind::Runtime
        }
        () if name.starts_with(b"__hip") => HostKind::Runtime,
        () => HostKind::Range,
    }
}

fn is_call(name: &[u8], prefix: &[u8]) -> bool {
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
}

/// What an event of a thread is in a profile of JAX or TensorFlow, by its name and whether it names an operator of XLA, or a step.
pub(in crate::read) fn host_kind(name: &[u8], is_operator: bool, is_step: bool) -> HostKind {
    let is_call = |prefix: &[u8]| is_call(name, prefix);
    match () {
        () if is_operator => HostKind::Operator,
        () if is_step => HostKind::Range,
        () if is_call(b"hip") || is_call(b"cuda") || is_call(b"cu") => HostKind::Runtime,
        () => HostKind::Function,
    }
}
