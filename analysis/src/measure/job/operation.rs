//! What operations of RCCL do, by the names of their functions.

/// What an operation of RCCL does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    AllToAllV,
    /// Broadcast, reduce, gather, scatter: not every rank waits for all.
    Rooted,
    Send,
    Receive,
    Barrier,
    /// One of which the order alone is known.
    Any,
    Unknown,
}

impl Operation {
    /// By the name of the function, of whichever library.
    pub(crate) fn of(name: &str) -> Self {
        let name = name
            .split('(')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = ["pnccl", "nccl", "rccl", "mpi"]
            .iter()
            .find_map(|prefix| plain.strip_prefix(prefix))
            .unwrap_or(&plain);
        match plain {
            "allreduce" => Self::AllReduce,
            "allgather" => Self::AllGather,
            "reducescatter" => Self::ReduceScatter,
            "alltoall" => Self::AllToAll,
            "alltoallv" => Self::AllToAllV,
            "broadcast" | "bcast" | "reduce" | "gather" | "scatter" => Self::Rooted,
            // MPI's; what `MPI_Reduce_scatter` is about is not the same on all ranks.
            "iallreduce" => Self::AllReduce,
            "iallgather" => Self::AllGather,
            "reducescatterblock" | "ireducescatterblock" => Self::ReduceScatter,
            "ialltoall" => Self::AllToAll,
            "ialltoallv" => Self::AllToAllV,
            "ibcast" | "ireduce" | "igather" | "iscatter" | "gatherv" | "scatterv" => Self::Rooted,
            "barrier" | "ibarrier" => Self::Barrier,
            // PyTorch's.
            "allreducecoalesced" => Self::AllReduce,
            "allgatherbase" | "allgatherintotensorcoalesced" => Self::AllGather,
            "reducescatterbase" | "reducescattertensorcoalesced" => Self::ReduceScatter,
            "alltoallbase" => Self::AllToAll,
            "collective" => Self::Any,
            "send" => Self::Send,
            "recv" => Self::Receive,
            _ => Self::Unknown,
        }
    }

    /// Whether no rank can end it before all have begun it.
    pub(crate) fn is_mutual(self) -> bool {
        matches!(
            self,
            Self::AllReduce
                | Self::AllGather
                | Self::ReduceScatter
                | Self::AllToAll
                | Self::AllToAllV
                | Self::Barrier
        )
    }

    /// Bytes of the whole operation, as nccl-tests count them: what the larger side of a rank holds.
    pub(crate) fn whole_bytes(self, bytes: u64, ranks: u64) -> u64 {
        match self {
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => bytes.saturating_mul(ranks),
            _ => bytes,
        }
    }

    /// What goes over the busiest link, as a part of the whole.
    pub(crate) fn bus_factor(self, ranks: u64) -> f64 {
        let ranks = ranks.max(1) as f64;
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV => {
                (ranks - 1.0) / ranks
            }
            _ => 1.0,
        }
    }
}
