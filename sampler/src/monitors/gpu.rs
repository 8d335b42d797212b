//! Sensors of the GPUs.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rsys_config::Numbers;
use rsys_config::gpu_metrics::{self, METRICS, Word};
use rsys_machine::gpu::sensors::{self, Source};
use rsys_machine::gpu::{self, Gpu};
use rsys_machine::roots::Roots;

use super::kfd::{self, GpuId};
use super::numbers::ranges;
use crate::counters::{Gauge, Group, Reading, Unit};
use crate::smi;
use crate::terminal::say;

/// The word for no library at all.
const NO_LIBRARY: &str = "none";

/// A sensor that fails so often in a row is given up.
const PATIENCE: u32 = 5;

/// Of a process, not of a GPU.
const OCCUPANCY: &str = "occupancy";

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// `SAMPLING_GPUS`.
    pub gpus: Numbers,
    /// `GPU_METRICS`.
    pub metrics: String,
    /// Somebody asked: say so where there is no GPU.
    pub wanted: bool,
    /// `SMI_LIBRARY`.
    pub library: String,
    /// Whether nothing but errors is said.
    pub quiet: bool,
    /// `ROCR_VISIBLE_DEVICES` of the command, and its `HIP_VISIBLE_DEVICES` or else `CUDA_VISIBLE_DEVICES`.
    pub visible: [Option<String>; 2],
}

