//! The traces of a run, as `rsys-sample` writes them.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rsys_proto::{
    Annotation, ClockReadings, Compression, CounterTrack, CounterUnit, CpuMode, Event, EventKind,
    FrameDesc, Name, NamedTrack, PacketBuffer, ProcessNamespace, ProcessTrack, SampleSequence,
    ThreadTrack, TraceWriter, TrackSequence, Value,
};

use super::{Basis, Call, OperationKind, Process, Sample};
use crate::track::say;

/// Slices of a track, by begin: begin, end, and what they are.
type Slices<'a> = Vec<(u64, u64, Slice<'a>)>;

/// What a slice is written with.
struct Slice<'a> {
    name: &'a str,
    category: &'static str,
    annotations: Vec<(&'static str, Value<'a>)>,
    flow: Option<u64>,
}

/// Numbers of the tracks of a process.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// Writes the trace of a process of a run of so many into a folder. Returns its path.
///
/// # Errors
/// When the file cannot be written.
pub fn write_process(process: &Process, processes: usize, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("perfetto-trace-{}.proto", process.number));
    let file = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
    let mut trace = TraceWriter::new(file, Compression::None);
    let boot_id = format!("b00t-{}", process.host);
    let ids = ProcessNamespace::new(&boot_id, process.pid, 17, process.number);
    let mut writing = Writing {
        process,
        ids,
        numbers: Numbers(0),
        out: trace.buffer(),
    };
    writing.head(&boot_id, processes);
    writing.threads();
    writing.gpus();
    writing.samples();
    trace.flush()?;
    trace.finish()?;
    Ok(path)
}

struct Writing<'a> {
    process: &'a Process,
    ids: ProcessNamespace,
    numbers: Numbers,
    out: &'a mut PacketBuffer,
}

/// The track of the process, and that of a thread.
const PROCESS: u32 = 1_000_000;
const THREADS: u32 = 2_000_000;

impl<'a> Writing<'a> {
    fn head(&mut self, boot_id: &str, processes: usize) {
        let Process { start_ns, pid, .. } = *self.process;
        let wall = start_ns.saturating_add_signed(self.process.wall_offset_ns);
        self.out.clock_snapshot(&ClockReadings {
            boottime_ns: start_ns,
            monotonic_ns: start_ns,
            realtime_ns: wall,
            monotonic_raw_ns: start_ns,
        });
        self.out.trace_uuid(self.ids.trace_uuid());
        self.out.process(&ProcessTrack {
            uuid: self.ids.track(PROCESS),
            pid,
            name: "python3",
            start_time_ns: Some(start_ns),
            ..ProcessTrack::default()
        });
        let track = self.track(Some(PROCESS), "rsys");
        let mut metadata = TrackSequence::new(self.out, self.ids.track(track));
        let host = format!("node{:02}", self.process.host);
        let mut facts = vec![
            ("boot_id", Value::Text(boot_id)),
            ("host", Value::Text(&host)),
            ("pid", Value::Uint(u64::from(pid))),
            ("start_time_ns", Value::Uint(start_ns)),
        ];
        if let Some(rank) = self.process.rank {
            facts.push(("rank", Value::Uint(rank)));
            facts.push(("rank_count", Value::Uint(processes as u64)));
        }
        say(self.out, &mut metadata, start_ns, "rsys start", &facts);
        for (place, &tid) in (0..).zip(&self.process.threads) {
            let name = format!("thread {place}");
            self.out.thread(&ThreadTrack {
                uuid: self.ids.track(THREADS + place),
                pid,
                tid,
                name: &name,
                title: "stack",
            });
        }
    }

    fn track(&mut self, parent: Option<u32>, name: &str) -> u32 {
        let number = self.numbers.next();
        self.out.track(&NamedTrack {
            uuid: self.ids.track(number),
            parent: parent.map(|parent| self.ids.track(parent)),
            name,
            ..NamedTrack::default()
        });
        number
    }

