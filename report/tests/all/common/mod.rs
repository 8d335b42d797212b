//! Traces made by hand, and what is in a trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;
use rsys_proto::schema::event_type;
use rsys_proto::{
    Annotation, ClockReadings, Compression, CpuMode, Event, EventKind, FrameDesc, Name, NamedTrack,
    PacketBuffer, ProcessTrack, Sample, SampleSequence, ThreadTrack, TraceWriter, TrackSequence,
    Value,
};
use rsys_report::merge::{Merged, Packing, Request, merge};

/// A folder that goes away with its owner.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("rsys-report-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Names of all files, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Who wrote a trace, and when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    pub boot_id: &'a str,
    pub host: &'a str,
    pub pid: u32,
    pub rank: Option<u64>,
    pub rank_count: u64,
    pub start_ns: u64,
    /// REALTIME minus BOOTTIME.
    pub ahead_ns: u64,
    pub compression: Compression,
    pub dropped: u64,
    /// What else it says at its end.
    pub more: &'static [(&'static str, u64)],
    pub finished: bool,
}

pub const FIRST: Writer<'static> = Writer {
    boot_id: "boot-a",
    host: "alpha",
    pid: 100,
    rank: Some(0),
    rank_count: 2,
    start_ns: 1_000_000,
    ahead_ns: 1_700_000_000_000_000_000,
    compression: Compression::None,
    dropped: 0,
    more: &[],
    finished: true,
};

pub const SECOND: Writer<'static> = Writer {
    boot_id: "boot-b",
    host: "beta",
    rank: Some(1),
    ..FIRST
};

pub const PROCESS: u64 = 11;
pub const METADATA: u64 = 12;
pub const THREAD: u64 = 13;
pub const GPU: u64 = 14;

