//! The fields of a packet and of an event that say what it is, found in one pass.

use rsys_proto::fields::{defaults, event, packet};
use rsys_proto::message::{Fields, Torn, Value, packed_varints, varint};
use rsys_proto::schema;

/// A packet of a form of which there are many, as `rsys-sample` writes them: time, sequence, an event or a sample, and nothing behind it.
#[derive(Debug, Clone, Copy)]
pub struct ShortPacket<'p> {
    /// Its time, in units of the clock of its sequence.
    pub timestamp: u64,
    /// The sequence that it belongs to.
    pub sequence: u32,
    /// Whether `body` is a `PerfSample`; else it is a `TrackEvent`.
    pub is_sample: bool,
    /// What it says, encoded.
    pub body: &'p [u8],
}

/// The event that ends a slice and says nothing else.
pub const SLICE_END: [u8; 2] = [varint_key(event::TYPE), schema::event_type::SLICE_END as u8];

impl<'p> ShortPacket<'p> {
    /// Reads a packet, if it is of this form.
    #[inline]
    #[must_use]
    pub fn read(encoded: &'p [u8]) -> Option<Self> {
        const TIMESTAMP: u8 = varint_key(packet::TIMESTAMP);
        const SEQUENCE_ID: u8 = varint_key(packet::SEQUENCE_ID);
        const EVENT: u8 = (packet::TRACK_EVENT << 3) as u8 | BYTES;
        const SAMPLE: [u8; 2] = [
            (packet::PERF_SAMPLE << 3) as u8 | BYTES | 0x80,
            (packet::PERF_SAMPLE >> 4) as u8,
        ];
        let mut rest = encoded.strip_prefix(&[TIMESTAMP])?;
        let timestamp = varint(&mut rest)?;
        rest = rest.strip_prefix(&[SEQUENCE_ID])?;
        let sequence = varint(&mut rest)? as u32;
        let (is_sample, length, body) = match rest {
            [EVENT, length, body @ ..] => (false, *length, body),
            [first, second, length, body @ ..] if [*first, *second] == SAMPLE => {
                (true, *length, body)
            }
            _ => return None,
        };
        // Lengths from 128 on have two bytes.
        (length < 0x80 && usize::from(length) == body.len()).then_some(Self {
            timestamp,
            sequence,
            is_sample,
            body,
        })
    }
}

/// What stands at the top of a packet. Messages are left encoded.
#[derive(Debug, Default, Clone, Copy)]
pub struct PacketHead<'p> {
    /// Its time, in units of its clock.
    pub timestamp: Option<u64>,
    /// The clock of the time; 0: that of the sequence.
    pub clock: u32,
    /// The sequence that it belongs to.
    pub sequence: u32,
    /// What the sequence has interned before counts no more.
    pub cleared: bool,
    /// `TracePacketDefaults`.
    pub defaults: Option<&'p [u8]>,
    /// `ClockSnapshot`.
    pub snapshot: Option<&'p [u8]>,
    /// `TrackEvent`.
    pub event: Option<&'p [u8]>,
    /// `PerfSample`.
    pub sample: Option<&'p [u8]>,
    /// `InternedData`.
    pub interned: Option<&'p [u8]>,
    /// `TrackDescriptor`.
    pub descriptor: Option<&'p [u8]>,
}

impl<'p> PacketHead<'p> {
    /// Finds the header among the fields of a packet.
    ///
    /// # Errors
    /// When a field is torn.
    #[inline]
    pub fn read(encoded: &'p [u8]) -> Result<Self, Torn> {
        let mut head = PacketHead::default();
        for field in Fields::new(encoded) {
            let field = field?;
            let message = || Some(field.value.bytes());
            match field.number {
                packet::TIMESTAMP => head.timestamp = Some(field.value.number()),
                packet::TIMESTAMP_CLOCK_ID => head.clock = field.value.number32(),
                packet::SEQUENCE_ID => head.sequence = field.value.number32(),
                packet::SEQUENCE_FLAGS => {
                    head.cleared |=
                        field.value.number32() & schema::SEQ_INCREMENTAL_STATE_CLEARED != 0;
                }
                packet::INCREMENTAL_STATE_CLEARED => head.cleared |= field.value.number() != 0,
                packet::DEFAULTS => head.defaults = message(),
                packet::CLOCK_SNAPSHOT => head.snapshot = message(),
                packet::TRACK_EVENT => head.event = message(),
                packet::PERF_SAMPLE => head.sample = message(),
                packet::INTERNED_DATA => head.interned = message(),
                packet::TRACK_DESCRIPTOR => head.descriptor = message(),
                _ => {}
            }
        }
        Ok(head)
    }
}

