//! Events without categories, as the profilers of JAX and TensorFlow write them: the names of processes and threads say what they are.
//!
//! | process | thread | event |
//! |---|---|---|
//! | `/device:GPU:0` | `Stream #14(…)` | an operation of that GPU |
//! | `/device:GPU:0` | any other | drawn from those once more: nothing |
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
    Host,
}

impl Lanes {
    /// A process has a name.
    pub(super) fn process(&mut self, pid: Key, name: &str) {
        let number = |prefix: &str| name.rsplit_once(prefix)?.1.parse().ok();
        let lane = match number("/device:GPU:") {
            Some(ordinal) => Some(Lane::Gpu(ordinal)),
            None => name.ends_with("/host:CPU").then_some(Lane::Host),
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
            Lane::Gpu(ordinal) => Some(*ordinal),
            Lane::Host => None,
        }
    }

    /// What an event without a category is.
    pub(super) fn meaning(&self, (pid, tid): (Key, Key), name: &[u8], args: &Args) -> Meaning {
        match self.processes.get(&pid) {
            None => Meaning::None,
            Some(Lane::Host) => Meaning::Host(host(name, args)),
            Some(Lane::Gpu(_)) if !self.streams.contains(&(pid, tid)) => Meaning::None,
            Some(Lane::Gpu(_)) => Meaning::Gpu(match name {
                name if name.starts_with(b"Memcpy") => OpKind::Copy,
                name if name.starts_with(b"Memset") => OpKind::Fill,
                _ => OpKind::Kernel,
            }),
        }
    }
}

fn host(name: &[u8], args: &Args) -> HostKind {
    let is_call = |prefix: &[u8]| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
    };
    match () {
        () if args.is_hlo_operator => HostKind::Operator,
        () if args.is_step => HostKind::Range,
        () if is_call(b"hip") || is_call(b"cuda") || is_call(b"cu") => HostKind::Runtime,
        () => HostKind::Function,
    }
}
