//! The configuration file, as it is written by hand.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::formula::{self, Variables};
use crate::settings::{self, DriverEventKind, KernelFault, KernelTime};

/// The whole file. Everything is optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// Number of GPUs.
    pub gpus: Option<usize>,
    /// Name of the model.
    pub model: Option<String>,
    /// Memory of each GPU, instead of the model's.
    pub vram_mib: Option<u64>,
    /// Minor version of the kernel driver's interface.
    pub kfd_minor: Option<u32>,
    /// Kernels of one queue that run beside each other.
    pub concurrent_kernels: Option<usize>,
    /// Whether packets without a doorbell are never executed.
    pub strict_doorbell: bool,
    /// Whether GPUs fault on host memory that was not registered.
    pub strict_memory: bool,
    /// Whether kernels with private memory wait until the runtime has lent the queue scratch memory.
    pub scratch: bool,
    /// The clock.
    pub clock: Clock,
    /// Copies.
    pub copies: Copies,
    /// Kernels, first match first.
    pub kernel: Vec<Kernel>,
    /// Faults of the driver.
    pub faults: Faults,
    /// What the driver tells whoever watches.
    pub event: Vec<Event>,
    /// GPUs that differ.
    pub gpu: Vec<Gpu>,
    /// What performance counters count.
    pub counter: Vec<settings::CounterRule>,
}

/// `[[gpu]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    index: usize,
    clock_mhz: u32,
}

/// `[clock]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    frequency_hz: Option<u64>,
    drift_ppm: f64,
    offset_s: Option<f64>,
}

/// `[copies]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Copies {
    host_gb_per_s: Option<f64>,
    peer_gb_per_s: Option<f64>,
    local_gb_per_s: Option<f64>,
    latency_us: Option<f64>,
    link: Vec<Link>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    from: Option<usize>,
    to: Option<usize>,
    gb_per_s: f64,
    #[serde(default)]
    latency_us: f64,
}

/// `[[kernel]]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kernel {
    name: String,
    min_grid: u64,
    microseconds: Option<f64>,
    nanoseconds_per_item: Option<f64>,
    random_microseconds: Option<[f64; 2]>,
    seed: u64,
    formula: Option<String>,
    fault: Option<KernelFault>,
    fault_every: Option<u64>,
    together: Option<NonZeroU32>,
}

/// `[faults]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    interrupt_every: u64,
    interrupt_opens: u64,
    open_delay_ms: u64,
    failing_allocations: Vec<u64>,
    vanish_after_dispatches: u64,
    silent_events: bool,
}

/// `[[event]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    kind: DriverEventKind,
    #[serde(default)]
    gpu: usize,
    after_dispatches: u64,
    #[serde(default)]
    microseconds: f64,
    #[serde(default)]
    bytes: u64,
}

impl File {
    /// The engine clock under load of a GPU whose greatest clock this is.
    pub fn load_clock_mhz(&self, index: usize, greatest_mhz: u32) -> u32 {
        let of_gpu = self.gpu.iter().find(|gpu| gpu.index == index);
        of_gpu.map_or(greatest_mhz, |gpu| gpu.clock_mhz)
    }

    /// Checks what is said of single GPUs.
    ///
    /// # Errors
    /// When there is no such GPU, or it could not run like this.
    pub fn check_gpus(&self, gpus: usize, greatest_mhz: u32) -> Result<()> {
        for gpu in &self.gpu {
            if gpu.index >= gpus {
                bail!("a [[gpu]] is about a GPU that is not there: {gpu:?}");
            }
            if !(1..=greatest_mhz).contains(&gpu.clock_mhz) {
                bail!(
                    "gpu.clock_mhz is {}; it must be 1 to {greatest_mhz}, the model's greatest",
                    gpu.clock_mhz
                );
            }
        }
        Ok(())
    }
}

impl Event {
    /// Checked.
    ///
    /// # Errors
    /// When it could not happen.
    pub fn settings(&self, gpus: usize) -> Result<settings::DriverEvent> {
        if self.gpu >= gpus {
            bail!("an [[event]] is about a GPU that is not there: {self:?}");
        }
        if self.after_dispatches == 0 {
            bail!("event.after_dispatches is 0; 1 is the first");
        }
        Ok(settings::DriverEvent {
            kind: self.kind,
            gpu: self.gpu,
            after_dispatches: self.after_dispatches,
            duration_ns: microseconds("event.microseconds", self.microseconds)? as u64,
            bytes: self.bytes,
        })
    }
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is wrong, with the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: Self = toml::from_str(&text)
            .with_context(|| format!("{} is not a configuration", path.display()))?;
        Ok(file)
    }
}

