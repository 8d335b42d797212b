//! GPU sensors: files of the amdgpu driver (Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst of Linux).
//!
//! [`SENSORS`] says which there are, [`Sensor::source`] where one is read on a GPU, [`Source::read`] what it says now.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Gpu;
use crate::events::{Access, Counter};
use crate::roots::{names, text};

/// A sensor.
#[derive(Debug)]
pub struct Sensor {
    /// Its name.
    pub name: &'static str,
    /// Files of which the first that can be read counts.
    files: &'static [Form],
    /// What it measures, in one line.
    pub summary: &'static str,
}

/// Where a sensor's number is, and what one unit of it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// In the device's folder, with the factor to the unit and the unit.
    Device(&'static str, f64, &'static str),
    /// In the folder of hwmon.
    Monitor(&'static str, f64, &'static str),
    /// `temp*_input` whose `temp*_label` is this, in thousandths of a degree.
    Temperature(&'static str),
    /// The line with a star in a list of clock levels: `1: 1700Mhz *`.
    Level(&'static str),
    /// The energy in the driver's binary table of everything.
    Energy(&'static str),
    /// There is no number to show.
    Binary(&'static str),
}

use Form::{Binary, Device, Energy, Level, Monitor, Temperature};

const MIB: f64 = 1.0 / 1_048_576.0;

/// All sensors.
pub const SENSORS: &[Sensor] = &[
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
        name: "energy",
        files: &[Monitor("energy1_input", 1e-6, "J"), Energy("gpu_metrics")],
        summary: "Energy since the driver was loaded",
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

/// What a sensor is read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    path: PathBuf,
    form: Form,
}

/// The sensor of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Sensor> {
    SENSORS.iter().find(|sensor| sensor.name == name)
}

/// What each sensor would say, by its name, if one of its files held these bytes.
pub fn understood(bytes: &[u8]) -> impl Iterator<Item = (&'static str, Option<f64>)> + '_ {
    SENSORS.iter().flat_map(move |sensor| {
        let forms = sensor.files.iter();
        forms.map(move |form| (sensor.name, form.number(bytes)))
    })
}

/// One row per sensor; those that the GPU does not have are not available.
#[must_use]
pub fn counters(gpu: &Gpu) -> Vec<Counter> {
    SENSORS
        .iter()
        .map(|sensor| {
            let (access, value) = match sensor.source(gpu) {
                Ok((source, bytes)) => {
                    let value = source.form.shown(&String::from_utf8_lossy(&bytes));
                    (Access::Yes, format!("{value} ({})", source.path.display()))
                }
                Err(Missing {
                    reason,
                    remedy,
                    place,
                }) => (Access::No(reason, remedy), place),
            };
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

/// Why a sensor cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// In a few words.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// The file, if there is one.
    pub place: String,
}

impl Sensor {
    /// Where this sensor is on a GPU, and the bytes that were read there.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn source(&self, gpu: &Gpu) -> Result<(Source, Vec<u8>), Missing> {
        let Some(device) = &gpu.device else {
            return Err(Missing {
                reason: "its card is not visible".to_owned(),
                remedy: "In a container, pass on the device: --device /dev/dri.".to_owned(),
                place: String::new(),
            });
        };
        let monitors = device.join("hwmon");
        let monitor = names(&monitors).into_iter().next();
        let monitor = monitor.map(|name| monitors.join(name));
        let mut forbidden = None;
        for &form in self.files {
            let Some(path) = form.path(device, monitor.as_deref()) else {
                continue;
            };
            match std::fs::read(&path) {
                Ok(bytes) => return Ok((Source { path, form }, bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => forbidden = Some((path, error)),
            }
        }
        Err(match forbidden {
            Some((path, error)) => Missing {
                reason: format!("cannot be read: {error}"),
                remedy: "The file is in the GPU's folder below /sys/class/drm; a suspended GPU, or one of a virtual machine, answers \
                         with an error."
                    .to_owned(),
                place: path.display().to_string(),
            },
            None => Missing {
                reason: "this GPU does not have it".to_owned(),
                remedy: "Look for a similar one: rsys-avail -H -A -c GPU.".to_owned(),
                place: String::new(),
            },
        })
    }
}

impl Source {
    /// Where it is read.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says now, in the unit of the sensor.
    ///
    /// The file is opened anew: a GPU that was reset has new ones.
    ///
    /// # Errors
    /// What the driver says; `InvalidData` when it answers no number.
    pub fn read(&self, scratch: &mut [u8; 4096]) -> std::io::Result<f64> {
        let length = File::open(&self.path)?.read(scratch)?;
        let bytes = &scratch[..length];
        self.form.number(bytes).ok_or(ErrorKind::InvalidData.into())
    }
}

impl Form {
    fn path(&self, device: &Path, monitor: Option<&Path>) -> Option<PathBuf> {
        match self {
            Device(name, ..) | Level(name) | Binary(name) | Energy(name) => Some(device.join(name)),
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

    /// The number in a file, in the sensor's unit.
    fn number(&self, bytes: &[u8]) -> Option<f64> {
        if let Energy(_) = self {
            return energy_of_metrics(bytes);
        }
        let text = std::str::from_utf8(bytes).ok()?.trim();
        // `16.0 GT/s PCIe` and `1700Mhz` begin with their number.
        let leading = |text: &str| {
            let end = text
                .find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '-')
                .unwrap_or(text.len());
            text[..end].parse::<f64>().ok()
        };
        match self {
            Device(_, factor, _) | Monitor(_, factor, _) => Some(leading(text)? * factor),
            Temperature(_) => Some(leading(text)? * 1e-3),
            Level(_) => leading(current_level(text)?),
            Binary(_) | Energy(_) => None,
        }
    }

    /// As a person reads it.
    fn shown(&self, text: &str) -> String {
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
            Level(_) => current_level(text).unwrap_or_default().to_owned(),
            Binary(_) | Energy(_) => "binary".to_owned(),
        };
        value.trim().to_owned()
    }
}

/// `1700Mhz` of a list of levels with a star behind the current one.
fn current_level(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.trim_end().ends_with('*'))?;
    let (_, level) = line.split_once(':')?;
    Some(level.trim_end().trim_end_matches('*').trim())
}

/// The accumulated energy in joules, of `struct gpu_metrics_v1_1` to `v1_4` (drivers/gpu/drm/amd/include/kgd_pp_interface.h): a
/// header of size, format and content revision, and at byte 24 the energy in units of 2^-16 J.
fn energy_of_metrics(bytes: &[u8]) -> Option<f64> {
    let (&format, &content) = (bytes.get(2)?, bytes.get(3)?);
    if format != 1 || !(1..=4).contains(&content) {
        return None;
    }
    let word: [u8; 8] = bytes.get(24..32)?.try_into().ok()?;
    let units = u64::from_le_bytes(word);
    // All ones: the GPU does not report it.
    (units != u64::MAX).then(|| units as f64 / 65_536.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_files() {
        let mut metrics = vec![0; 120];
        metrics[2..4].copy_from_slice(&[1, 3]);
        metrics[24..32].copy_from_slice(&(65_536_u64 * 12).to_le_bytes());
        let mut unknown = metrics.clone();
        unknown[2] = 2;
        let cases: [(Form, &[u8], Option<f64>); 10] = [
            (Device("gpu_busy_percent", 1.0, "%"), b"42\n", Some(42.0)),
            (
                Monitor("power1_average", 1e-6, "W"),
                b"95000000\n",
                Some(95.0),
            ),
            (Temperature("edge"), b"-5000\n", Some(-5.0)),
            (
                Level("pp_dpm_sclk"),
                b"0: 132Mhz\n1: 1700Mhz *\n",
                Some(1700.0),
            ),
            (Level("pp_dpm_sclk"), b"0: 132Mhz\n", None),
            (
                Device("current_link_speed", 1.0, ""),
                b"16.0 GT/s PCIe\n",
                Some(16.0),
            ),
            (Device("gpu_busy_percent", 1.0, "%"), b"n/a\n", None),
            (Energy("gpu_metrics"), &metrics, Some(12.0)),
            (Energy("gpu_metrics"), &unknown, None),
            (Energy("gpu_metrics"), b"abc", None),
        ];
        for (form, bytes, number) in cases {
            let found = form.number(bytes);
            let close = match (found, number) {
                (Some(found), Some(number)) => (found - number).abs() < 1e-9,
                (found, number) => found == number,
            };
            assert!(close, "{form:?}: {found:?}, not {number:?}");
        }
    }
}
