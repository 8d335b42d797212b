//! What collective operations tell about clocks.
//!
//! No rank can end an all-reduce before all ranks have begun it. So on every pair of hosts, each end is after each start, and each collective
//! bounds how far the clocks can be apart from both sides. What counts is when the kernels ran: an RCCL call returns long before. From the
//! call to its kernel leads a chain of flows: RCCL call, HIP launch inside of it or at the end of its arrow, kernel.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use prost::Message;
use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::{TracePacket, TrackDescriptor, TrackEvent, event_type};

use super::ordinary::{Ordinary, Slice, ordinary};
use crate::clocks::WallClock;
use crate::survey::explain;

/// Launches and kernels that wait to be brought together. When there are more, what is there is brought together, and chains that are torn
/// apart by that are lost: thousands remain.
const WAITING_MAX: usize = 200_000;

/// Collectives that are kept of all traces together.
const COLLECTIVES_MAX: usize = 200_000;

/// A collective operation: a hash of its communicator, and the number of the operation in it.
pub type Key = (u64, u64);

/// When a collective ran: earliest start and latest end on one rank, or latest start and earliest end of the ranks of a host.
pub type Span = (i64, i64);

/// Collectives by host.
#[derive(Debug, Default)]
pub struct Collectives {
    spans: HashMap<Key, BTreeMap<usize, Span>>,
    /// Collectives are kept whose hash has so many zeros at its end: the same on all ranks, whatever comes first.
    zeros: u32,
}

impl Collectives {
    /// Adds those of one rank.
    pub fn add(&mut self, host: usize, spans: HashMap<Key, Span>) {
        for (key, (start, end)) in spans {
            if self.keeps(key) {
                let known = self.spans.entry(key).or_default();
                let span = known.entry(host).or_insert((start, end));
                *span = (span.0.max(start), span.1.min(end));
            }
        }
        while self.spans.len() > COLLECTIVES_MAX {
            self.zeros += 1;
            let zeros = self.zeros;
            self.spans
                .retain(|&key, _| hash(key).trailing_zeros() >= zeros);
        }
    }

    fn keeps(&self, key: Key) -> bool {
        hash(key).trailing_zeros() >= self.zeros
    }

    /// Those that ran on more than one host, in order.
    #[must_use]
    pub fn shared(self) -> Vec<(Key, BTreeMap<usize, Span>)> {
        let shared = self.spans.into_iter().filter(|(_, hosts)| hosts.len() > 1);
        let mut shared: Vec<_> = shared.collect();
        shared.sort_unstable();
        shared
    }
}

fn hash((communicator, sequence): Key) -> u64 {
    let mixed = (communicator ^ sequence.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 8
}

/// Reads a trace as a whole: what its collectives and its clocks tell.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn read(path: &Path) -> Result<(HashMap<Key, Span>, WallClock)> {
    let told = || path.display().to_string();
    let mut reader = PacketReader::new(File::open(path).with_context(told)?);
    let mut found = CollectiveReader::default();
    loop {
        match reader.next_encoded() {
            Ok(Some(encoded)) => found.packet(encoded),
            Ok(None) => return Ok(found.finish()),
            Err(error) => return Err(explain(error)).with_context(told),
        }
    }
}

/// Finds the collectives of one trace.
#[derive(Debug, Default)]
struct CollectiveReader {
    resolver: Resolver,
    wall_clock: WallClock,
    sequences: HashMap<u32, Ticks>,
    /// The sequence of the packet before, taken out of the table.
    current: Option<(u32, Ticks)>,
    tracks: Vec<Track>,
    tracks_by_uuid: HashMap<u64, usize>,
    /// Flows that leave RCCL calls.
    flows: HashMap<u64, Vec<Key>>,
    calls: Vec<Call>,
    launches: Vec<Launch>,
    kernels: Vec<Kernel>,
    found: HashMap<Key, Span>,
}

/// What ordinary packets have told of a sequence, since the resolver was shown one of its packets.
#[derive(Debug, Default, Clone, Copy)]
struct Ticks {
    /// Sum of their times.
    sum: u64,
    /// The place of the track of events that name none.
    default_track: Option<usize>,
}

