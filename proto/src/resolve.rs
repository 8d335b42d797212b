//! Undoing interning, defaults and delta times while packets are read in file order.

use std::collections::HashMap;

use crate::schema::{self, TracePacket, clock};

/// What the packets so far have said about their sequences.
#[derive(Debug, Default)]
pub struct Resolver {
    sequences: HashMap<u32, Sequence>,
}

/// The interning tables and defaults of one sequence.
#[derive(Debug, Default)]
pub struct Sequence {
    /// Track of events that name none.
    pub default_track: u64,
    /// Names of events.
    pub event_names: HashMap<u64, String>,
    /// Categories of events.
    pub categories: HashMap<u64, String>,
    /// Keys of annotations.
    pub annotation_names: HashMap<u64, String>,
    /// Interned texts of annotations.
    pub annotation_values: HashMap<u64, String>,
    /// Names of functions.
    pub functions: HashMap<u64, String>,
    /// Parts of mapping paths.
    pub mapping_paths: HashMap<u64, String>,
    /// Source files.
    pub source_paths: HashMap<u64, String>,
    /// Build ids.
    pub build_ids: HashMap<u64, Vec<u8>>,
    /// Mappings.
    pub mappings: HashMap<u64, schema::Mapping>,
    /// Frames.
    pub frames: HashMap<u64, schema::Frame>,
    /// Call stacks, outermost frame first.
    pub callstacks: HashMap<u64, Vec<u64>>,
    default_clock: u32,
    /// Sequence-local clocks: whether they are incremental, their unit and, as BOOTTIME, their last value.
    clocks: HashMap<u32, LocalClock>,
}

#[derive(Debug, Clone, Copy)]
struct LocalClock {
    incremental: bool,
    unit_ns: u64,
    /// Value of the clock that `boottime_ns` belongs to (not used when incremental).
    base: u64,
    boottime_ns: u64,
}

impl Resolver {
    /// A resolver at the start of a trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a packet and returns its time (BOOTTIME, or the clock that it names if that is another builtin one). To be called once for
    /// each packet, in file order, before its contents are looked up.
    pub fn observe(&mut self, packet: &mut TracePacket) -> Option<u64> {
        let sequence = self
            .sequences
            .entry(packet.trusted_packet_sequence_id.unwrap_or(0))
            .or_default();
        let flags = packet.sequence_flags.unwrap_or(0);
        if flags & schema::SEQ_INCREMENTAL_STATE_CLEARED != 0
            || packet.incremental_state_cleared == Some(true)
        {
            *sequence = Sequence {
                clocks: std::mem::take(&mut sequence.clocks),
                ..Sequence::default()
            };
        }
        if let Some(defaults) = &packet.trace_packet_defaults {
            sequence.default_clock = defaults.timestamp_clock_id.unwrap_or(0);
            sequence.default_track = defaults
                .track_event_defaults
                .as_ref()
                .and_then(|event| event.track_uuid)
                .unwrap_or(0);
        }
        if let Some(interned) = packet.interned_data.take() {
            sequence.define(*interned);
        }
        if let Some(snapshot) = &packet.clock_snapshot {
            sequence.set_clocks(snapshot);
        }
        let timestamp = packet.timestamp?;
        Some(sequence.time(
            packet.timestamp_clock_id.unwrap_or(sequence.default_clock),
            timestamp,
        ))
    }

    /// Takes in the times of packets of a sequence that are not observed, and name no clock: their sum.
    pub fn advance(&mut self, sequence: u32, timestamps: u64) {
        if let Some(sequence) = self.sequences.get_mut(&sequence) {
            let clock = sequence.default_clock;
            let clocks = sequence.clocks.get(&clock);
            if clocks.is_some_and(|clock| clock.incremental) {
                sequence.time(clock, timestamps);
            }
        }
    }

    /// The track of events of a sequence that name none.
    pub fn default_track(&self, sequence: u32) -> u64 {
        let sequence = self.sequences.get(&sequence);
        sequence.map_or(0, |sequence| sequence.default_track)
    }

    /// The state of the sequence of `packet`.
    pub fn sequence(&self, packet: &TracePacket) -> Option<&Sequence> {
        self.sequences
            .get(&packet.trusted_packet_sequence_id.unwrap_or(0))
    }
}

impl Sequence {
    /// The name of an event, interned or not; empty if it has none.
    pub fn event_name<'a>(&'a self, event: &'a schema::TrackEvent) -> &'a str {
        let interned = || event.name_iid.and_then(|iid| self.event_names.get(&iid));
        event
            .name
            .as_ref()
            .or_else(interned)
            .map_or("", String::as_str)
    }

    /// The track of an event.
    pub fn event_track(&self, event: &schema::TrackEvent) -> u64 {
        event.track_uuid.unwrap_or(self.default_track)
    }

