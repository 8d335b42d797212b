//! The rank of a process in a parallel job, as its launcher tells it in the environment.

/// The place of a process in a parallel job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// The rank.
    pub rank: u32,
    /// The variable that told it.
    pub source: &'static str,
    /// How many ranks there are.
    pub size: Option<u32>,
    /// The rank among those on the same node.
    pub local_rank: Option<u32>,
}

/// One launcher's variables.
struct Launcher {
    /// Counts only when this variable is set too.
    only_with: Option<&'static str>,
    rank: &'static str,
    sizes: &'static [&'static str],
    local_ranks: &'static [&'static str],
}

/// Strongest first. An inner launcher's variables stand before those of what it may run in: under `salloc mpirun` every rank has
/// `SLURM_PROCID=0`, and torchrun runs inside any of them.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        only_with: Some("TORCHELASTIC_RUN_ID"),
        rank: "RANK",
        sizes: &["WORLD_SIZE"],
        local_ranks: &["LOCAL_RANK"],
    },
    Launcher {
        only_with: None,
        rank: "OMPI_COMM_WORLD_RANK",
        sizes: &["OMPI_COMM_WORLD_SIZE"],
        local_ranks: &["OMPI_COMM_WORLD_LOCAL_RANK"],
    },
    Launcher {
        only_with: None,
        rank: "MV2_COMM_WORLD_RANK",
        sizes: &["MV2_COMM_WORLD_SIZE"],
        local_ranks: &["MV2_COMM_WORLD_LOCAL_RANK"],
    },
    Launcher {
        only_with: None,
        rank: "PMIX_RANK",
        sizes: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_ranks: &["PMIX_LOCAL_RANK", "SLURM_LOCALID"],
    },
    Launcher {
        only_with: None,
        rank: "PMI_RANK",
        sizes: &["PMI_SIZE"],
        local_ranks: &["MPI_LOCALRANKID", "SLURM_LOCALID"],
    },
    Launcher {
        only_with: None,
        rank: "FLUX_TASK_RANK",
        sizes: &["FLUX_JOB_SIZE"],
        local_ranks: &["FLUX_TASK_LOCAL_ID"],
    },
    Launcher {
        only_with: None,
        rank: "SLURM_PROCID",
        sizes: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
        local_ranks: &["SLURM_LOCALID"],
    },
    Launcher {
        only_with: Some("WORLD_SIZE"),
        rank: "RANK",
        sizes: &["WORLD_SIZE"],
        local_ranks: &["LOCAL_RANK"],
    },
];

/// The rank that the environment tells, if it tells any.
#[must_use]
pub fn rank_from_env(lookup: impl Fn(&str) -> Option<String>) -> Option<Rank> {
    let number = |name: &str| lookup(name)?.trim().parse::<u32>().ok();
    LAUNCHERS.iter().find_map(|launcher| {
        if let Some(companion) = launcher.only_with {
            lookup(companion)?;
        }
        Some(Rank {
            rank: number(launcher.rank)?,
            source: launcher.rank,
            size: launcher.sizes.iter().find_map(|name| number(name)),
            local_rank: launcher.local_ranks.iter().find_map(|name| number(name)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_launchers_win() {
        // variables => rank, source, size, local rank
        type Case = (
            &'static str,
            Option<(u32, &'static str, Option<u32>, Option<u32>)>,
        );
        let cases: &[Case] = &[
            ("", None),
            ("RANK=3", None),
            ("RANK=3 WORLD_SIZE=4", Some((3, "RANK", Some(4), None))),
            (
                "SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_LOCALID=1",
                Some((2, "SLURM_PROCID", Some(4), Some(1))),
            ),
            (
                "SLURM_PROCID=0 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 PMIX_RANK=5",
                Some((5, "OMPI_COMM_WORLD_RANK", Some(8), None)),
            ),
            (
                "SLURM_PROCID=0 TORCHELASTIC_RUN_ID=x RANK=7 WORLD_SIZE=8 LOCAL_RANK=3",
                Some((7, "RANK", Some(8), Some(3))),
            ),
            (
                "SLURM_PROCID=0 RANK=7 WORLD_SIZE=8",
                Some((0, "SLURM_PROCID", None, None)),
            ),
            (
                "PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 MPI_LOCALRANKID=0",
                Some((1, "PMI_RANK", Some(2), Some(0))),
            ),
            (
                "PMIX_RANK=1 PMI_RANK=9 SLURM_NTASKS=2",
                Some((1, "PMIX_RANK", Some(2), None)),
            ),
            (
                "FLUX_TASK_RANK=4 FLUX_JOB_SIZE=6 FLUX_TASK_LOCAL_ID=0 SLURM_PROCID=1",
                Some((4, "FLUX_TASK_RANK", Some(6), Some(0))),
            ),
            (
                "OMPI_COMM_WORLD_RANK=x SLURM_PROCID=1",
                Some((1, "SLURM_PROCID", None, None)),
            ),
        ];
        for (variables, expected) in cases {
            let lookup = |name: &str| {
                variables
                    .split_whitespace()
                    .filter_map(|pair| pair.split_once('='))
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.to_owned())
            };
            let found = rank_from_env(lookup)
                .map(|rank| (rank.rank, rank.source, rank.size, rank.local_rank));
            assert_eq!(found, *expected, "{variables}");
        }
    }
}
