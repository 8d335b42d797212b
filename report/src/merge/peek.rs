//! What has to be known of a packet before it is rewritten.

use rsys_proto::fields::{defaults, event, packet, track};
use rsys_proto::message::{Fields, Torn, Value, packed_varints};
use rsys_proto::schema;

/// The header of a packet, and what changes how the times of its sequence are read.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Head<'p> {
    pub timestamp: Option<u64>,
    pub clock: u32,
    pub sequence: u32,
    pub cleared: bool,
    pub defaults: Option<&'p [u8]>,
    pub snapshot: Option<&'p [u8]>,
}

/// A track that belongs to no other track, process or thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopTrack {
    pub uuid: u64,
    pub rank: u32,
}

/// The track of a descriptor, if it is one at the top.
pub(super) fn top_track(descriptor: &[u8]) -> Result<Option<TopTrack>, Torn> {
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

/// Finds the header among the fields of a packet.
#[inline]
pub(super) fn head(encoded: &[u8]) -> Result<Head<'_>, Torn> {
    let mut head = Head::default();
    for field in Fields::new(encoded) {
        let field = field?;
        match field.number {
            packet::TIMESTAMP => head.timestamp = Some(field.value.number()),
            packet::TIMESTAMP_CLOCK_ID => head.clock = field.value.number32(),
            packet::SEQUENCE_ID => head.sequence = field.value.number32(),
            packet::SEQUENCE_FLAGS => {
                head.cleared |= field.value.number32() & schema::SEQ_INCREMENTAL_STATE_CLEARED != 0;
            }
            packet::INCREMENTAL_STATE_CLEARED => head.cleared |= field.value.number() != 0,
            packet::DEFAULTS => head.defaults = Some(field.value.bytes()),
            packet::CLOCK_SNAPSHOT => head.snapshot = Some(field.value.bytes()),
            _ => {}
        }
    }
    Ok(head)
}

/// The clock that `TracePacketDefaults` name; 0 if none.
pub(super) fn default_clock(defaults: &[u8]) -> Result<u32, Torn> {
    let mut clock = 0;
    for field in Fields::new(defaults) {
        let field = field?;
        if field.number == defaults::TIMESTAMP_CLOCK_ID {
            clock = field.value.number32();
        }
    }
    Ok(clock)
}

/// Whether an event names tracks or flows.
#[inline]
pub(super) fn has_ids(event: &[u8]) -> Result<bool, Torn> {
    let mut found = false;
    for field in Fields::new(event) {
        found |= matches!(
            field?.number,
            event::TRACK_UUID
                | event::FLOW_IDS
                | event::TERMINATING_FLOW_IDS
                | event::FLOW_IDS_OLD
                | event::TERMINATING_FLOW_IDS_OLD
                | event::EXTRA_COUNTER_TRACK_UUIDS
                | event::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
        );
    }
    Ok(found)
}

/// The numbers of a repeated field, packed or not.
pub(super) fn each(value: Value<'_>, mut take: impl FnMut(u64)) -> Result<(), Torn> {
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
