//! A first look at a trace: whose it is, which clocks and processes it has, whether it was finished.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use prost::Message;
use rsys_proto::fields::{packet, process, sample, thread};
use rsys_proto::message::Fields;
use rsys_proto::packets::Packets;
use rsys_proto::reader::{ReadError, Truncation};
use rsys_proto::schema::{ClockSnapshot, SystemInfo, TrackDescriptor};

use rsys_traces::perfetto::clocks::{TraceClocks, WallClock};
use rsys_traces::perfetto::facts::{Facts, MetadataReader};
use rsys_traces::perfetto::losses::Losses;
use rsys_traces::read::foreign_kind;

/// How much of a trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A trace of rsys up to where it says whose it is; another one as a whole.
    Head,
    /// All.
    Whole,
}

/// What a first look at a trace found.
#[derive(Debug)]
pub struct TraceInfo {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub file_bytes: u64,
    /// What it says about itself.
    pub start: Option<Facts>,
    /// What it says at its end, if that was read and it was finished.
    pub end: Option<Facts>,
    /// Of the short processes in it, if that is what it is of: how many began, how many ended, and their samples.
    pub short: Option<ShortProcesses>,
    /// What was lost, as far as that was read: of all processes, if it was made by a merge.
    pub losses: Losses,
    /// What it says where it goes on in another file, if that was read.
    pub part_end: Option<Facts>,
    /// What was found when it was finished afterwards.
    pub recovered: Option<Facts>,
    /// What it says of the merge, if it was made by one.
    pub merged: Option<Facts>,
    /// Its processes and the threads with samples or tracks of each.
    pub pids: BTreeSet<u32>,
    /// The uuid of the first track of a process; 0 if there is none.
    pub process_track: u64,
    /// Names of the processes.
    pub names: BTreeMap<u32, String>,
    /// Labels of the processes.
    pub labels: Vec<String>,
    /// The machine's name, if the trace has it.
    pub machine: String,
    /// Its clocks.
    pub clocks: TraceClocks,
    /// The wall clock of its host.
    pub wall_clock: WallClock,
    /// Snapshots of the host's clocks.
    pub snapshots: Vec<ClockSnapshot>,
    /// The description of the machine.
    pub system: Option<Vec<u8>>,
    /// Whether its packets are compressed.
    pub compressed: bool,
    /// The part of a packet at its end.
    pub truncation: Option<Truncation>,
    /// Packets that were read.
    pub packets: u64,
    /// A hash of the packets that were read.
    pub fingerprint: u64,
}

/// What a trace of short processes says of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShortProcesses {
    /// Those that began.
    pub begun: u64,
    /// Those whose end is in it.
    pub ended: u64,
    /// Samples of those.
    pub samples: u64,
}

/// Snapshots of clocks that are kept of one trace.
const SNAPSHOTS_MAX: usize = 256;

impl TraceInfo {
    /// Reads a trace, and shows each packet to `also`.
    ///
    /// # Errors
    /// When the file cannot be read or is no trace.
    pub fn read(path: &Path, depth: Depth, mut also: impl FnMut(&[u8])) -> Result<Self> {
        let told = || path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file_bytes = file.metadata().with_context(told)?.len();
        let mut packets = Packets::new(file, depth == Depth::Whole);
        let mut info = Self::of_nothing(path, file_bytes);
        let mut metadata = MetadataReader::default();
        let mut hash = Fingerprint::default();
        loop {
            let encoded = match packets.next() {
                Ok(Some(encoded)) => encoded,
                Ok(None) => break,
                Err(error) => return Err(explain_of(path, error)).with_context(told),
            };
            info.packets += 1;
            hash.add(encoded);
            info.packet(encoded, metadata.start.is_some());
            also(encoded);
            if !metadata.packet(encoded) {
                continue;
            }
            if let Some(end) = metadata.end.take() {
                info.losses.add(&end);
                if end.count("short_process").is_some() {
                    let short = info.short.get_or_insert_default();
                    short.samples += end.count("samples").unwrap_or(0);
                }
                info.end = Some(end);
            }
            if depth == Depth::Head && metadata.start.is_some() {
                break;
            }
        }
        info.truncation = packets.truncation();
        info.compressed = packets.has_compressed_packets();
        info.fingerprint = hash.0;
        if let Some(short) = &mut info.short {
            (short.begun, short.ended) = (metadata.starts, metadata.ends);
        }
        info.merged = metadata.merged;
        info.start = metadata.start;
        info.part_end = metadata.part_end;
        info.recovered = metadata.recovered;
        Ok(info)
    }