impl Clock {
    /// Checked.
    ///
    /// # Errors
    /// When the clock could not run like this.
    pub fn settings(&self, now_ns: u64) -> Result<settings::Clock> {
        let frequency_hz = self.frequency_hz.unwrap_or(100_000_000);
        if !(1_000_000..=1_000_000_000).contains(&frequency_hz) {
            bail!("clock.frequency_hz is {frequency_hz}; it must be 1 000 000 to 1 000 000 000");
        }
        if self.drift_ppm.is_nan() || self.drift_ppm.abs() > 10_000.0 {
            bail!(
                "clock.drift_ppm is {}; it must be within -10 000 and 10 000",
                self.drift_ppm
            );
        }
        // Ticks that are large: a GPU has run for a while.
        let offset_s = self.offset_s.unwrap_or(1_000_000.0);
        if !(0.0..=1e8).contains(&offset_s) {
            bail!("clock.offset_s is {offset_s}; it must be 0 to 100 000 000");
        }
        Ok(settings::Clock {
            frequency_hz,
            drift_ppm: self.drift_ppm,
            origin_ns: now_ns.cast_signed() - (offset_s * 1e9) as i64,
        })
    }
}

impl Copies {
    /// Checked.
    ///
    /// # Errors
    /// When a number is not positive, or a link leads nowhere.
    pub fn settings(&self, gpus: usize) -> Result<settings::Copies> {
        let latency_us = self.latency_us.unwrap_or(2.0);
        let links = self.link.iter().map(|link| {
            if [link.from, link.to]
                .into_iter()
                .flatten()
                .any(|gpu| gpu >= gpus)
            {
                bail!("a [[copies.link]] is about a GPU that is not there: {link:?}");
            }
            Ok(settings::Link {
                from: link.from,
                to: link.to,
                gb_per_s: positive("copies.link.gb_per_s", link.gb_per_s)?,
                latency_ns: microseconds("copies.link.latency_us", link.latency_us)? as u64,
            })
        });
        Ok(settings::Copies {
            host_gb_per_s: positive("copies.host_gb_per_s", self.host_gb_per_s.unwrap_or(25.0))?,
            peer_gb_per_s: positive("copies.peer_gb_per_s", self.peer_gb_per_s.unwrap_or(50.0))?,
            local_gb_per_s: positive(
                "copies.local_gb_per_s",
                self.local_gb_per_s.unwrap_or(1000.0),
            )?,
            latency_ns: microseconds("copies.latency_us", latency_us)? as u64,
            links: links.collect::<Result<_>>()?,
        })
    }
}

impl Kernel {
    /// Checked.
    ///
    /// # Errors
    /// When there is more than one time, or one that cannot be.
    pub fn settings(&self) -> Result<settings::KernelRule> {
        let name = if self.name.is_empty() {
            "*"
        } else {
            &self.name
        };
        let time = self.time().with_context(|| format!("[[kernel]] {name}"))?;
        if time.is_none() && self.fault.is_none() {
            bail!("[[kernel]] {name}: says neither a time nor a fault");
        }
        if self.fault_every == Some(0) {
            bail!("[[kernel]] {name}: fault_every is 0; 1 means every time");
        }
        Ok(settings::KernelRule {
            name: self.name.clone(),
            min_grid: self.min_grid,
            time,
            fault: self.fault,
            fault_every: self.fault_every.unwrap_or(1),
            together: self.together,
        })
    }

