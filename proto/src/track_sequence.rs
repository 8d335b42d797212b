//! The events of one track, each as small as it can be.

use crate::buffer::{DeltaClock, PacketBuffer, SequenceId, fill_packet_head, put_packet_head};
use crate::event::{CounterValue, Definitions, Event, EventKind, Name, put_event, short_event};
use crate::fields::{event, packet, trace};
use crate::schema::{self, TracePacket, clock};
use crate::strings::StringId;
use crate::wire::{self, Short};

/// Slices open at once on one track. The trace processor keeps 512 and then loses track of what an end belongs to.
pub const DEPTH_MAX: u32 = 500;

/// What a sequence had to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Slices nested deeper than [`DEPTH_MAX`].
    pub too_deep: u64,
    /// Ends without a begin.
    pub unmatched_ends: u64,
}

/// A packet sequence with one track as its default: a thread, a lane of a GPU queue, a counter.
///
/// Times are BOOTTIME nanoseconds. Events in time order cost least; a late one is written with its absolute time. Of events with equal times, the
/// one that was appended first comes first. The first event writes the sequence's defaults and clock, so a track without events costs nothing.
#[derive(Debug)]
pub struct TrackSequence {
    id: SequenceId,
    /// The id in the first file, by which further files know it.
    first: SequenceId,
    track: u64,
    clock: DeltaClock,
    defined: Definitions,
    /// The file that `clock` and `defined` are of.
    part: u32,
    open: u32,
    left_out: LeftOut,
}

impl TrackSequence {
    /// A sequence for the events of the track `uuid`.
    pub fn new(out: &mut PacketBuffer, uuid: u64) -> Self {
        let id = out.new_sequence();
        Self {
            id,
            first: id,
            track: uuid,
            clock: DeltaClock::default(),
            defined: Definitions::default(),
            part: out.part,
            open: 0,
            left_out: LeftOut::default(),
        }
    }

    /// The uuid of the track.
    pub fn track(&self) -> u64 {
        self.track
    }

    /// Slices begun and not ended.
    pub fn open_slices(&self) -> u32 {
        self.open
    }

    /// What was left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Opens a slice.
    #[inline]
    pub fn slice_begin(&mut self, out: &mut PacketBuffer, time_ns: u64, name: StringId) {
        if self.is_started(out) && self.defined.names.contains(name) {
            if self.enter() {
                self.short_event(out, time_ns, EventKind::SliceBegin, Some(name));
            }
        } else {
            self.event(
                out,
                time_ns,
                EventKind::SliceBegin,
                &Event {
                    name: Name::Interned(name),
                    ..Event::default()
                },
            );
        }
    }

    /// Closes the innermost open slice; without one, counts the call and does nothing.
    #[inline]
    pub fn slice_end(&mut self, out: &mut PacketBuffer, time_ns: u64) {
        if self.leave() {
            if !self.is_started(out) {
                self.start(out, time_ns);
            }
            self.short_event(out, time_ns, EventKind::SliceEnd, None);
        }
    }

    /// Closes all open slices.
    pub fn close_all(&mut self, out: &mut PacketBuffer, time_ns: u64) {
        while self.open > 0 {
            self.slice_end(out, time_ns);
        }
    }

    /// Marks a point in time.
    #[inline]
    pub fn instant(&mut self, out: &mut PacketBuffer, time_ns: u64, name: StringId) {
        self.event(
            out,
            time_ns,
            EventKind::Instant,
            &Event {
                name: Name::Interned(name),
                ..Event::default()
            },
        );
    }

    /// Sets the counter that is this sequence's track.
    pub fn counter(
        &mut self,
        out: &mut PacketBuffer,
        time_ns: u64,
        value: impl Into<CounterValue>,
    ) {
        self.event(
            out,
            time_ns,
            EventKind::Counter,
            &Event {
                counter: Some(value.into()),
                ..Event::default()
            },
        );
    }

    /// Sets the counter track `uuid`.
    pub fn counter_on(
        &mut self,
        out: &mut PacketBuffer,
        time_ns: u64,
        uuid: u64,
        value: impl Into<CounterValue>,
    ) {
        self.event(
            out,
            time_ns,
            EventKind::Counter,
            &Event {
                counter: Some(value.into()),
                track: Some(uuid),
                ..Event::default()
            },
        );
    }

    /// Any event. Depth is watched on the sequence's own track only.
    pub fn event(
        &mut self,
        out: &mut PacketBuffer,
        time_ns: u64,
        kind: EventKind,
        details: &Event<'_>,
    ) {
        if details.track.is_none() {
            let written = match kind {
                EventKind::SliceBegin => self.enter(),
                EventKind::SliceEnd => self.leave(),
                EventKind::Instant | EventKind::Counter => true,
            };
            if !written {
                return;
            }
        }
        if !self.is_started(out) {
            self.start(out, time_ns);
        }
        let time_ns = self.carry(out, time_ns, kind, details);
        let time = self.clock.advance(time_ns);
        let (id, defined) = (self.id, &mut self.defined);
        // Nearly all events are of this kind.
        if defined.cover(details)
            && let Some(body) = short_event(kind, details)
        {
            let mut head = Short::<32>::new();
            fill_packet_head(&mut head, time, id);
            head.byte(const { wire::short_bytes_key(packet::TRACK_EVENT) });
            head.varint(body.len() as u64);
            return out.packet_of(&head, &body);
        }
        out.raw_packet(|body, strings| {
            put_packet_head(body, time, id);
            if !defined.cover(details) {
                wire::put_message(body, packet::INTERNED_DATA, |body| {
                    defined.put_missing(body, strings, details)
                });
            }
            wire::put_message(body, packet::TRACK_EVENT, |body| {
                put_event(body, kind, details)
            });
        });
    }