    fn of_nothing(path: &Path, file_bytes: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            file_bytes,
            start: None,
            end: None,
            short: None,
            losses: Losses::default(),
            part_end: None,
            recovered: None,
            merged: None,
            pids: BTreeSet::new(),
            process_track: 0,
            names: BTreeMap::new(),
            labels: Vec::new(),
            machine: String::new(),
            clocks: TraceClocks::default(),
            wall_clock: WallClock::default(),
            snapshots: Vec::new(),
            system: None,
            compressed: false,
            truncation: None,
            packets: 0,
            fingerprint: 0,
        }
    }

    /// Learns from a packet. What is torn in it is nobody's: the merge counts it.
    fn packet(&mut self, encoded: &[u8], is_ours: bool) {
        for field in Fields::new(encoded).flatten() {
            let bytes = field.value.bytes();
            match field.number {
                packet::CLOCK_SNAPSHOT => {
                    if let Ok(snapshot) = ClockSnapshot::decode(bytes) {
                        self.snapshot(snapshot);
                    }
                }
                packet::TRACK_DESCRIPTOR => {
                    if let Ok(descriptor) = TrackDescriptor::decode(bytes) {
                        self.descriptor(descriptor);
                    }
                }
                packet::SYSTEM_INFO if self.system.is_none() => {
                    let info = SystemInfo::decode(bytes).ok();
                    self.machine = info.and_then(|info| info.machine_name).unwrap_or_default();
                    self.system = Some(bytes.to_vec());
                }
                // The descriptors of a trace of rsys come first.
                packet::PERF_SAMPLE if !is_ours => self.pid(bytes, sample::PID),
                packet::PROCESS_DESCRIPTOR => self.pid(bytes, process::PID),
                packet::THREAD_DESCRIPTOR => self.pid(bytes, thread::PID),
                _ => {}
            }
        }
    }

    fn snapshot(&mut self, snapshot: ClockSnapshot) {
        self.clocks.observe_first(&snapshot);
        self.wall_clock.observe(&snapshot);
        let of_host = snapshot
            .clocks
            .iter()
            .all(|one| one.clock_id.is_some_and(|id| id < 64));
        if of_host && snapshot.clocks.len() > 1 {
            if self.snapshots.len() == SNAPSHOTS_MAX {
                let mut index = 0;
                self.snapshots.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
            self.snapshots.push(snapshot);
        }
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) {
        if let Some(process) = descriptor.process {
            let pid = process.pid.unwrap_or(0).cast_unsigned();
            if self.process_track == 0 {
                self.process_track = descriptor.uuid.unwrap_or(0);
            }
            self.pids.insert(pid);
            self.labels.extend(process.process_labels);
            self.names
                .insert(pid, process.process_name.unwrap_or_default());
        }
        if let Some(thread) = descriptor.thread {
            self.pids.insert(thread.pid.unwrap_or(0).cast_unsigned());
        }
    }

    fn pid(&mut self, message: &[u8], number: u32) {
        let named = Fields::new(message)
            .flatten()
            .find(|field| field.number == number);
        if let Some(field) = named {
            self.pids.insert(field.value.number32());
        }
    }

    /// A fact from the start of the trace, as text.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.start.as_ref().map_or("", |facts| facts.text(key))
    }

    /// A fact from the start of the trace, as a number.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.start.as_ref()?.count(key)
    }

    /// Whether `rsys-sample` wrote it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.start.is_some()
    }

    /// The rank, from the metadata or a label. Short processes that share a trace may be of several.
    #[must_use]
    pub fn rank(&self) -> Option<u64> {
        if self.short.is_some() {
            return None;
        }
        self.count("rank").or_else(|| self.labelled_ranks().next())
    }

    /// The ranks that its processes bear as labels.
    pub fn labelled_ranks(&self) -> impl Iterator<Item = u64> + '_ {
        let number = |label: &String| label.strip_prefix("rank ")?.trim().parse().ok();
        self.labels.iter().filter_map(number)
    }

    /// The host's name, from the metadata, the machine's description or a label.
    #[must_use]
    pub fn host(&self) -> &str {
        let labelled = || {
            let mut labels = self.labels.iter();
            labels
                .find_map(|label| label.strip_prefix("host "))
                .unwrap_or("")
        };
        match (self.text("host"), self.machine.as_str()) {
            ("", "") => labelled(),
            ("", machine) => machine,
            (host, _) => host,
        }
    }

    /// What no other process instance has.
    #[must_use]
    pub fn instance(&self) -> String {
        match &self.start {
            Some(facts) => format!(
                "{}|{}|{}|{}",
                facts.text("boot_id"),
                facts.text("host"),
                facts.count("pid").unwrap_or(0),
                facts.count("start_time_ns").unwrap_or(0)
            ),
            None => format!("{:016x}|{}", self.fingerprint, self.packets),
        }
    }
}

/// An error of the reader of a file: of one of another profiler, what it is and what can be asked of it.
pub fn explain_of(path: &Path, error: ReadError) -> anyhow::Error {
    let kind = match error {
        ReadError::NotAPacket { offset: 0 } => foreign_kind(path),
        _ => None,
    };
    match kind {
        Some(kind) => anyhow::anyhow!(
            "this is {kind}, no trace in Perfetto's protobuf form, which this command needs; `rsys-report summary FILE` answers questions on it"
        ),
        None => explain(error),
    }
}

/// An error of the reader, with the remedy.
pub fn explain(error: ReadError) -> anyhow::Error {
    let remedy = match &error {
        ReadError::Io(_) => return error.into(),
        ReadError::NotAPacket { offset: 0 } => "is this a Perfetto trace in protobuf form?",
        _ => "`rsys-report recover` keeps what stands before",
    };
    anyhow::anyhow!("{error}; {remedy}")
}

/// A hash of packets, of which equal files have equal ones.
#[derive(Debug, Default)]
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut hash = self.0 ^ bytes.len() as u64;
        for word in words {
            hash = step(hash, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0 = step(hash, u64::from_le_bytes(last));
    }
}

fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
