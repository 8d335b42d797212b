//! Temperature of the processors.

use std::path::PathBuf;
use std::sync::Arc;

use rsys_machine::roots::{Roots, names, text};

use crate::counters::{Gauge, Group, Reading, Unit};
use crate::monitors::file::KeptFile;

/// Drivers of sensors in processors.
const THERMAL_DRIVERS: [&str; 4] = ["k10temp", "coretemp", "zenpower", "cpu_thermal"];

/// The highest temperature of the processors.
#[derive(Debug)]
pub(super) struct Temperature {
    files: Vec<KeptFile>,
    gauge: Gauge,
}

impl Temperature {
    pub(super) fn new(roots: &Roots, group: &Arc<Group>) -> Option<Self> {
        let folder = roots.path("sys/class/hwmon");
        let files: Vec<KeptFile> = names(&folder)
            .iter()
            .map(|name| folder.join(name))
            .filter(|monitor: &PathBuf| {
                text(&monitor.join("name"))
                    .is_some_and(|driver| THERMAL_DRIVERS.contains(&driver.as_str()))
            })
            .filter_map(|monitor| KeptFile::open(&monitor.join("temp1_input")).ok())
            .collect();
        (!files.is_empty()).then(|| Self {
            files,
            gauge: Gauge::new(
                "CPU Temperature (S)",
                Unit::Named("\u{b0}C"),
                Some(group),
                "The highest temperature that a processor of the host tells",
            ),
        })
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let each = self.files.iter().filter_map(|file| {
            let text = std::str::from_utf8(file.read(scratch).ok()?).ok()?;
            text.trim().parse::<f64>().ok()
        });
        if let Some(millidegrees) = each.reduce(f64::max) {
            self.gauge.set(time_ns, millidegrees / 1000.0, out);
        }
    }
}
