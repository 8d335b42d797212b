//! From packets to events.

use prost::Message;
use rsys_proto::fields::{defaults, sample_defaults, timebase};
use rsys_proto::message::{Fields, Torn};
use rsys_proto::schema::{ClockSnapshot, TrackDescriptor, event_type};

use super::clocks::{TraceClocks, is_local};
use super::packet_head::{EventHead, PacketHead, ShortPacket, read_defaults};
use super::sequences::SequenceNumbers;
use super::tracks::{TrackIndex, Tracks};

/// The place of a packet sequence among those of a trace, in the order in which they appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceIndex(u32);

impl SequenceIndex {
    /// Its place in tables by sequence.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a packet says.
#[derive(Debug, Clone, Copy)]
pub enum EventKind<'p> {
    /// Nothing that happened: descriptions, clocks, definitions.
    None,
    /// A slice begins on a track.
    Begin(TrackIndex, EventHead<'p>),
    /// The innermost slice of a track ends.
    End(TrackIndex, EventHead<'p>),
    /// A point in time on a track.
    Instant(TrackIndex, EventHead<'p>),
    /// A value of the counter of a track.
    Counter(TrackIndex, EventHead<'p>),
    /// A sample: an encoded `PerfSample`.
    Sample(&'p [u8]),
    /// A track was described.
    Described(TrackIndex),
}

/// A packet that was understood.
#[derive(Debug, Clone, Copy)]
pub struct Event<'p> {
    /// BOOTTIME; `None` if the packet has no time, or no snapshot relates its clock to BOOTTIME.
    pub time_ns: Option<u64>,
    /// Its sequence.
    pub sequence: SequenceIndex,
    /// Its fields.
    pub head: PacketHead<'p>,
    /// What it says.
    pub kind: EventKind<'p>,
}

/// What is known of a sequence.
#[derive(Debug, Default)]
struct Sequence {
    default_clock: u32,
    default_track: u64,
    default_index: Option<TrackIndex>,
    clocks: Vec<LocalClock>,
}

/// A clock that counts for one sequence only.
#[derive(Debug, Clone, Copy)]
struct LocalClock {
    id: u32,
    is_incremental: bool,
    unit_ns: u64,
    /// The value that `boottime_ns` belongs to, unless it is incremental.
    value: u64,
    boottime_ns: u64,
}

/// Follows the packets of a trace.
#[derive(Debug, Default)]
pub struct Decoder {
    numbers: SequenceNumbers,
    /// By number.
    sequences: Vec<Sequence>,
    clocks: TraceClocks,
    /// The tracks so far.
    pub tracks: Tracks,
    /// The latest time so far, as BOOTTIME.
    pub last_ns: u64,
    /// The largest sequence id so far.
    pub last_sequence: u32,
}

impl Decoder {
    /// Takes in a packet; packets come in file order.
    ///
    /// # Errors
    /// When a field of it is torn.
    #[inline]
    pub fn packet<'p>(&mut self, encoded: &'p [u8]) -> Result<Event<'p>, Torn> {
        let head = PacketHead::read(encoded)?;
        self.last_sequence = self.last_sequence.max(head.sequence);
        let index = self.sequence(head.sequence);
        if head.cleared || head.defaults.is_some() || head.snapshot.is_some() {
            self.set_up(index, &head)?;
        }
        let time_ns = head
            .timestamp
            .and_then(|value| self.time(index, head.clock, value));
        if let Some(time_ns) = time_ns {
            self.last_ns = self.last_ns.max(time_ns);
        }
        let kind = self.kind(index, &head)?;
        Ok(Event {
            time_ns,
            sequence: index,
            head,
            kind,
        })
    }

    /// Takes in a packet of the short form, in place of [`Decoder::packet`]: its sequence, and its time as there.
    #[inline]
    pub fn short(&mut self, packet: &ShortPacket<'_>) -> (SequenceIndex, Option<u64>) {
        self.last_sequence = self.last_sequence.max(packet.sequence);
        let index = self.sequence(packet.sequence);
        let time_ns = self.time(index, 0, packet.timestamp);
        if let Some(time_ns) = time_ns {
            self.last_ns = self.last_ns.max(time_ns);
        }
        (index, time_ns)
    }

    /// The track of an event of a sequence.
    #[inline]
    pub fn track(&mut self, index: SequenceIndex, event: &EventHead<'_>) -> TrackIndex {
        match event.track {
            Some(uuid) => self.tracks.index(uuid),
            None => self.default_track(index),
        }
    }

    #[inline]
    fn kind<'p>(
        &mut self,
        index: SequenceIndex,
        head: &PacketHead<'p>,
    ) -> Result<EventKind<'p>, Torn> {
        if let Some(event) = head.event {
            let event = EventHead::read(event)?;
            let track = self.track(index, &event);
            return Ok(match event.kind {
                event_type::SLICE_BEGIN => EventKind::Begin(track, event),
                event_type::SLICE_END => EventKind::End(track, event),
                event_type::INSTANT => EventKind::Instant(track, event),
                event_type::COUNTER => EventKind::Counter(track, event),
                _ => EventKind::None,
            });
        }
        if let Some(sample) = head.sample {
            return Ok(EventKind::Sample(sample));
        }
        if let Some(descriptor) = head.descriptor {
            // A name that is no text spoils its own track only.
            if let Ok(descriptor) = TrackDescriptor::decode(descriptor) {
                return Ok(EventKind::Described(self.tracks.describe(descriptor)));
            }
        }
        Ok(EventKind::None)
    }

