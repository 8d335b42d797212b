//! Messages of packets as they stand in the merged trace: with the identifiers and names that the plan of their input gives them.

use rsys_proto::fields::{defaults, event, process, thread, track};
use rsys_proto::message::{
    Fields, Torn, Value, packed_varints, put_bytes, put_fixed64, put_message, put_u64, put_varint,
};
use rsys_proto::schema::clock;
use rsys_traces::perfetto::clocks::is_local;

use super::plan::InputPlan;

/// At most this many tracks of an input above its processes have places of their own.
const TOP_TRACKS: u32 = 256;

/// Appends a nested message whose body `write` appends.
#[inline]
pub(super) fn nested(
    body: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Torn>,
) -> Result<(), Torn> {
    let mut outcome = Ok(());
    put_message(body, number, |body| outcome = write(body));
    outcome
}

/// Copies an event, or the defaults of events.
pub(super) fn event(plan: &InputPlan, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Torn> {
    for field in Fields::new(bytes) {
        let field = field?;
        match (field.number, field.value) {
            (event::TRACK_UUID, value) => {
                put_u64(body, field.number, plan.track(value.number()));
            }
            (event::FLOW_IDS | event::TERMINATING_FLOW_IDS, Value::Bytes(packed)) => {
                let (flows, rest) = packed.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(Torn);
                }
                for flow in flows {
                    let flow = plan.flow(u64::from_le_bytes(*flow));
                    put_fixed64(body, field.number, flow);
                }
            }
            (event::FLOW_IDS | event::TERMINATING_FLOW_IDS, value) => {
                put_fixed64(body, field.number, plan.flow(value.number()));
            }
            (event::FLOW_IDS_OLD | event::TERMINATING_FLOW_IDS_OLD, value) => {
                each(value, |flow| put_u64(body, field.number, plan.flow(flow)))?;
            }
            (event::EXTRA_COUNTER_TRACK_UUIDS | event::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS, value) => {
                each(value, |uuid| put_u64(body, field.number, plan.track(uuid)))?;
            }
            _ => body.extend_from_slice(field.encoded),
        }
    }
    Ok(())
}