/// Wire type of eight bytes.
const FIXED64: u8 = 1;
/// Wire type of messages.
const BYTES: u8 = 2;

/// Key of a number whose field is below 16.
const fn varint_key(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3) as u8
}

/// What stands at the top of a `TrackEvent`.
#[derive(Debug, Default, Clone, Copy)]
pub struct EventHead<'p> {
    /// One of [`schema::event_type`].
    pub kind: i32,
    /// The track, if it is named.
    pub track: Option<u64>,
    /// Its name, if that is interned.
    pub name_iid: u64,
    /// Its name, if that is written out.
    pub name: Option<&'p [u8]>,
    /// Its first category, if that is interned.
    pub category_iid: u64,
    /// Its first category, if that is written out.
    pub category: Option<&'p [u8]>,
    /// A counter's value, as the bits of an `i64`.
    pub counter: Option<u64>,
    /// A counter's value, as the bits of a `f64`.
    pub double_counter: Option<u64>,
    /// From the first field on that may come again: flows and annotations. Empty if there are none.
    pub details: &'p [u8],
}

impl<'p> EventHead<'p> {
    /// Finds the header among the fields of an event.
    ///
    /// # Errors
    /// When a field is torn.
    #[inline]
    pub fn read(message: &'p [u8]) -> Result<Self, Torn> {
        match Self::begin_of_slice(message) {
            Some(head) => Ok(head),
            None => Self::read_any(message),
        }
    }

    /// The head of an event as `rsys-sample` writes most: a slice begins, with its name, its category, flows, and annotations.
    #[inline]
    fn begin_of_slice(message: &'p [u8]) -> Option<Self> {
        const BEGIN: [u8; 3] = [
            varint_key(event::TYPE),
            schema::event_type::SLICE_BEGIN as u8,
            varint_key(event::NAME_IID),
        ];
        const FLOW: [u8; 2] = [
            (event::FLOW_IDS << 3 & 0x7F) as u8 | FIXED64 | 0x80,
            (event::FLOW_IDS >> 4) as u8,
        ];
        const ANNOTATION: u8 = (event::DEBUG_ANNOTATIONS << 3) as u8 | BYTES;
        let mut rest = message.strip_prefix(&BEGIN)?;
        let name_iid = varint(&mut rest)?;
        rest = rest.strip_prefix(&[varint_key(event::CATEGORY_IIDS)])?;
        let category_iid = varint(&mut rest)?;
        let details = rest;
        if let Some(flow) = rest.strip_prefix(&FLOW) {
            rest = flow.get(size_of::<u64>()..)?;
        }
        // Nothing else may stand among the annotations or behind them.
        while let [ANNOTATION, length, annotation @ ..] = rest {
            rest = annotation.get(usize::from(*length)..)?;
            if *length >= 0x80 {
                return None;
            }
        }
        rest.is_empty().then_some(Self {
            kind: schema::event_type::SLICE_BEGIN,
            name_iid,
            category_iid,
            details,
            ..Self::default()
        })
    }

