//! The ground truth of a run: what the simulated GPUs executed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Everything, in the order in which it ended on each GPU of each process.
#[derive(Debug, Clone)]
pub struct Truth {
    /// One record per packet or copy.
    pub records: Vec<Record>,
}

/// One packet or copy.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Record {
    /// A kernel.
    Dispatch(Dispatch),
    /// A packet that waits.
    Barrier(Barrier),
    /// A copy by a copy engine.
    Copy(Copy),
    /// A performance counter that was read.
    Counter(CounterRead),
}

/// A performance counter that was read.
#[derive(Debug, Clone, Deserialize)]
pub struct CounterRead {
    /// The process.
    pub pid: u32,
    /// The GPU's index.
    pub gpu: usize,
    /// The block: `SQ`.
    pub block: String,
    /// The event that was selected.
    pub event: u32,
    /// Of which die.
    pub die: u32,
    /// Of which engine and instance.
    pub place: u32,
    /// What it had counted since it was started.
    pub value: u64,
    /// The GPU's clock.
    pub start_tick: u64,
}

/// A kernel.
#[derive(Debug, Clone, Deserialize)]
pub struct Dispatch {
    /// The process.
    pub pid: u32,
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number in the process.
    pub queue: u32,
    /// The packet's index in the queue.
    pub index: u64,
    /// Its mangled name.
    pub kernel: String,
    /// Work-items.
    pub grid: [u32; 3],
    /// Work-items of a group.
    pub workgroup: [u16; 3],
    /// Whether it had a completion signal.
    pub signal: bool,
    /// Whether its queue stamps signals.
    pub profiled: bool,
    /// CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME.
    pub end_ns: u64,
    /// The GPU's clock.
    pub start_tick: u64,
    /// The GPU's clock.
    pub end_tick: u64,
}

/// A packet that waits.
#[derive(Debug, Clone, Deserialize)]
pub struct Barrier {
    /// The process.
    pub pid: u32,
    /// The GPU's index.
    pub gpu: usize,
    /// The queue's number in the process.
    pub queue: u32,
    /// The packet's index in the queue.
    pub index: u64,
    /// What it waited for: `and`, `or`, `value`, `commands`.
    pub kind: String,
    /// CLOCK_BOOTTIME at which it could begin to wait.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME at which it was done.
    pub end_ns: u64,
}

/// A copy by a copy engine.
#[derive(Debug, Clone, Deserialize)]
pub struct Copy {
    /// The process.
    pub pid: u32,
    /// The index of the GPU whose engine copied.
    pub gpu: usize,
    /// The queue's number in the process.
    pub queue: u32,
    /// How many.
    pub bytes: u64,
    /// CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME.
    pub end_ns: u64,
}

impl Truth {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let records: serde_json::Result<Vec<Record>> =
            text.lines().map(serde_json::from_str).collect();
        Ok(Self {
            records: records.with_context(|| format!("{} is no ground truth", path.display()))?,
        })
    }

    /// All kernels.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.records.iter().filter_map(|record| match record {
            Record::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        })
    }

    /// All packets that wait.
    pub fn barriers(&self) -> impl Iterator<Item = &Barrier> {
        self.records.iter().filter_map(|record| match record {
            Record::Barrier(barrier) => Some(barrier),
            _ => None,
        })
    }

    /// All performance counters that were read.
    pub fn counters(&self) -> impl Iterator<Item = &CounterRead> {
        self.records.iter().filter_map(|record| match record {
            Record::Counter(read) => Some(read),
            _ => None,
        })
    }

    /// All copies.
    pub fn copies(&self) -> impl Iterator<Item = &Copy> {
        self.records.iter().filter_map(|record| match record {
            Record::Copy(copy) => Some(copy),
            _ => None,
        })
    }

    /// Kernels with this in their names.
    pub fn kernels_named<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Dispatch> {
        self.dispatches()
            .filter(move |dispatch| dispatch.kernel.contains(part))
    }
}