/// Copies the defaults of a sequence.
pub(super) fn defaults(plan: &InputPlan, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Torn> {
    for field in Fields::new(bytes) {
        let field = field?;
        match field.number {
            defaults::TRACK_EVENT => {
                let bytes = field.value.bytes();
                nested(body, field.number, |body| event(plan, bytes, body))?;
            }
            defaults::TIMESTAMP_CLOCK_ID if !is_local(field.value.number32()) => {
                put_u64(body, field.number, u64::from(clock::BOOTTIME));
            }
            _ => body.extend_from_slice(field.encoded),
        }
    }
    Ok(())
}

/// Copies the descriptor of a track.
pub(super) fn descriptor(plan: &InputPlan, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Torn> {
    let top = match plan.roots {
        Some(roots) => top_track(bytes)?.map(|top| (roots, top)),
        None => None,
    };
    for field in Fields::new(bytes) {
        let field = field?;
        let message = field.value.bytes();
        match field.number {
            track::UUID | track::PARENT_UUID => {
                put_u64(body, field.number, plan.track(field.value.number()));
            }
            track::NAME if let Some((_, top)) = top => {
                let prefix = if plan.is_of_machine(top.uuid) {
                    &plan.machine_prefix
                } else {
                    &plan.top_prefix
                };
                put_bytes(body, field.number, &[prefix.as_bytes(), message].concat());
            }
            track::SIBLING_ORDER_RANK if top.is_some() => {}
            track::PROCESS => {
                nested(body, field.number, |body| process(plan, message, body))?;
                put_u64(body, track::SIBLING_ORDER_RANK, u64::from(plan.order));
            }
            track::THREAD => nested(body, field.number, |body| {
                with_pids(plan, message, body, thread::PID, Some(thread::TID))
            })?,
            _ => body.extend_from_slice(field.encoded),
        }
    }
    match top {
        Some((roots, top)) if plan.is_of_machine(top.uuid) => {
            put_u64(body, track::PARENT_UUID, roots.machines);
        }
        Some((roots, top)) => {
            let rank = plan.order * TOP_TRACKS + top.rank.min(TOP_TRACKS - 1);
            put_u64(body, track::PARENT_UUID, roots.gpus);
            put_u64(body, track::SIBLING_ORDER_RANK, u64::from(rank));
        }
        None => {}
    }
    Ok(())
}

/// Copies the description of a process.
pub(super) fn process(plan: &InputPlan, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Torn> {
    let (mut pid, mut name) = (0, &[][..]);
    for field in Fields::new(bytes) {
        let field = field?;
        match field.number {
            process::PID => pid = field.value.number32(),
            process::NAME => name = field.value.bytes(),
            _ => {}
        }
    }
    put_u64(body, process::PID, u64::from(plan.pid(pid)));
    let name = plan.process_name(&String::from_utf8_lossy(name), pid);
    put_bytes(body, process::NAME, name.as_bytes());
    for field in Fields::new(bytes) {
        let field = field?;
        if !matches!(field.number, process::PID | process::NAME) {
            body.extend_from_slice(field.encoded);
        }
    }
    Ok(())
}

/// Copies a message with a process id and a thread id. The thread with the id of its process keeps being its main thread.
pub(super) fn with_pids(
    plan: &InputPlan,
    bytes: &[u8],
    body: &mut Vec<u8>,
    pid_number: u32,
    tid_number: Option<u32>,
) -> Result<(), Torn> {
    let mut pid = None;
    for field in Fields::new(bytes) {
        let field = field?;
        if field.number == pid_number {
            pid = Some(field.value.number32());
        }
    }
    for field in Fields::new(bytes) {
        let field = field?;
        let id = field.value.number32();
        let is_id =
            field.number == pid_number || Some(field.number) == tid_number && Some(id) == pid;
        if is_id {
            put_varint(body, u64::from(field.number << 3));
            put_varint(body, u64::from(plan.pid(id)));
        } else {
            body.extend_from_slice(field.encoded);
        }
    }
    Ok(())
}

/// A track that belongs to no other track, process or thread.
#[derive(Debug, Clone, Copy)]
struct TopTrack {
    uuid: u64,
    rank: u32,
}

/// The track of a descriptor, if it is one at the top.
fn top_track(descriptor: &[u8]) -> Result<Option<TopTrack>, Torn> {
    let mut top = TopTrack { uuid: 0, rank: 0 };
    for field in Fields::new(descriptor) {
        let field = field?;
        match field.number {
            track::UUID => top.uuid = field.value.number(),
            track::SIBLING_ORDER_RANK => top.rank = field.value.number32(),
            track::PARENT_UUID if field.value.number() == 0 => {}
            track::PARENT_UUID | track::PROCESS | track::THREAD => return Ok(None),
            _ => {}
        }
    }
    Ok((top.uuid != 0).then_some(top))
}

/// Whether an event names tracks or flows that are others in the merged trace.
#[inline]
pub(super) fn changes(plan: &InputPlan, event: &[u8]) -> Result<bool, Torn> {
    let mut found = false;
    for field in Fields::new(event) {
        let field = field?;
        let value = field.value;
        found |= match field.number {
            event::TRACK_UUID => plan.track(value.number()) != value.number(),
            event::FLOW_IDS | event::TERMINATING_FLOW_IDS => match value {
                Value::Bytes(_) => true,
                _ => plan.flow(value.number()) != value.number(),
            },
            // Old forms, which only others write.
            event::FLOW_IDS_OLD
            | event::TERMINATING_FLOW_IDS_OLD
            | event::EXTRA_COUNTER_TRACK_UUIDS
            | event::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS => true,
            _ => false,
        };
    }
    Ok(found)
}

/// The numbers of a repeated field, packed or not.
fn each(value: Value<'_>, mut take: impl FnMut(u64)) -> Result<(), Torn> {
    match value {
        Value::Bytes(packed) => {
            for number in packed_varints(packed) {
                take(number?);
            }
        }
        value => take(value.number()),
    }
    Ok(())
}
