//! The collectives of one trace, found along the flows.

use std::collections::HashMap;

use prost::Message;
use rsys_proto::schema::ClockSnapshot;
use rsys_traces::model::{TextId, Texts};
use rsys_traces::perfetto::clocks::WallClock;
use rsys_traces::perfetto::interned::{Datum, EventNames, entries};
use rsys_traces::perfetto::{Decoder, Event, EventHead, EventKind, TrackIndex};

use super::{Key, Span};

/// Launches and kernels that wait to be brought together. When there are more, what is there is brought together, and chains that are torn
/// apart by that are lost: thousands remain.
const WAITING_MAX: usize = 200_000;

/// Finds the collectives of one trace.
#[derive(Debug)]
pub(super) struct CollectiveReader {
    decoder: Decoder,
    wall_clock: WallClock,
    texts: Texts,
    keys: Keys,
    /// By sequence.
    names: Vec<EventNames>,
    /// By track.
    tracks: Vec<Nest>,
    /// Flows that leave RCCL calls.
    flows: HashMap<u64, Vec<Key>>,
    calls: Vec<Call>,
    launches: Vec<Launch>,
    kernels: Vec<Kernel>,
    found: HashMap<Key, Span>,
}

/// The annotations that count.
#[derive(Debug)]
struct Keys {
    communicator: TextId,
    sequence: TextId,
    blocking: TextId,
}

/// The open slices of a track.
#[derive(Debug, Default)]
struct Nest {
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
    thread: TrackIndex,
    start_ns: i64,
    end_ns: i64,
    key: Key,
    blocking: bool,
}

#[derive(Debug)]
struct Launch {
    thread: TrackIndex,
    time_ns: i64,
    flows: Vec<u64>,
}

#[derive(Debug)]
struct Kernel {
    span: Span,
    flows: Vec<u64>,
}

impl Default for CollectiveReader {
    fn default() -> Self {
        let mut texts = Texts::default();
        let keys = Keys {
            communicator: texts.intern("communicator"),
            sequence: texts.intern("sequence"),
            blocking: texts.intern("blocking"),
        };
        Self {
            decoder: Decoder::default(),
            wall_clock: WallClock::default(),
            texts,
            keys,
            names: Vec::new(),
            tracks: Vec::new(),
            flows: HashMap::new(),
            calls: Vec::new(),
            launches: Vec::new(),
            kernels: Vec::new(),
            found: HashMap::new(),
        }
    }
}

/// The entry of a table, which grows as needed.
fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if index >= table.len() {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}

impl CollectiveReader {
    /// Learns from a packet; packets come in file order. What is torn counts for nothing.
    pub(super) fn packet(&mut self, encoded: &[u8]) {
        let Ok(event) = self.decoder.packet(encoded) else {
            return;
        };
        let snapshot = event.head.snapshot.map(ClockSnapshot::decode);
        if let Some(Ok(snapshot)) = snapshot {
            self.wall_clock.observe(&snapshot);
        }
        if event.head.cleared {
            *entry(&mut self.names, event.sequence.index()) = EventNames::default();
        }
        // The tables of call stacks are long, and come with samples.
        if let (Some(interned), None) = (event.head.interned, event.head.sample) {
            let names = entry(&mut self.names, event.sequence.index());
            for entry in entries(interned) {
                names.define(&entry, &mut self.texts);
            }
        }
        let Some(time_ns) = event.time_ns.map(u64::cast_signed) else {
            return;
        };
        match event.kind {
            EventKind::Begin(track, head) => self.begin(&event, track, &head, time_ns),
            EventKind::End(track, _) => self.end(track, time_ns),
            _ => return,
        }
        if self.launches.len() + self.kernels.len() + self.calls.len() > WAITING_MAX {
            self.bring_together();
        }
    }

    /// What was found: when each collective began and ended on this rank, and the wall clock.
    #[must_use]
    pub(super) fn finish(mut self) -> (HashMap<Key, Span>, WallClock) {
        self.bring_together();
        (self.found, self.wall_clock)
    }

    #[inline]
    fn begin(&mut self, event: &Event<'_>, track: TrackIndex, head: &EventHead<'_>, time_ns: i64) {
        if head.details.is_empty() {
            entry(&mut self.tracks, track.index()).ordinary += 1;
            return;
        }
        let mut open = Open {
            start_ns: time_ns,
            key: None,
            blocking: false,
            flows: Vec::new(),
            ordinary_below: 0,
        };
        let mut flows = Vec::new();
        head.flows(|flow| flows.push(flow));
        self.learn(event.sequence.index(), head, &mut open);
        match (open.key, self.decoder.tracks.thread(track)) {
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
        let nest = entry(&mut self.tracks, track.index());
        if open.key.is_none() && open.flows.is_empty() {
            nest.ordinary += 1;
        } else {
            open.ordinary_below = std::mem::take(&mut nest.ordinary);
            nest.open.push(open);
        }
    }

    /// Reads which collective a slice is, if it is one.
    fn learn(&mut self, sequence: usize, head: &EventHead<'_>, open: &mut Open) {
        let names = entry(&mut self.names, sequence);
        let name = names.name(head, &mut self.texts);
        if !is_mutual(self.texts.get(name)) {
            return;
        }
        let (mut communicator, mut number) = (None, None);
        for encoded in head.annotations() {
            let (key, value) = names.annotation(encoded, &mut self.texts);
            if key == self.keys.communicator {
                communicator = match value {
                    Datum::Text(text) => Some(text_hash(&String::from_utf8_lossy(text))),
                    Datum::Interned(text) => Some(text_hash(self.texts.get(text))),
                    Datum::Uint(value) | Datum::Pointer(value) => Some(value),
                    _ => None,
                };
            } else if key == self.keys.sequence {
                number = match value {
                    Datum::Uint(value) => Some(value),
                    Datum::Int(value) => u64::try_from(value).ok(),
                    _ => None,
                };
            } else if key == self.keys.blocking {
                open.blocking = value == Datum::Bool(true);
            }
        }
        open.key = communicator.zip(number);
    }

    /// Ends the innermost slice of a track.
    #[inline]
    fn end(&mut self, track: TrackIndex, time_ns: i64) {
        let nest = entry(&mut self.tracks, track.index());
        if nest.ordinary > 0 {
            nest.ordinary -= 1;
            return;
        }
        let Some(open) = nest.open.pop() else {
            return;
        };
        nest.ordinary = open.ordinary_below;
        if let Some(key) = open.key {
            self.calls.push(Call {
                thread: self.decoder.tracks.thread(track).unwrap_or(track),
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
        let mut by_thread: HashMap<TrackIndex, Vec<&Call>> = HashMap::new();
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

/// Whether no rank can end an operation of this name before all have begun it. The root of a broadcast can; a sender, too.
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
        "scan",
        "exscan",
        "neighbor",
        // With counts for each rank, some of which may be 0: of MPI, who waits for whom is not known.
        "allgatherv",
        "alltoallv",
        "alltoallw",
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
            "MPI_Exscan",
            "MPI_Alltoallv",
        ] {
            assert!(!is_mutual(name), "{name}");
        }
    }
}
