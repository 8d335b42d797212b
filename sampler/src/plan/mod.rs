//! What a run is to do, from what the user asked for.

mod openmp;
mod thread_events;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use rsys_config::gpu_metrics;
use rsys_config::keys::{KeyValues, expand};
use rsys_config::{
    Closing, ContextSwitches, Environment, Follow, ProfileForms, Python, Resolved, SamplingClock,
    SymbolCache, Unwinder,
};
use rsys_machine::roots::Roots;
use rsys_proto::Compression;
use rsys_wire::handshake::{
    AgentSettings, ClockChoice, FollowChoice, GpuLevel, GpuSource, MAX_DEPTH, PythonChoice,
    UnwinderChoice,
};
use rsys_wire::name_list::NameList;
use rsys_wire::sources::{Category, EventChoice, SOURCES, Source};

use crate::dump;
use crate::gpu_counters;
use crate::jobs::place::Place;
use crate::monitors;
use crate::os;
use crate::procfs;
use crate::python::PythonView;
use crate::resolve::{CacheLocation, ResolverOptions};
use crate::run::layout::Layout;
use crate::run::{RunContext, SwitchRecords, ThreadChoice, boot_and_host};
use crate::windows::Windows;

/// The folder of a run when the time cannot be written as the user asked.
const TIME_FORMAT: &str = "%F_%H.%M.%S";

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// Variables that the target gets beside its environment.
    pub exports: Vec<(OsString, OsString)>,
    /// The settings of the agent.
    pub agent: AgentSettings,
    /// What all traces have in common.
    pub run: RunContext,
    /// What cannot be counted, a line each.
    pub complaints: Vec<String>,
    /// How names are found.
    pub resolver: ResolverOptions,
    /// What is read of processes and host, if anything is.
    pub monitors: Option<monitors::Choice>,
    /// Which sensors of GPUs are read, if any are.
    pub gpus: Option<monitors::GpuChoice>,
    /// Whether programs that use GPUs while nothing of that is recorded are worth a line: the user
    /// has not said that it is to be off.
    pub hints_at_gpus: bool,
    /// The same of MPI, whose calls are recorded where the user asks for them.
    pub hints_at_mpi: bool,
    /// Whether what is recorded is kept: not where it goes to `/dev/null`.
    pub is_kept: bool,
    /// Whether the run has a folder of its own among those of other runs, and shares it with no other task of a job.
    pub has_own_folder: bool,
    /// Whether it shares a folder among those of other runs with the other tasks of its step.
    pub has_folder_of_step: bool,
    /// Whether the traces of all processes are put into one at the end.
    pub merge: bool,
    /// What is said when the run has ended.
    pub closing: Closing,
    /// How long to wait for processes that outlive the command.
    pub linger: Duration,
    /// After this time a process that runs already is left alone again: when its windows are over.
    pub leave_after: Option<Duration>,
    /// Where this run stands in a parallel job.
    pub place: Place,
    /// How many tasks of the job are profiled, at least; `None` if this is not one of several.
    pub tasks: Option<usize>,
}

/// At least so many tasks of the job that this run is one of are profiled.
fn tasks(resolved: &Resolved, place: &Place) -> Option<usize> {
    let rank = place.rank.as_ref()?;
    let size = rank.size.filter(|size| *size > 1)?;
    // Which ranks stand on which node is not known here.
    let are_all =
        resolved.ranks.is_all() && resolved.local_ranks.is_all() && resolved.nodes.is_empty();
    Some(if are_all { size as usize } else { 1 })
}