/// The GPUs whose sensors are read.
#[derive(Debug)]
pub struct Gpus {
    sensors: Vec<Sensor>,
    /// For what these lack.
    smi: Option<smi::Client>,
    quiet: bool,
    /// For what is told of processes.
    pub ids: Vec<GpuId>,
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

/// Finds the sensors. Says, in one line each, what was asked for and cannot be had.
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
    // A library looks at the machine itself.
    let has_smi = choice.library != NO_LIBRARY && !roots.is_simulated();
    for gpu in &chosen {
        let device = gpu.device.as_deref().unwrap_or(Path::new(""));
        let group = Arc::new(Group {
            name: format!("Sensors of {}", gpu.title()),
            identity: device.display().to_string(),
        });
        let address = gpu.pci_address().filter(|_| has_smi);
        let mut missing = Vec::new();
        let tracks = METRICS
            .iter()
            .filter(|metric| wanted.has(metric.name))
            .flat_map(|metric| metric.tracks.iter().map(move |track| (metric, track)));
        for (metric, track) in tracks {
            let known = track.sensors.iter().filter_map(|name| sensors::find(name));
            let mut reason = "its files do not tell".to_owned();
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
                    sensors: track.sensors,
                    gauge: gauge("As the SMI library tells it"),
                    gpu: gpu.title(),
                    metric: metric.name,
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
    let client = (!lacking.is_empty()).then(|| smi::Client::start(&choice.library, lacking));
    let smi = client.and_then(|client| {
        client
            .map_err(|error| {
                complaints.push(format!(
                    "no SMI library: its process cannot be started: {error}"
                ))
            })
            .ok()
    });
    let gpus = Gpus {
        sensors: found,
        smi,
        quiet: choice.quiet,
        ids,
        memory: wanted.has("mem_usage"),
        occupancy: wanted.has(OCCUPANCY),
    };
    (Some(gpus), complaints)
}

impl Gpus {
    /// Reads all sensors.
    pub fn read(&mut self, time_ns: u64, out: &mut Vec<Reading>) {
        let mut scratch = [0; 4096];
        let mut words = Vec::new();
        if let Some(client) = &mut self.smi
            && client.read(out, &mut words, tell) == smi::Standing::Over
        {
            self.smi = None;
        }
        self.sensors.retain_mut(|sensor| {
            match sensor.source.read(&mut scratch) {
                Ok(value) => {
                    sensor.failures = 0;
                    tell(&mut sensor.gauge, time_ns, value, out);
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

/// Tells a value in the unit of its sensor.
fn tell(gauge: &mut Gauge, time_ns: u64, value: f64, out: &mut Vec<Reading>) {
    let value = match gauge.unit() {
        // The sensors of memory tell MiB.
        Unit::Bytes => (value * 1_048_576.0).round(),
        _ => (value * 1000.0).round() / 1000.0,
    };
    gauge.set(time_ns, value, out);
}

/// The metrics that were asked for.
struct Wanted {
    all: bool,
    names: Vec<&'static str>,
}

impl Wanted {
    fn new(text: &str, complaints: &mut Vec<String>) -> Self {
        let mut wanted = Self {
            // As the original has it: nothing means everything.
            all: text.trim().is_empty(),
            names: Vec::new(),
        };
        for word in gpu_metrics::words(text) {
            match gpu_metrics::find(word) {
                Some(Word::All) => wanted.all = true,
                Some(Word::None) => {}
                Some(Word::Metric(metric)) => wanted.names.push(metric.name),
                Some(Word::NotHere(_)) | None => complaints.push(format!(
                    "GPU_METRICS: '{word}' is not a sensor of this build"
                )),
            }
        }
        wanted
    }

    fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(&name)
    }
}

/// Places among the visible GPUs: numbers, or names `GPU-` and the GPU's unique id. Nothing where a name is no known GPU's.
fn places(list: &str, all: &[Gpu], visible: &[usize]) -> Option<Vec<usize>> {
    if let Some(places) = ranges(list) {
        return Some(places);
    }
    let words = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let mut places = Vec::new();
    for word in words {
        // As for the runtimes, a number below zero hides what follows.
        if word.starts_with('-') {
            break;
        }
        places.push(match word.strip_prefix("GPU-") {
            None => word.parse().ok()?,
            Some(id) => visible.iter().position(|index| {
                let gpu = all.iter().find(|gpu| gpu.index == *index);
                gpu.and_then(Gpu::unique_id)
                    .is_some_and(|own| own.eq_ignore_ascii_case(id))
            })?,
        });
    }
    Some(places)
}

/// The GPUs that were asked for and are visible to the command.
fn chosen<'a>(all: &'a [Gpu], choice: &Choice) -> Vec<&'a Gpu> {
    let mut visible: Vec<usize> = all.iter().map(|gpu| gpu.index).collect();
    for list in choice.visible.iter().flatten() {
        // HIP counts among those that ROCR leaves.
        if let Some(places) = places(list, all, &visible) {
            visible = places
                .iter()
                .filter_map(|place| visible.get(*place).copied())
                .collect();
        }
    }
    visible.retain(|index| u32::try_from(*index).is_ok_and(|index| choice.gpus.contains(index)));
    all.iter()
        .filter(|gpu| visible.contains(&gpu.index))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// GPUs of which the first has an edge sensor, and the others have not.
    fn machine(name: &str, gpus: usize) -> PathBuf {
        let root = std::env::temp_dir().join(format!("rsys-gpus-{}-{name}", std::process::id()));
        for index in 0..gpus {
            let node = format!("sys/class/kfd/kfd/topology/nodes/{}", index + 1);
            let minor = 128 + index;
            put(
                &root,
                &format!("{node}/gpu_id"),
                &format!("{}\n", 1000 + index),
            );
            put(
                &root,
                &format!("{node}/properties"),
                &format!("simd_count 416\ngfx_target_version 90402\ndrm_render_minor {minor}\n"),
            );
            let device = format!("sys/class/drm/renderD{minor}/device");
            let files = [
                ("gpu_busy_percent", "37\n"),
                ("mem_info_vram_used", "1048576\n"),
                ("hwmon/hwmon3/power1_input", "123000000\n"),
                ("hwmon/hwmon3/temp2_label", "junction\n"),
                ("hwmon/hwmon3/temp2_input", "61000\n"),
            ];
            for (file, text) in files {
                put(&root, &format!("{device}/{file}"), text);
            }
        }
        let edge = "sys/class/drm/renderD128/device/hwmon/hwmon3/temp1";
        put(&root, &format!("{edge}_label"), "edge\n");
        put(&root, &format!("{edge}_input"), "55000\n");
        root
    }

    fn choice(gpus: &str, metrics: &str) -> Choice {
        Choice {
            gpus: Numbers::parse(gpus).expect("a list"),
            metrics: metrics.to_owned(),
            ..Choice::default()
        }
    }

    fn read(gpus: &mut Gpus) -> Vec<(String, f64)> {
        let mut out = Vec::new();
        gpus.read(1, &mut out);
        out.iter()
            .map(|one| (one.counter.name.clone(), one.value))
            .collect()
    }

    #[test]
    fn each_metric_names_sensors_that_there_are() {
        let tracks = METRICS.iter().flat_map(|metric| metric.tracks);
        for name in tracks.flat_map(|track| track.sensors) {
            // Only the SMI libraries have the video engines.
            assert!(
                sensors::find(name).is_some() || *name == "mm_busy",
                "{name}"
            );
        }
        let of_no_gpu = METRICS.iter().filter(|metric| metric.tracks.is_empty());
        assert_eq!(
            of_no_gpu.map(|metric| metric.name).collect::<Vec<_>>(),
            [OCCUPANCY]
        );
    }

    #[test]
    fn what_a_gpu_lacks_does_not_hide_the_rest() {
        let root = machine("lacks", 2);
        let roots = Roots::simulated(root.clone());
        let (gpus, complaints) = prepare(
            &roots,
            &choice("1", "busy, temp, power, fan, mem_usage, xgmi"),
        );
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(
            read(&mut gpus.unwrap()),
            [
                named("GPU Busy [1] (S)", 37.0),
                // No edge sensor: the next one.
                named("GPU Temperature [1] (S)", 61.0),
                named("GPU Power [1] (S)", 123.0),
                named("GPU Memory Usage [1] (S)", 1_048_576.0),
            ]
        );
        assert_eq!(
            complaints,
            [
                "GPU_METRICS: 'xgmi' is not a sensor of this build",
                "GPU 1 (gfx942): no fan (this GPU does not have it)"
            ]
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_sensor_that_goes_is_given_up_alone() {
        let root = machine("goes", 1);
        let roots = Roots::simulated(root.clone());
        let mut gpus = prepare(&roots, &choice("all", "busy temp")).0.unwrap();
        assert_eq!(read(&mut gpus)[1].1, 55.0);
        let device = root.join("sys/class/drm/renderD128/device");
        fs::remove_file(device.join("gpu_busy_percent")).unwrap();
        for degrees in 0..PATIENCE {
            let text = format!("{}000\n", 60 + degrees);
            fs::write(device.join("hwmon/hwmon3/temp1_input"), text).unwrap();
            let expected = f64::from(60 + degrees);
            assert_eq!(
                read(&mut gpus),
                [("GPU Temperature [0] (S)".to_owned(), expected)]
            );
        }
        assert_eq!(gpus.sensors.len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_visible_gpus_are_read() {
        let root = machine("visible", 4);
        let roots = Roots::simulated(root.clone());
        for (minor, id) in [(128, "0123456789abcdef"), (130, "fedcba9876543210")] {
            let file = format!("sys/class/drm/renderD{minor}/device/unique_id");
            put(&root, &file, &format!("{id}\n"));
        }
        let cases = [
            (
                "all",
                Some("GPU-FEDCBA9876543210,GPU-0123456789abcdef"),
                None,
                vec![0, 2],
            ),
            ("all", Some("1,GPU-fedcba9876543210"), Some("1"), vec![2]),
            ("all", Some("2,3"), Some("GPU-fedcba9876543210"), vec![2]),
            ("all", Some("3,-1,0"), None, vec![3]),
            ("all", None, None, vec![0, 1, 2, 3]),
            ("none", None, None, vec![]),
            ("0-1,3", None, None, vec![0, 1, 3]),
            ("all", Some("2,3"), None, vec![2, 3]),
            ("all", Some("2,3"), Some("1"), vec![3]),
            ("all", None, Some("0,1"), vec![0, 1]),
            ("0,2", Some("2,3"), None, vec![2]),
            ("all", Some("GPU-0123"), None, vec![0, 1, 2, 3]),
            ("all", Some(""), None, vec![]),
        ];
        for (asked, rocr, hip, expected) in cases {
            let mut choice = choice(asked, "busy");
            choice.visible = [rocr, hip].map(|list| list.map(str::to_owned));
            let gpus = prepare(&roots, &choice).0.unwrap();
            let found: Vec<usize> = gpus.ids.iter().map(|gpu| gpu.index).collect();
            assert_eq!(found, expected, "{asked} {rocr:?} {hip:?}");
            assert_eq!(gpus.sensors.len(), expected.len());
        }
        fs::remove_dir_all(root).unwrap();
        let nothing = Roots::simulated("/nonexistent".into());
        assert!(prepare(&nothing, &choice("all", "")).1.is_empty());
        let wanted = Choice {
            wanted: true,
            ..Choice::default()
        };
        let complaints = prepare(&nothing, &wanted).1;
        assert!(complaints[0].contains("no AMD GPU"), "{complaints:?}");
    }
}
