//! The step of a batch job that a process belongs to, from the environment.
//!
//! All tasks of a step find the same name for it without asking each other: their traces go to one folder.

use crate::rank::{Rank, is_batch_script};

/// A step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStep {
    /// Id of the job, where a scheduler runs it: `1234`, or `1200_3` for an element of an array.
    pub job: Option<String>,
    /// Which step.
    pub step: Step,
    /// How often the job was started anew.
    pub restart: u32,
}

/// A step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its name, the same in all its tasks.
    Named(String),
    /// Nothing names it: it is known by the process that started the tasks. The word says what kind of launcher that was.
    Launcher(&'static str),
}

/// Numbers of Slurm's steps that have names.
const SLURM_STEPS: [(&str, &str); 3] = [
    ("4294967290", "interactive"),
    ("4294967291", "batch"),
    ("4294967292", "extern"),
];

impl JobStep {
    /// The step, if the environment has one; `rank` is the rank that it gives.
    #[must_use]
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>, rank: Option<&Rank>) -> Option<Self> {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| lookup(name));
            values.find(|value| !value.is_empty())
        };
        let restart = first(&["SLURM_RESTART_COUNT"]).and_then(|count| count.parse().ok());
        let job = job_id(&lookup);
        let is_slurm = lookup("SLURM_JOB_ID").is_some();
        // Under mpirun, tasks of one start may lie in several of Slurm's steps, and in none.
        let by_mpirun = rank.is_some_and(|rank| rank.source == "OMPI_COMM_WORLD_RANK");
        let slurm_step = first(&["SLURM_STEP_ID", "SLURM_STEPID"])
            .filter(|_| is_slurm && !by_mpirun)
            .map(slurm_step);
        let step = if let Some(step) = slurm_step {
            Step::Named(step)
        } else if let Some(rank) = rank {
            let run = || first(&["TORCHELASTIC_RUN_ID"]).filter(|run| run != "none");
            match rank.source {
                "FLUX_TASK_RANK" => Step::Named("0".to_owned()),
                "RANK" => run().map_or(Step::Launcher("torch"), |run| {
                    Step::Named(format!("torch-{run}"))
                }),
                _ => first(&["PMIX_NAMESPACE"]).map_or(Step::Launcher("mpi"), |namespace| {
                    Step::Named(format!("mpi-{namespace}"))
                }),
            }
        } else if is_batch_script(&lookup) {
            Step::Named("batch".to_owned())
        } else {
            return None;
        };
        Some(Self {
            job,
            step,
            restart: restart.unwrap_or(0),
        })
    }

    /// Name of the folder for its traces; `launcher` names the process that started the tasks.
    #[must_use]
    pub fn folder(&self, launcher: &str) -> String {
        let step = match &self.step {
            Step::Named(name) => name.clone(),
            Step::Launcher(kind) => format!("{kind}-{launcher}"),
        };
        let mut folder = match &self.job {
            Some(job) => format!("{job}.{step}"),
            None => step,
        };
        if self.restart > 0 {
            folder.push_str(&format!(".r{}", self.restart));
        }
        plain(&folder)
    }
}

/// Id of the batch job.
#[must_use]
pub fn job_id(lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
    if let (Some(job), Some(task)) = (get("SLURM_ARRAY_JOB_ID"), get("SLURM_ARRAY_TASK_ID")) {
        return Some(format!("{job}_{task}"));
    }
    // The parts of a heterogeneous job have ids of their own, and one step may span them.
    [
        "SLURM_HET_JOB_ID",
        "SLURM_JOB_ID_HET_GROUP_0",
        "SLURM_JOB_ID",
        "FLUX_JOB_ID",
        "PBS_JOBID",
        "LSB_JOBID",
    ]
    .iter()
    .find_map(|name| get(name))
}

fn slurm_step(step: String) -> String {
    let named = SLURM_STEPS.iter().find(|(number, _)| *number == step);
    named.map_or(step, |(_, name)| (*name).to_owned())
}

/// What can stand in a file name anywhere.
fn plain(text: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-+".contains(letter);
    text.chars()
        .map(|letter| if allowed(letter) { letter } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::rank_from_env;

    #[test]
    fn steps_have_one_name_each() {
        // variables => folder
        for (variables, expected) in [
            ("", None),
            ("SLURM_JOB_ID=7", None),
            ("SLURM_JOB_ID=7 SLURM_PROCID=0", Some("7.batch")),
            ("SLURM_JOB_ID=7 SLURM_STEP_ID=2 SLURM_PROCID=1", Some("7.2")),
            (
                "SLURM_JOB_ID=7 SLURM_STEPID=2 SLURM_PROCID=1 SLURM_RESTART_COUNT=3",
                Some("7.2.r3"),
            ),
            (
                "SLURM_JOB_ID=9 SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=4 SLURM_STEP_ID=0 SLURM_PROCID=0",
                Some("7_4.0"),
            ),
            (
                "SLURM_JOB_ID=8 SLURM_HET_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=3",
                Some("7.0"),
            ),
            (
                "SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290 SLURM_PROCID=0",
                Some("7.interactive"),
            ),
            // mpirun in an allocation: its daemons on other nodes are a step, those on this node are not.
            (
                "SLURM_JOB_ID=7 SLURM_STEP_ID=0 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1 PMIX_NAMESPACE=123",
                Some("7.mpi-123"),
            ),
            (
                "SLURM_JOB_ID=7 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0 PMIX_NAMESPACE=123",
                Some("7.mpi-123"),
            ),
            // srun that speaks PMIx.
            (
                "SLURM_JOB_ID=7 SLURM_STEP_ID=0 PMIX_RANK=0 PMIX_NAMESPACE=slurm.pmix.7.0",
                Some("7.0"),
            ),
            ("PMI_RANK=0 PMI_SIZE=2", Some("mpi-L")),
            ("SLURM_JOB_ID=7 PMI_RANK=0 PMI_SIZE=2", Some("7.mpi-L")),
            (
                "TORCHELASTIC_RUN_ID=none RANK=1 WORLD_SIZE=2",
                Some("torch-L"),
            ),
            (
                "TORCHELASTIC_RUN_ID=a/b RANK=1 WORLD_SIZE=2",
                Some("torch-a_b"),
            ),
            (
                "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=0 TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2",
                Some("7.1"),
            ),
            ("FLUX_TASK_RANK=0 FLUX_JOB_ID=f12", Some("f12.0")),
            (
                "PBS_JOBID=12.server OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=prterun-a-1@1",
                Some("12.server.mpi-prterun-a-1_1"),
            ),
        ] {
            let lookup = |name: &str| {
                variables
                    .split_whitespace()
                    .filter_map(|pair| pair.split_once('='))
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.to_owned())
            };
            let rank = rank_from_env(lookup);
            let folder = JobStep::from_env(lookup, rank.as_ref()).map(|step| step.folder("L"));
            assert_eq!(folder.as_deref(), expected, "{variables}");
        }
    }
}
