//! Reading a file back into what was written.

use std::collections::HashMap;

use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::{TracePacket, event_type};

/// A slice as it was written or read: track, begin, end, depth, name.
pub type Slice = (u64, u64, Option<u64>, usize, String);

/// All packets of a sound file.
pub fn packets(file: &[u8]) -> Vec<TracePacket> {
    PacketReader::new(file).collect::<Result<_, _>>().unwrap()
}

/// The slices of a file, sorted; events of equal time keep their order in the file, as in the trace processor.
pub fn slices(file: &[u8]) -> Vec<Slice> {
    let mut resolver = Resolver::new();
    let mut events = Vec::new();
    for mut packet in packets(file) {
        let time = resolver.observe(&mut packet);
        if let (Some(time), Some(event)) = (time, &packet.track_event) {
            let sequence = resolver.sequence(&packet).unwrap();
            events.push((
                time,
                sequence.event_track(event),
                event.r#type.unwrap(),
                sequence.event_name(event).to_owned(),
            ));
        }
    }
    events.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut slices: Vec<Slice> = Vec::new();
    for (time, track, kind, name) in events {
        let stack = open.entry(track).or_default();
        match kind {
            event_type::SLICE_BEGIN => {
                slices.push((track, time, None, stack.len(), name));
                stack.push(slices.len() - 1);
            }
            event_type::SLICE_END => {
                slices[stack.pop().expect("an end has a begin")].2 = Some(time)
            }
            _ => {}
        }
    }
    slices.sort();
    slices
}
