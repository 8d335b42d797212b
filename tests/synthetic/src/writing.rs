//! The trace of a rank, by the writer that the sampler uses.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use rsys_proto::{
    Annotation, CallstackIid, Compression, CounterTrack, CounterUnit, Event, FrameDesc,
    MappingDesc, Name, NamedTrack, PacketBuffer, ProcessNamespace, ProcessTrack, Sample,
    SampleSequence, StringId, ThreadTrack, TraceWriter, TrackSequence, Value,
};

use crate::simulation::{Beginning, Bucket, CALL_NS, Ends, Rank};
use crate::track::{self, Time, Track, say};
use crate::{Cause, Job};

/// Processor time between two samples of the thread.
const PERIOD_NS: u64 = 1_000_000;
/// What each collective moves.
const BYTES: u64 = 26_214_400;
/// The usual clock of the GPUs, and that of a GPU that is throttled.
const MHZ: [f64; 2] = [2100.0, 1500.0];

/// Writes the traces of the processes of a rank into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write_rank(job: &Job, ends: &Ends, rank: u64, folder: &Path) -> Result<()> {
    let restarts = job.restart.filter(|restart| restart.0 == rank);
    let first = job
        .late
        .filter(|late| late.0 == rank)
        .map_or(0, |late| late.1);
    let again = restarts.map_or(job.iterations, |restart| restart.1);
    let mut state = Rank::new(job, rank);
    for (instance, iterations) in [(0, 0..again), (1, again..job.iterations)] {
        if iterations.is_empty() {
            continue;
        }
        let pid = 1000 + rank as u32 + 100_000 * instance;
        let path = folder.join(format!("perfetto-trace-{pid}.proto"));
        let file = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
        let mut trace = TraceWriter::new(file, Compression::None);
        let mut pen = Pen::new(job, trace.buffer(), (rank, pid), state.host_ns);
        for iteration in iterations {
            let is_told = iteration >= first;
            let begin_ns = state.host_ns;
            let beginning = state.begin(job, iteration);
            if is_told {
                pen.begin(trace.buffer(), begin_ns, &beginning, (job, iteration));
            }
            let mut buckets = Vec::new();
            for bucket in 0..job.buckets {
                let told = state.bucket(job, iteration, bucket);
                state.gpu_ns = ends.end_ns(job, rank, (iteration, bucket));
                buckets.push((told, state.gpu_ns));
            }
            let waits_ns = state.host_ns;
            let end_ns = state.finish();
            for (bucket, (told, ran_ns)) in (0..).zip(&buckets) {
                let operation = pen.communicators.next(job, rank, (iteration, bucket));
                if is_told {
                    pen.bucket(trace.buffer(), (bucket, told), *ran_ns, operation);
                }
            }
            if is_told {
                pen.call(trace.buffer(), "hipDeviceSynchronize", (waits_ns, end_ns));
                pen.calls.end(trace.buffer(), end_ns, &pen.time);
                pen.seen(trace.buffer());
            }
            trace.flush()?;
        }
        pen.finish(trace.buffer(), state.host_ns);
        trace.finish()?;
    }
    Ok(())
}

/// The communicators of a rank, and how many operations each has had.
#[derive(Debug, Default)]
struct Communicators {
    epoch: u64,
    all: u64,
    neighbours: u64,
}

/// A collective as the call tells it.
struct Operation {
    name: &'static str,
    communicator: String,
    sequence: u64,
    rank: u64,
    ranks: u64,
}

impl Communicators {
    fn next(&mut self, job: &Job, rank: u64, (iteration, bucket): (u64, u64)) -> Operation {
        let epoch = u64::from(job.restart.is_some_and(|restart| iteration >= restart.1));
        if epoch != self.epoch {
            *self = Self {
                epoch,
                ..Self::default()
            };
        }
        let is_of_neighbours = job.is_of_neighbours(bucket);
        let (group, count) = match is_of_neighbours {
            true => (rank / job.group + 1, &mut self.neighbours),
            false => (0, &mut self.all),
        };
        let sequence = *count;
        *count += 1;
        let (rank, ranks) = match is_of_neighbours {
            true => (
                rank % job.group,
                job.group.min(job.ranks - rank / job.group * job.group),
            ),
            false => (rank, job.ranks),
        };
        Operation {
            name: if is_of_neighbours {
                "ncclAllGather"
            } else {
                "ncclAllReduce"
            },
            communicator: format!("{:08x}{:08x}", 0xC0_11EC + epoch, group),
            sequence,
            rank,
            ranks,
        }
    }
}

