//! The rank of a process in a parallel job, from the environment that its launcher set.
//!
//! Every launcher sets it before the program's first instruction, so nothing has to wait for `MPI_Init`, and programs that never
//! call it have ranks as well.

/// The place of a process in a parallel job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// The rank.
    pub rank: u32,
    /// The variable that it was read from.
    pub source: &'static str,
    /// How many ranks there are.
    pub size: Option<u32>,
    /// The rank among those on the same node.
    pub local_rank: Option<u32>,
    /// How many ranks there are on the same node.
    pub local_size: Option<u32>,
    /// The number of the node in the job.
    pub node: Option<u32>,
    /// How often the ranks were started anew by their launcher.
    pub restart: u32,
}

/// One launcher's variables.
struct Launcher {
    /// Counts only when this variable is set too.
    only_with: Option<&'static str>,
    rank: &'static str,
    sizes: &'static [&'static str],
    local_ranks: &'static [&'static str],
    local_sizes: &'static [&'static str],
    nodes: &'static [&'static str],
}

impl Launcher {
    const fn new(
        rank: &'static str,
        sizes: &'static [&'static str],
        local_ranks: &'static [&'static str],
        local_sizes: &'static [&'static str],
    ) -> Self {
        Self {
            only_with: None,
            rank,
            sizes,
            local_ranks,
            local_sizes,
            nodes: &["SLURM_NODEID"],
        }
    }
}

/// Strongest first. An inner launcher's variables stand before those of what it may run in: under `salloc mpirun` every rank has
/// `SLURM_PROCID=0`, and torchrun runs inside any of them.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        only_with: Some("TORCHELASTIC_RUN_ID"),
        nodes: &["GROUP_RANK"],
        ..TORCH
    },
    Launcher::new(
        "OMPI_COMM_WORLD_RANK",
        &["OMPI_COMM_WORLD_SIZE"],
        &["OMPI_COMM_WORLD_LOCAL_RANK"],
        &["OMPI_COMM_WORLD_LOCAL_SIZE"],
    ),
    Launcher::new(
        "MV2_COMM_WORLD_RANK",
        &["MV2_COMM_WORLD_SIZE"],
        &["MV2_COMM_WORLD_LOCAL_RANK"],
        &["MV2_COMM_WORLD_LOCAL_SIZE"],
    ),
    Launcher::new(
        "PMIX_RANK",
        &["JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        &[
            "PMIX_LOCAL_RANK",
            "JSM_NAMESPACE_LOCAL_RANK",
            "SLURM_LOCALID",
        ],
        &["JSM_NAMESPACE_LOCAL_SIZE"],
    ),
    Launcher::new(
        "PMI_RANK",
        &["PMI_SIZE"],
        &["MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"],
        &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
    ),
    Launcher::new(
        "FLUX_TASK_RANK",
        &["FLUX_JOB_SIZE"],
        &["FLUX_TASK_LOCAL_ID"],
        &[],
    ),
    Launcher::new(
        "SLURM_PROCID",
        &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
        &["SLURM_LOCALID"],
        &[],
    ),
    Launcher {
        only_with: Some("WORLD_SIZE"),
        ..TORCH
    },
];

const TORCH: Launcher = Launcher::new(
    "RANK",
    &["WORLD_SIZE"],
    &["LOCAL_RANK"],
    &["LOCAL_WORLD_SIZE"],
);

/// Whether this is the environment of a batch script: it has a rank like the first task of a step, and is none.
#[must_use]
pub fn is_batch_script(lookup: impl Fn(&str) -> Option<String>) -> bool {
    let step = ["SLURM_STEP_ID", "SLURM_STEPID"];
    lookup("SLURM_JOB_ID").is_some()
        && lookup("SLURM_PROCID").is_some_and(|rank| rank == "0")
        && step.iter().all(|name| lookup(name).is_none())
}

/// The rank from the environment, if there is one.
#[must_use]
pub fn rank_from_env(lookup: impl Fn(&str) -> Option<String>) -> Option<Rank> {
    let number = |name: &str| lookup(name)?.trim().parse::<u32>().ok();
    let first = |names: &[&str]| names.iter().find_map(|name| number(name));
    LAUNCHERS.iter().find_map(|launcher| {
        if let Some(companion) = launcher.only_with {
            lookup(companion)?;
        }
        if launcher.rank == "SLURM_PROCID" && is_batch_script(&lookup) {
            return None;
        }
        let is_torch = launcher.rank == TORCH.rank;
        Some(Rank {
            rank: number(launcher.rank)?,
            source: launcher.rank,
            size: first(launcher.sizes),
            local_rank: first(launcher.local_ranks),
            local_size: first(launcher.local_sizes),
            node: first(launcher.nodes),
            restart: number("TORCHELASTIC_RESTART_COUNT")
                .filter(|_| is_torch)
                .unwrap_or(0),
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
            // A batch script is no task.
            ("SLURM_JOB_ID=7 SLURM_PROCID=0", None),
            (
                "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_STEP_ID=0",
                Some((0, "SLURM_PROCID", None, None)),
            ),
            (
                "SLURM_JOB_ID=7 SLURM_PROCID=0 RANK=1 WORLD_SIZE=2",
                Some((1, "RANK", Some(2), None)),
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
