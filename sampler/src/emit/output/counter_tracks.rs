//! The tracks of counters: of the process, and of the machine beside all processes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rsys_proto::{
    CounterTrack, CounterUnit, CounterValue, NamedTrack, ProcessNamespace, TrackSequence,
};

use super::Output;
use super::tracks::Group;
use crate::counters::{Counter, Group as CounterGroup, Unit};

/// Name of the group of a process's counters.
const COUNTERS: &str = "counters";

/// Says of tracks that they are not about the process with which they are shown.
const WHOLE_MACHINE: &str = "Of the whole machine, whoever uses it";

/// The groups of counters.
#[derive(Debug)]
pub(super) struct CounterGroups {
    /// Tracks that stand for the host and its GPUs.
    groups: HashMap<Arc<CounterGroup>, Group>,
    /// The tracks below them, and themselves: those of other processes' traces have the same ids.
    machine: Option<ProcessNamespace>,
    machine_tracks: HashSet<u64>,
    /// The group of the process's own counters.
    own: Option<u64>,
}

impl CounterGroups {
    pub(super) fn new(boot_id: &str) -> Self {
        Self {
            groups: HashMap::new(),
            machine: (!boot_id.is_empty()).then(|| ProcessNamespace::machine(boot_id)),
            machine_tracks: HashSet::new(),
            own: None,
        }
    }
}

impl Output {
    /// A track for a counter.
    pub fn counter_track(&mut self, counter: &Counter) -> TrackSequence {
        match &counter.group {
            Some(group) => {
                let uuid = self.machine_track(group, &counter.name);
                let (parent, rank) = self.machine_group(group);
                self.write_counter_track(uuid, parent, Some(rank), counter)
            }
            None => {
                let parent = self.counters();
                self.counter_track_below(parent, counter)
            }
        }
    }

    /// A track for a counter below another track.
    pub fn counter_track_below(&mut self, parent: u64, counter: &Counter) -> TrackSequence {
        let uuid = self.new_track();
        self.write_counter_track(uuid, parent, None, counter)
    }

    fn write_counter_track(
        &mut self,
        uuid: u64,
        parent: u64,
        rank: Option<i32>,
        counter: &Counter,
    ) -> TrackSequence {
        let out = self.writer.buffer();
        out.counter_track(&CounterTrack {
            uuid,
            parent: Some(parent),
            rank,
            name: &counter.name,
            unit: match counter.unit {
                Unit::Count => CounterUnit::Count,
                Unit::Bytes => CounterUnit::Bytes,
                Unit::Named(name) => CounterUnit::Named(name),
            },
            description: (!counter.description.is_empty()).then_some(&counter.description),
            ..CounterTrack::default()
        });
        TrackSequence::new(out, uuid)
    }

    /// The id of a track of something of the machine.
    fn machine_track(&mut self, group: &CounterGroup, name: &str) -> u64 {
        let Some(machine) = self.counter_groups.machine else {
            return self.new_track();
        };
        let CounterGroup {
            name: title,
            identity,
        } = group;
        let mut uuid = machine.named_track(&format!("{title}\n{identity}\n{name}"));
        while !self.counter_groups.machine_tracks.insert(uuid) {
            uuid = machine.track((uuid as u32).wrapping_add(1));
        }
        uuid
    }

    /// The track that stands for something beside all processes (the host, a GPU's sensors), and
    /// the rank of its next child. Viewers put tracks of no process above all processes.
    fn machine_group(&mut self, of: &Arc<CounterGroup>) -> (u64, i32) {
        if !self.counter_groups.groups.contains_key(of) {
            let uuid = self.machine_track(of, "");
            let group = self.write_group(uuid, None, &of.name, WHOLE_MACHINE);
            self.counter_groups.groups.insert(Arc::clone(of), group);
        }
        let group = self
            .counter_groups
            .groups
            .get_mut(of)
            .expect("it was inserted");
        (group.uuid, group.next_rank())
    }

    /// The group of what was read of the process itself.
    fn counters(&mut self) -> u64 {
        if let Some(uuid) = self.counter_groups.own {
            return uuid;
        }
        let uuid = self.new_track();
        let parent = Some(self.process_track());
        self.writer.buffer().track(&NamedTrack {
            uuid,
            parent,
            name: COUNTERS,
            description: Some("What was read of this process while it ran"),
            ..NamedTrack::default()
        });
        *self.counter_groups.own.insert(uuid)
    }
}

/// Whole numbers are written as such: they are shorter.
#[must_use]
pub fn counter_value(value: f64) -> CounterValue {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT {
        CounterValue::Int(value as i64)
    } else {
        CounterValue::Double(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(counter_value(5.0), CounterValue::Int(5));
        assert_eq!(counter_value(0.5), CounterValue::Double(0.5));
        assert_eq!(counter_value(1e300), CounterValue::Double(1e300));
    }
}
