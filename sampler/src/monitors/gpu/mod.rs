//! Sensors of the GPUs that are in the [`choice`].

mod choice;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rsys_config::gpu_metrics::{self, METRICS};
use rsys_machine::gpu;
use rsys_machine::gpu::sensors::{self, Source};
use rsys_machine::roots::Roots;

pub use self::choice::Choice;
use self::choice::{Wanted, chosen};
use super::driver::Events;
use super::fdinfo::Address;
use super::kfd::{self, GpuId};
use crate::counters::{Gauge, Group, Reading, Unit};
use crate::gpu_counters;
use crate::smi;
use crate::terminal::say;

/// The word for no library at all.
const NO_LIBRARY: &str = "none";

/// Who reads the sensors that files do not give.
const SMI: smi::Reader = smi::Reader {
    name: smi::reader::NAME,
    library: "the SMI library",
};

/// Who reads hardware counters.
const COUNTERS: smi::Reader = smi::Reader {
    name: gpu_counters::reader::NAME,
    library: "AMD's library of hardware counters",
};

/// Of a process, not of a GPU.
const OCCUPANCY: &str = "occupancy";

/// Of a process too.
const ENGINES: &str = "engines";

/// What happens, not what is.
const EVENTS: &str = "events";
/// The driver that tells of it.
const DRIVER: &str = "dev/kfd";

/// What is said where only a part of the events comes.
const ROOT_ONLY: &str = "page faults, migrations and evicted queues of processes on GPUs are not recorded: the driver tells them to root only";

/// A sensor is given up after this many failures in a row.
const PATIENCE: u32 = 5;

/// The GPUs whose sensors are read.
#[derive(Debug)]
pub struct Gpus {
    sensors: Vec<Sensor>,
    /// For what these lack.
    smi: Option<smi::Client>,
    quiet: bool,
    /// Hardware counters.
    counters: Option<smi::Client>,
    /// What the driver tells.
    events: Option<Events>,
    /// For the counters of processes.
    pub ids: Vec<GpuId>,
    /// Those on whose engines processes are watched.
    pub engines: Vec<Address>,
    /// Whether the memory of processes is read.
    pub memory: bool,
    /// Whether the occupancy of processes is read.
    pub occupancy: bool,
}

#[derive(Debug)]
struct Sensor {
    source: Source,
    gauge: Gauge,
    title: String,
    failures: u32,
}

/// Finds the sensors. Says, in one line each, what was asked for and is not available.
///
/// Nothing comes of it when there is nothing to read.
#[must_use]
pub fn prepare(roots: &Roots, choice: &Choice) -> (Option<Gpus>, Vec<String>) {
    let mut complaints = Vec::new();
    let wanted = Wanted::new(&choice.metrics, &mut complaints);
    let all = gpu::find(roots);
    if all.is_empty() {
        if choice.wanted {
            complaints.push(format!(
                "no GPU sensors: {}. {}",
                gpu::NO_GPU,
                gpu::no_gpu_remedy(roots)
            ));
        }
        return (None, complaints);
    }
    let chosen = chosen(&all, choice);
    let mut found = Vec::new();
    let mut lacking = Vec::new();
    let mut groups = Vec::new();
    // A library looks at the machine itself.
    let has_smi = choice.library != NO_LIBRARY && !roots.is_simulated();
    for gpu in &chosen {
        let device = gpu.device.as_deref().unwrap_or(Path::new(""));
        let group = Arc::new(Group {
            name: format!("Sensors of {}", gpu.title()),
            identity: device.display().to_string(),
        });
        groups.push((gpu.index, Arc::clone(&group)));
        let address = gpu.pci_address().filter(|_| has_smi);
        let mut missing = Vec::new();
        let tracks = METRICS
            .iter()
            .filter(|metric| wanted.has(metric.name))
            .flat_map(|metric| metric.tracks.iter().map(move |track| (metric, track)));
        for (metric, track) in tracks {
            let known = track.sensors.iter().filter_map(|name| sensors::find(name));
            let mut reason = "its files do not say".to_owned();
            let mut source = None;
            for sensor in known {
                match sensor.source(gpu) {
                    Ok((place, _)) => {
                        source = Some((place, sensor.summary));
                        break;
                    }
                    Err(why) => reason = why.reason,
                }
            }
            let gauge = |summary: &str| {
                let name = format!("{} [{}] (S)", track.name, gpu.index);
                let unit = match track.unit {
                    gpu_metrics::BYTES => Unit::Bytes,
                    unit => Unit::Named(unit),
                };
                Gauge::new(name, unit, Some(&group), summary)
            };
            match source {
                Some((source, summary)) => found.push(Sensor {
                    source,
                    gauge: gauge(summary),
                    title: format!("{} of {}", metric.name, gpu.title()),
                    failures: 0,
                }),
                None if let Some(address) = &address => lacking.push(smi::Wanted {
                    address: address.clone(),
                    sensors: track
                        .sensors
                        .iter()
                        .map(|name| (*name).to_owned())
                        .collect(),
                    gauge: gauge("As the SMI library tells it"),
                    gpu: gpu.title(),
                    metric: metric.name.to_owned(),
                    reason,
                    named: !wanted.all,
                }),
                // With `all`, a GPU has what it has.
                None if !wanted.all => missing.push(format!("{} ({reason})", metric.name)),
                None => {}
            }
        }
        if !missing.is_empty() {
            complaints.push(format!("{}: no {}", gpu.title(), missing.join(", ")));
        }
    }
    let visible: HashSet<usize> = chosen.iter().map(|gpu| gpu.index).collect();
    let mut ids = kfd::gpu_ids(roots);
    ids.retain(|gpu| visible.contains(&gpu.index));
    let client = (!lacking.is_empty()).then(|| smi::Client::start(SMI, &choice.library, lacking));
    let smi = client.and_then(|client| {
        client
            .map_err(|error| {
                complaints.push(format!(
                    "no SMI library: its process cannot be started: {error}"
                ))
            })
            .ok()
    });
    let counters = match choice.events.is_empty() || roots.is_simulated() {
        true => None,
        false => counters(roots, choice, &chosen, &mut complaints),
    };
    let events = match wanted.has(EVENTS).then(|| events(roots, &ids, &groups)) {
        None => None,
        Some(Ok(events)) => {
            if !wanted.all && !is_superuser(roots) {
                complaints.push(ROOT_ONLY.to_owned());
            }
            Some(events)
        }
        Some(Err(reason)) => {
            // With `all`, a GPU has what it has.
            if !wanted.all {
                complaints.push(format!("no events of GPUs: {reason}"));
            }
            None
        }
    };
    let addresses = chosen
        .iter()
        .filter_map(|gpu| Some((gpu.index, gpu.pci_address()?)));
    let engines = match wanted.has(ENGINES) {
        true => addresses.collect(),
        false => Vec::new(),
    };
    let gpus = Gpus {
        sensors: found,
        engines,
        events,
        smi,
        counters,
        quiet: choice.quiet,
        ids,
        memory: wanted.has("mem_usage"),
        occupancy: wanted.has(OCCUPANCY),
    };
    (Some(gpus), complaints)
}

