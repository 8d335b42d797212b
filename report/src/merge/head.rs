//! What a merged trace says about itself, in front of and behind what it was made of.

use std::collections::BTreeMap;

use prost::Message;
use rsys_proto::ChildOrdering;
use rsys_proto::fields::{packet, trace, track};
use rsys_proto::message::{put_bytes, put_message, put_u64};
use rsys_proto::schema::{
    self, ClockSnapshot, DebugAnnotation, TracePacket, TraceUuid, TrackDescriptor, TrackEvent,
    clock, event_type,
};

use super::align::HostClock;
use super::plan::{Ids, InputPlan, Roots};
use crate::trace_info::TraceInfo;
use rsys_traces::perfetto::facts::MERGED;

/// The sequence of the packets of this module.
const SEQUENCE: u32 = 1;
/// The first sequence id of the inputs.
pub const FIRST_FREE_SEQUENCE: u32 = 2;
/// Snapshots nearer to each other than this say nothing new.
const SNAPSHOT_DISTANCE_NS: u64 = 1_000_000_000;
/// Name of the track of the merge.
const TRACK: &str = "rsys merge";

/// Appends identity, clocks and machine, the order of the processes, and what was merged. Returns the number of packets.
pub fn start(
    infos: &[TraceInfo],
    plans: &[InputPlan],
    of_inputs: &[usize],
    clocks: &[HostClock],
    out: &mut Vec<u8>,
) -> u64 {
    let reference = infos.iter().zip(of_inputs).filter(|(_, host)| **host == 0);
    let mut count = 0;
    let mut put = |packet: TracePacket| {
        append(packet, out);
        count += 1;
    };
    let snapshots = snapshots(reference.clone().map(|(info, _)| info));
    let start_ns = time_of_start(infos, plans);
    for snapshot in snapshots {
        put(TracePacket {
            clock_snapshot: Some(Box::new(snapshot)),
            ..TracePacket::default()
        });
    }
    let ids = Ids::of_merge(infos);
    put(TracePacket {
        trace_uuid: Some(TraceUuid {
            msb: Some(ids.flow(1).cast_signed()),
            lsb: Some(ids.flow(2).cast_signed()),
        }),
        ..TracePacket::default()
    });
    put(TracePacket {
        track_descriptor: Some(Box::new(TrackDescriptor {
            uuid: Some(ids.track(1)),
            parent_uuid: Some(Roots::new(ids).machines),
            name: Some(TRACK.to_owned()),
            description: Some(
                "What this trace was made of, and how well the clocks agree".to_owned(),
            ),
            ..TrackDescriptor::default()
        })),
        ..TracePacket::default()
    });
    let roots = Roots::new(ids);
    for (uuid, name, ordering, description) in [
        (
            roots.gpus,
            "GPUs",
            ChildOrdering::Explicit,
            "What GPUs did, process by process in the order of ranks",
        ),
        (
            roots.machines,
            "Machines",
            ChildOrdering::Lexicographic,
            "Of whole machines, whoever uses them",
        ),
    ] {
        put(TracePacket {
            track_descriptor: Some(Box::new(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                child_ordering: Some(ordering as i32),
                description: Some(description.to_owned()),
                ..TrackDescriptor::default()
            })),
            ..TracePacket::default()
        });
    }
    let mut facts = vec![
        text("version", env!("CARGO_PKG_VERSION")),
        number("traces", infos.len() as u64),
        number("hosts", clocks.len() as u64),
    ];
    for host in clocks {
        facts.push(text(&format!("clock of {}", host.name), &host.to_string()));
    }
    for (info, plan) in infos.iter().zip(plans) {
        for (pid, shown) in &BTreeMap::from_iter(&plan.pids) {
            let real = format!("{pid} on {}", info.host());
            facts.push(text(&format!("real process id of {shown}"), &real));
        }
    }
    put(instant(ids.track(1), start_ns, MERGED, facts));
    for (info, _) in reference.filter(|(info, _)| info.system.is_some()).take(1) {
        put_message(out, trace::PACKET, |body| {
            put_u64(body, packet::SEQUENCE_ID, u64::from(SEQUENCE));
            put_bytes(
                body,
                packet::SYSTEM_INFO,
                info.system.as_deref().unwrap_or_default(),
            );
        });
        count += 1;
    }
    // The order of processes: viewers before Perfetto v57 have their own.
    put_message(out, trace::PACKET, |body| {
        put_u64(body, packet::SEQUENCE_ID, u64::from(SEQUENCE));
        put_message(body, packet::TRACK_DESCRIPTOR, |body| {
            put_u64(body, track::UUID, 0);
            put_u64(body, track::PROCESS_ORDERING, 1);
        });
    });
    count + 1
}

