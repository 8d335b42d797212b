//! One packet of one input as it stands in the merged trace.
//!
//! Packets are copied field by field, never decoded as a whole. What changes: the sequence id, the ids of tracks and flows, process ids that
//! another input has too, the names of processes, and times that are not BOOTTIME of the host of reference. Interned ids belong to a
//! sequence, so they stay what they are.

use std::collections::HashSet;

use prost::Message;
use rsys_proto::fields::{packet, sample, thread, trace};
use rsys_proto::message::{Field, Fields, Torn, put_bytes, put_message, put_u64, put_varint};
use rsys_proto::schema::{self, ClockSnapshot, clock};
use rsys_traces::perfetto::SequenceNumbers;
use rsys_traces::perfetto::packet_head::{PacketHead, read_defaults};

use super::messages::{self, changes, nested};
use super::plan::InputPlan;
use rsys_traces::perfetto::clocks::{TraceClocks, is_local};

/// Rewrites the packets of one input.
#[derive(Debug)]
pub struct Rewriter<'a> {
    plan: &'a InputPlan,
    aligned: bool,
    clocks: TraceClocks,
    ids: &'a mut SequenceIds,
    /// Of the input.
    numbers: SequenceNumbers,
    /// By number.
    sequences: Vec<Sequence>,
    body: Vec<u8>,
    /// Packets that were copied.
    pub packets: u64,
    /// Packets whose time no snapshot relates to BOOTTIME; they are left out.
    pub timeless: u64,
    /// Packets with torn fields; they are left out.
    pub torn: u64,
}

/// The sequence ids of the merged trace.
#[derive(Debug)]
pub struct SequenceIds {
    taken: HashSet<u32>,
    next: u32,
}

impl SequenceIds {
    /// All ids from `first` on are free.
    #[must_use]
    pub fn new(first: u32) -> Self {
        Self {
            taken: HashSet::new(),
            next: first,
        }
    }

    /// An id for a sequence that has `id` in its input: the same, if no other has it.
    fn take(&mut self, id: u32) -> u32 {
        if id >= self.next && self.taken.insert(id) {
            return id;
        }
        while !self.taken.insert(self.next) {
            self.next += 1;
        }
        self.next
    }
}

#[derive(Debug)]
struct Sequence {
    id: u32,
    default_clock: u32,
    local_clocks: Vec<LocalClock>,
}

/// An incremental clock of one sequence, followed so that its steps can be aligned.
#[derive(Debug, Clone, Copy)]
struct LocalClock {
    id: u32,
    incremental: bool,
    unit_ns: u64,
    read_ns: u64,
    written_ns: u64,
}

/// What becomes of a packet's time.
enum Time {
    None,
    /// The value, and the clock if it has to be named.
    At(u64, Option<u32>),
    Unknown,
}

impl<'a> Rewriter<'a> {
    /// For the packets of an input.
    #[must_use]
    pub fn new(plan: &'a InputPlan, ids: &'a mut SequenceIds) -> Self {
        Self {
            plan,
            aligned: !plan.alignment.is_identity(),
            clocks: plan.clocks.clone(),
            ids,
            numbers: SequenceNumbers::default(),
            sequences: Vec::new(),
            body: Vec::new(),
            packets: 0,
            timeless: 0,
            torn: 0,
        }
    }

