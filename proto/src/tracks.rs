//! What the timeline shows at its left side: processes, threads, named tracks and counters.

use crate::buffer::PacketBuffer;
use crate::schema::{self, TracePacket, clock};

/// Name of the tracks of processes, which is never shown: the trace processor numbers all tracks without a parent in the order of their names,
/// and viewers put those with numbers above 50 below the processes. It must not come before that of a track that belongs above them.
const PROCESS_TITLE: &str = "process";

/// A process; the parent of its named tracks.
///
/// Viewers show its children in the order of their names, behind all threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTrack<'a> {
    /// The track's uuid.
    pub uuid: u64,
    /// Process id.
    pub pid: u32,
    /// Name, shown with the pid.
    pub name: &'a str,
    /// Command line.
    pub cmdline: &'a [String],
    /// BOOTTIME at which the process began; tells apart processes with the same pid.
    pub start_time_ns: Option<u64>,
    /// Shown beside the name: host, rank.
    pub labels: &'a [String],
}

/// A thread. It belongs to the process with the same pid.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTrack<'a> {
    /// The track's uuid.
    pub uuid: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name.
    pub name: &'a str,
    /// What the thread's own track is called: its place among the other tracks of the thread is by name. Empty: viewers call it like the
    /// thread, and give it a place of their own.
    pub title: &'a str,
}

/// Order of the children of a named track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ChildOrdering {
    /// By name.
    Lexicographic = 1,
    /// By the first event.
    Chronological = 2,
    /// By [`NamedTrack::rank`].
    Explicit = 3,
}

/// Which siblings are drawn as one track (Perfetto v52 and later; before, those of equal name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiblingMerge<'a> {
    /// Those of equal name.
    ByName,
    /// None.
    Never,
    /// Those with an equal key.
    ByKey(&'a str),
}

/// A track below a process, a thread or another named track; without a parent, a global one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamedTrack<'a> {
    /// The track's uuid.
    pub uuid: u64,
    /// The uuid of the track that it belongs to.
    pub parent: Option<u64>,
    /// Name.
    pub name: &'a str,
    /// How its own children are ordered.
    pub child_ordering: Option<ChildOrdering>,
    /// Position among its siblings if their parent orders explicitly.
    pub rank: Option<i32>,
    /// Help text.
    pub description: Option<&'a str>,
    /// With which siblings it is drawn.
    pub merge: Option<SiblingMerge<'a>>,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CounterUnit<'a> {
    /// Plain numbers.
    #[default]
    None,
    /// Nanoseconds.
    TimeNs,
    /// Things.
    Count,
    /// Bytes, shown as kB, MB and so on.
    Bytes,
    /// Anything else, by name.
    Named(&'a str),
}

/// A counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct CounterTrack<'a> {
    /// The track's uuid.
    pub uuid: u64,
    /// The uuid of the track that it belongs to; without one, a global counter.
    pub parent: Option<u64>,
    /// Name.
    pub name: &'a str,
    /// Unit of the values.
    pub unit: CounterUnit<'a>,
    /// What the values are multiplied with to have that unit.
    pub unit_multiplier: Option<i64>,
    /// Counters with an equal key have a common y axis.
    pub y_axis_share_key: Option<&'a str>,
    /// Position among its siblings if their parent orders explicitly.
    pub rank: Option<i32>,
    /// Help text.
    pub description: Option<&'a str>,
}

