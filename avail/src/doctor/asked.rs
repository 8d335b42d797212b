//! What the settings ask for, by the options that ask.

use rsys_config::{ContextSwitches, GpuSource, Resolved, SamplingClock, Settings};
use rsys_wire::sources::{Build, EventChoice, SOURCES};

/// What the settings ask for. Each list holds the options that do; empty: none does.
#[derive(Debug, Default)]
pub struct Asked {
    /// Perf events as the clock.
    pub perf_clock: Vec<String>,
    /// Events that threads count.
    pub events: Vec<String>,
    /// An event in place of the clock.
    pub overflow: Vec<String>,
    /// Records of context switches.
    pub switches: Vec<String>,
    /// The same, where they are permitted.
    pub switches_if_permitted: bool,
    /// Waiting threads.
    pub waits: Vec<String>,
    /// Kernels and copies of GPUs.
    pub gpu: Vec<String>,
    /// Sensors of GPUs.
    pub sensors: Vec<String>,
    /// Calls of MPI.
    pub mpi: Vec<String>,
    /// Which build of the agent records all that.
    pub build: Option<Build>,
}

impl Asked {
    /// Reads it out of the settings.
    pub fn of(settings: &Settings, resolved: &Resolved) -> Self {
        let mut choice = EventChoice::default();
        let mut asked = Self::default();
        for source in SOURCES {
            let Some(backend) = source
                .backend
                .filter(|name| resolved.backends.is_on(name, false))
            else {
                continue;
            };
            choice = choice.with(source.category);
            if source.with_gpu && resolved.gpu_source != GpuSource::Off {
                asked.gpu.push(format!("-I {backend}"));
            }
            if backend == "mpip" {
                asked.mpi.push(format!("-I {backend}"));
            }
        }
        asked.build = Some(choice.build());
        let option = |is_on: bool, name: &str| {
            let options = is_on.then(|| name.to_owned());
            options.into_iter().collect::<Vec<String>>()
        };
        asked.perf_clock = option(
            resolved.sampling_clock == SamplingClock::Perf,
            "--clock perf",
        );
        asked.events = option(!resolved.cpu_events.is_empty(), "-C");
        asked.overflow = option(resolved.overflow.is_some(), "--overflow");
        asked.switches = option(resolved.off_cpu, "--off-cpu");
        asked.switches_if_permitted = resolved.context_switches == ContextSwitches::Auto
            && (resolved.sampling_realtime || !asked.gpu.is_empty());
        let says_realtime = settings
            .get("SAMPLING_REALTIME")
            .is_some_and(|value| value.to_string() == "true");
        asked.waits = option(says_realtime, "--realtime");
        asked.waits.extend(asked.switches.iter().cloned());
        asked.sensors = option(
            resolved.gpu_sensors && resolved.gpu_sensors_wanted,
            "-I rocm-smi",
        );
        asked
    }
}