/// Starts to count events of the hardware.
fn counters(
    roots: &Roots,
    choice: &Choice,
    gpus: &[&gpu::Gpu],
    complaints: &mut Vec<String>,
) -> Option<smi::Client> {
    let definitions =
        gpu_counters::events::definitions(roots, choice.definitions.as_ref(), complaints)?;
    let wanted = gpu_counters::events::wanted(&choice.events, gpus, &definitions, complaints);
    if wanted.is_empty() {
        return None;
    }
    let client = smi::Client::start(COUNTERS, smi::reader::AUTO, wanted);
    let refused =
        |error| format!("no hardware counters of GPUs: no process can be started: {error}");
    client.map_err(|error| complaints.push(refused(error))).ok()
}

/// Whether this process has CAP_SYS_ADMIN.
fn is_superuser(roots: &Roots) -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = roots.text("proc/self/status").unwrap_or_default();
    let set = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    set.is_some_and(|set| set & CAP_SYS_ADMIN != 0)
}

/// Begins to hear what the driver tells of these GPUs.
fn events(roots: &Roots, ids: &[GpuId], groups: &[(usize, Arc<Group>)]) -> Result<Events, String> {
    if roots.is_simulated() {
        return Err("this machine is a folder".to_owned());
    }
    let grouped = ids.iter().filter_map(|id| {
        let (_, group) = groups.iter().find(|(index, _)| *index == id.index)?;
        Some((id.clone(), Arc::clone(group)))
    });
    Events::start(&roots.path(DRIVER), grouped.collect())
}

impl Gpus {
    /// What happened to a process on the GPUs by the last [`read`](Self::read).
    pub fn events_of(&mut self, pid: u32) -> Vec<Reading> {
        let events = self.events.as_mut();
        events.map_or_else(Vec::new, |events| events.of_process(pid))
    }

    /// Reads all sensors.
    pub fn read(&mut self, time_ns: u64, out: &mut Vec<Reading>) {
        let mut scratch = [0; 4096];
        let mut words = Vec::new();
        if let Some(events) = &mut self.events {
            events.read(out);
        }
        if let Some(client) = &mut self.smi
            && client.read(out, &mut words, set_value) == smi::Standing::Over
        {
            self.smi = None;
        }
        if let Some(client) = &mut self.counters
            && client.read(out, &mut words, Gauge::add) == smi::Standing::Over
        {
            self.counters = None;
        }
        self.sensors.retain_mut(|sensor| {
            match sensor.source.read(&mut scratch) {
                Ok(value) => {
                    sensor.failures = 0;
                    set_value(&mut sensor.gauge, time_ns, value, out);
                }
                Err(error) => {
                    sensor.failures += 1;
                    if sensor.failures == PATIENCE {
                        words.push(format!(
                            "{} is not recorded any more: {}: {error}",
                            sensor.title,
                            sensor.source.path().display()
                        ));
                    }
                }
            }
            sensor.failures < PATIENCE
        });
        for text in words.iter().filter(|_| !self.quiet) {
            say(&format!("warning: {text}"));
        }
    }
}

/// Records a value in the unit of its sensor.
fn set_value(gauge: &mut Gauge, time_ns: u64, value: f64, out: &mut Vec<Reading>) {
    let value = match gauge.unit() {
        // The sensors of memory count MiB.
        Unit::Bytes => (value * 1_048_576.0).round(),
        _ => (value * 1000.0).round() / 1000.0,
    };
    gauge.set(time_ns, value, out);
}
