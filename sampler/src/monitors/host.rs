//! The counters of the host.

use std::path::PathBuf;
use std::sync::Arc;

use rsys_config::Numbers;
use rsys_machine::roots::{Roots, names, text};

use super::file::KeptFile;
use super::numbers::{field, lines, numbers, words};
use crate::counters::{Gauge, Group, Rate, Reading, Unit};

/// What changes slowly, or costs much to read, is read so often at most.
const SLOW_NS: u64 = 1_000_000_000;

/// Drivers of sensors in processors.
const THERMAL_DRIVERS: [&str; 4] = ["k10temp", "coretemp", "zenpower", "cpu_thermal"];

/// The host's files, kept open, with their counters.
#[derive(Debug)]
pub struct Host {
    load: Option<Load>,
    frequency: Option<Frequency>,
    memory: Option<Memory>,
    pressure: Vec<Pressure>,
    network: Option<Network>,
    temperature: Option<Temperature>,
    next_slow_ns: u64,
}

impl Host {
    /// What this host offers. `processors` have tracks of their own; where nothing is said, none.
    #[must_use]
    pub fn new(roots: &Roots, processors: &Numbers) -> Self {
        let group = Arc::new(Group {
            name: "Host".to_owned(),
            identity: String::new(),
        });
        let open = |path: &str| KeptFile::open(&roots.path(path)).ok();
        let chosen = Chosen(processors.clone());
        let pressure = ["cpu", "memory", "io"].into_iter().filter_map(|resource| {
            let file = open(&format!("proc/pressure/{resource}"))?;
            // Kernels without pressure accounting show the files and refuse to fill them.
            file.read(&mut [0; 256]).ok()?;
            Some(Pressure {
                file,
                rate: Rate::default(),
                gauge: Gauge::new(
                    format!("Host Pressure {resource} (S)"),
                    Unit::Named("%"),
                    Some(&group),
                    "Share of time in which something on this host waited for it",
                ),
            })
        });
        Self {
            load: open("proc/stat").map(|file| Load::new(file, chosen.clone(), &group)),
            frequency: Frequency::new(roots, chosen, &group),
            memory: open("proc/meminfo").map(|file| Memory::new(file, &group)),
            pressure: pressure.collect(),
            network: open("proc/net/dev").map(|file| Network::new(file, &group)),
            temperature: Temperature::new(roots, &group),
            next_slow_ns: 0,
        }
    }

    /// Reads all counters.
    pub fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        if let Some(load) = &mut self.load {
            load.read(time_ns, scratch, out);
        }
        if let Some(memory) = &mut self.memory {
            memory.read(time_ns, scratch, out);
        }
        for pressure in &mut self.pressure {
            pressure.read(time_ns, scratch, out);
        }
        if let Some(network) = &mut self.network {
            network.read(time_ns, scratch, out);
        }
        if time_ns >= self.next_slow_ns {
            self.next_slow_ns = time_ns + SLOW_NS;
            if let Some(frequency) = &mut self.frequency {
                frequency.read(time_ns, scratch, out);
            }
            if let Some(temperature) = &mut self.temperature {
                temperature.read(time_ns, scratch, out);
            }
        }
    }
}

/// The processors that have tracks of their own: where nothing was said, none.
#[derive(Debug, Clone)]
struct Chosen(Numbers);

impl Chosen {
    fn has(&self, processor: usize) -> bool {
        let number = u32::try_from(processor).ok();
        self.0 != Numbers::Unsaid && number.is_some_and(|number| self.0.contains(number))
    }
}

/// A value of each processor: mean, lowest and highest, and those that were asked for.
#[derive(Debug)]
struct Spread {
    name: &'static str,
    unit: Unit,
    group: Arc<Group>,
    chosen: Chosen,
    mean: Gauge,
    lowest: Gauge,
    highest: Gauge,
    single: Vec<Option<Gauge>>,
}

impl Spread {
    fn new(
        name: &'static str,
        unit: Unit,
        group: &Arc<Group>,
        chosen: Chosen,
        description: &str,
    ) -> Self {
        let gauge = |which: &str| {
            Gauge::new(
                format!("{name} {which} (S)"),
                unit,
                Some(group),
                description,
            )
        };
        Self {
            name,
            unit,
            group: Arc::clone(group),
            chosen,
            mean: gauge("mean"),
            lowest: gauge("min"),
            highest: gauge("max"),
            single: Vec::new(),
        }
    }