    /// The sequence with an id, which is new when it is seen first.
    #[inline]
    fn sequence(&mut self, id: u32) -> SequenceIndex {
        let (number, is_new) = self.numbers.number(id);
        if is_new {
            self.sequences.push(Sequence::default());
        }
        SequenceIndex(number)
    }

    /// The track of events of a sequence that name none.
    #[inline]
    pub fn default_track(&mut self, index: SequenceIndex) -> TrackIndex {
        let sequence = &mut self.sequences[index.index()];
        let tracks = &mut self.tracks;
        *sequence
            .default_index
            .get_or_insert_with(|| tracks.index(sequence.default_track))
    }

    #[cold]
    fn set_up(&mut self, index: SequenceIndex, head: &PacketHead<'_>) -> Result<(), Torn> {
        let sequence = &mut self.sequences[index.index()];
        if head.cleared || head.defaults.is_some() {
            (sequence.default_clock, sequence.default_track) = match head.defaults {
                Some(defaults) => read_defaults(defaults)?,
                None => (0, 0),
            };
            sequence.default_index = None;
        }
        if let Some(snapshot) = head.snapshot {
            let snapshot = ClockSnapshot::decode(snapshot).map_err(|_| Torn)?;
            self.clocks.observe(&snapshot);
            let boottime_ns = self.clocks.boottime_of(&snapshot);
            sequence.set_clocks(&snapshot, boottime_ns);
            self.last_ns = self.last_ns.max(boottime_ns.unwrap_or(0));
        }
        Ok(())
    }

    #[inline]
    fn time(&mut self, index: SequenceIndex, named: u32, value: u64) -> Option<u64> {
        let sequence = &mut self.sequences[index.index()];
        let clock = match named {
            0 => sequence.default_clock,
            id => id,
        };
        if is_local(clock) {
            return sequence.time(clock, value);
        }
        self.clocks.boottime(clock, value)
    }
}

impl Sequence {
    fn set_clocks(&mut self, snapshot: &ClockSnapshot, boottime_ns: Option<u64>) {
        for one in &snapshot.clocks {
            let (Some(id), Some(value)) = (one.clock_id, one.timestamp) else {
                continue;
            };
            if is_local(id) {
                self.clocks.retain(|known| known.id != id);
                self.clocks.push(LocalClock {
                    id,
                    is_incremental: one.is_incremental == Some(true),
                    unit_ns: one.unit_multiplier_ns.unwrap_or(1).max(1),
                    value,
                    boottime_ns: boottime_ns.unwrap_or(value),
                });
            }
        }
    }

    #[inline]
    fn time(&mut self, id: u32, value: u64) -> Option<u64> {
        let clock = self.clocks.iter_mut().find(|clock| clock.id == id)?;
        if clock.is_incremental {
            let step = value.wrapping_mul(clock.unit_ns);
            clock.boottime_ns = clock.boottime_ns.wrapping_add(step);
            return Some(clock.boottime_ns);
        }
        let since = value.wrapping_sub(clock.value).wrapping_mul(clock.unit_ns);
        Some(clock.boottime_ns.wrapping_add(since))
    }
}

/// The time base that `TracePacketDefaults` name for the samples of a sequence; `None` if they name none.
#[must_use]
pub fn sample_time_base(defaults: &[u8]) -> Option<&[u8]> {
    const PATH: [u32; 3] = [
        defaults::PERF_SAMPLE,
        sample_defaults::TIMEBASE,
        timebase::NAME,
    ];
    PATH.iter().try_fold(defaults, |message, &number| {
        let mut fields = Fields::new(message).flatten();
        let field = fields.find(|field| field.number == number)?;
        Some(field.value.bytes())
    })
}