impl Writer<'_> {
    fn clocks(&self, out: &mut PacketBuffer, boottime_ns: u64) {
        out.clock_snapshot(&ClockReadings {
            boottime_ns,
            monotonic_ns: boottime_ns - 500_000,
            realtime_ns: boottime_ns + self.ahead_ns,
            monotonic_raw_ns: boottime_ns - 499_000,
        });
    }

    /// A trace, as `rsys-sample` writes it, with what `fill` adds.
    pub fn trace(&self, fill: impl FnOnce(&mut PacketBuffer)) -> Vec<u8> {
        let mut trace = TraceWriter::new(Vec::new(), self.compression);
        let out = trace.buffer();
        self.clocks(out, self.start_ns);
        out.trace_uuid([7; 16]);
        let labels: Vec<String> = self
            .rank
            .iter()
            .map(|rank| format!("rank {rank}"))
            .collect();
        out.process(&ProcessTrack {
            uuid: PROCESS,
            pid: self.pid,
            name: "app",
            start_time_ns: Some(self.start_ns),
            labels: &labels,
            ..ProcessTrack::default()
        });
        out.thread(&ThreadTrack {
            uuid: THREAD,
            pid: self.pid,
            tid: self.pid,
            name: "main",
            ..ThreadTrack::default()
        });
        for (uuid, name) in [(METADATA, "rsys"), (GPU, "GPU 0 queue")] {
            out.track(&NamedTrack {
                uuid,
                parent: Some(PROCESS),
                name,
                ..NamedTrack::default()
            });
        }
        let mut metadata = TrackSequence::new(out, METADATA);
        let mut facts = vec![
            ("boot_id", Value::Text(self.boot_id)),
            ("host", Value::Text(self.host)),
            ("pid", Value::Uint(u64::from(self.pid))),
            ("start_time_ns", Value::Uint(self.start_ns)),
        ];
        if let Some(rank) = self.rank {
            facts.push(("rank", Value::Uint(rank)));
            facts.push(("rank_count", Value::Uint(self.rank_count)));
        }
        say(out, &mut metadata, self.start_ns, "rsys start", &facts);
        fill(out);
        let mut facts = vec![
            ("samples", Value::Uint(10)),
            ("dropped", Value::Uint(self.dropped)),
            ("dropped_ring_full", Value::Uint(self.dropped)),
            ("coverage_percent", Value::Double(99.5)),
            ("end", Value::Text("exit code 0")),
        ];
        let more = self.more.iter();
        facts.extend(more.map(|&(key, count)| (key, Value::Uint(count))));
        if self.finished {
            say(
                out,
                &mut metadata,
                self.start_ns + 9_000_000,
                "rsys end",
                &facts,
            );
            self.clocks(out, self.start_ns + 9_000_000);
        }
        trace.finish().unwrap()
    }

    /// A trace with slices, samples, flows and a counter.
    pub fn ordinary(&self) -> Vec<u8> {
        let start = self.start_ns;
        let pid = self.pid;
        self.trace(|out| {
            let mut thread = TrackSequence::new(out, THREAD);
            let (outer, inner, kernel) = (
                out.intern("outer"),
                out.intern("inner"),
                out.intern("kernel"),
            );
            thread.slice_begin(out, start + 1_000, outer);
            let launch = Event {
                name: Name::Interned(inner),
                flows: &[42],
                ..Event::default()
            };
            thread.event(out, start + 2_000, EventKind::SliceBegin, &launch);
            thread.slice_end(out, start + 3_000);
            let mut gpu = TrackSequence::new(out, GPU);
            let arrival = Event {
                name: Name::Interned(kernel),
                terminating_flows: &[42],
                ..Event::default()
            };
            gpu.event(out, start + 4_000, EventKind::SliceBegin, &arrival);
            gpu.slice_end(out, start + 5_000);
            thread.slice_end(out, start + 6_000);
            let mut samples = SampleSequence::new(out, "cpu-time ns", Some(1000));
            let mapping = samples.unknown_mapping();
            let function = samples.intern_function("outer");
            let frame = samples.intern_frame(FrameDesc {
                function: Some(function),
                mapping,
                rel_pc: 1,
                source: None,
                line: None,
            });
            let callstack = Some(samples.intern_callstack(&[frame]));
            for number in 0..10 {
                let sample = Sample {
                    time_ns: start + 1_500 + number * 100,
                    pid,
                    tid: pid,
                    callstack,
                    weight: 1_000_000,
                    mode: CpuMode::User,
                    cpu: None,
                };
                samples.sample(out, &sample);
            }
        })
    }
}

