//! What ranks do, step by step.

use std::collections::HashMap;

use super::{MpiCause, MpiFault, Pattern, When};

/// A function and a line of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) function: &'static str,
    pub(crate) line: u32,
}

const fn place(function: &'static str, line: u32) -> Place {
    Place { function, line }
}

/// Where ranks compute.
const STAGE: Place = place("run_stage", 176);
const RELAX: Place = place("relax", 57);
const SWEEP: Place = place("sweep_block", 121);
const WORK: Place = place("work_on", 149);
const SUM: Place = place("local_sum", 230);
const TRANSFORM: Place = place("transform_lines", 203);
/// Where the first rank does what others do not.
pub(crate) const PREPARE: Place = place("prepare", 192);
/// Where else faults are.
const REBUILD: Place = place("rebuild_table", 142);
const CHECKPOINT: Place = place("write_checkpoint", 301);
const POLL: Place = place("poll_license", 264);
const TAKE: Place = place("take_buffer", 288);

/// Where ranks compute.
pub(crate) fn computes_in(pattern: Pattern) -> Place {
    match pattern {
        Pattern::Chain | Pattern::Pipeline => STAGE,
        Pattern::Ring | Pattern::HaloWaitall | Pattern::HaloSendrecv | Pattern::HaloAllreduce => {
            RELAX
        }
        Pattern::Wavefront => SWEEP,
        Pattern::MasterWorker | Pattern::ScatterGather => WORK,
        Pattern::PythonAllreduce | Pattern::BulkSynchronous | Pattern::ReduceBcast => SUM,
        Pattern::Transpose => TRANSFORM,
    }
}

/// Where a fault is seen.
pub(crate) fn place_of(fault: MpiFault, pattern: Pattern) -> Place {
    match (fault.cause, fault.when) {
        (MpiCause::SlowCode | MpiCause::Preempted, _) => computes_in(pattern),
        (MpiCause::ExtraCode, When::Once(_)) => CHECKPOINT,
        (MpiCause::ExtraCode, When::Every(_)) => REBUILD,
        (MpiCause::Sleep, _) => POLL,
        (MpiCause::Lock | MpiCause::RecordedLock, _) => TAKE,
    }
}

/// One side of a message, or both: who the other is in the world, and what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) peer: u64,
    pub(crate) tag: u64,
    pub(crate) bytes: u64,
    pub(crate) communicator: usize,
}

/// A collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier,
    Allreduce,
    Allgather,
    Alltoall,
    Bcast,
    Reduce,
    Gather,
    Scatter,
    /// Makes a communicator.
    Split,
}

impl Kind {
    /// The function, without `MPI_`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Barrier => "MPI_Barrier",
            Self::Allreduce => "MPI_Allreduce",
            Self::Allgather => "MPI_Allgather",
            Self::Alltoall => "MPI_Alltoall",
            Self::Bcast => "MPI_Bcast",
            Self::Reduce => "MPI_Reduce",
            Self::Gather => "MPI_Gather",
            Self::Scatter => "MPI_Scatter",
            Self::Split => "MPI_Comm_split",
        }
    }

    /// Whether one rank gives to all others, or gets from them.
    pub(crate) fn is_rooted(self) -> bool {
        matches!(
            self,
            Self::Bcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }
}

/// A call of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    /// In the world.
    pub(crate) root: u64,
    pub(crate) bytes: u64,
    pub(crate) communicator: usize,
}

/// What a rank does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It computes, and does not have the processor for some of the time.
    Run {
        place: Place,
        ns: u64,
        preempted_ns: u64,
    },
    Sleep {
        place: Place,
        ns: u64,
    },
    Lock {
        place: Place,
        ns: u64,
        is_recorded: bool,
    },
    Send(Message),
    Recv(Message),
    Isend(Message),
    Irecv(Message),
    /// At the edge of a grid one of the two is with nobody.
    Sendrecv {
        sent: Option<Message>,
        received: Option<Message>,
    },
    /// For the oldest request.
    Wait,
    /// For all requests.
    Waitall,
    Collective(Collective),
}

impl Step {
    /// Whether it is a call of MPI.
    pub(crate) fn is_call(&self) -> bool {
        !matches!(
            self,
            Self::Run { .. } | Self::Sleep { .. } | Self::Lock { .. }
        )
    }

    /// Whether it is a call of MPI by which ranks wait for each other.
    pub(crate) fn communicates(&self) -> bool {
        match self {
            Self::Run { .. } | Self::Sleep { .. } | Self::Lock { .. } => false,
            Self::Collective(call) => call.kind != Kind::Split,
            _ => true,
        }
    }
}

/// Ranks that have numbers of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Communicator {
    /// Ranks of the world, by their number here.
    pub(crate) members: Vec<u64>,
    numbers: HashMap<u64, u64>,
}

impl Communicator {
    pub(crate) fn new(members: Vec<u64>) -> Self {
        let numbers = members.iter().copied().zip(0..).collect();
        Self { members, numbers }
    }

    /// The number of a rank of the world.
    pub(crate) fn number(&self, rank: u64) -> u64 {
        self.numbers.get(&rank).copied().unwrap_or(u64::MAX)
    }
}

/// What all ranks do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    /// The first is that of all ranks.
    pub(crate) communicators: Vec<Communicator>,
    /// By rank.
    pub(crate) steps: Vec<Vec<Step>>,
}
