//! Load and frequency of the processors.

use std::sync::Arc;

use rsys_machine::roots::{Roots, names};

use crate::counters::{Group, Reading, Unit};
use crate::monitors::file::KeptFile;
use crate::monitors::numbers::{lines, numbers};

use super::spread::{Chosen, Spread};

/// Load of the processors: the share of time in which they were not idle.
#[derive(Debug)]
pub(super) struct Load {
    file: KeptFile,
    /// Busy and all ticks of each processor, when they were seen last.
    last: Vec<(u64, u64)>,
    loads: Vec<(usize, f64)>,
    spread: Spread,
}

impl Load {
    pub(super) fn new(file: KeptFile, chosen: Chosen, group: &Arc<Group>) -> Self {
        Self {
            file,
            last: Vec::new(),
            loads: Vec::new(),
            spread: Spread::new(
                "CPU Load",
                Unit::Named("%"),
                group,
                chosen,
                "Share of time in which the host's processors were not idle",
            ),
        }
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let Ok(text) = self.file.read(scratch) else {
            return;
        };
        self.loads.clear();
        // After the sum come the processors, then the rest.
        let processors = lines(text)
            .skip(1)
            .map_while(|line| line.strip_prefix(b"cpu"));
        for line in processors {
            let mut fields = numbers(line);
            let Some(processor) = fields.next() else {
                continue;
            };
            let processor = processor as usize;
            // user nice system idle iowait irq softirq steal; guest times are in user and nice
            // already.
            let (mut all, mut idle) = (0, 0);
            for (place, ticks) in fields.take(8).enumerate() {
                all += ticks;
                idle += if matches!(place, 3 | 4) { ticks } else { 0 };
            }
            if processor >= self.last.len() {
                self.last.resize(processor + 1, (0, 0));
            }
            let now = (all.saturating_sub(idle), all);
            let last = std::mem::replace(&mut self.last[processor], now);
            let elapsed = now.1.saturating_sub(last.1);
            if last.1 > 0 && elapsed > 0 {
                let busy = now.0.saturating_sub(last.0).min(elapsed);
                let percent = (busy as f64 * 100.0 / elapsed as f64).round();
                self.loads.push((processor, percent));
            }
        }
        self.spread.set(time_ns, self.loads.iter().copied(), out);
    }
}

/// Frequency of the processors.
#[derive(Debug)]
pub(super) struct Frequency {
    source: FrequencySource,
    values: Vec<(usize, f64)>,
    spread: Spread,
}

#[derive(Debug)]
pub(super) enum FrequencySource {
    /// A file for each processor, in kHz.
    Each(Vec<(usize, KeptFile)>),
    /// /proc/cpuinfo, in MHz.
    Together(KeptFile),
}

impl Frequency {
    pub(super) fn new(roots: &Roots, chosen: Chosen, group: &Arc<Group>) -> Option<Self> {
        let folder = roots.path("sys/devices/system/cpu");
        let each: Vec<_> = names(&folder)
            .iter()
            .filter_map(|name| {
                let processor = name.strip_prefix("cpu")?.parse().ok()?;
                let file = folder.join(name).join("cpufreq/scaling_cur_freq");
                Some((processor, KeptFile::open(&file).ok()?))
            })
            .collect();
        let source = if each.is_empty() {
            FrequencySource::Together(KeptFile::open(&roots.path("proc/cpuinfo")).ok()?)
        } else {
            FrequencySource::Each(each)
        };
        Some(Self {
            source,
            values: Vec::new(),
            spread: Spread::new(
                "CPU Frequency",
                Unit::Named("MHz"),
                group,
                chosen,
                "Frequency of the host's processors",
            ),
        })
    }

    pub(super) fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        self.values.clear();
        match &self.source {
            FrequencySource::Each(files) => {
                for (processor, file) in files {
                    let kilohertz = file
                        .read(scratch)
                        .ok()
                        .and_then(|text| numbers(text).next());
                    self.values
                        .extend(kilohertz.map(|value| (*processor, (value / 1000) as f64)));
                }
            }
            FrequencySource::Together(file) => {
                let text = file.read(scratch).unwrap_or_default();
                let mut processor = 0;
                for line in lines(text) {
                    if line.starts_with(b"processor") {
                        processor = numbers(line).next().unwrap_or(0) as usize;
                    } else if line.starts_with(b"cpu MHz")
                        && let Some(megahertz) = numbers(line).next()
                    {
                        self.values.push((processor, megahertz as f64));
                    }
                }
            }
        }
        self.spread.set(time_ns, self.values.iter().copied(), out);
    }
}
