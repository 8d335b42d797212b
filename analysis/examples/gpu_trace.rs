//! Writes a trace of a program that launches kernels on four streams, as `rsys-sample` writes one:
//! `gpu_trace FILE KERNELS [zlib] [bare] [idle] [samples] [more=CALLS] [process=NUMBER]`.
//!
//! Each kernel has its call, its launch stack and its time as a sample; with `bare` there are kernels alone. With `idle` the GPU has nothing to do after
//! each kernel, with `samples` the thread is sampled at every other call and one call in eight waits for the GPU. With `more`
//! each kernel is followed by CALLS further calls, one each microsecond. It is what the speed of
//! `rsys-report` is measured with.

use std::env;
use std::fs::File;
use std::io;

use rsys_proto::{
    Annotation, CallstackIid, ClockReadings, Compression, CpuMode, Event, EventKind, FrameDesc,
    Name, NamedTrack, PacketBuffer, ProcessNamespace, ProcessTrack, Sample, SampleSequence,
    StringId, ThreadTrack, TraceWriter, TrackSequence, Value,
};

const START_NS: u64 = 5_000_000_000_000;
/// The process id of process 0.
const PID: u32 = 4711;
const STREAMS: u64 = 4;
/// Operations are told in lumps.
const LUMP: u64 = 1000;
const NAMES: u64 = 200;
/// From one further call to the next.
const FURTHER_CALL_NS: u64 = 1_000;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let usage = || {
        let words = "[zlib] [bare] [idle] [samples] [more=CALLS] [process=NUMBER]";
        io::Error::other(format!("gpu_trace FILE KERNELS {words}"))
    };
    let path = arguments.next().ok_or_else(usage)?;
    let kernels = arguments
        .next()
        .and_then(|count| count.parse().ok())
        .ok_or_else(usage)?;
    let (mut compression, mut has_host, mut process) = (Compression::None, true, 0);
    let (mut is_idle, mut has_samples, mut further_calls) = (false, false, 0);
    for word in arguments {
        match word.split_once('=') {
            None if word == "zlib" => compression = Compression::Zlib,
            None if word == "bare" => has_host = false,
            None if word == "idle" => is_idle = true,
            None if word == "samples" => has_samples = true,
            Some(("more", number)) => further_calls = number.parse().map_err(|_| usage())?,
            Some(("process", number)) => process = number.parse().map_err(|_| usage())?,
            _ => return Err(usage()),
        }
    }
    let mut trace =
        TraceWriter::for_process(File::create(path)?, compression, namespace(PID + process));
    let mut writer = Writer::new(trace.buffer(), PID + process, is_idle, further_calls);
    for first in (0..kernels).step_by(LUMP as usize) {
        let numbers = first..(first + LUMP).min(kernels);
        if has_host {
            for number in numbers.clone() {
                writer.call(trace.buffer(), number, has_samples);
                writer.further_calls(trace.buffer(), number);
            }
            if has_samples {
                writer.seen(trace.buffer(), numbers.clone());
            }
        }
        for number in numbers {
            writer.kernel(trace.buffer(), number);
        }
        if has_host {
            writer.samples(trace.buffer());
        }
        writer.pending.clear();
        trace.flush()?;
    }
    trace.flush()?;
    Ok(())
}

fn namespace(pid: u32) -> ProcessNamespace {
    ProcessNamespace::new("b00t", pid, 17, 0)
}

/// A deterministic number that looks random.
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

/// A stack of functions, the outermost first.
fn stack(samples: &mut SampleSequence, functions: &[&str]) -> CallstackIid {
    let mapping = samples.unknown_mapping();
    let frames: Vec<_> = functions
        .iter()
        .map(|name| {
            let function = samples.intern_function(name);
            samples.intern_frame(FrameDesc {
                function: Some(function),
                mapping,
                rel_pc: 0,
                source: None,
                line: None,
            })
        })
        .collect();
    samples.intern_callstack(&frames)
}

struct Writer {
    pid: u32,
    is_idle: bool,
    further_calls: u64,
    ids: ProcessNamespace,
    calls: TrackSequence,
    streams: Vec<TrackSequence>,
    stacks: SampleSequence,
    callstacks: Vec<CallstackIid>,
    pending: Vec<Sample>,
    /// Of CPU time.
    samples: SampleSequence,
    places: Vec<CallstackIid>,
    names: Vec<StringId>,
    launch: StringId,
    wait: StringId,
    query: StringId,
    categories: [StringId; 2],
    keys: [StringId; 4],
    ends_ns: [u64; STREAMS as usize],
}

