//! Who a process is, from what its agent said at the hand-shake.

use std::path::PathBuf;

use rsys_config::rank::{Rank, rank_from_env};
use rsys_wire::layout::{InfoTag, info_entries};

/// The kernel's tick when an agent does not report it.
const TICK_NS_DEFAULT: u64 = 4_000_000;

/// A program that runs in a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Process id as the process sees it; the ids of its threads are of the same namespace.
    pub pid: u32,
    /// Process id as we see it, 0 when we do not.
    pub host_pid: u32,
    /// Distinguishes the programs that run in one process after another.
    pub instance: u64,
    /// The instance that it was forked from.
    pub parent_instance: Option<u64>,
    /// Id of the parent process.
    pub parent_pid: Option<u32>,
    /// Path of the program.
    pub executable: String,
    /// Its arguments.
    pub command_line: Vec<String>,
    /// Variables of its environment that name a rank or a job.
    pub environment: Vec<(String, String)>,
    /// BOOTTIME at which the agent started.
    pub start_time_ns: u64,
    /// Which clock the samples follow.
    pub clock: String,
    /// Length of the kernel's tick.
    pub tick_ns: u64,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The place in a parallel job.
    pub rank: Option<Rank>,
    /// Whether it is the process of the command itself, rather than a child.
    pub is_command: bool,
    /// Its root directory as we see it, if it is not ours.
    pub root: Option<PathBuf>,
    /// The folder that it was in when it announced itself.
    pub folder: Option<PathBuf>,
}

impl Identity {
    /// Reads what the agent wrote.
    #[must_use]
    pub fn read(pid: u32, host_pid: u32, instance: u64, info: &[u8]) -> Self {
        let mut identity = Identity {
            pid,
            host_pid,
            instance,
            tick_ns: TICK_NS_DEFAULT,
            ..Identity::default()
        };
        for (tag, value) in info_entries(info) {
            let text = || String::from_utf8_lossy(value).into_owned();
            let number = || std::str::from_utf8(value).ok()?.trim().parse::<u64>().ok();
            match tag {
                tag if tag == InfoTag::Executable as u32 => identity.executable = text(),
                tag if tag == InfoTag::CommandLine as u32 => {
                    let value = value.strip_suffix(&[0]).unwrap_or(value);
                    identity.command_line = value
                        .split(|&byte| byte == 0)
                        .map(|word| String::from_utf8_lossy(word).into_owned())
                        .collect();
                }
                tag if tag == InfoTag::Environment as u32 => {
                    if let Some((name, value)) = text().split_once('=') {
                        identity
                            .environment
                            .push((name.to_owned(), value.to_owned()));
                    }
                }
                tag if tag == InfoTag::ParentPid as u32 => {
                    identity.parent_pid = number().and_then(|number| u32::try_from(number).ok());
                }
                tag if tag == InfoTag::StartTime as u32 => {
                    identity.start_time_ns = number().unwrap_or(0)
                }
                tag if tag == InfoTag::Clock as u32 => identity.clock = text(),
                tag if tag == InfoTag::ParentInstance as u32 => identity.parent_instance = number(),
                tag if tag == InfoTag::Note as u32 => identity.notes.push(text()),
                tag if tag == InfoTag::TickNs as u32 => {
                    identity.tick_ns = number()
                        .filter(|tick| *tick <= 1_000_000_000)
                        .unwrap_or(TICK_NS_DEFAULT);
                }
                _ => {}
            }
        }
        identity.rank = rank_from_env(|name| identity.variable(name).map(str::to_owned));
        identity
    }

    /// A variable of the environment, if the agent passed it on.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The program's name.
    #[must_use]
    pub fn name(&self) -> &str {
        let path = match self.executable.as_str() {
            "" => self.command_line.first().map_or("", String::as_str),
            path => path,
        };
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Ids of the job, as `NAME=value`.
    pub fn job_ids(&self) -> impl Iterator<Item = String> {
        const NAMES: [&str; 6] = [
            "SLURM_JOB_ID",
            "SLURM_STEP_ID",
            "PMI_JOBID",
            "PMIX_NAMESPACE",
            "TORCHELASTIC_RUN_ID",
            "FLUX_JOB_ID",
        ];
        NAMES
            .iter()
            .filter_map(|name| Some(format!("{name}={}", self.variable(name)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rsys_wire::layout::{INFO_BYTES, push_info};

    #[test]
    fn what_the_agent_wrote_is_read() {
        let mut buffer = [0; INFO_BYTES];
        let mut length = 0;
        for (tag, value) in [
            (InfoTag::Executable, "/usr/bin/python3.11"),
            (InfoTag::CommandLine, "python3\0train.py\0"),
            (InfoTag::Environment, "SLURM_PROCID=3"),
            (InfoTag::Environment, "SLURM_JOB_ID=99"),
            (InfoTag::Environment, "SLURM_STEP_ID=0"),
            (InfoTag::ParentPid, "17"),
            (InfoTag::StartTime, "123456"),
            (InfoTag::TickNs, "10000000"),
            (InfoTag::Clock, "timer"),
            (InfoTag::Note, "hello"),
            (InfoTag::ParentInstance, "88"),
        ] {
            length = push_info(&mut buffer, length, tag, value.as_bytes());
        }
        let identity = Identity::read(5, 6, 7, &buffer[..length]);
        assert_eq!(identity.name(), "python3.11");
        assert_eq!(identity.command_line, ["python3", "train.py"]);
        assert_eq!(identity.rank.as_ref().map(|rank| rank.rank), Some(3));
        assert_eq!(
            identity.job_ids().collect::<Vec<_>>(),
            ["SLURM_JOB_ID=99", "SLURM_STEP_ID=0"]
        );
        assert_eq!(
            (
                identity.parent_pid,
                identity.start_time_ns,
                identity.tick_ns
            ),
            (Some(17), 123_456, 10_000_000)
        );
        assert_eq!(
            (identity.clock.as_str(), identity.parent_instance),
            ("timer", Some(88))
        );
        assert_eq!(identity.notes, ["hello"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(info in proptest::collection::vec(any::<u8>(), 0..300)) {
            std::hint::black_box(Identity::read(1, 1, 1, &info));
        }
    }
}
