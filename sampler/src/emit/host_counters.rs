//! In which trace the counters of the machine are shown.

use std::collections::HashMap;

use super::drawing::counters::hold;
use crate::counters::Reading;

/// The counters of host and GPUs: they belong into one trace, that of the command itself.
///
/// The command may have none, such as a shell that only waits. Then the first process that has one
/// gets them; but not at once, for the command may begin with short-lived helpers and execute the
/// real program thereafter.
#[derive(Debug, Default)]
pub struct HostCounters {
    /// The process of the command, through all programs that it executes.
    command_pid: Option<u32>,
    owner: Option<u32>,
    held: Vec<Reading>,
    latest: HashMap<u32, Reading>,
}

/// How long the command's own trace is waited for.
const PATIENCE_NS: u64 = 3_000_000_000;

impl HostCounters {
    /// A program announced itself; the first one is the command.
    pub fn begin(&mut self, host_pid: u32) {
        self.command_pid.get_or_insert(host_pid);
    }

    /// The trace that is to have the counters, of those that are open: their keys and processes.
    #[must_use]
    pub fn owner(
        &self,
        open: impl Iterator<Item = (u32, u32)>,
        is_last_chance: bool,
    ) -> Option<u32> {
        let mut first: Option<(u32, bool)> = None;
        for (key, host_pid) in open {
            if self.command_pid == Some(host_pid) {
                return Some(key);
            }
            let is_owner = self.owner == Some(key);
            if is_owner || first.is_none_or(|(other, was)| !was && key < other) {
                first = Some((key, is_owner));
            }
        }
        let times = self.held.first().zip(self.held.last());
        let has_waited =
            times.is_some_and(|(first, last)| last.time_ns - first.time_ns > PATIENCE_NS);
        first
            .filter(|_| self.owner.is_some() || has_waited || is_last_chance)
            .map(|(key, _)| key)
    }

    /// Whether no trace has had any yet.
    #[must_use]
    pub fn is_unclaimed(&self) -> bool {
        self.owner.is_none()
    }

    /// Takes over readings.
    pub fn hold(&mut self, readings: Vec<Reading>) {
        hold(&mut self.held, readings);
    }

    /// What the trace with this key is to write now, given that it is the first of those that are
    /// open.
    ///
    /// A trace that begins to have them gets the last value of each first: a value that does not
    /// change is read only once.
    #[must_use]
    pub fn hand_out(&mut self, owner: u32) -> Vec<Reading> {
        let mut handed: Vec<Reading> = Vec::with_capacity(self.held.len());
        if self.owner.is_some_and(|before| before != owner)
            && let Some(first) = self.held.first()
        {
            let now = first.time_ns;
            handed.extend(self.latest.values().map(|reading| Reading {
                time_ns: now,
                ..reading.clone()
            }));
        }
        self.owner = Some(owner);
        for reading in &self.held {
            self.latest.insert(reading.counter.id, reading.clone());
        }
        handed.append(&mut self.held);
        handed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::counters::{Counter, Unit};

    #[test]
    fn the_next_owner_learns_what_does_not_change() {
        let counter = Counter::new("c", Unit::Count, None, "");
        let reading = |time_ns, value| Reading {
            time_ns,
            counter: Arc::clone(&counter),
            value,
        };
        let other = Reading {
            counter: Counter::new("d", Unit::Count, None, ""),
            ..reading(2, 9.0)
        };
        let mut host = HostCounters::default();
        host.hold(vec![reading(1, 5.0)]);
        assert_eq!(host.hand_out(0), [reading(1, 5.0)]);
        host.hold(vec![other.clone()]);
        assert_eq!(host.hand_out(3), [reading(2, 5.0), other]);
    }

    #[test]
    fn the_command_has_them_or_else_the_first() {
        let counter = Counter::new("c", Unit::Count, None, "");
        let reading = |time_ns| Reading {
            time_ns,
            counter: Arc::clone(&counter),
            value: 1.0,
        };
        let mut host = HostCounters::default();
        host.begin(70);
        host.begin(71);
        host.hold(vec![reading(0), reading(5)]);
        let helper = [(1, 71)];
        let both = [(2, 72), (1, 71), (9, 70)];
        assert_eq!(host.owner([].into_iter(), true), None);
        assert_eq!(host.owner(helper.into_iter(), false), None);
        assert_eq!(host.owner(helper.into_iter(), true), Some(1));
        assert_eq!(host.owner(both.into_iter(), false), Some(9));
        host.hold(vec![reading(2 * PATIENCE_NS)]);
        assert_eq!(host.owner(both[..2].iter().copied(), false), Some(1));
        let handed = host.hand_out(2);
        assert_eq!(handed.len(), 3);
        assert_eq!(host.owner(both[..2].iter().copied(), false), Some(2));
    }
}
