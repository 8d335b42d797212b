//! What a part says of itself.

use prost::Message;
use rsys_proto::ProcessNamespace;
use rsys_proto::fields::trace;
use rsys_proto::message::put_message;
use rsys_proto::schema::{
    DebugAnnotation, TracePacket, TrackDescriptor, TrackEvent, clock, event_type,
};

/// Says what this is a part of, on a track of its own.
pub(super) fn say(id: u32, first_ns: u64, facts: &[(&str, String)], out: &mut Vec<u8>) {
    let uuid = ProcessNamespace::new("rsys cut", id, first_ns, 0).track(1);
    let facts = facts.iter().map(|(name, value)| DebugAnnotation {
        name: Some((*name).to_owned()),
        string_value: Some(value.clone()),
        ..DebugAnnotation::default()
    });
    let packets = [
        TracePacket {
            track_descriptor: Some(Box::new(TrackDescriptor {
                uuid: Some(uuid),
                name: Some("rsys cut".to_owned()),
                description: Some("Which part of which trace this is".to_owned()),
                ..TrackDescriptor::default()
            })),
            ..TracePacket::default()
        },
        TracePacket {
            timestamp: Some(first_ns),
            timestamp_clock_id: Some(clock::BOOTTIME),
            track_event: Some(TrackEvent {
                r#type: Some(event_type::INSTANT),
                name: Some("rsys cut".to_owned()),
                track_uuid: Some(uuid),
                debug_annotations: facts.collect(),
                ..TrackEvent::default()
            }),
            ..TracePacket::default()
        },
    ];
    for mut packet in packets {
        packet.trusted_packet_sequence_id = Some(id);
        put_message(out, trace::PACKET, |body| {
            packet.encode(body).expect("a vector grows as needed");
        });
    }
}
