//! Jobs of MPI that never ran: ranks that compute and call MPI, with a truth that is known.
//!
//! A [`Pattern`] says what each rank does. [`simulate`] says when each call begins and ends, in true time, by a model of MPI: standard sends are
//! eager below 64 kB and wait for their receiver above, rooted collectives go along a tree, and ranks leave a collective one after the other.
//! [`write()`] writes the traces as `rsys-sample -I mpip --realtime` does. An [`MpiFault`] makes one rank slower; the same job without it is the
//! truth of what the job would take if the rank were like the others: all that varies is drawn by place, not in turn.

mod collective;
mod draw;
mod patterns;
mod pen;
mod program;
mod simulation;
mod writing;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::HostClock;

pub use draw::{faulty, healthy};
pub use simulation::{Outcome, simulate};

/// What the ranks of a job do in each iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// A token goes from rank to rank and back to the first. Who has it computes.
    Chain,
    /// Each rank is a stage: it receives from the one before, computes, and sends to the next.
    Pipeline,
    /// Each rank computes, and shifts to the next on a ring.
    Ring,
    /// Neighbours on a grid exchange by `MPI_Irecv`, `MPI_Isend` and `MPI_Waitall`, and compute meanwhile.
    HaloWaitall,
    /// Neighbours on a grid exchange by `MPI_Sendrecv`.
    HaloSendrecv,
    /// Blocks are swept over a grid, from each of its corners in turn.
    Wavefront,
    /// The first rank gives work to all others, and takes their results in order.
    MasterWorker,
    /// As [`Pattern::HaloWaitall`], and a sum over all ranks.
    HaloAllreduce,
    /// A sum over all ranks as mpi4py makes it of objects: messages to the first rank, which broadcasts length and content.
    PythonAllreduce,
    /// Ranks compute, gather, and meet at a barrier.
    BulkSynchronous,
    /// A reduction to the first rank, which broadcasts.
    ReduceBcast,
    /// The first rank scatters work, and gathers results.
    ScatterGather,
    /// All-to-all within the rows of a grid, then within its columns.
    Transpose,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 13] = [
        Self::Chain,
        Self::Pipeline,
        Self::Ring,
        Self::HaloWaitall,
        Self::HaloSendrecv,
        Self::Wavefront,
        Self::MasterWorker,
        Self::HaloAllreduce,
        Self::PythonAllreduce,
        Self::BulkSynchronous,
        Self::ReduceBcast,
        Self::ScatterGather,
        Self::Transpose,
    ];
}

/// Why a rank of MPI is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiCause {
    /// The function that computes takes longer.
    SlowCode,
    /// A function computes that the other ranks do not call.
    ExtraCode,
    /// It sleeps.
    Sleep,
    /// Others have its processor.
    Preempted,
    /// It waits for a lock, seen from outside.
    Lock,
    /// It waits for a lock, recorded.
    RecordedLock,
}

impl MpiCause {
    /// All causes.
    pub const ALL: [Self; 6] = [
        Self::SlowCode,
        Self::ExtraCode,
        Self::Sleep,
        Self::Preempted,
        Self::Lock,
        Self::RecordedLock,
    ];

    /// The word for it in answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SlowCode | Self::ExtraCode => "host_code",
            Self::Sleep | Self::Lock | Self::RecordedLock => "host_wait",
            Self::Preempted => "host_runnable",
        }
    }
}

/// Which iterations a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Every so many iterations, 1 being each.
    Every(u64),
    /// One.
    Once(u64),
}

/// Something that makes a rank slow.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MpiFault {
    /// The rank.
    pub rank: u64,
    /// Why it is slow.
    pub cause: MpiCause,
    /// By how many nanoseconds, in each iteration that it concerns.
    pub amount_ns: u64,
    /// Which these are.
    pub when: When,
}