struct Pen {
    pid: u32,
    ids: ProcessNamespace,
    time: Time,
    calls: Track,
    stream: Track,
    waiting: Track,
    metadata: TrackSequence,
    sensor: TrackSequence,
    cpu: SampleSequence,
    waits: SampleSequence,
    sites: SampleSequence,
    cpu_samples: Vec<Sample>,
    wait_samples: Vec<Sample>,
    /// Processor time since the last sample.
    unsampled_ns: u64,
    correlation: u64,
    communicators: Communicators,
    categories: [StringId; 5],
    key: [StringId; 7],
}

/// A stack of Python functions of one program, outermost first, each with its line.
fn stack(
    samples: &mut SampleSequence,
    root: Option<&str>,
    functions: &[(&str, u32)],
) -> CallstackIid {
    let source = samples.intern_source("/opt/job/train.py");
    let mapping = samples.intern_mapping(&MappingDesc {
        path: "/opt/job/train.py".to_owned(),
        ..MappingDesc::default()
    });
    let unknown = samples.unknown_mapping();
    let mut frames = Vec::new();
    for (name, line) in root.map(|root| (root, 0)).iter().chain(functions) {
        let is_code = *line > 0;
        // As the sampler calls Python functions.
        let function = match is_code {
            true => samples.intern_function(&format!("{name} (train.py)")),
            false => samples.intern_function(name),
        };
        frames.push(samples.intern_frame(FrameDesc {
            function: Some(function),
            mapping: if is_code { mapping } else { unknown },
            rel_pc: 0,
            source: is_code.then_some(source),
            line: is_code.then_some(*line),
        }));
    }
    samples.intern_callstack(&frames)
}

