//! What is read: counters and their values.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::session::ProcessKey;

/// What a counter's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Something with this name.
    Named(&'static str),
}

/// Something of the machine, beside all processes, that has counters: one track above theirs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Name of its track.
    pub name: String,
    /// Distinguishes it from others of this name on the same machine, whoever looks at it: containers
    /// number GPUs in their own way.
    pub identity: String,
}

/// A counter: one track.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    /// Distinguishes it from all others of the run.
    pub id: u32,
    /// Name of its track.
    pub name: String,
    /// What its numbers are.
    pub unit: Unit,
    /// The track below which it stands; none: the process itself.
    pub group: Option<Arc<Group>>,
    /// What it is, for the help of the viewer.
    pub description: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Counter {
    /// A counter that no other equals.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        group: Option<&Arc<Group>>,
        description: &str,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            unit,
            group: group.cloned(),
            description: description.to_owned(),
        })
    }
}

/// A value of a counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When: CLOCK_BOOTTIME.
    pub time_ns: u64,
    /// Of which counter.
    pub counter: Arc<Counter>,
    /// The value, in the counter's unit.
    pub value: f64,
}

/// A counter with the value that was recorded last: an equal one is not recorded again.
#[derive(Debug)]
pub struct Gauge {
    counter: Arc<Counter>,
    recorded: Option<f64>,
}

impl Gauge {
    /// A counter without a value.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        group: Option<&Arc<Group>>,
        description: &str,
    ) -> Self {
        Self {
            counter: Counter::new(name, unit, group, description),
            recorded: None,
        }
    }

    /// What its values are.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.counter.unit
    }

    /// Records a value, also if the one before was equal: one that counts from each reading to the next.
    pub fn add(&mut self, time_ns: u64, value: f64, out: &mut Vec<Reading>) {
        self.recorded = None;
        self.set(time_ns, value, out);
    }

    /// Records a value.
    pub fn set(&mut self, time_ns: u64, value: f64, out: &mut Vec<Reading>) {
        if self.recorded != Some(value) && value.is_finite() {
            self.recorded = Some(value);
            out.push(Reading {
                time_ns,
                counter: Arc::clone(&self.counter),
                value,
            });
        }
    }
}

/// What a number that only grows gained per second since it was seen last.
#[derive(Debug, Default)]
pub struct Rate {
    last: Option<(u64, u64)>,
}

impl Rate {
    /// Takes a new value; nothing comes of the first one.
    pub fn per_second(&mut self, time_ns: u64, value: u64) -> Option<f64> {
        let (last_ns, last) = self.last.replace((time_ns, value))?;
        let elapsed_ns = time_ns
            .checked_sub(last_ns)
            .filter(|elapsed| *elapsed > 0)?;
        Some(value.saturating_sub(last) as f64 * 1e9 / elapsed_ns as f64)
    }
}

/// What was read at several times.
#[derive(Debug, Default)]
pub struct Readings {
    /// Of processes.
    pub processes: HashMap<ProcessKey, Vec<Reading>>,
    /// Of host and GPUs.
    pub host: Vec<Reading>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_news_are_told() {
        let mut gauge = Gauge::new("g", Unit::Count, None, "");
        let mut out = Vec::new();
        for (time_ns, value) in [(1, 5.0), (2, 5.0), (3, f64::NAN), (4, 6.0)] {
            gauge.set(time_ns, value, &mut out);
        }
        let recorded: Vec<_> = out.iter().map(|one| (one.time_ns, one.value)).collect();
        assert_eq!(recorded, [(1, 5.0), (4, 6.0)]);
    }

    #[test]
    fn rates_are_per_second() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(1_000_000_000, 100), None);
        assert_eq!(rate.per_second(1_500_000_000, 150), Some(100.0));
        assert_eq!(rate.per_second(1_500_000_000, 150), None);
        assert_eq!(rate.per_second(2_500_000_000, 10), Some(0.0));
    }
}
