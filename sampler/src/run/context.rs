//! What all traces of a run have in common.

use std::path::PathBuf;

use rsys_config::keys::{KeyValues, expand};
use rsys_config::rank::Rank;
use rsys_config::{CategoryNames, FileLimits, Flows, Numbers, ProfileForms};
use rsys_proto::Compression;

use super::file_names::Claimant;
use super::layout::{Layout, summary_files};
use crate::identity::Identity;
use crate::kernel_counters::KernelCounters;
use crate::python::PythonView;
use crate::windows::Windows;

/// What all traces of a run have in common.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Where the traces go.
    pub layout: Layout,
    /// What the keys in their names stand for, as far as all have it in common.
    pub keys: KeyValues,
    /// Whether they are written at all, and not only summaries.
    pub trace: bool,
    /// How they are written.
    pub compression: Compression,
    /// When a trace goes on in another file.
    pub split: FileLimits,
    /// How the categories of slices are called.
    pub category_names: CategoryNames,
    /// How calls and what they caused refer to each other.
    pub flows: Flows,
    /// Samples per second of CPU time.
    pub frequency_hz: f64,
    /// Looks at blocked threads per second, if there are any.
    pub realtime_hz: Option<f64>,
    /// The events that each thread counts, in the order of their values.
    pub counted: Vec<String>,
    /// What is counted of kernels.
    pub kernel_counters: KernelCounters,
    /// By which event samples are taken, if not by CPU time.
    pub overflow: Option<Overflow>,
    /// Whether context switches are recorded.
    pub switches: SwitchRecords,
    /// Shorter times off the processor are counted, but not drawn.
    pub shortest_off_cpu_ns: u64,
    /// Which unwinder was asked for.
    pub unwinder: String,
    /// The runtime of OpenMP that is loaded in place of libgomp, if one is.
    pub openmp_runtime: Option<PathBuf>,
    /// What is recorded beside samples: the backends in use.
    pub backends: Vec<&'static str>,
    /// What is shown of Python.
    pub python: PythonView,
    /// BOOTTIME of the start of the run.
    pub start_ns: u64,
    /// The local time at which a process was attached to that ran already, if the run is of one.
    pub attached_at: Option<String>,
    /// Whether what the closing table says is gathered.
    pub digest: bool,
    /// In which forms summaries are written, if at all.
    pub profile: Option<ProfileForms>,
    /// When what happens is kept.
    pub windows: Windows,
    /// Which threads are kept.
    pub threads: ThreadChoice,
    /// A process with fewer samples, and nothing else to show, leaves no file.
    pub min_samples: u64,
    /// Processes of other ranks leave no file.
    pub ranks: Numbers,
    /// Processes of other ranks of this node leave no file.
    pub local_ranks: Numbers,
    /// Id of this boot of the machine.
    pub boot_id: String,
    /// Name of the machine.
    pub host: String,
    /// How much is said.
    pub verbosity: i8,
}

/// Whether the kernel's records of context switches are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchRecords {
    /// No.
    Off,
    /// Where they are permitted and cheap: waits are as long as they were.
    WherePermitted,
    /// The user asks for them: they are drawn.
    Wanted,
}

/// An event by which samples are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overflow {
    /// Its name.
    pub event: String,
    /// How often it happens between two samples.
    pub period: u64,
}