#[derive(Debug, Default)]
struct Track {
    uuid: u64,
    parent: u64,
    is_thread: bool,
    open: Vec<Open>,
    /// Slices above the last of `open` that say nothing of collectives.
    ordinary: usize,
}

#[derive(Debug)]
struct Open {
    start_ns: i64,
    key: Option<Key>,
    blocking: bool,
    /// Flows of a slice that is not on a thread.
    flows: Vec<u64>,
    /// Slices below it that say nothing of collectives.
    ordinary_below: usize,
}

#[derive(Debug)]
struct Call {
    thread: u64,
    start_ns: i64,
    end_ns: i64,
    key: Key,
    blocking: bool,
}

#[derive(Debug)]
struct Launch {
    thread: u64,
    time_ns: i64,
    flows: Vec<u64>,
}

#[derive(Debug)]
struct Kernel {
    span: Span,
    flows: Vec<u64>,
}

impl CollectiveReader {
    /// Learns from a packet; packets come in file order.
    fn packet(&mut self, encoded: &[u8]) {
        if ordinary(encoded).is_some_and(|packet| self.ordinary(packet)) {
            return;
        }
        let Ok(mut packet) = TracePacket::decode(encoded) else {
            return;
        };
        if let Some(snapshot) = &packet.clock_snapshot {
            self.wall_clock.observe(snapshot);
        }
        let id = packet.trusted_packet_sequence_id.unwrap_or(0);
        let ticks = std::mem::take(self.ticks(id));
        if ticks.sum > 0 {
            self.resolver.advance(id, ticks.sum);
        }
        let time_ns = self.resolver.observe(&mut packet);
        if let Some(descriptor) = &packet.track_descriptor {
            self.descriptor(descriptor);
        }
        if let (Some(event), Some(time_ns)) = (&packet.track_event, time_ns) {
            self.event(&packet, event, time_ns.cast_signed());
        }
        if self.launches.len() + self.kernels.len() + self.calls.len() > WAITING_MAX {
            self.bring_together();
        }
    }

    /// Takes in the time of a packet, and that slices begin and end. `false` if what it ends is more than an ordinary slice.
    #[inline]
    fn ordinary(&mut self, packet: Ordinary) -> bool {
        if let Slice::Begin(uuid) | Slice::End(uuid) = packet.slice {
            let place = match uuid {
                Some(uuid) => self.track(uuid),
                None => self.default_track(packet.sequence),
            };
            let Some(track) = self.tracks.get_mut(place) else {
                return false;
            };
            match packet.slice {
                Slice::Begin(_) => track.ordinary += 1,
                _ if track.ordinary == 0 => return false,
                _ => track.ordinary -= 1,
            }
        }
        let ticks = self.ticks(packet.sequence);
        ticks.sum = ticks.sum.wrapping_add(packet.time);
        true
    }

    /// The place of the track of a sequence's events that name none.
    #[inline]
    fn default_track(&mut self, sequence: u32) -> usize {
        if let Some(place) = self.ticks(sequence).default_track {
            return place;
        }
        let place = self.track(self.resolver.default_track(sequence));
        self.ticks(sequence).default_track = Some(place);
        place
    }

    #[inline]
    fn ticks(&mut self, sequence: u32) -> &mut Ticks {
        let is_current = matches!(&self.current, Some((id, _)) if *id == sequence);
        if !is_current {
            if let Some((id, ticks)) = self.current.take() {
                self.sequences.insert(id, ticks);
            }
            self.current = None;
        }
        let sequences = &mut self.sequences;
        let current = self.current.get_or_insert_with(|| {
            let known = sequences.get(&sequence).copied();
            (sequence, known.unwrap_or_default())
        });
        &mut current.1
    }

    /// The place of a track.
    fn track(&mut self, uuid: u64) -> usize {
        *self.tracks_by_uuid.entry(uuid).or_insert_with(|| {
            self.tracks.push(Track {
                uuid,
                ..Track::default()
            });
            self.tracks.len() - 1
        })
    }

