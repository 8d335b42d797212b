//! What all traces of a run have in common.

use std::time::Duration;

use rsys_config::keys::{KeyValues, expand};
use rsys_proto::Compression;

use super::identity::Identity;
use super::naming::Layout;
use crate::python::PythonView;

/// What all traces of a run have in common.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Where the traces go.
    pub layout: Layout,
    /// What the keys in their names stand for, as far as all have it in common.
    pub keys: KeyValues,
    /// How they are written.
    pub compression: Compression,
    /// Samples per second of CPU time.
    pub frequency_hz: f64,
    /// Looks at blocked threads per second, if there are any.
    pub realtime_hz: Option<f64>,
    /// The events that each thread counts, in the order of their values.
    pub counted: Vec<String>,
    /// By which event samples are taken, if not by CPU time.
    pub overflow: Option<Overflow>,
    /// Whether context switches are recorded.
    pub off_cpu: bool,
    /// Which unwinder was asked for.
    pub unwinder: String,
    /// What is shown of Python.
    pub python: PythonView,
    /// BOOTTIME of the start of the run.
    pub start_ns: u64,
    /// Samples before this time after the start are not kept.
    pub delay: Duration,
    /// Samples later than this after the delay are not kept.
    pub duration: Option<Duration>,
    /// Id of this boot of the machine.
    pub boot_id: String,
    /// Name of the machine.
    pub host: String,
    /// How much is said.
    pub verbosity: i8,
}

/// An event by which samples are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overflow {
    /// Its name.
    pub event: String,
    /// How often it happens between two samples.
    pub period: u64,
}

impl RunContext {
    /// What one period of a sample's weight stands for: nanoseconds of CPU time, or events.
    #[must_use]
    pub fn weight_unit(&self) -> u64 {
        self.overflow
            .as_ref()
            .map_or(self.period_ns(), |overflow| overflow.period)
    }

    /// CPU time between two samples of a thread.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        (1e9 / self.frequency_hz).round().clamp(1.0, 1e18) as u64
    }

    /// Where the trace of one process goes: the keys in its name are its own.
    #[must_use]
    pub fn layout_of(&self, identity: &Identity) -> Layout {
        let mut keys = self.keys.clone();
        keys.pid = identity.pid;
        keys.parent_pid = identity.parent_pid.unwrap_or(keys.parent_pid);
        if let Some(rank) = &identity.rank {
            keys.rank = Some(rank.rank);
            keys.size = rank.size.or(keys.size);
        }
        Layout {
            prefix: expand(&self.layout.prefix, &keys),
            file_name: expand(&self.layout.file_name, &keys),
            ..self.layout.clone()
        }
    }

    /// Whether samples of this time are kept.
    #[must_use]
    pub fn keeps(&self, time_ns: u64) -> bool {
        self.kept(time_ns, time_ns) == (time_ns, time_ns)
    }

    /// The part of a stretch of time that is kept.
    #[must_use]
    pub fn kept(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let begin = self.start_ns.saturating_add(nanoseconds(self.delay));
        let first = if self.delay.is_zero() { 0 } else { begin };
        let last = self.duration.map_or(u64::MAX, |duration| {
            begin.saturating_add(nanoseconds(duration))
        });
        (from_ns.clamp(first, last), to_ns.clamp(first, last))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The id of this boot, and the name of this machine.
#[must_use]
pub fn boot_and_host() -> (String, String) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    (boot.trim().to_owned(), host.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_counts_from_the_start() {
        let second = Duration::from_secs(1);
        let mut run = RunContext {
            layout: Layout {
                directory: "/".into(),
                prefix: String::new(),
                file_name: "t".into(),
                name_processes: true,
            },
            keys: KeyValues::default(),
            compression: Compression::None,
            frequency_hz: 300.0,
            realtime_hz: None,
            counted: Vec::new(),
            overflow: None,
            off_cpu: false,
            unwinder: String::new(),
            python: PythonView::default(),
            start_ns: 5_000_000_000,
            delay: Duration::ZERO,
            duration: None,
            boot_id: String::new(),
            host: String::new(),
            verbosity: 0,
        };
        assert_eq!(run.period_ns(), 3_333_333);
        assert!(run.keeps(0) && run.keeps(u64::MAX));
        run.delay = second;
        assert!(!run.keeps(5_999_999_999) && run.keeps(6_000_000_000) && run.keeps(u64::MAX));
        run.duration = Some(second);
        assert!(run.keeps(7_000_000_000) && !run.keeps(7_000_000_001));
        assert_eq!(
            run.kept(0, u64::MAX),
            (6_000_000_000, 7_000_000_000),
            "a stretch is cut"
        );
    }
}