impl Plan {
    /// The plan for settings and a command.
    #[must_use]
    pub fn new(
        resolved: &Resolved,
        command: Vec<OsString>,
        exports: Vec<(OsString, OsString)>,
        place: Place,
    ) -> Self {
        let start_ns = os::boot_time_ns();
        let counting = thread_events::find(resolved);
        let mut kernel_complaints = Vec::new();
        let roots = Roots::of_this_process();
        let kernels = gpu_counters::kernels::plan(resolved, &roots, &mut kernel_complaints);
        let openmp = openmp::choose(resolved, first_word(&command));
        let (boot_id, host) = boot_and_host();
        let keys = key_values(&command, &host);
        let chosen = agent_settings(resolved);
        let counts_kernels = kernels.sets.words().next().is_some();
        let mut events = chosen.events;
        events.gpu |= counts_kernels;
        let mut directory = PathBuf::from(expand(&resolved.output_path, &keys));
        let is_kept = !os::is_null_device(&directory);
        let has_folder = resolved.time_output && is_kept;
        let of_step = has_folder.then(|| place.folder()).flatten();
        let has_folder_of_step = of_step.is_some();
        if has_folder {
            let time =
                || os::local_time(&resolved.time_format).or_else(|| os::local_time(TIME_FORMAT));
            directory.push(of_step.or_else(time).unwrap_or_default());
        }
        // The target may go elsewhere; our files do not.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let closing = resolved.closing;
        let is_recorded = place.rank.is_some() || place.step.is_some();
        let run = RunContext {
            layout: Layout {
                directory,
                prefix: resolved.output_prefix.clone(),
                file_name: resolved.perfetto_file.clone(),
                // Ranks would take the same name, and number each other by chance.
                name_processes: if resolved.output_is_file {
                    place.rank.is_some()
                } else {
                    resolved.use_pid
                },
            },
            keys,
            trace: resolved.trace && is_kept,
            compression: if resolved.compress_trace && resolved.trace && is_kept {
                Compression::Zlib
            } else {
                Compression::None
            },
            split: resolved.split_trace,
            category_names: resolved.category_names,
            flows: resolved.flows,
            frequency_hz: resolved.sampling_freq_hz,
            realtime_hz: resolved
                .sampling_realtime
                .then_some(resolved.sampling_realtime_freq_hz),
            counted: counting.names,
            kernel_counters: kernels.counters,
            overflow: counting.overflow_named,
            switches: switches(resolved, events.gpu),
            shortest_off_cpu_ns: u64::try_from(resolved.off_cpu_shortest.as_nanos())
                .unwrap_or(u64::MAX),
            unwinder: resolved.unwinder.as_str().to_owned(),
            openmp_runtime: openmp.runtime,
            backends: resolved.backends.in_use(),
            python: python_view(resolved),
            start_ns,
            attached_at: None,
            digest: closing == Closing::Full && resolved.verbose >= 0 || is_recorded && is_kept,
            profile: resolved
                .profile
                .filter(|forms| is_kept || forms.console)
                .map(|forms| ProfileForms {
                    text: forms.text && is_kept,
                    json: forms.json && is_kept,
                    ..forms
                }),
            windows: Windows::new(resolved, start_ns),
            threads: ThreadChoice {
                samples: resolved.sampling_tids.clone(),
                waits: resolved.realtime_tids.clone(),
            },
            min_samples: resolved.min_samples,
            ranks: resolved.ranks.clone(),
            local_ranks: resolved.local_ranks.clone(),
            boot_id,
            host,
            verbosity: resolved.verbose,
        };
        // Two that count at once set the same registers: of the tasks on a machine, the first one counts.
        let is_first = place
            .rank
            .as_ref()
            .is_none_or(|rank| rank.local_rank.unwrap_or(0) == 0);
        let gpu_events = if is_first { &resolved.gpu_events } else { "" };
        let reads_gpus = resolved.gpu_sensors || !gpu_events.is_empty();
        let gpus = reads_gpus.then(|| gpu_choice(resolved, gpu_events, &exports));
        Self {
            command,
            exports,
            agent: AgentSettings {
                counters: counting.events,
                overflow: counting.overflow,
                boot_offset_ns: os::boot_offset_ns(),
                late_unless_child_of: if may_begin_late(resolved) {
                    std::process::id()
                } else {
                    0
                },
                kernel_counters: kernels.sets,
                counted_kernels: kernels.kernels,
                counted_every: resolved.gpu_counters_every,
                gpu_source: match chosen.gpu_source {
                    // HIP's own records have no counters, and its queues are left alone.
                    GpuSource::Auto | GpuSource::HipProfiler if counts_kernels => GpuSource::Hsa,
                    source => source,
                },
                events,
                ..chosen
            },
            run,
            complaints: [counting.complaints, kernel_complaints, openmp.complaints].concat(),
            resolver: resolver_options(resolved),
            monitors: resolved.process_sampling.then(|| monitors::Choice {
                frequency_hz: resolved.process_sampling_freq_hz,
                frugal: !resolved.process_sampling_freq_chosen,
                host: resolved.host_sampling,
                processors: resolved.sampling_cpus.clone(),
            }),
            gpus,
            has_own_folder: has_folder && !is_recorded,
            has_folder_of_step,
            tasks: tasks(resolved, &place),
            merge: resolved.merge && resolved.trace && is_kept,
            is_kept,
            closing,
            hints_at_gpus: !resolved.backends.is_refused("roctracer"),
            hints_at_mpi: !resolved.backends.is_refused("mpip")
                && !resolved.backends.is_on("mpip", false),
            linger: resolved.linger,
            leave_after: leave_after(resolved),
            place,
        }
    }
}

