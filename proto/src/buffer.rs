//! Encoded packets that wait to be written, with what their sequences share: the strings and the sequence ids.

use prost::Message;

use crate::fields::{packet, trace};
use crate::parts::Carried;
use crate::schema::{self, TracePacket, clock};
use crate::strings::{StringId, StringTable};
use crate::wire;

/// Identifies a packet sequence within one file. See [`PacketBuffer::new_sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceId(pub(crate) u32);

impl SequenceId {
    /// The number in the file.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Whole packets in file format, appended by sequences and descriptors.
///
/// Nothing here fails: input and output belong to [`TraceWriter`](crate::TraceWriter), which owns one of these.
#[derive(Debug)]
pub struct PacketBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) packets: u64,
    strings: StringTable,
    sequences: u32,
    /// The sequence of descriptors and clock snapshots.
    meta: SequenceId,
    meta_started: bool,
    /// The number of the file, from 0.
    pub(crate) part: u32,
    /// What further files say again, if there may be any.
    pub(crate) carried: Option<Box<Carried>>,
}

impl Default for PacketBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::with_sequences(0)
    }

    /// An empty buffer for packets whose sequence ids are above `base`.
    pub fn with_sequences(base: u32) -> Self {
        Self {
            bytes: Vec::new(),
            packets: 0,
            strings: StringTable::default(),
            sequences: base + 1,
            meta: SequenceId(base + 1),
            meta_started: false,
            part: 0,
            carried: None,
        }
    }

    /// The id of `text` for names, categories and annotations in all sequences of this trace.
    pub fn intern(&mut self, text: &str) -> StringId {
        self.strings.intern(text)
    }

    /// The strings interned so far.
    pub fn strings(&self) -> &StringTable {
        &self.strings
    }

    /// A fresh sequence id.
    ///
    /// The ids are small, because each packet carries one. A merger renumbers those that another trace has too.
    pub fn new_sequence(&mut self) -> SequenceId {
        self.sequences += 1;
        SequenceId(self.sequences)
    }

    /// The encoded packets.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the encoded packets, but not the strings and ids.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets = 0;
    }

    /// Appends a packet as it is. For packets of which there are few: it is several times slower than the sequences.
    pub fn packet(&mut self, packet: &TracePacket) {
        wire::put_message(&mut self.bytes, trace::PACKET, |body| {
            packet.encode(body).expect("a vector grows as needed");
        });
        self.packets += 1;
    }

    /// Appends a packet that belongs to no track: descriptors, clocks, machine.
    pub(crate) fn meta_packet(&mut self, mut packet: TracePacket) {
        packet.trusted_packet_sequence_id = Some(self.meta.0);
        if !self.meta_started {
            self.meta_started = true;
            packet.sequence_flags = Some(schema::SEQ_INCREMENTAL_STATE_CLEARED);
        }
        if let (Some(carried), Some(descriptor)) = (&mut self.carried, &packet.track_descriptor) {
            carried.descriptor(descriptor.uuid(), &packet);
        }
        self.packet(&packet);
    }

    /// The next packet that belongs to no track begins its sequence anew.
    pub(crate) fn forget_meta_sequence(&mut self) {
        self.meta_started = false;
    }

    /// Appends a packet whose body `write` encodes.
    #[inline]
    pub(crate) fn raw_packet(&mut self, write: impl FnOnce(&mut Vec<u8>, &StringTable)) {
        let strings = &self.strings;
        wire::put_message(&mut self.bytes, trace::PACKET, |body| write(body, strings));
        self.packets += 1;
    }

    /// Appends a packet that consists of two pieces.
    #[inline]
    pub(crate) fn packet_of<const N: usize, const M: usize>(
        &mut self,
        first: &wire::Short<N>,
        second: &wire::Short<M>,
    ) {
        let mut frame = wire::Short::<8>::new();
        frame.byte(const { wire::short_bytes_key(trace::PACKET) });
        frame.varint((first.len() + second.len()) as u64);
        frame.append_to(&mut self.bytes);
        first.append_to(&mut self.bytes);
        second.append_to(&mut self.bytes);
        self.packets += 1;
    }

    /// Appends the complete packet in `encoded`, framing included.
    #[inline]
    pub(crate) fn short_packet<const N: usize>(&mut self, encoded: &wire::Short<N>) {
        encoded.append_to(&mut self.bytes);
        self.packets += 1;
    }
}

/// The delta clock of one sequence.
///
/// Packets of the sequence carry the nanoseconds since the packet before. A packet that is late against its sequence names BOOTTIME and
/// carries its absolute time, which leaves the delta clock alone.
#[derive(Debug, Default)]
pub(crate) struct DeltaClock {
    last_ns: u64,
    started: bool,
}

/// How the time of a packet is to be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketTime {
    /// Nanoseconds since the last packet of the sequence.
    Delta(u64),
    /// BOOTTIME nanoseconds.
    Absolute(u64),
}

impl DeltaClock {
    /// Whether [`DeltaClock::start`] was called.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Begins counting at `time_ns` and returns the snapshot that defines the clock; it belongs into the sequence's first packet.
    pub fn start(&mut self, time_ns: u64) -> schema::ClockSnapshot {
        self.started = true;
        self.last_ns = time_ns;
        let at = |clock_id, is_incremental| schema::Clock {
            clock_id: Some(clock_id),
            timestamp: Some(time_ns),
            is_incremental,
            unit_multiplier_ns: None,
        };
        schema::ClockSnapshot {
            clocks: vec![
                at(clock::BOOTTIME, None),
                at(clock::SEQUENCE_DELTA, Some(true)),
            ],
            primary_trace_clock: None,
        }
    }

    /// Takes the time of the next packet.
    #[inline]
    pub fn advance(&mut self, time_ns: u64) -> PacketTime {
        match time_ns.checked_sub(self.last_ns) {
            Some(delta) => {
                self.last_ns = time_ns;
                PacketTime::Delta(delta)
            }
            None => PacketTime::Absolute(time_ns),
        }
    }
}

/// Appends the fields that every packet of a sequence begins with: its time and its sequence id.
#[inline]
pub(crate) fn put_packet_head(body: &mut Vec<u8>, time: PacketTime, sequence: SequenceId) {
    let mut head = wire::Short::<32>::new();
    fill_packet_head(&mut head, time, sequence);
    head.append_to(body);
}

/// [`put_packet_head`] into a packet that is built on the stack; 20 bytes at most.
#[inline]
pub(crate) fn fill_packet_head<const N: usize>(
    head: &mut wire::Short<N>,
    time: PacketTime,
    sequence: SequenceId,
) {
    head.byte(const { wire::short_varint_key(packet::TIMESTAMP) });
    match time {
        PacketTime::Delta(delta) => head.varint(delta),
        PacketTime::Absolute(time_ns) => {
            head.varint(time_ns);
            head.varint(const { wire::varint_key(packet::TIMESTAMP_CLOCK_ID) as u64 });
            head.varint(u64::from(clock::BOOTTIME));
        }
    }
    head.byte(const { wire::short_varint_key(packet::SEQUENCE_ID) });
    head.varint(u64::from(sequence.0));
}