    /// Writes slices that nest, in the order in which they begin.
    fn slices(&mut self, track: u32, slices: Slices<'_>) {
        let mut sequence = TrackSequence::new(self.out, self.ids.track(track));
        let mut open: Vec<u64> = Vec::new();
        for (start_ns, end_ns, slice) in slices {
            // One that begins where another ends stands behind it.
            while let Some(&ends_ns) = open.last()
                && ends_ns <= start_ns
            {
                sequence.slice_end(self.out, ends_ns);
                open.pop();
            }
            let annotations = slice.annotations.iter();
            let annotations: Vec<_> = annotations
                .map(|(key, value)| Annotation::new(self.out.intern(key), *value))
                .collect();
            let flows: Vec<u64> = slice.flow.into_iter().collect();
            let event = Event {
                name: Name::Interned(self.out.intern(slice.name)),
                category: Some(self.out.intern(slice.category)),
                flows: &flows,
                annotations: &annotations,
                ..Event::default()
            };
            sequence.event(self.out, start_ns, EventKind::SliceBegin, &event);
            open.push(end_ns);
        }
        while let Some(ends_ns) = open.pop() {
            sequence.slice_end(self.out, ends_ns);
        }
    }

    fn threads(&mut self) {
        let process = self.process;
        let texts: Vec<String> = process
            .calls
            .iter()
            .map(|call| {
                call.collective
                    .map_or(String::new(), |one| format!("{:016x}", one.communicator))
            })
            .collect();
        for place in 0..process.threads.len() {
            let calls = process.calls.iter().zip(&texts);
            let calls = calls.filter(|(call, _)| call.thread == place);
            let calls: Slices<'_> = calls
                .map(|(call, communicator)| {
                    let mut annotations = number_of(call);
                    if call.bytes > 0 {
                        annotations.push(("bytes", Value::Uint(call.bytes)));
                    }
                    if let Some(one) = &call.collective {
                        annotations.push(("communicator", Value::Text(communicator)));
                        annotations.push(("sequence", Value::Uint(one.sequence)));
                        annotations.push(("datatype", Value::Text(one.data_type)));
                        annotations.push(("rank", Value::Uint(one.rank)));
                        annotations.push(("ranks", Value::Uint(one.ranks)));
                    }
                    let slice = Slice {
                        name: call.name,
                        category: call.category,
                        annotations,
                        flow: Some(self.ids.flow(call.correlation)),
                    };
                    (call.start_ns, call.end_ns, slice)
                })
                .collect();
            let thread = THREADS + place as u32;
            let track = self.track(Some(thread), "calls");
            self.slices(track, calls);
            let ranges = process.ranges.iter().filter(|range| range.thread == place);
            let ranges: Slices<'_> = ranges
                .map(|range| {
                    let slice = Slice {
                        name: &range.name,
                        category: "roctx",
                        annotations: Vec::new(),
                        flow: None,
                    };
                    (range.start_ns, range.end_ns, slice)
                })
                .collect();
            let track = self.track(Some(thread), "roctx");
            self.slices(track, ranges);
            let track = self.track(Some(thread), "roctx marks");
            let mut marks = TrackSequence::new(self.out, self.ids.track(track));
            for mark in process.marks.iter().filter(|mark| mark.thread == place) {
                let event = Event {
                    name: Name::Interned(self.out.intern(&mark.name)),
                    category: Some(self.out.intern("roctx")),
                    ..Event::default()
                };
                marks.event(self.out, mark.time_ns, EventKind::Instant, &event);
            }
        }
    }

