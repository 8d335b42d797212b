//! The causes of idle time: one word for each in the answers about gaps, pauses, critical paths and stragglers. `docs/report.md` explains them, under `gaps`.

/// Why a GPU was idle, or what a thread or a rank was late by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum IdleCause {
    Code,
    Wait,
    OffProcessor,
    Runnable,
    Synchronisation,
    /// A copy that its call waits for.
    BlockingCopy,
    /// An asynchronous copy whose call has waited for it.
    BlockedCopy,
    /// A call that makes memory or gives it back.
    MemoryCall,
    RuntimeCall,
    CollectiveCall,
    Mpi,
    Shmem,
    Ucx,
    OpenMp,
    Kokkos,
    Launch,
    Graph,
    Event,
    HostFunction,
    MemoryValue,
    Barrier,
    OtherGpu,
    Queued,
    NoSamples,
    NoCall,
}

impl IdleCause {
    /// Its name in JSON, and in words.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Code => ("host_code", "code on the host"),
            Self::Wait => ("host_wait", "the host waits"),
            Self::OffProcessor => ("host_off_processor", "the host is not on a processor"),
            Self::Runnable => ("host_runnable", "the host could run, and had no processor"),
            Self::Synchronisation => ("synchronisation", "return from a synchronisation"),
            Self::BlockingCopy => ("blocking_copy", "a copy that blocks"),
            Self::BlockedCopy => ("blocked_async_copy", "an asynchronous copy that blocks"),
            Self::MemoryCall => ("memory_call", "a call that handles memory"),
            Self::RuntimeCall => ("runtime_call", "other calls of the runtime"),
            Self::CollectiveCall => ("collective_call", "calls of RCCL or NCCL"),
            Self::Mpi => ("mpi", "calls of MPI"),
            Self::Shmem => ("shmem", "calls of OpenSHMEM"),
            Self::Ucx => ("ucx", "calls of UCX"),
            Self::OpenMp => ("openmp", "within OpenMP"),
            Self::Kokkos => ("kokkos", "within Kokkos"),
            Self::Launch => ("launch", "launch latency"),
            Self::Graph => ("graph", "between the operations of a graph"),
            Self::Event => ("event", "waits for an event"),
            Self::HostFunction => ("host_function", "waits for a function of the host"),
            Self::MemoryValue => ("memory_value", "waits for a value in memory"),
            Self::Barrier => ("barrier", "waits for a barrier packet"),
            Self::OtherGpu => ("other_gpu", "waits for another GPU"),
            Self::Queued => ("queued", "submitted, waits for something else"),
            Self::NoSamples => ("unknown_no_samples", "unknown: no samples of the thread"),
            Self::NoCall => ("unknown_no_call", "unknown: the call is not in the trace"),
        }
    }

    /// Its name in JSON.
    pub(crate) const fn key(self) -> &'static str {
        self.names().0
    }

    /// In words.
    pub(crate) const fn text(self) -> &'static str {
        self.names().1
    }
}