    fn set(
        &mut self,
        time_ns: u64,
        values: impl Iterator<Item = (usize, f64)>,
        out: &mut Vec<Reading>,
    ) {
        let (mut sum, mut count) = (0.0, 0_u32);
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        for (processor, value) in values {
            sum += value;
            count += 1;
            lowest = lowest.min(value);
            highest = highest.max(value);
            if self.chosen.has(processor) {
                if processor >= self.single.len() {
                    self.single.resize_with(processor + 1, || None);
                }
                let single = self.single[processor].get_or_insert_with(|| {
                    let name = format!("{} [{processor}] (S)", self.name);
                    Gauge::new(name, self.unit, Some(&self.group), "")
                });
                single.set(time_ns, value, out);
            }
        }
        if count > 0 {
            let mean = (sum / f64::from(count) * 10.0).round() / 10.0;
            self.mean.set(time_ns, mean, out);
            self.lowest.set(time_ns, lowest, out);
            self.highest.set(time_ns, highest, out);
        }
    }
}

/// Load of the processors: the share of time in which they were not idle.
#[derive(Debug)]
struct Load {
    file: KeptFile,
    /// Busy and all ticks of each processor, when they were seen last.
    last: Vec<(u64, u64)>,
    loads: Vec<(usize, f64)>,
    spread: Spread,
}