    /// What was found: when each collective began and ended on this rank, and the wall clock.
    #[must_use]
    fn finish(mut self) -> (HashMap<Key, Span>, WallClock) {
        self.bring_together();
        (self.found, self.wall_clock)
    }

    fn descriptor(&mut self, descriptor: &TrackDescriptor) {
        let place = self.track(descriptor.uuid.unwrap_or(0));
        if let Some(track) = self.tracks.get_mut(place) {
            track.parent = descriptor.parent_uuid.unwrap_or(0);
            track.is_thread = descriptor.thread.is_some();
        }
    }

    /// The thread that a track belongs to.
    fn thread(&self, uuid: u64) -> Option<u64> {
        let mut at = uuid;
        // Tracks nest a few levels; a damaged trace may have a circle.
        for _ in 0..16 {
            let place = *self.tracks_by_uuid.get(&at)?;
            let track = self.tracks.get(place)?;
            if track.is_thread {
                return Some(at);
            }
            at = track.parent;
        }
        None
    }

    fn event(&mut self, packet: &TracePacket, event: &TrackEvent, time_ns: i64) {
        let Some(sequence) = self.resolver.sequence(packet) else {
            return;
        };
        let uuid = sequence.event_track(event);
        let place = self.tracks_by_uuid.get(&uuid).copied();
        match event.r#type {
            Some(event_type::SLICE_BEGIN) => {
                let mut open = Open {
                    start_ns: time_ns,
                    key: None,
                    blocking: false,
                    flows: Vec::new(),
                    ordinary_below: 0,
                };
                let mut flows = event.flow_ids.clone();
                flows.extend(&event.terminating_flow_ids);
                if !event.debug_annotations.is_empty() && is_mutual(sequence.event_name(event)) {
                    let (mut communicator, mut number) = (None, None);
                    for one in &event.debug_annotations {
                        match sequence.annotation_name(one) {
                            "communicator" => {
                                let text = sequence.annotation_text(one).map(text_hash);
                                communicator = text.or(one.uint_value).or(one.pointer_value);
                            }
                            "sequence" => {
                                let signed =
                                    one.int_value.and_then(|value| u64::try_from(value).ok());
                                number = one.uint_value.or(signed);
                            }
                            "blocking" => open.blocking = one.bool_value == Some(true),
                            _ => {}
                        }
                    }
                    open.key = communicator.zip(number);
                }
                match (open.key, self.thread(uuid)) {
                    (Some(key), _) => {
                        for &flow in &flows {
                            self.flows.entry(flow).or_default().push(key);
                        }
                    }
                    (None, Some(thread)) if !flows.is_empty() => self.launches.push(Launch {
                        thread,
                        time_ns,
                        flows,
                    }),
                    (None, Some(_)) => {}
                    (None, None) => open.flows = flows,
                }
                let place = place.unwrap_or_else(|| self.track(uuid));
                if let Some(track) = self.tracks.get_mut(place) {
                    if open.key.is_none() && open.flows.is_empty() {
                        track.ordinary += 1;
                    } else {
                        open.ordinary_below = std::mem::take(&mut track.ordinary);
                        track.open.push(open);
                    }
                }
            }
            Some(event_type::SLICE_END) => {
                if let Some(place) = place {
                    self.end(place, time_ns);
                }
            }
            _ => {}
        }
    }

    /// Ends the innermost slice of a track.
    #[inline]
    fn end(&mut self, place: usize, time_ns: i64) {
        let Some(track) = self.tracks.get_mut(place) else {
            return;
        };
        if track.ordinary > 0 {
            track.ordinary -= 1;
            return;
        }
        let Some(open) = track.open.pop() else {
            return;
        };
        track.ordinary = open.ordinary_below;
        if let Some(key) = open.key {
            let uuid = track.uuid;
            self.calls.push(Call {
                thread: self.thread(uuid).unwrap_or(uuid),
                start_ns: open.start_ns,
                end_ns: time_ns,
                key,
                blocking: open.blocking,
            });
        } else if !open.flows.is_empty() {
            self.kernels.push(Kernel {
                span: (open.start_ns, time_ns),
                flows: open.flows,
            });
        }
    }

    /// Follows the flows from calls to kernels.
    fn bring_together(&mut self) {
        let mut by_thread: HashMap<u64, Vec<&Call>> = HashMap::new();
        for call in &self.calls {
            by_thread.entry(call.thread).or_default().push(call);
        }
        for calls in by_thread.values_mut() {
            calls.sort_unstable_by_key(|call| call.start_ns);
        }
        for launch in &self.launches {
            // Calls of collectives do not nest, so the last that began before is the only one that can contain it.
            let containing = by_thread.get(&launch.thread).and_then(|calls| {
                let after = calls.partition_point(|call| call.start_ns <= launch.time_ns);
                let call = calls.get(after.checked_sub(1)?)?;
                (launch.time_ns <= call.end_ns).then_some(call.key)
            });
            let arrows = launch.flows.iter().filter_map(|flow| self.flows.get(flow));
            let mut keys: Vec<Key> = arrows.flatten().copied().chain(containing).collect();
            keys.sort_unstable();
            keys.dedup();
            for flow in &launch.flows {
                if !keys.is_empty() {
                    self.flows.insert(*flow, keys.clone());
                }
            }
        }
        let mut found: HashMap<Key, Span> = HashMap::new();
        for kernel in &self.kernels {
            let keys = kernel.flows.iter().filter_map(|flow| self.flows.get(flow));
            for key in keys.flatten() {
                widen(&mut found, *key, kernel.span);
            }
        }
        for call in &self.calls {
            // A call that waits for its operation says as much as a kernel, but only if there is none.
            if call.blocking && !found.contains_key(&call.key) {
                found.insert(call.key, (call.start_ns, call.end_ns));
            }
        }
        for (key, span) in found {
            widen(&mut self.found, key, span);
        }
        self.calls.clear();
        self.launches.clear();
        self.kernels.clear();
        self.flows.clear();
    }
}

