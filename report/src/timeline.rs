//! Times and open slices of a trace, followed without decoding its packets.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use rsys_proto::fields::{defaults, event, packet};
use rsys_proto::message::{Fields, Torn};
use rsys_proto::schema::{self, ClockSnapshot, event_type};

use crate::clocks::{TraceClocks, is_local};

/// The time bases of samples that are counted elsewhere, as `rsys-sample` names them.
const OTHER_TIMES: [&[u8]; 2] = [b"waiting-time ns", b"gpu-time ns"];

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Timeline {
    sequences: HashMap<u32, Sequence>,
    clocks: TraceClocks,
    /// The latest time, as BOOTTIME.
    pub last_ns: u64,
    /// The largest sequence id.
    pub last_sequence: u32,
    /// Open slices, by the uuid of their track.
    pub open: BTreeMap<u64, u64>,
    /// Samples of CPU time, or of an event; not those that stand for time that was waited or spent on GPUs.
    pub samples: u64,
    /// Slices that were begun.
    pub slices: u64,
}

#[derive(Debug, Default)]
struct Sequence {
    default_clock: u32,
    default_track: u64,
    clocks: HashMap<u32, LocalClock>,
    /// Whether its samples stand for other time than that of the CPU.
    is_other_time: bool,
}

#[derive(Debug)]
struct LocalClock {
    incremental: bool,
    unit_ns: u64,
    value: u64,
    boottime_ns: u64,
}

impl Timeline {
    /// Takes in a packet; packets come in file order.
    ///
    /// # Errors
    /// When a field of it is torn.
    pub fn packet(&mut self, encoded: &[u8]) -> Result<(), Torn> {
        let (mut timestamp, mut clock, mut id) = (None, 0, 0);
        let (mut cleared, mut defaults, mut snapshot, mut event) = (false, None, None, None);
        let mut is_sample = false;
        for field in Fields::new(encoded) {
            let field = field?;
            match field.number {
                packet::TIMESTAMP => timestamp = Some(field.value.number()),
                packet::TIMESTAMP_CLOCK_ID => clock = field.value.number32(),
                packet::SEQUENCE_ID => id = field.value.number32(),
                packet::SEQUENCE_FLAGS => {
                    cleared |= field.value.number32() & schema::SEQ_INCREMENTAL_STATE_CLEARED != 0;
                }
                packet::INCREMENTAL_STATE_CLEARED => cleared |= field.value.number() != 0,
                packet::DEFAULTS => defaults = Some(field.value.bytes()),
                packet::CLOCK_SNAPSHOT => snapshot = Some(field.value.bytes()),
                packet::TRACK_EVENT => event = Some(field.value.bytes()),
                packet::PERF_SAMPLE => is_sample = true,
                _ => {}
            }
        }
        self.last_sequence = self.last_sequence.max(id);
        let sequence = self.sequences.entry(id).or_default();
        if cleared || defaults.is_some() {
            (sequence.default_clock, sequence.default_track) = (0, 0);
        }
        if let Some(defaults) = defaults {
            sequence.set_defaults(defaults)?;
            sequence.is_other_time = OTHER_TIMES.iter().any(|name| contains(defaults, name));
        }
        if let Some(snapshot) = snapshot {
            let snapshot = ClockSnapshot::decode(snapshot).map_err(|_| Torn)?;
            self.clocks.observe(&snapshot);
            let boottime_ns = self.clocks.boottime_of(&snapshot);
            sequence.set_clocks(&snapshot, boottime_ns);
            self.last_ns = self.last_ns.max(boottime_ns.unwrap_or(0));
        }
        let clock = if clock == 0 {
            sequence.default_clock
        } else {
            clock
        };
        let time_ns = timestamp.and_then(|value| match is_local(clock) {
            true => sequence.time(clock, value),
            false => self.clocks.boottime(clock, value),
        });
        self.last_ns = self.last_ns.max(time_ns.unwrap_or(0));
        self.samples += u64::from(is_sample && !sequence.is_other_time);
        if let Some(event) = event {
            let default_track = sequence.default_track;
            self.event(event, default_track)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &[u8], default_track: u64) -> Result<(), Torn> {
        let (mut kind, mut track) = (0, default_track);
        for field in Fields::new(event) {
            let field = field?;
            match field.number {
                event::TYPE => kind = field.value.number32().cast_signed(),
                event::TRACK_UUID => track = field.value.number(),
                _ => {}
            }
        }
        match kind {
            event_type::SLICE_BEGIN => {
                *self.open.entry(track).or_default() += 1;
                self.slices += 1;
            }
            event_type::SLICE_END => {
                if let Some(open) = self.open.get_mut(&track) {
                    *open -= 1;
                    if *open == 0 {
                        self.open.remove(&track);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Sequence {
    fn set_defaults(&mut self, bytes: &[u8]) -> Result<(), Torn> {
        for field in Fields::new(bytes) {
            let field = field?;
            match field.number {
                defaults::TIMESTAMP_CLOCK_ID => self.default_clock = field.value.number32(),
                defaults::TRACK_EVENT => {
                    for field in Fields::new(field.value.bytes()) {
                        let field = field?;
                        if field.number == event::TRACK_UUID {
                            self.default_track = field.value.number();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_clocks(&mut self, snapshot: &ClockSnapshot, boottime_ns: Option<u64>) {
        for one in &snapshot.clocks {
            if let (Some(id), Some(value)) = (one.clock_id, one.timestamp)
                && is_local(id)
            {
                let clock = LocalClock {
                    incremental: one.is_incremental == Some(true),
                    unit_ns: one.unit_multiplier_ns.unwrap_or(1).max(1),
                    value,
                    boottime_ns: boottime_ns.unwrap_or(value),
                };
                self.clocks.insert(id, clock);
            }
        }
    }

    fn time(&mut self, clock: u32, value: u64) -> Option<u64> {
        let clock = self.clocks.get_mut(&clock)?;
        if clock.incremental {
            let step = value.wrapping_mul(clock.unit_ns);
            clock.boottime_ns = clock.boottime_ns.wrapping_add(step);
            return Some(clock.boottime_ns);
        }
        let since = value.wrapping_sub(clock.value).wrapping_mul(clock.unit_ns);
        Some(clock.boottime_ns.wrapping_add(since))
    }
}