fn first_word(command: &[OsString]) -> &OsStr {
    command.first().map_or(OsStr::new(""), OsString::as_os_str)
}

/// When the windows of samples and of events are over.
fn leave_after(resolved: &Resolved) -> Option<Duration> {
    let ends = [&resolved.sampling_window, &resolved.trace_window].map(|window| {
        let duration = window.duration?;
        Some(window.delay + duration)
    });
    let [Some(samples), Some(events)] = ends else {
        return None;
    };
    Some(samples.max(events))
}

fn gpu_choice(
    resolved: &Resolved,
    events: &str,
    exports: &[(OsString, OsString)],
) -> monitors::GpuChoice {
    let variable = |name: &str| {
        let exported = exports.iter().find(|(key, _)| *key == *name);
        exported
            .and_then(|(_, value)| value.to_str().map(str::to_owned))
            .or_else(|| std::env::var(name).ok())
    };
    monitors::GpuChoice {
        gpus: resolved.sampling_gpus.clone(),
        metrics: match resolved.gpu_sensors {
            true => resolved.gpu_metrics.clone(),
            false => gpu_metrics::NONE.to_owned(),
        },
        events: events.to_owned(),
        definitions: resolved.counter_definitions.clone(),
        wanted: resolved.gpu_sensors_wanted || !events.is_empty(),
        library: resolved.smi_library.clone(),
        quiet: resolved.verbose < 0,
        visible: [
            variable("ROCR_VISIBLE_DEVICES"),
            // As HIP has it.
            variable("HIP_VISIBLE_DEVICES").or_else(|| variable("CUDA_VISIBLE_DEVICES")),
        ],
    }
}

fn agent_settings(resolved: &Resolved) -> AgentSettings {
    AgentSettings {
        frequency_hz: resolved.sampling_freq_hz,
        clock: match resolved.sampling_clock {
            SamplingClock::Auto => ClockChoice::Auto,
            SamplingClock::Timer => ClockChoice::Timer,
            SamplingClock::Perf => ClockChoice::Perf,
        },
        unwinder: match resolved.unwinder {
            Unwinder::Cfi => UnwinderChoice::Cfi,
            Unwinder::Framehop => UnwinderChoice::Framehop,
            Unwinder::FramePointers => UnwinderChoice::FramePointer,
        },
        follow: match resolved.follow {
            Follow::All => FollowChoice::All,
            Follow::Exec => FollowChoice::Exec,
            Follow::None => FollowChoice::None,
        },
        python: match resolved.python {
            Python::On => PythonChoice::On,
            Python::Off => PythonChoice::Off,
            Python::Only => PythonChoice::Only,
        },
        events: events(resolved),
        gpu_source: match resolved.gpu_source {
            rsys_config::GpuSource::Auto => GpuSource::Auto,
            rsys_config::GpuSource::Hip => GpuSource::Hip,
            rsys_config::GpuSource::HipProfiler => GpuSource::HipProfiler,
            rsys_config::GpuSource::Hsa => GpuSource::Hsa,
            rsys_config::GpuSource::Off => GpuSource::Off,
        },
        gpu_level: match resolved.gpu_level {
            rsys_config::GpuLevel::Lite => GpuLevel::Lite,
            rsys_config::GpuLevel::Standard => GpuLevel::Standard,
            rsys_config::GpuLevel::Full => GpuLevel::Full,
        },
        launch_stacks: resolved.launch_stacks,
        shortest_wait_ns: u64::try_from(resolved.locks_shortest.as_nanos()).unwrap_or(u64::MAX),
        kokkos_name_bytes: resolved.kokkos_name_bytes,
        kokkos_deep_copy: resolved.kokkos_deep_copy,
        torch_shapes: resolved.torch_shapes,
        max_depth: depth_max(resolved),
        ring_words: u32::try_from(resolved.ring_bytes / 8)
            .unwrap_or(u32::MAX / 2)
            .next_power_of_two(),
        mpi_functions: NameList::parse(&resolved.mpi_functions),
        verbose: resolved.verbose >= 3,
        ..AgentSettings::default()
    }
}