fn widen(spans: &mut HashMap<Key, Span>, key: Key, (start, end): Span) {
    let span = spans.entry(key).or_insert((start, end));
    *span = (span.0.min(start), span.1.max(end));
}

/// Whether nobody can end an operation of this name before all have begun it. The root of a broadcast can; a sender, too.
fn is_mutual(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.split('(').next().unwrap_or_default();
    let operation = ["pnccl", "nccl", "rccl", "mpi_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    ![
        "broadcast",
        "bcast",
        "reduce",
        "send",
        "recv",
        "gather",
        "scatter",
        "group",
    ]
    .iter()
    .any(|one_sided| {
        operation
            .strip_prefix(one_sided)
            .is_some_and(|rest| !rest.starts_with("scatter"))
    })
}

fn text_hash(text: &str) -> u64 {
    let hexadecimal = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(hexadecimal, 16).unwrap_or_else(|_| {
        text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_all_wait_for_are_told_apart() {
        for name in [
            "ncclAllReduce",
            "ncclReduceScatter",
            "AllGather",
            "pncclAllToAll(x)",
            "MPI_Barrier",
        ] {
            assert!(is_mutual(name), "{name}");
        }
        for name in [
            "ncclBroadcast",
            "ncclReduce",
            "ncclSend",
            "rcclRecv",
            "ncclGroupEnd",
            "MPI_Bcast",
        ] {
            assert!(!is_mutual(name), "{name}");
        }
    }

    #[test]
    fn what_is_kept_of_too_many_is_the_same_in_any_order() {
        let spans = |keys: std::ops::Range<u64>| keys.map(|n| ((7, n), (0, 1))).collect();
        let many = COLLECTIVES_MAX as u64;
        let (mut one, mut other) = (Collectives::default(), Collectives::default());
        one.add(0, spans(0..many));
        one.add(1, spans(many / 2..2 * many));
        other.add(1, spans(many / 2..2 * many));
        other.add(0, spans(0..many));
        let (one, other) = (one.shared(), other.shared());
        assert!(one.len() > 10_000 && one == other);
    }
}
