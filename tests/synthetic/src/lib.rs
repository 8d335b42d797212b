//! Traces of jobs that never ran, as `rsys-sample` writes them, with a truth that is known.
//!
//! Each rank does the same in every iteration: a Python function loads a batch, a copy brings it to the GPU, then kernels and collectives alternate on one
//! stream, and the host waits for the end. [`Fault`]s make a rank slower in a known way. [`simulate`] says when each collective ends, [`write()`]
//! writes the trace of each rank.

mod clock;
pub mod memory;
pub mod mpi;
mod random;
pub mod random_run;
mod simulation;
mod track;
mod writing;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

pub use clock::HostClock;
pub use simulation::{Ends, simulate};
pub use writing::write_rank;

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct Job {
    /// How many ranks it has.
    pub ranks: u64,
    /// How many of them are on each host.
    pub ranks_per_host: u64,
    /// How many iterations it runs.
    pub iterations: u64,
    /// Collectives of an iteration.
    pub buckets: u64,
    /// Every other collective is one of so many neighbouring ranks; 1: all are of all ranks.
    pub group: u64,
    /// Nanoseconds of computation in an iteration.
    pub compute_ns: u64,
    /// Nanoseconds in which the host loads a batch.
    pub load_ns: u64,
    /// Parts of a thousand by which durations vary.
    pub jitter: u64,
    /// Makes another job of the same kind.
    pub seed: u64,
    /// Clocks of the hosts; of those beyond the list, true ones.
    pub clocks: Vec<HostClock>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Ranks without a trace.
    pub missing: Vec<u64>,
    /// A rank that is traced from this iteration on only.
    pub late: Option<(u64, u64)>,
    /// A rank that is started again at this iteration, whereupon all make new communicators.
    pub restart: Option<(u64, u64)>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            ranks: 8,
            ranks_per_host: 4,
            iterations: 50,
            buckets: 4,
            group: 1,
            compute_ns: 20_000_000,
            load_ns: 2_000_000,
            jitter: 10,
            seed: 1,
            clocks: Vec::new(),
            faults: Vec::new(),
            missing: Vec::new(),
            late: None,
            restart: None,
        }
    }
}

/// Why a rank is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// One kernel of each iteration takes longer.
    LongKernel,
    /// All kernels take longer, and the sensor of the clock says why.
    LowClock,
    /// Loading a batch takes more CPU time.
    SlowLoader,
    /// The interpreter collects garbage.
    GarbageCollection,
    /// Others have the processor.
    OffProcessor,
    /// The thread waits for a lock.
    Lock,
    /// The thread sleeps.
    Sleep,
    /// The copy takes longer.
    SlowLink,
    /// Memory is touched for the first time.
    PageFaults,
    /// A call of the program waits for the GPU in the middle.
    HostSync,
    /// More kernels than on other ranks.
    UnevenWork,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 11] = [
        Self::LongKernel,
        Self::LowClock,
        Self::SlowLoader,
        Self::GarbageCollection,
        Self::OffProcessor,
        Self::Lock,
        Self::Sleep,
        Self::SlowLink,
        Self::PageFaults,
        Self::HostSync,
        Self::UnevenWork,
    ];

    /// Function and line of the program that is the place of the fault, where there is one.
    #[must_use]
    pub fn place(self) -> Option<(&'static str, u32)> {
        match self {
            Self::SlowLoader => Some(("load_batch", 42)),
            Self::GarbageCollection => Some(("collect_garbage", 71)),
            Self::Lock => Some(("take_lock", 63)),
            Self::Sleep => Some(("augment", 57)),
            Self::PageFaults => Some(("touch_pages", 80)),
            Self::HostSync => Some(("log_loss", 88)),
            Self::LongKernel
            | Self::LowClock
            | Self::OffProcessor
            | Self::SlowLink
            | Self::UnevenWork => None,
        }
    }
}

/// Something that makes a rank late.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Fault {
    /// The rank.
    pub rank: u64,
    /// Why it is late.
    pub cause: Cause,
    /// By how many nanoseconds, in each iteration that it concerns.
    pub amount_ns: u64,
    /// It concerns every so many iterations, 1 being each.
    pub every: u64,
}

impl Job {
    /// What goes wrong on a rank in an iteration: the nanoseconds for a cause.
    #[must_use]
    pub fn fault_ns(&self, rank: u64, iteration: u64, cause: Cause) -> u64 {
        let faults = self.faults.iter().filter(|fault| {
            fault.rank == rank
                && fault.cause == cause
                && iteration.is_multiple_of(fault.every.max(1))
        });
        faults.map(|fault| fault.amount_ns).sum()
    }

    /// Whether a collective of an iteration is one of neighbours, instead of all ranks.
    #[must_use]
    pub fn is_of_neighbours(&self, bucket: u64) -> bool {
        self.group > 1 && bucket.is_multiple_of(2)
    }
}

/// Writes the traces of all ranks into a folder, and the truth beside them (`truth.json`).
///
/// # Errors
/// When a file cannot be written.
pub fn write(job: &Job, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let ends = simulate(job);
    for rank in (0..job.ranks).filter(|rank| !job.missing.contains(rank)) {
        write_rank(job, &ends, rank, folder)?;
    }
    let truth = serde_json::to_string_pretty(job)?;
    std::fs::write(folder.join("truth.json"), truth + "\n")?;
    Ok(())
}