    fn read_any(message: &'p [u8]) -> Result<Self, Torn> {
        let mut head = EventHead::default();
        let mut fields = Fields::new(message);
        loop {
            let before = fields.rest();
            let Some(field) = fields.next() else {
                return Ok(head);
            };
            let field = field?;
            match field.number {
                event::TYPE => head.kind = field.value.number32().cast_signed(),
                event::TRACK_UUID => head.track = Some(field.value.number()),
                event::NAME_IID => head.name_iid = field.value.number(),
                event::NAME => head.name = Some(field.value.bytes()),
                event::CATEGORY_IIDS if head.category_iid == 0 => {
                    let mut first = field.value.number();
                    if let Value::Bytes(packed) = field.value {
                        first = packed_varints(packed).next().transpose()?.unwrap_or(0);
                    }
                    head.category_iid = first;
                }
                event::CATEGORIES if head.category.is_none() => {
                    head.category = Some(field.value.bytes());
                }
                event::COUNTER_VALUE => head.counter = Some(field.value.number()),
                event::DOUBLE_COUNTER_VALUE => head.double_counter = Some(field.value.number()),
                event::DEBUG_ANNOTATIONS
                | event::FLOW_IDS
                | event::TERMINATING_FLOW_IDS
                | event::FLOW_IDS_OLD
                | event::TERMINATING_FLOW_IDS_OLD
                    if head.details.is_empty() =>
                {
                    head.details = before;
                }
                _ => {}
            }
        }
    }

    /// The flows that begin, pass or end here.
    pub fn flows(&self, mut take: impl FnMut(u64)) {
        for field in Fields::new(self.details).flatten() {
            match (field.number, field.value) {
                (event::FLOW_IDS | event::TERMINATING_FLOW_IDS, Value::Bytes(packed)) => {
                    let (flows, _) = packed.as_chunks::<8>();
                    flows
                        .iter()
                        .for_each(|flow| take(u64::from_le_bytes(*flow)));
                }
                (event::FLOW_IDS_OLD | event::TERMINATING_FLOW_IDS_OLD, Value::Bytes(packed)) => {
                    packed_varints(packed).flatten().for_each(&mut take);
                }
                (
                    event::FLOW_IDS
                    | event::TERMINATING_FLOW_IDS
                    | event::FLOW_IDS_OLD
                    | event::TERMINATING_FLOW_IDS_OLD,
                    value,
                ) => take(value.number()),
                _ => {}
            }
        }
    }

    /// The annotations, encoded.
    pub fn annotations(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        Fields::new(self.details)
            .flatten()
            .filter(|field| field.number == event::DEBUG_ANNOTATIONS)
            .map(|field| field.value.bytes())
    }
}

/// The clock and the track that `TracePacketDefaults` name; 0 if none.
///
/// # Errors
/// When a field is torn.
pub fn read_defaults(message: &[u8]) -> Result<(u32, u64), Torn> {
    let (mut clock, mut track) = (0, 0);
    for field in Fields::new(message) {
        let field = field?;
        match field.number {
            defaults::TIMESTAMP_CLOCK_ID => clock = field.value.number32(),
            defaults::TRACK_EVENT => {
                for field in Fields::new(field.value.bytes()) {
                    let field = field?;
                    if field.number == event::TRACK_UUID {
                        track = field.value.number();
                    }
                }
            }
            _ => {}
        }
    }
    Ok((clock, track))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_proto::message::{put_bytes, put_u64};

    #[test]
    fn the_short_form_says_what_the_long_one_says() {
        for (number, body, is_short) in [
            (packet::TRACK_EVENT, SLICE_END.to_vec(), true),
            (packet::TRACK_EVENT, vec![7; 127], true),
            (packet::TRACK_EVENT, vec![7; 128], false),
            (packet::PERF_SAMPLE, vec![7; 20], true),
            (packet::INTERNED_DATA, vec![7; 20], false),
        ] {
            for trailer in [false, true] {
                let mut encoded = Vec::new();
                put_u64(&mut encoded, packet::TIMESTAMP, 1 << 40);
                put_u64(&mut encoded, packet::SEQUENCE_ID, 300);
                put_bytes(&mut encoded, number, &body);
                if trailer {
                    put_u64(&mut encoded, packet::TIMESTAMP_CLOCK_ID, 6);
                }
                let long = PacketHead::read(&encoded).unwrap();
                let short = ShortPacket::read(&encoded);
                assert_eq!(short.is_some(), is_short && !trailer);
                let Some(short) = short else { continue };
                assert_eq!(
                    (Some(short.timestamp), short.sequence, long.clock),
                    (long.timestamp, long.sequence, 0)
                );
                let (event, sample) = match short.is_sample {
                    false => (Some(short.body), None),
                    true => (None, Some(short.body)),
                };
                assert_eq!((event, sample), (long.event, long.sample));
            }
        }
    }
}