impl Pen {
    fn new(job: &Job, out: &mut PacketBuffer, (rank, pid): (u64, u32), start_ns: u64) -> Self {
        let host = rank / job.ranks_per_host;
        let clock = job.clocks.get(host as usize).copied().unwrap_or_default();
        let time = Time { clock, host };
        let (boot_id, name) = (format!("b00t-{host}"), format!("node{host:02}"));
        let ids = ProcessNamespace::new(&boot_id, pid, 17, 0);
        out.clock_snapshot(&clock.readings(host, start_ns));
        out.trace_uuid(ids.trace_uuid());
        out.process(&ProcessTrack {
            uuid: ids.track(1),
            pid,
            name: "python3",
            start_time_ns: Some(time.at(start_ns)),
            labels: &[format!("rank {rank}"), format!("host {name}")],
            ..ProcessTrack::default()
        });
        out.thread(&ThreadTrack {
            uuid: ids.track(2),
            pid,
            tid: pid,
            name: "python3",
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
        let mut metadata = track(3, Some(1), "rsys");
        let calls = Track(track(4, Some(2), "calls"));
        let waiting = Track(track(5, Some(2), "waiting"));
        let gpu = rank % job.ranks_per_host;
        track(6, None, &format!("GPU {gpu} \u{b7} Simulated"));
        let stream = Track(track(7, Some(6), "stream 1"));
        track(8, None, &format!("Sensors of GPU {gpu}"));
        out.counter_track(&CounterTrack {
            uuid: ids.track(9),
            parent: Some(ids.track(8)),
            name: "sclk",
            unit: CounterUnit::Named("MHz"),
            ..CounterTrack::default()
        });
        let facts = [
            ("boot_id", Value::Text(&boot_id)),
            ("host", Value::Text(&name)),
            ("pid", Value::Uint(u64::from(pid))),
            ("start_time_ns", Value::Uint(time.at(start_ns))),
            ("rank", Value::Uint(rank)),
            ("rank_count", Value::Uint(job.ranks)),
            ("frequency_hz", Value::Uint(1_000_000_000 / PERIOD_NS)),
            ("realtime_hz", Value::Uint(100)),
        ];
        say(out, &mut metadata, time.at(start_ns), "rsys start", &facts);
        let cpu = SampleSequence::new(out, "cpu-time ns", None);
        let waits = SampleSequence::new(out, "waiting-time ns", None);
        let sites = SampleSequence::new(out, "call-time ns", None);
        let sensor = TrackSequence::new(out, ids.track(9));
        Self {
            pid,
            ids,
            time,
            calls,
            stream,
            waiting,
            metadata,
            sensor,
            cpu,
            waits,
            sites,
            cpu_samples: Vec::new(),
            wait_samples: Vec::new(),
            unsampled_ns: 0,
            correlation: 0,
            communicators: Communicators::default(),
            categories: ["hip", "rccl", "kernel", "copy", "roctx"].map(|name| out.intern(name)),
            key: [
                "correlation",
                "communicator",
                "sequence",
                "bytes",
                "datatype",
                "rank",
                "ranks",
            ]
            .map(|name| out.intern(name)),
        }
    }

    fn begin(
        &mut self,
        out: &mut PacketBuffer,
        begin_ns: u64,
        beginning: &Beginning,
        (job, iteration): (&Job, u64),
    ) {
        let rank = u64::from((self.pid - 1000) % 100_000);
        let is_slow = job.fault_ns(rank, iteration, Cause::LowClock) > 0;
        let mhz = MHZ[usize::from(is_slow)];
        self.sensor.counter(out, self.time.at(begin_ns), mhz);
        let step = Event {
            name: Name::Interned(out.intern("step")),
            category: Some(self.categories[4]),
            ..Event::default()
        };
        self.calls.begin(out, begin_ns, &step, &self.time);
        self.ran(beginning.load, ("load_batch", 42));
        if let Some((cause, from_ns, to_ns)) = beginning.fault {
            let place = cause.place().unwrap_or(("train", 20));
            match cause {
                Cause::GarbageCollection | Cause::PageFaults => self.ran((from_ns, to_ns), place),
                Cause::Lock => self.waited(out, "futex", (from_ns, to_ns), place),
                Cause::Sleep => self.waited(out, "clock_nanosleep", (from_ns, to_ns), place),
                Cause::HostSync => {
                    self.site(out, from_ns, to_ns, place);
                    self.call(out, "hipStreamSynchronize", (from_ns, to_ns));
                }
                _ => {}
            }
        }
        let call_ns = beginning.copy_call_ns;
        self.call(out, "hipMemcpyAsync", (call_ns, call_ns + CALL_NS));
        self.operation(out, "Copy host to device", 3, beginning.copy);
    }

    fn bucket(
        &mut self,
        out: &mut PacketBuffer,
        (number, bucket): (u64, &Bucket),
        ran_ns: u64,
        told: Operation,
    ) {
        for (&call_ns, &kernel) in bucket.kernel_calls_ns.iter().zip(&bucket.kernels) {
            self.call(out, "hipLaunchKernel", (call_ns, call_ns + CALL_NS));
            self.operation(out, &format!("gemm_{number}"), 2, kernel);
        }
        self.correlation += 1;
        let communicator = out.intern(&told.communicator);
        let data_type = out.intern("bfloat16");
        let values = [
            Value::Uint(self.correlation),
            Value::Interned(communicator),
            Value::Uint(told.sequence),
            Value::Uint(BYTES),
            Value::Interned(data_type),
            Value::Uint(told.rank),
            Value::Uint(told.ranks),
        ];
        let keys = self.key.iter().zip(values);
        let annotations: Vec<_> = keys
            .map(|(&key, value)| Annotation::new(key, value))
            .collect();
        let event = Event {
            name: Name::Interned(out.intern(told.name)),
            category: Some(self.categories[1]),
            annotations: &annotations,
            ..Event::default()
        };
        let call_ns = bucket.collective_call_ns;
        self.calls.begin(out, call_ns, &event, &self.time);
        self.call(
            out,
            "hipExtLaunchKernel",
            (call_ns + 500, call_ns + CALL_NS),
        );
        self.calls.end(out, call_ns + CALL_NS + 500, &self.time);
        self.operation(out, "ncclDevKernel_Generic", 2, (bucket.arrival_ns, ran_ns));
    }

    /// A call of HIP; the operation that follows is its.
    fn call(&mut self, out: &mut PacketBuffer, name: &str, (start_ns, end_ns): (u64, u64)) {
        self.correlation += 1;
        let annotations = [Annotation::new(self.key[0], Value::Uint(self.correlation))];
        let event = Event {
            name: Name::Interned(out.intern(name)),
            category: Some(self.categories[0]),
            flows: &[self.ids.flow(self.correlation)],
            annotations: &annotations,
            ..Event::default()
        };
        self.calls.begin(out, start_ns, &event, &self.time);
        self.calls.end(out, end_ns, &self.time);
    }

    fn operation(&mut self, out: &mut PacketBuffer, name: &str, category: usize, span: (u64, u64)) {
        let annotations = [Annotation::new(self.key[0], Value::Uint(self.correlation))];
        let event = Event {
            name: Name::Interned(out.intern(name)),
            category: Some(self.categories[category]),
            flows: &[self.ids.flow(self.correlation)],
            annotations: &annotations,
            ..Event::default()
        };
        self.stream.begin(out, span.0, &event, &self.time);
        self.stream.end(out, span.1, &self.time);
    }

    fn sample(&self, true_ns: u64, weight: u64, callstack: CallstackIid) -> Sample {
        track::sample(self.time.at(true_ns), self.pid, weight, callstack)
    }

    /// The thread ran code for a while.
    fn ran(&mut self, (from_ns, to_ns): (u64, u64), (function, line): (&str, u32)) {
        let stack = stack(
            &mut self.cpu,
            None,
            &[("<module>", 99), ("train", 30), (function, line)],
        );
        let mut at_ns = from_ns + (PERIOD_NS - self.unsampled_ns);
        self.unsampled_ns += to_ns - from_ns;
        while at_ns <= to_ns {
            let sample = self.sample(at_ns, PERIOD_NS, stack);
            self.cpu_samples.push(sample);
            at_ns += PERIOD_NS;
        }
        self.unsampled_ns %= PERIOD_NS;
    }

    /// The thread waited.
    fn waited(
        &mut self,
        out: &mut PacketBuffer,
        what: &str,
        (from_ns, to_ns): (u64, u64),
        (function, line): (&str, u32),
    ) {
        let stack = stack(
            &mut self.waits,
            Some("[waiting]"),
            &[("train", 30), (function, line), (what, 0)],
        );
        let sample = self.sample(to_ns, to_ns - from_ns, stack);
        self.wait_samples.push(sample);
        let event = Event {
            name: Name::Interned(out.intern(what)),
            ..Event::default()
        };
        self.waiting.begin(out, from_ns, &event, &self.time);
        self.waiting.end(out, to_ns, &self.time);
    }

    /// The stack from which a call is made.
    fn site(&mut self, out: &mut PacketBuffer, from_ns: u64, to_ns: u64, place: (&str, u32)) {
        let stack = stack(&mut self.sites, Some("[calls]"), &[("train", 30), place]);
        let sample = self.sample(from_ns, to_ns - from_ns, stack);
        self.sites.sample(out, &sample);
    }

    /// Writes the samples of an iteration.
    fn seen(&mut self, out: &mut PacketBuffer) {
        self.cpu.samples(out, &mut self.cpu_samples);
        self.waits.samples(out, &mut self.wait_samples);
        self.cpu_samples.clear();
        self.wait_samples.clear();
    }

    fn finish(&mut self, out: &mut PacketBuffer, end_ns: u64) {
        let at_ns = self.time.at(end_ns);
        let facts = [("end", Value::Text("exit code 0"))];
        say(out, &mut self.metadata, at_ns, "rsys end", &facts);
        out.clock_snapshot(&self.time.clock.readings(self.time.host, end_ns));
    }
}