#[cfg(test)]
impl RunContext {
    /// A run that keeps everything, for tests.
    pub fn everything() -> Self {
        use crate::windows::Schedule;
        Self {
            layout: Layout {
                directory: "/nowhere".into(),
                prefix: String::new(),
                file_name: "trace".to_owned(),
                name_processes: true,
            },
            keys: KeyValues::default(),
            trace: true,
            compression: Compression::None,
            split: FileLimits::default(),
            category_names: CategoryNames::Rsys,
            flows: Flows::Arrows,
            frequency_hz: 100.0,
            realtime_hz: None,
            counted: Vec::new(),
            kernel_counters: KernelCounters::default(),
            overflow: None,
            switches: SwitchRecords::Off,
            shortest_off_cpu_ns: 0,
            unwinder: String::new(),
            openmp_runtime: None,
            backends: Vec::new(),
            python: PythonView::default(),
            start_ns: 0,
            attached_at: None,
            digest: true,
            profile: None,
            windows: Windows {
                samples: Schedule::ALWAYS,
                waits: Schedule::ALWAYS,
                events: Schedule::ALWAYS,
                monitors: Schedule::ALWAYS,
                by_cpu_time: false,
            },
            threads: ThreadChoice::default(),
            min_samples: 1,
            ranks: Numbers::All,
            local_ranks: Numbers::All,
            boot_id: String::new(),
            host: String::new(),
            verbosity: -1,
        }
    }
}

impl RunContext {
    /// Whether times off the processor are drawn in which a thread was blocked. With --realtime, waits have tracks of their own.
    #[must_use]
    pub fn draws_blocked(&self) -> bool {
        self.switches == SwitchRecords::Wanted || self.realtime_hz.is_none()
    }

    /// What one period of a sample's weight stands for: nanoseconds of CPU time, or events.
    #[must_use]
    pub fn weight_unit(&self) -> u64 {
        self.overflow
            .as_ref()
            .map_or(self.period_ns(), |overflow| overflow.period)
    }

    /// CPU time between two samples of a thread.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        (1e9 / self.frequency_hz).round().clamp(1.0, 1e18) as u64
    }

    /// Where the trace of one process goes: the keys in its name are its own.
    #[must_use]
    pub fn layout_of(&self, identity: &Identity) -> Layout {
        let has_keys = |text: &str| text.contains(['%', '$']);
        if !has_keys(&self.layout.prefix) && !has_keys(&self.layout.file_name) {
            return self.layout.clone();
        }
        let mut keys = self.keys.clone();
        keys.pid = identity.pid;
        keys.parent_pid = identity.parent_pid.unwrap_or(keys.parent_pid);
        if let Some(rank) = &identity.rank {
            keys.rank = Some(rank.rank);
            keys.size = rank.size.or(keys.size);
        }
        Layout {
            prefix: expand(&self.layout.prefix, &keys),
            file_name: expand(&self.layout.file_name, &keys),
            ..self.layout.clone()
        }
    }

    /// Where all files of one process go, its trace first.
    #[must_use]
    pub fn files_of(&self, identity: &Identity) -> Vec<Layout> {
        let trace = self.layout_of(identity);
        let summaries = self.profile.map_or_else(Vec::new, summary_files);
        let summaries: Vec<Layout> = summaries.iter().map(|name| trace.of_file(name)).collect();
        self.trace
            .then_some(trace)
            .into_iter()
            .chain(summaries)
            .collect()
    }

    /// Who a process is for [`super::file_names::FileNames`].
    #[must_use]
    pub fn claimant<'a>(&'a self, identity: &'a Identity) -> Claimant<'a> {
        Claimant {
            rank: identity.rank.as_ref(),
            host: &self.host,
            pid: identity.pid,
            program: identity.name(),
            is_command: identity.is_command,
        }
    }

    /// Whether processes of this rank are to be profiled.
    #[must_use]
    pub fn selects(&self, rank: Option<&Rank>) -> bool {
        rank.is_none_or(|rank| {
            let local = rank.local_rank;
            self.ranks.contains(rank.rank)
                && local.is_none_or(|local| self.local_ranks.contains(local))
        })
    }
}

/// The threads that are kept, by the order in which they start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadChoice {
    /// For samples of CPU time.
    pub samples: Numbers,
    /// For what blocked threads do.
    pub waits: Numbers,
}

/// The id of this boot, and the name of this machine.
#[must_use]
pub fn boot_and_host() -> (String, String) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    (boot.trim().to_owned(), host.unwrap_or_default())
}