impl MpiFault {
    /// Nanoseconds that a part of the computation of an iteration takes longer: a single stall comes with the first of them.
    fn part_ns(&self, iteration: u64, (part, parts): (u64, u64)) -> u64 {
        match self.when {
            When::Every(every) if iteration.is_multiple_of(every.max(1)) => self.amount_ns / parts,
            When::Once(at) if iteration == at && part == 0 => self.amount_ns,
            _ => 0,
        }
    }
}

/// How traces say which calls belong to a request, and to a message: `--flows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flows {
    /// By arrows.
    Arrows,
    /// By arrows, and requests by numbers too.
    Both,
    /// Requests by numbers.
    Numbers,
}

/// A job of MPI.
#[derive(Debug, Clone, Serialize)]
pub struct MpiJob {
    /// What its ranks do.
    pub pattern: Pattern,
    /// How many ranks it has.
    pub ranks: u64,
    /// How many of them are on each host.
    pub ranks_per_host: u64,
    /// How many iterations it runs.
    pub iterations: u64,
    /// Nanoseconds of computation of a rank in an iteration.
    pub compute_ns: u64,
    /// Bytes of each message, or of each collective that moves data.
    pub bytes: u64,
    /// Parts of a thousand by which durations vary.
    pub jitter: u64,
    /// Makes another job of the same kind.
    pub seed: u64,
    /// Clocks of the hosts; of those beyond the list, true ones.
    pub clocks: Vec<HostClock>,
    /// What goes wrong.
    pub fault: Option<MpiFault>,
    /// Ranks without a trace.
    pub missing: Vec<u64>,
    /// Parts of a thousand of the messages whose number one side does not know.
    pub unnumbered: u64,
    /// Messages go by a communicator of their own, in which ranks have other numbers.
    pub own_communicator: bool,
    /// It is a Python program.
    pub is_python: bool,
    /// Messages go on while ranks compute.
    pub progresses_alone: bool,
    /// Ranks that wait in MPI give up the processor.
    pub blocks: bool,
    /// How traces say what belongs together.
    pub flows: Flows,
    /// Calls without messages and data are recorded too: `MPI_Init` is long where other ranks were started late.
    pub records_all: bool,
}

impl Default for MpiJob {
    fn default() -> Self {
        Self {
            pattern: Pattern::HaloAllreduce,
            ranks: 8,
            ranks_per_host: 4,
            iterations: 30,
            compute_ns: 4_000_000,
            bytes: 16_384,
            jitter: 10,
            seed: 1,
            clocks: Vec::new(),
            fault: None,
            missing: Vec::new(),
            unnumbered: 0,
            own_communicator: false,
            is_python: false,
            progresses_alone: true,
            blocks: false,
            flows: Flows::Arrows,
            records_all: true,
        }
    }
}

impl MpiJob {
    /// The same job with the slow rank like the others.
    #[must_use]
    pub fn without_fault(&self) -> Self {
        Self {
            fault: None,
            ..self.clone()
        }
    }

    /// The place of the fault, as answers call it: `relax (solver.cpp:57)`.
    #[must_use]
    pub fn place_of_fault(&self) -> Option<String> {
        let place = program::place_of(self.fault?, self.pattern);
        let file = if self.is_python {
            "job.py"
        } else {
            "solver.cpp"
        };
        Some(format!("{} ({file}:{})", place.function, place.line))
    }

    fn host(&self, rank: u64) -> u64 {
        rank / self.ranks_per_host.max(1)
    }
}

/// Writes the traces of all ranks into a folder, and the truth beside them (`truth.json`).
///
/// # Errors
/// When a file cannot be written.
pub fn write(job: &MpiJob, outcome: &Outcome, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for rank in (0..job.ranks).filter(|rank| !job.missing.contains(rank)) {
        writing::write_rank(job, outcome, rank, folder)?;
    }
    let truth = serde_json::to_string_pretty(job)?;
    std::fs::write(folder.join("truth.json"), truth + "\n")?;
    Ok(())
}