impl Load {
    fn new(file: KeptFile, chosen: Chosen, group: &Arc<Group>) -> Self {
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

    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
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
            // user nice system idle iowait irq softirq steal; guest times are in user and nice already.
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
struct Frequency {
    source: FrequencySource,
    values: Vec<(usize, f64)>,
    spread: Spread,
}

#[derive(Debug)]
enum FrequencySource {
    /// A file for each processor, in kHz.
    Each(Vec<(usize, KeptFile)>),
    /// /proc/cpuinfo, in MHz.
    Together(KeptFile),
}

impl Frequency {
    fn new(roots: &Roots, chosen: Chosen, group: &Arc<Group>) -> Option<Self> {
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

    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
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

/// Memory of the host.
#[derive(Debug)]
struct Memory {
    file: KeptFile,
    used: Gauge,
    swap: Gauge,
}

impl Memory {
    fn new(file: KeptFile, group: &Arc<Group>) -> Self {
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

    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
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
struct Pressure {
    file: KeptFile,
    rate: Rate,
    gauge: Gauge,
}

impl Pressure {
    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
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

/// Traffic of all interfaces but the one to the host itself.
#[derive(Debug)]
struct Network {
    file: KeptFile,
    received: (Rate, Gauge),
    sent: (Rate, Gauge),
}

impl Network {
    fn new(file: KeptFile, group: &Arc<Group>) -> Self {
        let gauge = |name, text| {
            let unit = Unit::Named("B/s");
            (Rate::default(), Gauge::new(name, unit, Some(group), text))
        };
        Self {
            file,
            received: gauge(
                "Host Network Received (S)",
                "Bytes per second that all interfaces received",
            ),
            sent: gauge(
                "Host Network Sent (S)",
                "Bytes per second that all interfaces sent",
            ),
        }
    }

    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let text = self.file.read(scratch).unwrap_or_default();
        let (mut received, mut sent) = (0, 0);
        // Two lines of headings; then name, eight numbers of what was received, eight of what was sent.
        for line in lines(text).skip(2) {
            let mut halves = line.splitn(2, |byte| *byte == b':');
            let (Some(name), Some(fields)) = (halves.next(), halves.next()) else {
                continue;
            };
            if name.trim_ascii() == b"lo" {
                continue;
            }
            let mut fields = numbers(fields);
            received += fields.next().unwrap_or(0);
            sent += fields.nth(7).unwrap_or(0);
        }
        for ((rate, gauge), bytes) in [(&mut self.received, received), (&mut self.sent, sent)] {
            if let Some(value) = rate.per_second(time_ns, bytes) {
                gauge.set(time_ns, value.round(), out);
            }
        }
    }
}

/// The highest temperature of the processors.
#[derive(Debug)]
struct Temperature {
    files: Vec<KeptFile>,
    gauge: Gauge,
}

impl Temperature {
    fn new(roots: &Roots, group: &Arc<Group>) -> Option<Self> {
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

    fn read(&mut self, time_ns: u64, scratch: &mut [u8], out: &mut Vec<Reading>) {
        let each = self.files.iter().filter_map(|file| {
            let text = std::str::from_utf8(file.read(scratch).ok()?).ok()?;
            text.trim().parse::<f64>().ok()
        });
        if let Some(millidegrees) = each.reduce(f64::max) {
            self.gauge.set(time_ns, millidegrees / 1000.0, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::monitors::file::SCRATCH_BYTES;

    fn put(root: &std::path::Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A host with three processors that were busy for so many of a thousand ticks since the time before.
    fn fill(root: &std::path::Path, busy: [u64; 3], second: u64) {
        let mut stat = "cpu  1 2 3 4\n".to_owned();
        for (processor, busy) in busy.iter().enumerate() {
            let (user, system) = (busy * second / 2, busy * second / 2);
            let idle = 1000 * second - user - system;
            stat += &format!(
                "cpu{processor} {user} 0 {system} {} 7 0 0 0 99 0\n",
                idle + 10
            );
        }
        put(root, "proc/stat", &format!("{stat}intr 1 2 3\n"));
        let memory = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 5 kB\nSwapFree: 5 kB\n";
        put(root, "proc/meminfo", memory);
        let total = 250_000 * second;
        let pressure = format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={total}\n");
        put(root, "proc/pressure/io", &pressure);
        let (received, sent) = (1000 * second, 3000 * second);
        put(
            root,
            "proc/net/dev",
            &format!(
                "Inter-| Receive\n face |bytes\n    lo: 9999999 1 0 0 0 0 0 0 9999999 1 0 0 0 0 0 0\n  \
                 eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"
            ),
        );
        for (processor, kilohertz) in [(0, 2_000_000), (1, 3_000_000), (2, 2_500_000)] {
            let name = format!("sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
            put(root, &name, &format!("{kilohertz}\n"));
        }
        put(root, "sys/class/hwmon/hwmon0/name", "nvme\n");
        put(root, "sys/class/hwmon/hwmon0/temp1_input", "99000\n");
        put(root, "sys/class/hwmon/hwmon1/name", "k10temp\n");
        put(root, "sys/class/hwmon/hwmon1/temp1_input", "55500\n");
    }

    #[test]
    fn a_host_of_files() {
        let root = std::env::temp_dir().join(format!("rsys-host-{}", std::process::id()));
        let second = 1_000_000_000;
        fill(&root, [0, 500, 1000], 1);
        let mut host = Host::new(
            &Roots::simulated(root.clone()),
            &Numbers::parse("1-2").unwrap(),
        );
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut out = Vec::new();
        host.read(second, &mut scratch, &mut out);
        fill(&root, [0, 500, 1000], 2);
        host.read(2 * second, &mut scratch, &mut out);
        let last: BTreeMap<&str, f64> = out
            .iter()
            .map(|one| (one.counter.name.as_str(), one.value))
            .collect();
        let expected = [
            ("CPU Frequency [1] (S)", 3000.0),
            ("CPU Frequency [2] (S)", 2500.0),
            ("CPU Frequency max (S)", 3000.0),
            ("CPU Frequency mean (S)", 2500.0),
            ("CPU Frequency min (S)", 2000.0),
            ("CPU Load [1] (S)", 50.0),
            ("CPU Load [2] (S)", 100.0),
            ("CPU Load max (S)", 100.0),
            ("CPU Load mean (S)", 50.0),
            ("CPU Load min (S)", 0.0),
            ("CPU Temperature (S)", 55.5),
            ("Host Memory Used (S)", 600.0 * 1024.0),
            ("Host Network Received (S)", 1000.0),
            ("Host Network Sent (S)", 3000.0),
            ("Host Pressure io (S)", 25.0),
            ("Host Swap Used (S)", 0.0),
        ];
        assert_eq!(last, BTreeMap::from(expected));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_host_without_files_says_nothing() {
        let roots = Roots::simulated("/nonexistent".into());
        let mut out = Vec::new();
        Host::new(&roots, &Numbers::Unsaid).read(1, &mut [0; 64], &mut out);
        assert!(out.is_empty());
    }
}