impl Writer {
    fn new(out: &mut PacketBuffer, pid: u32, is_idle: bool, further_calls: u64) -> Self {
        let ids = namespace(pid);
        out.clock_snapshot(&ClockReadings {
            boottime_ns: START_NS,
            ..ClockReadings::default()
        });
        out.process(&ProcessTrack {
            uuid: ids.track(1),
            pid,
            name: "train",
            ..ProcessTrack::default()
        });
        out.thread(&ThreadTrack {
            uuid: ids.track(2),
            pid,
            tid: pid,
            name: "train",
            title: "stack",
        });
        let mut track = |number: u32, parent: Option<u32>, name: &str| {
            out.track(&NamedTrack {
                uuid: ids.track(number),
                parent: parent.map(|parent| ids.track(parent)),
                name,
                ..NamedTrack::default()
            });
            TrackSequence::new(out, ids.track(number))
        };
        let calls = track(3, Some(2), "calls");
        track(4, None, "GPU 0 \u{b7} Simulated");
        let streams = (0..STREAMS as u32)
            .map(|stream| track(5 + stream, Some(4), &format!("stream {}", stream + 1)))
            .collect();
        let mut stacks = SampleSequence::new(out, "gpu-time ns", None);
        let callstacks = (0..NAMES)
            .map(|name| stack(&mut stacks, &["[GPU]", "main", &format!("step{name}")]))
            .collect();
        let mut samples = SampleSequence::new(out, "cpu-time ns", None);
        let places = (0..NAMES)
            .map(|name| stack(&mut samples, &["main", "train", &format!("step{name}")]))
            .collect();
        let names = (0..NAMES)
            .map(|name| out.intern(&format!("void gemm_kernel<float, {name}>(float*, int)")))
            .collect();
        Self {
            pid,
            is_idle,
            further_calls,
            ids,
            calls,
            streams,
            stacks,
            callstacks,
            pending: Vec::new(),
            samples,
            places,
            names,
            launch: out.intern("hipLaunchKernel"),
            wait: out.intern("hipStreamSynchronize"),
            query: out.intern("hipEventQuery"),
            categories: ["hip", "kernel"].map(|name| out.intern(name)),
            keys: ["correlation", "device", "queue", "stream"].map(|name| out.intern(name)),
            ends_ns: [START_NS; STREAMS as usize],
        }
    }

    fn call_ns(&self, number: u64) -> u64 {
        START_NS + (4_000 + FURTHER_CALL_NS * self.further_calls) * number
    }

    fn call(&mut self, out: &mut PacketBuffer, number: u64, may_wait: bool) {
        let time_ns = self.call_ns(number);
        let annotations = [Annotation::new(self.keys[0], Value::Uint(number + 1))];
        let waits = may_wait && number % 8 == 7;
        let name = if waits { self.wait } else { self.launch };
        let event = Event {
            name: Name::Interned(name),
            category: Some(self.categories[0]),
            flows: &[self.ids.flow(number + 1)],
            annotations: &annotations,
            ..Event::default()
        };
        self.calls
            .event(out, time_ns, EventKind::SliceBegin, &event);
        self.calls.slice_end(out, time_ns + 3_000);
    }

    /// Calls that launch nothing, between two that do.
    fn further_calls(&mut self, out: &mut PacketBuffer, number: u64) {
        let event = Event {
            name: Name::Interned(self.query),
            category: Some(self.categories[0]),
            ..Event::default()
        };
        for call in 0..self.further_calls {
            let start_ns = self.call_ns(number) + 3_000 + FURTHER_CALL_NS * call;
            self.calls
                .event(out, start_ns, EventKind::SliceBegin, &event);
            self.calls.slice_end(out, start_ns + FURTHER_CALL_NS / 2);
        }
    }

    /// The samples of the thread that were taken during some calls.
    fn seen(&mut self, out: &mut PacketBuffer, numbers: std::ops::Range<u64>) {
        for number in numbers.step_by(2) {
            let place = (scramble(number) / 7 % NAMES) as usize;
            self.pending.push(Sample {
                time_ns: self.call_ns(number) + 1_500,
                pid: self.pid,
                tid: self.pid,
                callstack: Some(self.places[place]),
                weight: 8_000,
                mode: CpuMode::Unknown,
                cpu: None,
            });
        }
        self.samples.samples(out, &mut self.pending);
        self.pending.clear();
    }

    fn kernel(&mut self, out: &mut PacketBuffer, number: u64) {
        let random = scramble(number);
        let stream = if self.is_idle {
            0
        } else {
            (random % STREAMS) as usize
        };
        let name = (random / STREAMS % NAMES) as usize;
        let start_ns = (self.call_ns(number) + 5_000).max(self.ends_ns[stream]);
        let longest_ns = if self.is_idle { 1_000 } else { 20_000 };
        let end_ns = start_ns + 1_000 + random % longest_ns;
        self.ends_ns[stream] = end_ns;
        let annotations = [
            Annotation::new(self.keys[1], Value::Uint(0)),
            Annotation::new(self.keys[2], Value::Pointer(0x7F00_0000_1000)),
            Annotation::new(self.keys[3], Value::Pointer(0x5500_0000 + stream as u64)),
            Annotation::new(self.keys[0], Value::Uint(number + 1)),
        ];
        let event = Event {
            name: Name::Interned(self.names[name]),
            category: Some(self.categories[1]),
            flows: &[self.ids.flow(number + 1)],
            annotations: &annotations,
            ..Event::default()
        };
        let track = &mut self.streams[stream];
        track.event(out, start_ns, EventKind::SliceBegin, &event);
        track.slice_end(out, end_ns);
        self.pending.push(Sample {
            time_ns: start_ns,
            pid: self.pid,
            tid: self.pid,
            callstack: Some(self.callstacks[name]),
            weight: end_ns - start_ns,
            mode: CpuMode::Unknown,
            cpu: None,
        });
    }

    fn samples(&mut self, out: &mut PacketBuffer) {
        self.stacks.samples(out, &mut self.pending);
    }
}
