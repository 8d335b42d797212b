//! GPU sensors: files of the amdgpu driver (Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst of Linux).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Gpu;
use crate::counters::{Access, Counter};
use crate::roots::{names, text};

/// A sensor: name, files of which the first that exists counts, what one unit of the file is, meaning.
struct Sensor {
    name: &'static str,
    files: &'static [File],
    summary: &'static str,
}

enum File {
    /// In the device's folder, with the factor to the unit and the unit.
    Device(&'static str, f64, &'static str),
    /// In the folder of hwmon.
    Monitor(&'static str, f64, &'static str),
    /// `temp*_input` whose `temp*_label` is this, in thousandths of a degree.
    Temperature(&'static str),
    /// The line with a star in a list of clock levels: `1: 1700Mhz *`.
    Level(&'static str),
    /// There is no number to show.
    Binary(&'static str),
}

use File::{Binary, Device, Level, Monitor, Temperature};

const MIB: f64 = 1.0 / 1_048_576.0;

const SENSORS: &[Sensor] = &[
    Sensor {
        name: "busy",
        files: &[Device("gpu_busy_percent", 1.0, "%")],
        summary: "Share of time with work",
    },
    Sensor {
        name: "mem_busy",
        files: &[Device("mem_busy_percent", 1.0, "%")],
        summary: "Share of time with memory traffic",
    },
    Sensor {
        name: "vram_used",
        files: &[Device("mem_info_vram_used", MIB, "MiB")],
        summary: "Memory in use",
    },
    Sensor {
        name: "vram_total",
        files: &[Device("mem_info_vram_total", MIB, "MiB")],
        summary: "Memory",
    },
    Sensor {
        name: "gtt_used",
        files: &[Device("mem_info_gtt_used", MIB, "MiB")],
        summary: "Host memory in use by the GPU",
    },
    Sensor {
        name: "power",
        files: &[
            Monitor("power1_average", 1e-6, "W"),
            Monitor("power1_input", 1e-6, "W"),
        ],
        summary: "Power",
    },
    Sensor {
        name: "temp_edge",
        files: &[Temperature("edge")],
        summary: "Temperature at the edge of the chip",
    },
    Sensor {
        name: "temp_junction",
        files: &[Temperature("junction")],
        summary: "Highest temperature on the chip",
    },
    Sensor {
        name: "temp_memory",
        files: &[Temperature("mem")],
        summary: "Temperature of the memory",
    },
    Sensor {
        name: "clock_gfx",
        files: &[Monitor("freq1_input", 1e-6, "MHz"), Level("pp_dpm_sclk")],
        summary: "Clock of the compute units",
    },
    Sensor {
        name: "clock_memory",
        files: &[Monitor("freq2_input", 1e-6, "MHz"), Level("pp_dpm_mclk")],
        summary: "Clock of the memory",
    },
    Sensor {
        name: "voltage",
        files: &[Monitor("in0_input", 1e-3, "V")],
        summary: "Voltage of the compute units",
    },
    Sensor {
        name: "fan",
        files: &[Monitor("fan1_input", 1.0, "rpm")],
        summary: "Speed of the fan",
    },
    Sensor {
        name: "link_speed",
        files: &[Device("current_link_speed", 1.0, "")],
        summary: "Speed of the PCIe link",
    },
    Sensor {
        name: "link_width",
        files: &[Device("current_link_width", 1.0, "lanes")],
        summary: "Width of the PCIe link",
    },
    Sensor {
        name: "pcie_bandwidth",
        files: &[Device("pcie_bw", 1.0, "")],
        summary: "PCIe packets received and sent, and their size",
    },
    Sensor {
        name: "gpu_metrics",
        files: &[Binary("gpu_metrics")],
        summary: "All of it at once: also energy, activity of engines, XGMI traffic",
    },
];

/// One row per sensor; those that the GPU does not have are not available.
pub(super) fn counters(gpu: &Gpu) -> Vec<Counter> {
    let monitor = gpu.device.as_ref().and_then(|device| {
        let folder = device.join("hwmon");
        let name = names(&folder).into_iter().next()?;
        Some(folder.join(name))
    });
    SENSORS
        .iter()
        .map(|sensor| {
            let (access, value) = read(sensor, gpu, monitor.as_deref());
            Counter {
                name: format!("gpu{}:{}", gpu.index, sensor.name),
                also: Vec::new(),
                device: gpu.title(),
                kind: "Sensor",
                summary: sensor.summary.to_owned(),
                details: value,
                access,
            }
        })
        .collect()
}

/// Whether the sensor can be read, and what it says now.
fn read(sensor: &Sensor, gpu: &Gpu, monitor: Option<&Path>) -> (Access, String) {
    let Some(device) = &gpu.device else {
        return (
            Access::No(
                "its card is not visible".to_owned(),
                "In a container, pass on the device: --device /dev/dri.".to_owned(),
            ),
            String::new(),
        );
    };
    let mut forbidden = None;
    for file in sensor.files {
        let Some(path) = file.path(device, monitor) else {
            continue;
        };
        match std::fs::read(&path) {
            Ok(bytes) => {
                let value = file.value(&String::from_utf8_lossy(&bytes));
                return (Access::Yes, format!("{value} ({})", path.display()));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => forbidden = Some((path, error)),
        }
    }
    match forbidden {
        Some((path, error)) => (
            Access::No(
                format!("cannot be read: {error}"),
                "The file is in the GPU's folder below /sys/class/drm; a suspended GPU, or one of a virtual machine, answers with an error."
                    .to_owned(),
            ),
            path.display().to_string(),
        ),
        None => (
            Access::No(
                "this GPU does not have it".to_owned(),
                "Look for a similar one: rsys-avail -H -A -c GPU.".to_owned(),
            ),
            String::new(),
        ),
    }
}

impl File {
    fn path(&self, device: &Path, monitor: Option<&Path>) -> Option<PathBuf> {
        match self {
            Device(name, ..) | Level(name) | Binary(name) => Some(device.join(name)),
            Monitor(name, ..) => Some(monitor?.join(name)),
            Temperature(label) => {
                let monitor = monitor?;
                let input = (1..=8).map(|number| format!("temp{number}")).find(|name| {
                    text(&monitor.join(format!("{name}_label"))).as_deref() == Some(label)
                })?;
                Some(monitor.join(format!("{input}_input")))
            }
        }
    }

    /// As a person reads it.
    fn value(&self, text: &str) -> String {
        let text = text.trim();
        let scaled = |factor: f64, unit: &str| match text.parse::<f64>() {
            Ok(value) if factor != 1.0 => {
                let value = (value * factor * 100.0).round() / 100.0;
                format!("{value} {unit}")
            }
            _ => format!("{text} {unit}"),
        };
        let value = match self {
            Device(_, factor, unit) | Monitor(_, factor, unit) => scaled(*factor, unit),
            Temperature(_) => scaled(1e-3, "\u{b0}C"),
            Level(_) => text
                .lines()
                .find(|line| line.ends_with('*'))
                .and_then(|line| line.split_once(':'))
                .map_or("", |(_, level)| level.trim_end_matches('*'))
                .to_owned(),
            Binary(_) => "binary".to_owned(),
        };
        value.trim().to_owned()
    }
}
