//! Where this process stands in a parallel job, from its environment.

use std::fs;
use std::path::PathBuf;

use nix::unistd::{SysconfVar, getppid, sysconf};
use rsys_config::job::{JobStep, Step};
use rsys_config::rank::{Rank, rank_from_env};
use rsys_config::{Environment, Resolved};

use crate::os;
use crate::procfs;

/// How the start of a launcher is written in the name of a folder.
const TIME_FORMAT: &str = "%F_%H.%M.%S";

/// The chain of parents is followed so far.
const PARENTS_MAX: usize = 64;

/// Where a process stands in a parallel job.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Its rank, if it has one.
    pub rank: Option<Rank>,
    /// The step of the job, if it belongs to one.
    pub step: Option<JobStep>,
    /// The name that the scheduler has for this node, if it says one.
    pub node_name: Option<String>,
    /// The number of this node in the job.
    pub node: Option<u32>,
}

impl Place {
    /// What the environment says.
    #[must_use]
    pub fn from_env(environment: &Environment) -> Self {
        let lookup = |name: &str| environment.get(name).map(str::to_owned);
        let rank = rank_from_env(lookup);
        Self {
            step: JobStep::from_env(lookup, rank.as_ref()),
            node_name: lookup("SLURMD_NODENAME"),
            node: rank
                .as_ref()
                .and_then(|rank| rank.node)
                .or_else(|| lookup("SLURM_NODEID")?.parse().ok()),
            rank,
        }
    }

    /// Whether the settings ask for a profile of this process. With `starts_ranks` the command
    /// starts ranks of its own, and only the node counts.
    #[must_use]
    pub fn is_selected(&self, resolved: &Resolved, host: &str, starts_ranks: bool) -> bool {
        let names = self.node_name.as_deref().into_iter().chain([host]);
        if !resolved.nodes.has(self.node, names) {
            return false;
        }
        match &self.rank {
            Some(rank) if !starts_ranks => selects(resolved, rank),
            _ => true,
        }
    }

    /// The name of the folder that all tasks of the step share.
    #[must_use]
    pub fn folder(&self) -> Option<String> {
        let step = self.step.as_ref()?;
        let is_one_node = self
            .rank
            .as_ref()
            .is_some_and(|rank| rank.size.is_some() && rank.size == rank.local_size);
        let by_launcher = matches!(step.step, Step::Launcher(_));
        if !by_launcher && (step.job.is_some() || !is_one_node) {
            return Some(step.folder(""));
        }
        let launcher = self.launcher()?;
        if step.job.is_some() {
            return Some(step.folder(&launcher.pid.to_string()));
        }
        // A run on one machine: by its time, as without ranks. All ranks take the time of their
        // launcher's start.
        let time = os::local_time_at(TIME_FORMAT, launcher.start_seconds)?;
        Some(format!("{time}-{}", launcher.pid))
    }

    /// The process that started the ranks: the first of our ancestors that has no rank.
    fn launcher(&self) -> Option<Launcher> {
        let variable = format!("{}=", self.rank.as_ref()?.source);
        let mut pid = u32::try_from(getppid().as_raw()).ok()?;
        for _ in 0..PARENTS_MAX {
            let process = PathBuf::from(format!("/proc/{pid}"));
            let stat = procfs::text(process.join("stat")).ok()?;
            // The fields behind the name, which may hold anything: state, parent, ..., start time.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let has_rank = fs::read(process.join("environ")).is_ok_and(|environment| {
                let mut entries = environment.split(|byte| *byte == 0);
                entries.any(|entry| entry.starts_with(variable.as_bytes()))
            });
            let parent = fields.get(1)?.parse().ok()?;
            if !has_rank || parent == 0 {
                let ticks: i64 = fields.get(19)?.parse().ok()?;
                return Some(Launcher {
                    pid,
                    start_seconds: boot_seconds()? + ticks / ticks_per_second(),
                });
            }
            pid = parent;
        }
        None
    }
}

/// Whether the settings ask for a profile of this rank.
#[must_use]
pub fn selects(resolved: &Resolved, rank: &Rank) -> bool {
    resolved.ranks.contains(rank.rank)
        && rank
            .local_rank
            .is_none_or(|local| resolved.local_ranks.contains(local))
}

/// A process that starts ranks.
struct Launcher {
    pid: u32,
    /// Since 1970.
    start_seconds: i64,
}

/// When the machine booted: a constant, so that all who compute a start time from it find the same.
fn boot_seconds() -> Option<i64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn ticks_per_second() -> i64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks.filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_config::{Origin, Settings};

    #[test]
    fn lists_choose_ranks_and_nodes() {
        let place = Place::from_env(&Environment::from_pairs([
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "9"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_NODEID", "4"),
            ("SLURMD_NODENAME", "n4"),
        ]));
        assert_eq!(place.folder().as_deref(), Some("7.0"));
        for (name, list, expected, expected_above_ranks) in [
            ("RANKS", "", true, true),
            ("RANKS", "0,8-15", true, true),
            ("RANKS", "0-8", false, true),
            ("RANKS", "1:4", true, true),
            ("LOCAL_RANKS", "1", true, true),
            ("LOCAL_RANKS", "0", false, true),
            ("NODES", "4", true, true),
            ("NODES", "3", false, false),
            ("NODES", "n4,n5", true, true),
            ("NODES", "host", true, true),
        ] {
            let mut settings = Settings::defaults();
            let origin = Origin::CommandLine("test".to_owned());
            settings.set(name, list, origin).unwrap();
            let resolved = settings.resolve();
            let selected = |above| place.is_selected(&resolved, "host.domain", above);
            assert_eq!(
                (selected(false), selected(true)),
                (expected, expected_above_ranks),
                "{name} = {list}"
            );
        }
    }

    #[test]
    fn a_run_on_one_machine_is_named_after_its_launcher() {
        // No process of this name has the variable: our parent is the launcher.
        let place = Place::from_env(&Environment::from_pairs([
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALNRANKS", "2"),
        ]));
        let folder = place.folder().unwrap();
        assert!(folder.ends_with(&format!("-{}", getppid())), "{folder}");
        assert_eq!(place.folder(), Some(folder));
    }
}