    /// The key of an annotation.
    pub fn annotation_name<'a>(&'a self, annotation: &'a schema::DebugAnnotation) -> &'a str {
        let interned = || {
            annotation
                .name_iid
                .and_then(|iid| self.annotation_names.get(&iid))
        };
        annotation
            .name
            .as_ref()
            .or_else(interned)
            .map_or("", String::as_str)
    }

    /// The text of an annotation that has one.
    pub fn annotation_text<'a>(
        &'a self,
        annotation: &'a schema::DebugAnnotation,
    ) -> Option<&'a str> {
        let interned = || {
            annotation
                .string_value_iid
                .and_then(|iid| self.annotation_values.get(&iid))
        };
        annotation
            .string_value
            .as_ref()
            .or_else(interned)
            .map(String::as_str)
    }

    /// The path of a mapping.
    pub fn mapping_path(&self, mapping: &schema::Mapping) -> String {
        let mut path = String::new();
        for part in &mapping.path_string_ids {
            path.push('/');
            path.push_str(self.mapping_paths.get(part).map_or("", String::as_str));
        }
        path
    }

    /// The names of the functions of a call stack, outermost first; empty for those without a name.
    pub fn callstack_functions(&self, callstack_iid: u64) -> Vec<&str> {
        let frames = self
            .callstacks
            .get(&callstack_iid)
            .map_or(&[][..], Vec::as_slice);
        let function = |frame: &u64| {
            self.functions
                .get(&self.frames.get(frame)?.function_name_id?)
        };
        frames
            .iter()
            .map(|frame| function(frame).map_or("", String::as_str))
            .collect()
    }

    fn define(&mut self, interned: schema::InternedData) {
        let names = |table: &mut HashMap<u64, String>, entries: Vec<schema::InternedName>| {
            table.extend(
                entries
                    .into_iter()
                    .map(|entry| (entry.iid.unwrap_or(0), entry.name.unwrap_or_default())),
            );
        };
        let strings = |table: &mut HashMap<u64, String>, entries: Vec<schema::InternedString>| {
            let text = |bytes: Vec<u8>| {
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
            };
            table.extend(
                entries
                    .into_iter()
                    .map(|entry| (entry.iid.unwrap_or(0), text(entry.str.unwrap_or_default()))),
            );
        };
        names(&mut self.categories, interned.event_categories);
        names(&mut self.event_names, interned.event_names);
        names(&mut self.annotation_names, interned.debug_annotation_names);
        strings(
            &mut self.annotation_values,
            interned.debug_annotation_string_values,
        );
        strings(&mut self.functions, interned.function_names);
        strings(&mut self.mapping_paths, interned.mapping_paths);
        strings(&mut self.source_paths, interned.source_paths);
        self.build_ids.extend(
            interned
                .build_ids
                .into_iter()
                .map(|entry| (entry.iid.unwrap_or(0), entry.str.unwrap_or_default())),
        );
        self.mappings.extend(
            interned
                .mappings
                .into_iter()
                .map(|mapping| (mapping.iid.unwrap_or(0), mapping)),
        );
        self.frames.extend(
            interned
                .frames
                .into_iter()
                .map(|frame| (frame.iid.unwrap_or(0), frame)),
        );
        self.callstacks.extend(
            interned
                .callstacks
                .into_iter()
                .map(|stack| (stack.iid.unwrap_or(0), stack.frame_ids)),
        );
    }

    fn set_clocks(&mut self, snapshot: &schema::ClockSnapshot) {
        let boottime = snapshot
            .clocks
            .iter()
            .find(|one| one.clock_id == Some(clock::BOOTTIME))
            .and_then(|one| one.timestamp);
        for one in &snapshot.clocks {
            let (Some(clock_id @ 64..=127), Some(base)) = (one.clock_id, one.timestamp) else {
                continue;
            };
            let local = LocalClock {
                incremental: one.is_incremental.unwrap_or(false),
                unit_ns: one.unit_multiplier_ns.unwrap_or(1),
                base,
                boottime_ns: boottime.unwrap_or(base),
            };
            self.clocks.insert(clock_id, local);
        }
    }

    fn time(&mut self, clock_id: u32, timestamp: u64) -> u64 {
        let Some(local) = self.clocks.get_mut(&clock_id) else {
            return timestamp;
        };
        if local.incremental {
            local.boottime_ns = local
                .boottime_ns
                .wrapping_add(timestamp.wrapping_mul(local.unit_ns));
            local.boottime_ns
        } else {
            let since = timestamp
                .wrapping_sub(local.base)
                .wrapping_mul(local.unit_ns);
            local.boottime_ns.wrapping_add(since)
        }
    }
}