/// Whether context switches are recorded: by themselves where somebody asks what threads wait for, or why a GPU does.
fn switches(resolved: &Resolved, records_gpu: bool) -> SwitchRecords {
    let helps = resolved.sampling_realtime || records_gpu;
    match resolved.context_switches {
        _ if resolved.off_cpu => SwitchRecords::Wanted,
        ContextSwitches::Auto if helps => SwitchRecords::WherePermitted,
        ContextSwitches::Auto | ContextSwitches::Off => SwitchRecords::Off,
    }
}

/// Whether processes may defer their start until they have something to record: where one sample
/// makes no trace, and nothing but samples needs a process from its first instruction on.
fn may_begin_late(resolved: &Resolved) -> bool {
    !procfs::is_debugged()
        && resolved.min_samples > 1
        && !resolved.sampling_realtime
        && resolved.cpu_events.is_empty()
        && resolved.overflow.is_none()
        && resolved.unwinder != Unwinder::Framehop
}

/// The backend that is on unless somebody switches it off: what a program says of itself, it says to be recorded.
const REGIONS: &str = "regions";

/// Which events the chosen backends record.
fn events(resolved: &Resolved) -> EventChoice {
    let is_on = |source: &&Source| {
        source
            .backend
            .is_some_and(|name| resolved.backends.is_on(name, name == REGIONS))
    };
    let records_gpu = resolved.gpu_source != rsys_config::GpuSource::Off;
    let mut choice = EventChoice::default();
    for source in SOURCES.iter().filter(is_on) {
        choice = choice.with(source.category);
        choice.gpu |= source.with_gpu && records_gpu;
    }
    // What proxies do belongs to collectives.
    if choice.has(Category::RcclProxy) && !resolved.backends.is_refused("rcclp") {
        choice = choice.with(Category::Rccl);
    }
    choice
}

fn key_values(command: &[OsString], host: &str) -> KeyValues {
    let id = |pid: nix::unistd::Pid| pid.as_raw().unsigned_abs();
    KeyValues {
        pid: std::process::id(),
        parent_pid: id(nix::unistd::getppid()),
        process_group: id(nix::unistd::getpgrp()),
        session: nix::unistd::getsid(None).map_or(0, id),
        host: host.to_owned(),
        launch_time: os::local_time(TIME_FORMAT).unwrap_or_default(),
        command: command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ..KeyValues::of_job(&Environment::of_this_process())
    }
}

/// How the stacks of a process are printed in place of a run.
#[must_use]
pub fn dump_options(resolved: &Resolved, json: bool) -> dump::Options {
    dump::Options {
        json,
        depth_max: depth_max(resolved) as usize,
        python: resolved.python != Python::Off,
        view: python_view(resolved),
        resolver: resolver_options(resolved),
        verbose: resolved.verbose >= 1,
    }
}

fn depth_max(resolved: &Resolved) -> u32 {
    resolved.sampling_max_depth.min(MAX_DEPTH)
}

fn python_view(resolved: &Resolved) -> PythonView {
    PythonView {
        interpreter: resolved.python_native,
        only: resolved.python == Python::Only,
    }
}

fn resolver_options(resolved: &Resolved) -> ResolverOptions {
    ResolverOptions {
        cache: match &resolved.symbol_cache {
            SymbolCache::DefaultFolder => CacheLocation::User,
            SymbolCache::Folder(folder) => CacheLocation::Directory(folder.clone()),
            SymbolCache::Off => CacheLocation::Disabled,
        },
        inlines: resolved.sampling_include_inlines,
        ..ResolverOptions::default()
    }
}
