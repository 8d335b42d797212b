//! What a trace says, read with our own decoder.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use rsys_proto::reader::PacketReader;
use rsys_proto::resolve::Resolver;

/// A slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The thread's id.
    pub tid: i64,
    /// Its name.
    pub name: String,
    /// Begin and, if it has one, end.
    pub range: (u64, Option<u64>),
    /// How many slices it lies in.
    pub depth: usize,
}

/// A trace.
#[derive(Debug, Default)]
pub struct Trace {
    /// All slices of threads, in the order of their begins in the file.
    pub slices: Vec<Slice>,
    /// All samples: time, thread, weight, functions outermost first.
    pub samples: Vec<(u64, u32, u64, Vec<String>)>,
    /// The names of threads; the last that was told counts.
    pub threads: BTreeMap<i64, String>,
    /// The process: id, name, labels.
    pub process: (i32, String, Vec<String>),
    /// The annotations of the instants, by name.
    pub metadata: HashMap<String, HashMap<String, String>>,
    /// Bytes at the end that are no whole packet.
    pub truncated: bool,
}

impl Trace {
    /// Reads a file.
    pub fn read(path: &Path) -> Self {
        let mut trace = Trace::default();
        let mut tracks = HashMap::new();
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut resolver = Resolver::new();
        let mut reader = PacketReader::new(File::open(path).expect("a trace"));
        for packet in &mut reader {
            let mut packet = packet.expect("a packet that can be read");
            if let Some(descriptor) = &packet.track_descriptor {
                if let Some(process) = &descriptor.process {
                    let name = process.process_name.clone().unwrap_or_default();
                    trace.process = (
                        process.pid.unwrap_or(0),
                        name,
                        process.process_labels.clone(),
                    );
                }
                if let Some(thread) = &descriptor.thread {
                    let tid = thread.tid.expect("a thread has an id");
                    tracks.insert(descriptor.uuid.expect("a track has a uuid"), tid);
                    trace
                        .threads
                        .insert(tid, thread.thread_name.clone().unwrap_or_default());
                }
            }
            let time = resolver.observe(&mut packet);
            let Some(sequence) = resolver.sequence(&packet) else {
                continue;
            };
            if let Some(event) = &packet.track_event {
                let time = time.expect("an event has a time");
                let track = sequence.event_track(event);
                let stack = open.entry(track).or_default();
                match event.r#type {
                    Some(1) => {
                        let name = sequence.event_name(event).to_string();
                        stack.push(trace.slices.len());
                        let tid = *tracks
                            .get(&track)
                            .expect("a track is described before its events");
                        trace.slices.push(Slice {
                            tid,
                            name,
                            range: (time, None),
                            depth: stack.len() - 1,
                        });
                    }
                    Some(2) => {
                        let index = stack.pop().expect("an end has a begin");
                        trace.slices[index].range.1 = Some(time);
                    }
                    Some(3) => {
                        let name = sequence.event_name(event).to_string();
                        let data = event.debug_annotations.iter().map(|one| {
                            let key = sequence.annotation_name(one).to_string();
                            let text = sequence.annotation_text(one).map(|text| text.to_string());
                            let number = one.uint_value.map(|value| value.to_string());
                            let fraction = one.double_value.map(|value| value.to_string());
                            (key, text.or(number).or(fraction).unwrap_or_default())
                        });
                        trace.metadata.insert(name, data.collect());
                    }
                    // Values of counters.
                    Some(4) => {}
                    other => panic!("an event of type {other:?}"),
                }
            }
            if let Some(sample) = &packet.perf_sample {
                let stack = sample
                    .callstack_iid
                    .map(|iid| sequence.callstack_functions(iid));
                let stack = stack
                    .into_iter()
                    .flatten()
                    .map(|name| name.to_string())
                    .collect();
                let weight = sample.timebase_count.unwrap_or(0);
                trace.samples.push((
                    time.expect("a sample has a time"),
                    sample.tid.unwrap_or(0),
                    weight,
                    stack,
                ));
            }
        }
        trace.truncated = reader.truncation().is_some();
        trace
    }

    /// A number of the metadata at the end.
    pub fn end(&self, key: &str) -> u64 {
        self.metadata["rsys end"][key]
            .parse()
            .unwrap_or_else(|_| panic!("{key} is no number"))
    }

    /// The slices as `name@begin-end` relative to a time in milliseconds, of one thread, outermost
    /// first.
    pub fn painted(&self, tid: i64, base_ns: u64) -> Vec<String> {
        let relative = |time: u64| (time as i64 - base_ns as i64) / 1_000_000;
        self.slices
            .iter()
            .filter(|slice| slice.tid == tid)
            .map(|slice| {
                let end = slice
                    .range
                    .1
                    .map_or_else(|| "?".to_owned(), |end| relative(end).to_string());
                format!(
                    "{}{}@{}-{end}",
                    ".".repeat(slice.depth),
                    slice.name,
                    relative(slice.range.0)
                )
            })
            .collect()
    }
}