    /// Appends what becomes of a packet to `out`, framed.
    pub fn packet(&mut self, encoded: &[u8], out: &mut Vec<u8>) {
        if self.plain_packet(encoded, out) {
            self.packets += 1;
            return;
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        match self.rewrite(encoded, &mut body) {
            Ok(true) => {
                put_bytes(out, trace::PACKET, &body);
                self.packets += 1;
            }
            Ok(false) => {}
            Err(Torn) => self.torn += 1,
        }
        self.body = body;
    }

    /// The short way for almost all packets: those of which only the time and the sequence change, which stand at their start. Whether it
    /// was one.
    #[inline]
    fn plain_packet(&mut self, encoded: &[u8], out: &mut Vec<u8>) -> bool {
        let mut fields = Fields::new(encoded);
        let (mut timestamp, mut clock, mut id) = (None, 0, 0);
        let rest = loop {
            let rest = fields.rest();
            let Some(Ok(field)) = fields.next() else {
                return false;
            };
            match field.number {
                packet::TIMESTAMP => timestamp = Some(field.value.number()),
                packet::TIMESTAMP_CLOCK_ID => clock = field.value.number32(),
                packet::SEQUENCE_ID => id = field.value.number32(),
                _ if self.stays(field) => break rest,
                _ => return false,
            }
        };
        for field in fields {
            if !field.is_ok_and(|field| self.stays(field)) {
                return false;
            }
        }
        let index = self.sequence(id);
        let (time, clock) = match self.time(index, timestamp, clock) {
            Time::None => (None, None),
            Time::At(time, clock) => (Some(time), clock),
            Time::Unknown => return false,
        };
        let head = &mut self.body;
        head.clear();
        if let Some(time) = time {
            put_u64(head, packet::TIMESTAMP, time);
        }
        if let Some(clock) = clock {
            put_u64(head, packet::TIMESTAMP_CLOCK_ID, u64::from(clock));
        }
        put_u64(
            head,
            packet::SEQUENCE_ID,
            u64::from(self.sequences[index].id),
        );
        out.push((trace::PACKET << 3 | 2) as u8);
        put_varint(out, (head.len() + rest.len()) as u64);
        out.extend_from_slice(head);
        out.extend_from_slice(rest);
        true
    }

    /// Whether a field of a packet stays what it is, and says nothing of its sequence.
    #[inline]
    fn stays(&self, field: Field<'_>) -> bool {
        match field.number {
            packet::TRACK_EVENT => changes(self.plan, field.value.bytes()) == Ok(false),
            packet::PERF_SAMPLE => self.plan.pids.is_empty(),
            packet::INTERNED_DATA => true,
            packet::SEQUENCE_FLAGS => {
                field.value.number32() & schema::SEQ_INCREMENTAL_STATE_CLEARED == 0
            }
            _ => false,
        }
    }

    /// Whether something is left of the packet.
    #[inline]
    fn rewrite(&mut self, encoded: &[u8], body: &mut Vec<u8>) -> Result<bool, Torn> {
        let head = PacketHead::read(encoded)?;
        let index = self.sequence(head.sequence);
        if head.cleared {
            self.sequences[index].default_clock = 0;
        }
        if let Some(defaults) = head.defaults {
            self.sequences[index].default_clock = read_defaults(defaults)?.0;
        }
        let snapshot = match head.snapshot {
            Some(snapshot) => self.snapshot(index, snapshot)?,
            None => None,
        };
        match self.time(index, head.timestamp, head.clock) {
            Time::None => {}
            Time::At(time, clock) => {
                put_u64(body, packet::TIMESTAMP, time);
                if let Some(clock) = clock {
                    put_u64(body, packet::TIMESTAMP_CLOCK_ID, u64::from(clock));
                }
            }
            Time::Unknown => {
                self.timeless += 1;
                return Ok(false);
            }
        }
        put_u64(
            body,
            packet::SEQUENCE_ID,
            u64::from(self.sequences[index].id),
        );
        let bare = body.len();
        for field in Fields::new(encoded) {
            let field = field?;
            let bytes = field.value.bytes();
            match field.number {
                packet::TIMESTAMP
                | packet::TIMESTAMP_CLOCK_ID
                | packet::SEQUENCE_ID
                | packet::MACHINE_ID
                | packet::CLOCK_SNAPSHOT
                | packet::TRACE_UUID
                | packet::SYSTEM_INFO => {}
                packet::TRACK_EVENT => {
                    if changes(self.plan, bytes)? {
                        nested(body, field.number, |body| {
                            messages::event(self.plan, bytes, body)
                        })?;
                    } else {
                        body.extend_from_slice(field.encoded);
                    }
                }
                packet::PERF_SAMPLE if !self.plan.pids.is_empty() => {
                    nested(body, field.number, |body| {
                        messages::with_pids(self.plan, bytes, body, sample::PID, Some(sample::TID))
                    })?;
                }
                packet::DEFAULTS => {
                    nested(body, field.number, |body| {
                        messages::defaults(self.plan, bytes, body)
                    })?;
                }
                packet::TRACK_DESCRIPTOR => {
                    nested(body, field.number, |body| {
                        messages::descriptor(self.plan, bytes, body)
                    })?;
                }
                packet::PROCESS_DESCRIPTOR => {
                    nested(body, field.number, |body| {
                        messages::process(self.plan, bytes, body)
                    })?;
                }
                packet::THREAD_DESCRIPTOR => {
                    nested(body, field.number, |body| {
                        messages::with_pids(self.plan, bytes, body, thread::PID, Some(thread::TID))
                    })?;
                }
                _ => body.extend_from_slice(field.encoded),
            }
        }
        if let Some(snapshot) = snapshot {
            put_message(body, packet::CLOCK_SNAPSHOT, |body| {
                snapshot.encode(body).expect("a vector grows as needed");
            });
        }
        Ok(body.len() > bare)
    }

    /// The index of a sequence of the input, which is new when it is seen first.
    #[inline]
    fn sequence(&mut self, id: u32) -> usize {
        let (number, is_new) = self.numbers.number(id);
        if is_new {
            self.sequences.push(Sequence {
                id: self.ids.take(id),
                default_clock: 0,
                local_clocks: Vec::new(),
            });
        }
        number as usize
    }

    #[inline]
    fn time(&mut self, index: usize, timestamp: Option<u64>, named_clock: u32) -> Time {
        let Some(value) = timestamp else {
            return Time::None;
        };
        let sequence = &mut self.sequences[index];
        let clock_id = match named_clock {
            0 => sequence.default_clock,
            id => id,
        };
        let named = (named_clock != 0).then_some(named_clock);
        if is_local(clock_id) {
            if !self.aligned {
                return Time::At(value, named);
            }
            let known = sequence
                .local_clocks
                .iter_mut()
                .find(|one| one.id == clock_id);
            return match known {
                Some(local) if local.incremental && local.unit_ns == 1 => {
                    // Steps are aligned one by one, so that drift is followed.
                    local.read_ns = local.read_ns.wrapping_add(value);
                    let written = self
                        .plan
                        .alignment
                        .apply(local.read_ns)
                        .max(local.written_ns);
                    let step = written - local.written_ns;
                    local.written_ns = written;
                    Time::At(step, named)
                }
                _ => Time::At(value, named),
            };
        }
        match self.clocks.boottime(clock_id, value) {
            None => Time::Unknown,
            Some(boottime_ns) => {
                // A default that is not local is written as BOOTTIME.
                let needed = is_local(sequence.default_clock);
                Time::At(
                    self.plan.alignment.apply(boottime_ns),
                    needed.then_some(clock::BOOTTIME),
                )
            }
        }
    }

    /// Takes in a snapshot. What is written of it are the clocks of the sequence, against BOOTTIME of the host of reference.
    fn snapshot(&mut self, index: usize, bytes: &[u8]) -> Result<Option<ClockSnapshot>, Torn> {
        let snapshot = ClockSnapshot::decode(bytes).map_err(|_| Torn)?;
        self.clocks.observe(&snapshot);
        let Some(boottime_ns) = self.clocks.boottime_of(&snapshot) else {
            return Ok(None);
        };
        let aligned_ns = self.plan.alignment.apply(boottime_ns);
        let mut written = vec![schema::Clock {
            clock_id: Some(clock::BOOTTIME),
            timestamp: Some(aligned_ns),
            ..schema::Clock::default()
        }];
        for one in snapshot.clocks {
            let Some(id) = one.clock_id.filter(|&id| is_local(id)) else {
                continue;
            };
            let clocks = &mut self.sequences[index].local_clocks;
            clocks.retain(|known| known.id != id);
            clocks.push(LocalClock {
                id,
                incremental: one.is_incremental == Some(true),
                unit_ns: one.unit_multiplier_ns.unwrap_or(1).max(1),
                read_ns: boottime_ns,
                written_ns: aligned_ns,
            });
            written.push(one);
        }
        Ok((written.len() > 1).then_some(ClockSnapshot {
            clocks: written,
            primary_trace_clock: None,
        }))
    }
}