    fn gpus(&mut self) {
        let process = self.process;
        let devices = process.operations.iter().map(|operation| operation.device);
        let sensors = process.sensors.iter().map(|sensor| sensor.device);
        let count = devices.chain(sensors).max().map_or(0, |last| last + 1);
        for device in 0..count {
            let gpu = self.track(None, &format!("GPU {device} \u{b7} Simulated"));
            let of_device = process.operations.iter();
            let of_device = of_device.filter(|operation| operation.device == device);
            let streams = of_device.clone().map(|operation| operation.stream);
            for stream in 0..streams.max().map_or(0, |last| last + 1) {
                let track = self.track(Some(gpu), &format!("stream {stream}"));
                let operations = of_device
                    .clone()
                    .filter(|operation| operation.stream == stream);
                let slices: Slices<'_> = operations
                    .map(|operation| {
                        let call = operation.call.map(|call| &process.calls[call]);
                        let mut annotations = call.map_or_else(Vec::new, number_of);
                        if operation.bytes > 0 {
                            annotations.push(("bytes", Value::Uint(operation.bytes)));
                        }
                        for (key, text) in
                            [("direction", operation.direction), ("grid", operation.grid)]
                        {
                            if !text.is_empty() {
                                annotations.push((key, Value::Text(text)));
                            }
                        }
                        let slice = Slice {
                            name: &operation.name,
                            category: match operation.kind {
                                OperationKind::Kernel => "kernel",
                                OperationKind::Copy => "copy",
                                OperationKind::Fill => "fill",
                                OperationKind::Barrier => "barrier",
                            },
                            annotations,
                            flow: call.map(|call| self.ids.flow(call.correlation)),
                        };
                        (operation.start_ns, operation.end_ns, slice)
                    })
                    .collect();
                self.slices(track, slices);
            }
            let group = self.track(None, &format!("Sensors of GPU {device}"));
            let track = self.numbers.next();
            self.out.counter_track(&CounterTrack {
                uuid: self.ids.track(track),
                parent: Some(self.ids.track(group)),
                name: "power",
                unit: CounterUnit::Named("W"),
                ..CounterTrack::default()
            });
            let mut sensor = TrackSequence::new(self.out, self.ids.track(track));
            for value in process.sensors.iter().filter(|one| one.device == device) {
                sensor.counter(self.out, value.time_ns, value.value);
            }
        }
    }

    fn samples(&mut self) {
        let process = self.process;
        for (basis, counter) in [
            (Basis::Cpu, "cpu-time ns"),
            (Basis::Wait, "waiting-time ns"),
        ] {
            let mut sequence = SampleSequence::new(self.out, counter, None);
            let samples = process.samples.iter().filter(|one| one.basis == basis);
            let mut samples: Vec<_> = samples
                .map(|sample| self.sample(&mut sequence, sample))
                .collect();
            sequence.samples(self.out, &mut samples);
        }
        let mut sequence = SampleSequence::new(self.out, "call-time ns", None);
        let has_stack =
            |call: &&Call| process.has_call_stacks && !call.correlation.is_multiple_of(3);
        for call in process.calls.iter().filter(has_stack) {
            let sample = Sample {
                time_ns: call.start_ns,
                basis: Basis::Cpu,
                weight: call.end_ns - call.start_ns,
                thread: call.thread,
                functions: ["[calls]", "main", call.name].map(str::to_owned).to_vec(),
            };
            let sample = self.sample(&mut sequence, &sample);
            sequence.sample(self.out, &sample);
        }
        let mut sequence = SampleSequence::new(self.out, "gpu-time ns", None);
        for operation in &process.operations {
            let call = operation.call.map(|call| &process.calls[call]);
            let Some(call) = call.filter(|_| operation.kind == OperationKind::Kernel) else {
                continue;
            };
            let sample = Sample {
                time_ns: operation.start_ns,
                basis: Basis::Cpu,
                weight: operation.end_ns - operation.start_ns,
                thread: call.thread,
                functions: vec![
                    "main".to_owned(),
                    "launch".to_owned(),
                    operation.name.clone(),
                ],
            };
            let sample = self.sample(&mut sequence, &sample);
            sequence.sample(self.out, &sample);
        }
    }

    fn sample(&self, sequence: &mut SampleSequence, sample: &Sample) -> rsys_proto::Sample {
        let mapping = sequence.unknown_mapping();
        let frames: Vec<_> = (1..)
            .zip(&sample.functions)
            .map(|(line, name)| {
                let frame = FrameDesc {
                    function: Some(sequence.intern_function(name)),
                    mapping,
                    rel_pc: line,
                    source: None,
                    line: None,
                };
                sequence.intern_frame(frame)
            })
            .collect();
        rsys_proto::Sample {
            time_ns: sample.time_ns,
            pid: self.process.pid,
            tid: self.process.threads[sample.thread],
            callstack: Some(sequence.intern_callstack(&frames)),
            weight: sample.weight,
            mode: CpuMode::Unknown,
            cpu: None,
        }
    }
}

/// The number of a call, as `--flows both` writes it; of every other call it is in the arrow alone, as by default.
fn number_of(call: &Call) -> Vec<(&'static str, Value<'static>)> {
    let is_written = call.correlation.is_multiple_of(2);
    let number = ("correlation", Value::Uint(call.correlation));
    is_written.then_some(number).into_iter().collect()
}