/// Values of the clocks, read back to back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockReadings {
    /// `CLOCK_BOOTTIME`.
    pub boottime_ns: u64,
    /// `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`.
    pub realtime_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`.
    pub monotonic_raw_ns: u64,
}

impl PacketBuffer {
    /// Appends the relation of the clocks. It must be the first packet of a file; repeating it every few seconds follows drift.
    pub fn clock_snapshot(&mut self, readings: &ClockReadings) {
        let at = |clock_id, timestamp| schema::Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
            ..Default::default()
        };
        self.meta_packet(TracePacket {
            clock_snapshot: Some(Box::new(schema::ClockSnapshot {
                clocks: vec![
                    at(clock::BOOTTIME, readings.boottime_ns),
                    at(clock::MONOTONIC, readings.monotonic_ns),
                    at(clock::REALTIME, readings.realtime_ns),
                    at(clock::MONOTONIC_RAW, readings.monotonic_raw_ns),
                ],
                primary_trace_clock: Some(clock::BOOTTIME),
            })),
            ..Default::default()
        });
    }

    /// Appends the identity of the trace.
    pub fn trace_uuid(&mut self, uuid: [u8; 16]) {
        let half =
            |at: usize| i64::from_be_bytes(uuid[at..at + 8].try_into().expect("eight bytes"));
        self.meta_packet(TracePacket {
            trace_uuid: Some(schema::TraceUuid {
                msb: Some(half(0)),
                lsb: Some(half(8)),
            }),
            ..Default::default()
        });
    }

    /// Appends a description of the machine.
    pub fn system_info(&mut self, info: schema::SystemInfo) {
        self.meta_packet(TracePacket {
            system_info: Some(Box::new(info)),
            ..Default::default()
        });
    }

    /// Appends symbols for addresses that were written without names.
    pub fn module_symbols(&mut self, symbols: schema::ModuleSymbols) {
        self.meta_packet(TracePacket {
            module_symbols: Some(Box::new(symbols)),
            ..Default::default()
        });
    }

    /// Appends the descriptor of a process. Descriptors go before the events of their tracks.
    pub fn process(&mut self, track: &ProcessTrack<'_>) {
        self.descriptor(
            schema::TrackDescriptor {
                uuid: Some(track.uuid),
                name: Some(PROCESS_TITLE.to_owned()),
                process: Some(schema::ProcessDescriptor {
                    pid: Some(track.pid.cast_signed()),
                    cmdline: track.cmdline.to_vec(),
                    process_name: owned(track.name),
                    start_timestamp_ns: track.start_time_ns.map(u64::cast_signed),
                    process_labels: track.labels.to_vec(),
                }),
                ..Default::default()
            },
            track.start_time_ns,
        );
    }

    /// Appends the descriptor of a thread; again if its name has changed.
    pub fn thread(&mut self, track: &ThreadTrack<'_>) {
        // A thread's track has no parent: the trace processor finds its process by the pid.
        self.descriptor(
            schema::TrackDescriptor {
                uuid: Some(track.uuid),
                name: owned(track.title),
                disallow_merging_with_system_tracks: (!track.title.is_empty()).then_some(true),
                thread: Some(schema::ThreadDescriptor {
                    pid: Some(track.pid.cast_signed()),
                    tid: Some(i64::from(track.tid)),
                    thread_name: owned(track.name),
                }),
                ..Default::default()
            },
            None,
        );
    }

    /// Appends the descriptor of a named track.
    pub fn track(&mut self, track: &NamedTrack<'_>) {
        let (behavior, key) = match track.merge {
            None => (None, None),
            Some(SiblingMerge::ByName) => (Some(1), None),
            Some(SiblingMerge::Never) => (Some(2), None),
            Some(SiblingMerge::ByKey(key)) => (Some(3), Some(key.to_owned())),
        };
        self.descriptor(
            schema::TrackDescriptor {
                uuid: Some(track.uuid),
                parent_uuid: track.parent,
                name: owned(track.name),
                child_ordering: track.child_ordering.map(|ordering| ordering as i32),
                sibling_order_rank: track.rank,
                description: track.description.map(str::to_owned),
                sibling_merge_behavior: behavior,
                sibling_merge_key: key,
                ..Default::default()
            },
            None,
        );
    }

    /// Appends the descriptor of a counter.
    pub fn counter_track(&mut self, track: &CounterTrack<'_>) {
        let (unit, unit_name) = match track.unit {
            CounterUnit::None => (None, None),
            CounterUnit::TimeNs => (Some(1), None),
            CounterUnit::Count => (Some(2), None),
            CounterUnit::Bytes => (Some(3), None),
            CounterUnit::Named(name) => (None, Some(name.to_owned())),
        };
        self.descriptor(
            schema::TrackDescriptor {
                uuid: Some(track.uuid),
                parent_uuid: track.parent,
                name: owned(track.name),
                sibling_order_rank: track.rank,
                description: track.description.map(str::to_owned),
                counter: Some(schema::CounterDescriptor {
                    unit,
                    unit_name,
                    unit_multiplier: track.unit_multiplier,
                    is_incremental: None,
                    y_axis_share_key: track.y_axis_share_key.map(str::to_owned),
                }),
                ..Default::default()
            },
            None,
        );
    }

    fn descriptor(&mut self, descriptor: schema::TrackDescriptor, timestamp: Option<u64>) {
        self.meta_packet(TracePacket {
            timestamp,
            track_descriptor: Some(Box::new(descriptor)),
            ..Default::default()
        });
    }
}

fn owned(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}