/// Appends what is only known when all was read. Returns the number of packets.
pub fn end(infos: &[TraceInfo], cuts: &[String], out: &mut Vec<u8>) -> u64 {
    if cuts.is_empty() {
        return 0;
    }
    let ids = Ids::of_merge(infos);
    let start_ns = infos
        .iter()
        .filter_map(|one| one.count("start_time_ns"))
        .min();
    let facts = vec![text("left_out", &cuts.join("; "))];
    append(
        instant(
            ids.track(1),
            start_ns.unwrap_or(0),
            "rsys merge, left out",
            facts,
        ),
        out,
    );
    1
}

/// The earliest start of an input.
fn time_of_start(infos: &[TraceInfo], plans: &[InputPlan]) -> u64 {
    let starts = infos.iter().zip(plans).filter_map(|(info, plan)| {
        let of_snapshot = || {
            let first = info.wall_clock.points.first()?;
            u64::try_from(first.0).ok()
        };
        let start_ns = info.count("start_time_ns").or_else(of_snapshot)?;
        Some(plan.alignment.apply(start_ns))
    });
    starts.min().unwrap_or(0)
}

/// The snapshots of the host of reference in order of time, which the trace processor insists on.
fn snapshots<'a>(infos: impl Iterator<Item = &'a TraceInfo>) -> Vec<ClockSnapshot> {
    let mut by_time: BTreeMap<u64, ClockSnapshot> = BTreeMap::new();
    let find = |snapshot: &ClockSnapshot, id| {
        let mut clocks = snapshot.clocks.iter();
        clocks
            .find(|one| one.clock_id == Some(id))
            .and_then(|one| one.timestamp)
    };
    let mut clocks_wanted: Option<Vec<u32>> = None;
    let mut candidates: Vec<&ClockSnapshot> = infos.flat_map(|one| &one.snapshots).collect();
    candidates.sort_by_key(|snapshot| {
        let times: Vec<_> = snapshot
            .clocks
            .iter()
            .map(|one| (one.clock_id, one.timestamp))
            .collect();
        (find(snapshot, clock::BOOTTIME), times)
    });
    for snapshot in candidates {
        let Some(boottime) = find(snapshot, clock::BOOTTIME) else {
            continue;
        };
        // Custom clocks mean something else in each input, and were converted.
        let mut kept: Vec<schema::Clock> = snapshot
            .clocks
            .iter()
            .filter(|one| one.clock_id.is_some_and(|id| id < 64))
            .cloned()
            .collect();
        kept.sort_by_key(|one| one.clock_id);
        let ids: Vec<u32> = kept.iter().filter_map(|one| one.clock_id).collect();
        let near = by_time
            .last_key_value()
            .is_some_and(|(last, _)| boottime - last < SNAPSHOT_DISTANCE_NS);
        if near || ids.len() < 2 || clocks_wanted.as_ref().is_some_and(|wanted| *wanted != ids) {
            continue;
        }
        clocks_wanted.get_or_insert(ids);
        let snapshot = ClockSnapshot {
            clocks: kept,
            primary_trace_clock: Some(clock::BOOTTIME),
        };
        by_time.insert(boottime, snapshot);
    }
    by_time.into_values().collect()
}

fn text(name: &str, value: &str) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        string_value: Some(value.to_owned()),
        ..DebugAnnotation::default()
    }
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        uint_value: Some(value),
        ..DebugAnnotation::default()
    }
}

fn instant(track: u64, time_ns: u64, name: &str, facts: Vec<DebugAnnotation>) -> TracePacket {
    TracePacket {
        timestamp: Some(time_ns),
        track_event: Some(TrackEvent {
            r#type: Some(event_type::INSTANT),
            name: Some(name.to_owned()),
            track_uuid: Some(track),
            debug_annotations: facts,
            ..TrackEvent::default()
        }),
        ..TracePacket::default()
    }
}

fn append(mut packet: TracePacket, out: &mut Vec<u8>) {
    packet.trusted_packet_sequence_id = Some(SEQUENCE);
    put_message(out, trace::PACKET, |body| {
        packet.encode(body).expect("a vector grows as needed");
    });
}