    /// Whether this file knows the sequence.
    #[inline]
    fn is_started(&self, out: &PacketBuffer) -> bool {
        self.clock.is_started() && self.part == out.part
    }

    /// Takes note of an event for further files, and returns its time.
    #[inline]
    fn carry(
        &self,
        out: &mut PacketBuffer,
        time_ns: u64,
        kind: EventKind,
        details: &Event<'_>,
    ) -> u64 {
        match &mut out.carried {
            Some(carried) => carried.event(self.first, self.track, time_ns, kind, details),
            None => time_ns,
        }
    }

    fn enter(&mut self) -> bool {
        self.open += 1;
        if self.open > DEPTH_MAX {
            self.left_out.too_deep += 1;
        }
        self.open <= DEPTH_MAX
    }

    fn leave(&mut self) -> bool {
        match self.open {
            0 => {
                self.left_out.unmatched_ends += 1;
                false
            }
            depth => {
                self.open = depth - 1;
                depth <= DEPTH_MAX
            }
        }
    }

    /// An event on the default track of a started sequence, with a name that is defined or none.
    ///
    /// The packet is built on the stack: its lengths are known to be below 128, so they are single bytes.
    #[inline]
    fn short_event(
        &mut self,
        out: &mut PacketBuffer,
        time_ns: u64,
        kind: EventKind,
        name: Option<StringId>,
    ) {
        // Two keys with their lengths (4), type (2), a late time with its clock (1 + 10 + 3), sequence (1 + 5) and name (1 + 5).
        const BYTES_MAX: usize = 32;
        let details = Event {
            name: name.map_or(Name::None, Name::Interned),
            ..Event::default()
        };
        let time_ns = self.carry(out, time_ns, kind, &details);
        let mut bytes = Short::<BYTES_MAX>::new();
        bytes.byte(const { wire::short_bytes_key(trace::PACKET) });
        let packet_length = bytes.len();
        bytes.byte(0);
        fill_packet_head(&mut bytes, self.clock.advance(time_ns), self.id);
        bytes.byte(const { wire::short_bytes_key(packet::TRACK_EVENT) });
        let event_length = bytes.len();
        bytes.byte(0);
        bytes.byte(const { wire::short_varint_key(event::TYPE) });
        bytes.byte(kind as u8);
        if let Some(name) = name {
            bytes.byte(const { wire::short_varint_key(event::NAME_IID) });
            bytes.varint(u64::from(name.get()));
        }
        bytes.set(event_length, (bytes.len() - event_length - 1) as u8);
        bytes.set(packet_length, (bytes.len() - packet_length - 1) as u8);
        out.short_packet(&bytes);
    }

    /// Writes the sequence's first packet: a fresh state, the default clock and track, and the clock itself.
    #[cold]
    fn start(&mut self, out: &mut PacketBuffer, time_ns: u64) {
        if self.part != out.part {
            // With the old id the clock would go back where files are put behind each other, if this event is a late one.
            self.id = out.new_sequence();
            (self.part, self.defined) = (out.part, Definitions::default());
        }
        let snapshot = self.clock.start(time_ns);
        out.packet(&TracePacket {
            trusted_packet_sequence_id: Some(self.id.get()),
            sequence_flags: Some(schema::SEQ_INCREMENTAL_STATE_CLEARED),
            clock_snapshot: Some(Box::new(snapshot)),
            trace_packet_defaults: Some(Box::new(schema::TracePacketDefaults {
                timestamp_clock_id: Some(clock::SEQUENCE_DELTA),
                track_event_defaults: Some(schema::TrackEventDefaults {
                    track_uuid: Some(self.track),
                }),
                perf_sample_defaults: None,
            })),
            ..Default::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn the_longest_short_event_fits() {
        let mut out = PacketBuffer::new();
        let mut sequence = TrackSequence::new(&mut out, 1);
        sequence.id = SequenceId(u32::MAX);
        sequence.start(&mut out, u64::MAX);
        out.clear();
        sequence.short_event(
            &mut out,
            u64::MAX - 1,
            EventKind::SliceBegin,
            Some(StringId::MAX),
        );
        assert_eq!(out.bytes().len(), 32);
        let packet = TracePacket::decode_length_delimited(&out.bytes()[1..]).unwrap();
        assert_eq!(
            (packet.timestamp, packet.timestamp_clock_id),
            (Some(u64::MAX - 1), Some(clock::BOOTTIME))
        );
        assert_eq!(
            packet.track_event.unwrap().name_iid,
            Some(u64::from(u32::MAX))
        );
    }

    #[test]
    fn an_ordinary_pair_takes_some_25_bytes() {
        let mut out = PacketBuffer::new();
        let mut sequence = TrackSequence::new(&mut out, 1);
        let name = out.intern("f");
        sequence.slice_begin(&mut out, 0, name);
        sequence.slice_end(&mut out, 1);
        out.clear();
        // Two milliseconds apart, or three bytes of delta.
        sequence.slice_begin(&mut out, 2_000_000, name);
        sequence.slice_end(&mut out, 4_000_000);
        assert_eq!(out.bytes().len(), 14 + 12);
    }
}