    fn time(&self) -> Result<Option<KernelTime>> {
        let ways = [
            self.random_microseconds.is_some(),
            self.formula.is_some(),
            self.nanoseconds_per_item.is_some() || self.microseconds.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            bail!(
                "only one of microseconds (with nanoseconds_per_item), random_microseconds and formula can hold"
            );
        }
        let fixed = microseconds("microseconds", self.microseconds.unwrap_or(0.0))?;
        if let Some(nanoseconds) = self.nanoseconds_per_item {
            return Ok(Some(KernelTime::PerItem {
                base_nanoseconds: fixed,
                nanoseconds: positive("nanoseconds_per_item", nanoseconds)?,
            }));
        }
        if self.microseconds.is_some() {
            return Ok(Some(KernelTime::Fixed { nanoseconds: fixed }));
        }
        if let Some([low, high]) = self.random_microseconds {
            if low > high {
                bail!("random_microseconds: {low} is more than {high}");
            }
            return Ok(Some(KernelTime::Random {
                low_nanoseconds: microseconds("random_microseconds", low)?,
                high_nanoseconds: microseconds("random_microseconds", high)?,
                seed: self.seed,
            }));
        }
        let Some(text) = &self.formula else {
            return Ok(None);
        };
        let sample = Variables {
            grid: 1024.0,
            groups: 4.0,
            workgroup: 256.0,
            cus: 104.0,
            index: 0.0,
        };
        match formula::evaluate(text, &sample) {
            Ok(value) if value.is_finite() => Ok(Some(KernelTime::Formula(text.clone()))),
            Ok(value) => bail!("formula: `{text}` is {value} for a grid of 1024"),
            Err(error) => bail!("formula: {error}"),
        }
    }
}

impl Faults {
    /// As the driver knows them.
    pub fn settings(&self) -> settings::Faults {
        settings::Faults {
            interrupt_every: self.interrupt_every,
            interrupt_opens: self.interrupt_opens,
            open_delay_ms: self.open_delay_ms,
            failing_allocations: self.failing_allocations.clone(),
            vanish_after_dispatches: self.vanish_after_dispatches,
            silent_events: self.silent_events,
        }
    }
}

fn positive(name: &str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        bail!("{name} is {value}; it must be more than 0")
    }
}

/// In nanoseconds.
fn microseconds(name: &str, value: f64) -> Result<f64> {
    // An hour is far beyond what anything takes.
    if (0.0..=3.6e9).contains(&value) {
        Ok(value * 1000.0)
    } else {
        bail!("{name} is {value}; it must be 0 to 3.6e9 microseconds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(text: &str) -> Result<settings::KernelRule> {
        toml::from_str::<Kernel>(text)?.settings()
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        for (text, reason) in [
            ("cards = 2", "unknown field `cards`"),
            ("gpu = 2", "invalid type"),
            ("[[kernel]]\ntime = 3", "unknown field `time`"),
            ("[[kernel]]\nfault = \"burn\"", "unknown variant `burn`"),
            ("gpus = \"two\"", "invalid type"),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_clock_is_of_a_gpu_that_is_there_and_no_faster_than_it_can() {
        let check = |text: &str| {
            let file: File = toml::from_str(text).unwrap();
            file.check_gpus(2, 1700)
                .map(|()| [0, 1].map(|index| file.load_clock_mhz(index, 1700)))
        };
        let clocks = check("[[gpu]]\nindex = 1\nclock_mhz = 850").unwrap();
        assert_eq!(clocks, [1700, 850]);
        for (text, reason) in [
            ("[[gpu]]\nindex = 2\nclock_mhz = 850", "not there"),
            ("[[gpu]]\nindex = 1\nclock_mhz = 1701", "must be 1 to 1700"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn wrong_kernels_are_refused_with_the_reason() {
        for (text, reason) in [
            ("name = 'a'", "neither a time nor a fault"),
            ("microseconds = 1\nformula = 'grid'", "only one of"),
            ("formula = 'grid +'", "ends too early"),
            ("formula = 'grid / 0'", "is inf"),
            ("microseconds = -1", "must be 0 to"),
            ("random_microseconds = [2, 1]", "more than"),
            ("fault = 'hang'\nfault_every = 0", "fault_every is 0"),
        ] {
            let error = format!("{:#}", kernel(text).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
        let rule = kernel("name = 'k'\nmicroseconds = 2\nfault = 'zero-times'").unwrap();
        assert_eq!(rule.fault, Some(KernelFault::ZeroTimes));
    }

    #[test]
    fn an_empty_file_is_complete() {
        let file: File = toml::from_str("").unwrap();
        assert_eq!(file.clock.settings(5).unwrap().frequency_hz, 100_000_000);
        assert!(file.copies.settings(1).is_ok());
    }
}
