//! Libraries by which processes communicate.

/// Whose a call of the kind [`HostKind::Collective`](super::HostKind::Collective) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Communication {
    /// RCCL, and NCCL.
    Rccl,
    /// MPI.
    Mpi,
    /// OpenSHMEM.
    Shmem,
    /// UCX.
    Ucx,
}

/// How functions of each begin, in C and in Fortran, also where a tool recorded the name that is behind a wrapper.
const BY_PREFIX: [(&str, Communication); 9] = [
    ("MPI_", Communication::Mpi),
    ("PMPI_", Communication::Mpi),
    ("shmem_", Communication::Shmem),
    ("pshmem_", Communication::Shmem),
    ("shmemx_", Communication::Shmem),
    ("rocshmem_", Communication::Shmem),
    ("ucp_", Communication::Ucx),
    ("uct_", Communication::Ucx),
    ("ucs_", Communication::Ucx),
];

impl Communication {
    /// Whose a function is, by its name.
    #[must_use]
    pub fn of(function: &str) -> Self {
        let of_prefix = BY_PREFIX.iter().find(|(prefix, _)| {
            let start = function.get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        });
        of_prefix.map_or(Self::Rccl, |(_, library)| *library)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rccl => "RCCL",
            Self::Mpi => "MPI",
            Self::Shmem => "OpenSHMEM",
            Self::Ucx => "UCX",
        }
    }
}