/// One instant with annotations.
pub fn say(
    out: &mut PacketBuffer,
    track: &mut TrackSequence,
    time_ns: u64,
    name: &str,
    facts: &[(&str, Value<'_>)],
) {
    let annotations: Vec<_> = facts
        .iter()
        .map(|(key, value)| Annotation {
            key: out.intern(key),
            value: *value,
        })
        .collect();
    let event = Event {
        name: Name::Once(name),
        annotations: &annotations,
        ..Event::default()
    };
    track.event(out, time_ns, EventKind::Instant, &event);
}

/// Merges into `folder/merged.pftrace`.
pub fn merge_all(folder: &Path, inputs: &[PathBuf]) -> anyhow::Result<(Merged, Vec<u8>)> {
    let output = folder.join("merged.pftrace");
    let merged = merge(&Request {
        inputs: inputs.to_vec(),
        output: output.clone(),
        force: true,
        packing: Packing::default(),
    })?;
    Ok((merged, std::fs::read(output).unwrap()))
}

/// The length of the whole packets at the start of a trace.
pub fn whole_packets(bytes: &[u8]) -> usize {
    let mut reader = PacketReader::new(bytes);
    while reader.next_encoded().unwrap().is_some() {}
    reader
        .truncation()
        .map_or(bytes.len(), |one| one.offset as usize)
}

/// A slice as a viewer shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    pub process: String,
    pub track: String,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub flows: Vec<u64>,
}

/// What is in a trace.
#[derive(Debug, Default)]
pub struct Contents {
    pub packets: usize,
    /// Names of processes by their ids.
    pub processes: BTreeMap<i32, String>,
    /// Uuids of all tracks, with how often each was described by another name.
    pub tracks: BTreeMap<u64, String>,
    pub slices: Vec<Slice>,
    pub open: usize,
    /// Process, thread, time and function of each sample.
    pub samples: Vec<(u32, u32, u64, String)>,
    pub instants: Vec<String>,
    pub sequences: std::collections::BTreeSet<u32>,
    pub snapshots: usize,
}

/// Reads a trace back.
pub fn contents(bytes: &[u8]) -> Contents {
    let mut found = Contents::default();
    let mut reader = PacketReader::new(bytes);
    let mut resolver = Resolver::new();
    let mut process_of: BTreeMap<u64, i32> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    while let Some(mut packet) = reader.next_packet().unwrap() {
        found.packets += 1;
        let time = resolver.observe(&mut packet);
        found.sequences.extend(packet.trusted_packet_sequence_id);
        let host_clocks = packet.clock_snapshot.as_ref();
        found.snapshots += usize::from(host_clocks.is_some_and(|one| one.clocks.len() == 4));
        if let Some(track) = &packet.track_descriptor {
            let uuid = track.uuid.unwrap_or(0);
            let parent = track
                .parent_uuid
                .and_then(|parent| process_of.get(&parent).copied());
            let pid = track.process.as_ref().and_then(|process| process.pid);
            let pid = pid
                .or(track.thread.as_ref().and_then(|thread| thread.pid))
                .or(parent);
            process_of.extend(pid.map(|pid| (uuid, pid)));
            if let Some(process) = &track.process {
                let name = process.process_name.clone().unwrap_or_default();
                let known = found.processes.insert(process.pid.unwrap(), name.clone());
                assert!(
                    known.is_none_or(|known| known == name),
                    "one pid, two names"
                );
            }
            let name = track
                .thread
                .as_ref()
                .and_then(|thread| thread.thread_name.clone());
            let name = name.or(track.name.clone()).unwrap_or_default();
            let known = found.tracks.insert(uuid, name.clone());
            assert!(
                known.is_none_or(|known| known == name),
                "one uuid, two tracks"
            );
        }
        let Some(sequence) = resolver.sequence(&packet) else {
            continue;
        };
        if let Some(sample) = &packet.perf_sample {
            let functions = sequence.callstack_functions(sample.callstack_iid.unwrap_or(0));
            found.samples.push((
                sample.pid.unwrap(),
                sample.tid.unwrap(),
                time.unwrap(),
                functions.join(">"),
            ));
        }
        let Some(event) = &packet.track_event else {
            continue;
        };
        let uuid = sequence.event_track(event);
        match event.r#type {
            Some(event_type::SLICE_BEGIN) => {
                let process = process_of
                    .get(&uuid)
                    .and_then(|pid| found.processes.get(pid));
                let mut flows = event.flow_ids.clone();
                flows.extend(&event.terminating_flow_ids);
                open.entry(uuid).or_default().push(Slice {
                    process: process.cloned().unwrap_or_default(),
                    track: found.tracks.get(&uuid).cloned().unwrap_or_default(),
                    name: sequence.event_name(event).to_owned(),
                    start_ns: time.unwrap(),
                    end_ns: 0,
                    flows,
                });
            }
            Some(event_type::SLICE_END) => {
                let mut slice = open
                    .get_mut(&uuid)
                    .and_then(Vec::pop)
                    .expect("an open slice");
                slice.end_ns = time.unwrap();
                found.slices.push(slice);
            }
            Some(event_type::INSTANT) => found.instants.push(sequence.event_name(event).to_owned()),
            _ => {}
        }
    }
    found.open = open.values().map(Vec::len).sum();
    found.slices.sort();
    found.samples.sort();
    found
}
