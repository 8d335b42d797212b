//! Traces in several files, each of which opens alone.
//!
//! Where a file ends, open slices end; where the next begins, tracks are described, counters have their last value, and those slices go on. So the
//! times of slices in all files add up to those in one. Files that are put behind each other are one trace again.

use std::collections::HashMap;

use prost::Message;

use crate::buffer::{PacketBuffer, SequenceId};
use crate::event::{CounterValue, Event, EventKind, Name};
use crate::schema::{self, TracePacket, clock};
use crate::strings::{StringId, StringTable};

/// What a further file says again.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Whole packets that describe tracks: the last of each, in the order of the first.
    descriptors: Vec<Vec<u8>>,
    /// Where that of a track is.
    places: HashMap<u64, usize>,
    open: HashMap<SequenceId, OpenSlices>,
    /// Tracks of counters: their last value.
    counters: HashMap<u64, CounterValue>,
}

/// The open slices of a sequence's track, outermost first.
#[derive(Debug)]
struct OpenSlices {
    track: u64,
    slices: Vec<OpenSlice>,
    /// The last time that was written.
    last_ns: u64,
    /// Where the slices that went on from the file before were begun again: they end there at the earliest.
    floor_ns: u64,
}

#[derive(Debug)]
struct OpenSlice {
    name: SliceName,
    category: Option<StringId>,
}

#[derive(Debug)]
enum SliceName {
    None,
    Interned(StringId),
    Once(Box<str>),
}

impl OpenSlice {
    fn new(event: &Event<'_>) -> Self {
        Self {
            name: match event.name {
                Name::None => SliceName::None,
                Name::Interned(id) => SliceName::Interned(id),
                Name::Once(text) => SliceName::Once(text.into()),
            },
            category: event.category,
        }
    }

    fn begin(&self, strings: &StringTable) -> schema::TrackEvent {
        let name = match &self.name {
            SliceName::None => None,
            SliceName::Interned(id) => Some(strings.text(*id).to_owned()),
            SliceName::Once(text) => Some(text.as_ref().to_owned()),
        };
        let category = self.category.map(|id| strings.text(id).to_owned());
        schema::TrackEvent {
            name,
            categories: category.into_iter().collect(),
            ..Default::default()
        }
    }
}

impl Carried {
    /// Takes note of an encoded packet that describes a track.
    pub fn descriptor(&mut self, track: u64, packet: &TracePacket) {
        let encoded = packet.encode_to_vec();
        match self.places.get(&track) {
            Some(&place) => self.descriptors[place] = encoded,
            None => {
                self.places.insert(track, self.descriptors.len());
                self.descriptors.push(encoded);
            }
        }
    }

    /// Takes note of an event of a sequence, and returns its time: not earlier than where the file begins, if slices went on there.
    pub fn event(
        &mut self,
        sequence: SequenceId,
        track: u64,
        time_ns: u64,
        kind: EventKind,
        event: &Event<'_>,
    ) -> u64 {
        if let Some(value) = event.counter {
            self.counters.insert(event.track.unwrap_or(track), value);
        }
        let is_slice = matches!(kind, EventKind::SliceBegin | EventKind::SliceEnd);
        if !is_slice || event.track.is_some() {
            return time_ns;
        }
        let of = self.open.entry(sequence).or_insert_with(|| OpenSlices {
            track,
            slices: Vec::new(),
            last_ns: 0,
            floor_ns: 0,
        });
        let time_ns = time_ns.max(of.floor_ns);
        of.last_ns = time_ns.max(of.last_ns);
        match kind {
            EventKind::SliceBegin => of.slices.push(OpenSlice::new(event)),
            _ => drop(of.slices.pop()),
        }
        if of.slices.is_empty() {
            self.open.remove(&sequence);
        }
        time_ns
    }

    /// Open slices, the sequences that were made first in front.
    fn in_order(&mut self) -> impl Iterator<Item = &mut OpenSlices> {
        let mut all: Vec<_> = self.open.iter_mut().collect();
        all.sort_by_key(|(sequence, _)| sequence.get());
        all.into_iter().map(|(_, of)| of)
    }
}

impl PacketBuffer {
    /// From now on what further files have to say again is kept. To be called before the first packet.
    pub fn keep_for_parts(&mut self) {
        self.carried.get_or_insert_default();
    }

    /// Ends the slices that are open, for a file ends here: at `time_ns`, or at the last time of their track if that is later.
    pub(crate) fn end_part(&mut self, time_ns: u64) {
        let Some(mut carried) = self.carried.take() else {
            return;
        };
        for of in carried.in_order() {
            of.floor_ns = of.last_ns.max(time_ns);
            for _ in &of.slices {
                let end = schema::TrackEvent::default();
                self.part_event(of.floor_ns, of.track, EventKind::SliceEnd, end);
            }
        }
        self.carried = Some(carried);
    }

    /// Begins a file with what it needs of those before: tracks, counters, and the slices that [`end_part`](Self::end_part) ended.
    pub(crate) fn begin_part(&mut self, time_ns: u64) {
        let Some(mut carried) = self.carried.take() else {
            return;
        };
        self.part += 1;
        self.forget_meta_sequence();
        // A packet of its own in front: the others are stored as they were.
        self.meta_packet(TracePacket::default());
        for descriptor in &carried.descriptors {
            self.raw_packet(|body, _| body.extend_from_slice(descriptor));
        }
        let mut counters: Vec<_> = carried.counters.iter().collect();
        counters.sort_by_key(|(track, _)| **track);
        for (&track, &value) in counters {
            let (counter_value, double_counter_value) = match value {
                CounterValue::Int(value) => (Some(value), None),
                CounterValue::Double(value) => (None, Some(value)),
            };
            let event = schema::TrackEvent {
                counter_value,
                double_counter_value,
                ..Default::default()
            };
            self.part_event(time_ns, track, EventKind::Counter, event);
        }
        for of in carried.in_order() {
            for slice in &of.slices {
                let begin = slice.begin(self.strings());
                self.part_event(of.floor_ns, of.track, EventKind::SliceBegin, begin);
            }
        }
        self.carried = Some(carried);
    }

    fn part_event(&mut self, time_ns: u64, track: u64, kind: EventKind, event: schema::TrackEvent) {
        self.meta_packet(TracePacket {
            timestamp: Some(time_ns),
            timestamp_clock_id: Some(clock::BOOTTIME),
            track_event: Some(schema::TrackEvent {
                r#type: Some(kind as i32),
                track_uuid: Some(track),
                ..event
            }),
            ..Default::default()
        });
    }
}
