//! Packets of which only the time and the nesting of slices count for collectives: almost all of a trace.

use rsys_proto::fields::{event, packet};
use rsys_proto::message::Fields;
use rsys_proto::schema::event_type;

/// What such a packet says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ordinary {
    /// Its sequence.
    pub sequence: u32,
    /// Its time, by the clock that times of the sequence are of; 0 if it names another one.
    pub time: u64,
    /// The slice that it begins or ends.
    pub slice: Slice,
}

/// What a packet says of slices, with the track where it names one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Slice {
    /// Nothing.
    #[default]
    None,
    /// One begins, without annotations and flows.
    Begin(Option<u64>),
    /// One ends.
    End(Option<u64>),
}

/// Reads a packet; `None` if more of it counts.
#[inline]
pub fn ordinary(encoded: &[u8]) -> Option<Ordinary> {
    let mut ordinary = Ordinary::default();
    let (mut names_clock, mut is_sample, mut has_more) = (false, false, false);
    for field in Fields::new(encoded) {
        let field = field.ok()?;
        match field.number {
            packet::TIMESTAMP => ordinary.time = field.value.number(),
            packet::SEQUENCE_ID => ordinary.sequence = field.value.number32(),
            packet::TRACK_EVENT => ordinary.slice = slice(field.value.bytes())?,
            packet::TIMESTAMP_CLOCK_ID => names_clock = true,
            // Samples have nothing to say here, and their tables of call stacks are long.
            packet::PERF_SAMPLE => is_sample = true,
            _ => has_more = true,
        }
    }
    if is_sample {
        ordinary.time *= u64::from(!names_clock);
    } else if names_clock || has_more {
        return None;
    }
    Some(ordinary)
}

#[inline]
fn slice(event: &[u8]) -> Option<Slice> {
    let (mut kind, mut track) = (0, None);
    for field in Fields::new(event) {
        let field = field.ok()?;
        match field.number {
            event::TYPE => kind = field.value.number32().cast_signed(),
            event::TRACK_UUID => track = Some(field.value.number()),
            event::DEBUG_ANNOTATIONS
            | event::FLOW_IDS
            | event::TERMINATING_FLOW_IDS
            | event::FLOW_IDS_OLD
            | event::TERMINATING_FLOW_IDS_OLD => return None,
            _ => {}
        }
    }
    Some(match kind {
        event_type::SLICE_BEGIN => Slice::Begin(track),
        event_type::SLICE_END => Slice::End(track),
        _ => Slice::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use rsys_proto::schema::{PerfSample, TracePacket, TrackEvent};

    #[test]
    fn what_says_more_is_left_to_others() {
        let begin = TracePacket {
            timestamp: Some(7),
            trusted_packet_sequence_id: Some(3),
            track_event: Some(TrackEvent {
                r#type: Some(event_type::SLICE_BEGIN),
                name_iid: Some(9),
                ..TrackEvent::default()
            }),
            ..TracePacket::default()
        };
        let expected = Ordinary {
            sequence: 3,
            time: 7,
            slice: Slice::Begin(None),
        };
        assert_eq!(ordinary(&begin.encode_to_vec()), Some(expected));
        let mut with_flow = begin.clone();
        with_flow.track_event.as_mut().unwrap().flow_ids = vec![1];
        let with_flags = TracePacket {
            sequence_flags: Some(1),
            ..begin.clone()
        };
        let with_clock = TracePacket {
            timestamp_clock_id: Some(6),
            ..begin
        };
        for packet in [with_flow, with_flags, with_clock.clone()] {
            assert_eq!(ordinary(&packet.encode_to_vec()), None);
        }
        let sample = TracePacket {
            track_event: None,
            perf_sample: Some(PerfSample::default()),
            ..with_clock
        };
        let expected = Ordinary {
            sequence: 3,
            ..Ordinary::default()
        };
        assert_eq!(ordinary(&sample.encode_to_vec()), Some(expected));
    }
}
