//! Memory of the host, and what waits for it, for the processors and for devices.

use std::sync::Arc;

use crate::counters::{Gauge, Group, Rate, Reading, Unit};
use crate::monitors::file::KeptFile;
use crate::monitors::numbers::{field, lines, numbers, words};

/// Memory of the host.
#[derive(Debug)]
pub(super) struct Memory {
    file: KeptFile,
    used: Gauge,
    swap: Gauge,
}

impl Memory {
    pub(super) fn new(file: KeptFile, group: &Arc<Group>) -> Self {
        let gauge = |name, text| Gauge::new(name, Unit::Bytes, Some(group), text);
        Self {
            file,
            used: gauge(
                "Host Memory Used (S)",
                "Memory of the host that is not available to new programs",
            ),
            swap: gauge("Host Swap Used (S)", "Swap space in use"),
        }
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let text = self.file.read(scratch).unwrap_or_default();
        let used = |all, free| Some(field(text, all)?.saturating_sub(field(text, free)?));
        for (gauge, kilobytes) in [
            (&mut self.used, used("MemTotal:", "MemAvailable:")),
            (&mut self.swap, used("SwapTotal:", "SwapFree:")),
        ] {
            if let Some(kilobytes) = kilobytes {
                gauge.set(time_ns, kilobytes as f64 * 1024.0, out);
            }
        }
    }
}

/// How much of the time something waited for a resource.
#[derive(Debug)]
pub(super) struct Pressure {
    file: KeptFile,
    rate: Rate,
    gauge: Gauge,
}

impl Pressure {
    pub(super) fn new(resource: &str, file: KeptFile, group: &Arc<Group>) -> Self {
        Self {
            file,
            rate: Rate::default(),
            gauge: Gauge::new(
                format!("Host Pressure {resource} (S)"),
                Unit::Named("%"),
                Some(group),
                "Share of time in which something on this host waited for it",
            ),
        }
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let text = self.file.read(scratch).unwrap_or_default();
        // some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS
        let total = lines(text)
            .find(|line| line.starts_with(b"some "))
            .and_then(|line| words(line).find_map(|word| word.strip_prefix(b"total=")));
        if let Some(total) = total.and_then(|digits| numbers(digits).next())
            && let Some(microseconds) = self.rate.per_second(time_ns, total)
        {
            let percent = (microseconds / 1e3).round() / 10.0;
            self.gauge.set(time_ns, percent.min(100.0), out);
        }
    }
}
