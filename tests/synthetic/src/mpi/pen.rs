//! The tracks and samples of a rank of MPI.

use rsys_proto::{
    Annotation, CallstackIid, Event, EventKind, FrameDesc, FrameIid, MappingDesc, Name, NamedTrack,
    PacketBuffer, ProcessNamespace, ProcessTrack, Sample, SampleSequence, ThreadTrack,
    TrackSequence, Value,
};

use super::MpiJob;
use super::program::Place;
use crate::track::{self, Time, Track, say};

/// Processor time between two samples of the thread.
const PERIOD_NS: u64 = 1_000_000;
/// How often it is looked at waiting threads.
const LOOK_NS: u64 = 10_000_000;

const MPI_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";
const OPAL_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libopen-pal.so.40";
const KERNEL: &str = "[kernel]";

/// Where a thread is, innermost last: a function of the program, and what that has called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within<'w> {
    pub(super) place: Place,
    /// Functions of MPI, or of the C library.
    pub(super) called: &'w [(&'w str, &'w str)],
}

/// The innermost frames of a thread that waits in a call of MPI.
pub(super) const POLLS: (&str, &str) = ("opal_progress", OPAL_LIBRARY);

/// A frame of a call of MPI.
pub(super) fn of_mpi(name: &str) -> (&str, &str) {
    (name, MPI_LIBRARY)
}

/// Writes the tracks and samples of a rank.
pub(super) struct Pen {
    pub(super) ids: ProcessNamespace,
    pub(super) time: Time,
    pub(super) calls: Track,
    pid: u32,
    is_python: bool,
    waiting: Track,
    off_cpu: Track,
    metadata: TrackSequence,
    cpu: SampleSequence,
    waits: SampleSequence,
    sites: SampleSequence,
    cpu_samples: Vec<Sample>,
    wait_samples: Vec<Sample>,
    /// Processor time since the last sample.
    unsampled_ns: u64,
}

impl Pen {
    pub(super) fn new(job: &MpiJob, out: &mut PacketBuffer, rank: u64, start_ns: u64) -> Self {
        let host = job.host(rank);
        let pid = 2000 + rank as u32;
        let clock = job.clocks.get(host as usize).copied().unwrap_or_default();
        let time = Time { clock, host };
        let (boot_id, name) = (format!("b00t-{host}"), format!("node{host:02}"));
        let ids = ProcessNamespace::new(&boot_id, pid, 17, 0);
        let program = if job.is_python { "python3" } else { "solver" };
        out.clock_snapshot(&clock.readings(host, start_ns));
        out.trace_uuid(ids.trace_uuid());
        out.process(&ProcessTrack {
            uuid: ids.track(1),
            pid,
            name: program,
            start_time_ns: Some(time.at(start_ns)),
            labels: &[format!("rank {rank}"), format!("host {name}")],
            ..ProcessTrack::default()
        });
        out.thread(&ThreadTrack {
            uuid: ids.track(2),
            pid,
            tid: pid,
            name: program,
            title: "stack",
        });
        let mut track = |number: u32, parent: u32, name: &str| {
            out.track(&NamedTrack {
                uuid: ids.track(number),
                parent: Some(ids.track(parent)),
                name,
                ..NamedTrack::default()
            });
            TrackSequence::new(out, ids.track(number))
        };
        let mut metadata = track(3, 1, "rsys");
        let calls = Track(track(4, 2, "calls"));
        let waiting = Track(track(5, 2, "waiting"));
        let off_cpu = Track(track(6, 2, "off-CPU"));
        let facts = [
            ("boot_id", Value::Text(&boot_id)),
            ("host", Value::Text(&name)),
            ("pid", Value::Uint(u64::from(pid))),
            ("start_time_ns", Value::Uint(time.at(start_ns))),
            ("rank", Value::Uint(rank)),
            ("rank_count", Value::Uint(job.ranks)),
            ("frequency_hz", Value::Uint(1_000_000_000 / PERIOD_NS)),
            ("realtime_hz", Value::Uint(1_000_000_000 / LOOK_NS)),
        ];
        say(out, &mut metadata, time.at(start_ns), "rsys start", &facts);
        Self {
            ids,
            time,
            calls,
            pid,
            is_python: job.is_python,
            waiting,
            off_cpu,
            metadata,
            cpu: SampleSequence::new(out, "cpu-time ns", None),
            waits: SampleSequence::new(out, "waiting-time ns", None),
            sites: SampleSequence::new(out, "call-time ns", None),
            cpu_samples: Vec::new(),
            wait_samples: Vec::new(),
            unsampled_ns: 0,
        }
    }

    fn sample(&self, true_ns: u64, weight: u64, callstack: CallstackIid) -> Sample {
        track::sample(self.time.at(true_ns), self.pid, weight, callstack)
    }

    /// The thread ran code for a while.
    pub(super) fn ran(&mut self, (from_ns, to_ns): (u64, u64), within: Within<'_>) {
        let mut at_ns = from_ns + (PERIOD_NS - self.unsampled_ns);
        self.unsampled_ns += to_ns - from_ns;
        if at_ns <= to_ns {
            let stack = stack(&mut self.cpu, self.is_python, None, within);
            while at_ns <= to_ns {
                let sample = self.sample(at_ns, PERIOD_NS, stack);
                self.cpu_samples.push(sample);
                at_ns += PERIOD_NS;
            }
        }
        self.unsampled_ns %= PERIOD_NS;
    }

    /// The thread waited for something of the kernel.
    pub(super) fn waited(
        &mut self,
        out: &mut PacketBuffer,
        (from_ns, to_ns): (u64, u64),
        within: Within<'_>,
    ) {
        let stack = stack(&mut self.waits, self.is_python, Some("[waiting]"), within);
        let mut at_ns = from_ns;
        while at_ns < to_ns {
            let until_ns = (at_ns + LOOK_NS).min(to_ns);
            let sample = self.sample(until_ns, until_ns - at_ns, stack);
            self.wait_samples.push(sample);
            at_ns = until_ns;
        }
        let names = names(self.is_python, within);
        for name in &names {
            let event = Event {
                name: Name::Interned(out.intern(name)),
                ..Event::default()
            };
            self.waiting.begin(out, from_ns, &event, &self.time);
        }
        for _ in &names {
            self.waiting.end(out, to_ns, &self.time);
        }
    }

    /// Others had the processor.
    pub(super) fn preempted(&mut self, out: &mut PacketBuffer, (from_ns, to_ns): (u64, u64)) {
        let event = Event {
            name: Name::Interned(out.intern("preempted")),
            ..Event::default()
        };
        self.off_cpu.begin(out, from_ns, &event, &self.time);
        self.off_cpu.end(out, to_ns, &self.time);
    }

    /// The stack from which a call was made.
    pub(super) fn site(
        &mut self,
        out: &mut PacketBuffer,
        (from_ns, to_ns): (u64, u64),
        within: Within<'_>,
    ) {
        let stack = stack(&mut self.sites, self.is_python, Some("[calls]"), within);
        let sample = self.sample(from_ns, to_ns - from_ns, stack);
        self.sites.sample(out, &sample);
    }

    /// A mark within a call.
    pub(super) fn mark(&mut self, out: &mut PacketBuffer, at_ns: u64, event: &Event<'_>) {
        let at_ns = self.time.at(at_ns);
        self.calls.0.event(out, at_ns, EventKind::Instant, event);
    }

    /// A call ends of which more is known then.
    pub(super) fn end_with(
        &mut self,
        out: &mut PacketBuffer,
        at_ns: u64,
        annotations: &[Annotation<'_>],
    ) {
        let event = Event {
            annotations,
            ..Event::default()
        };
        let at_ns = self.time.at(at_ns);
        self.calls.0.event(out, at_ns, EventKind::SliceEnd, &event);
    }

    /// Writes the samples so far.
    pub(super) fn seen(&mut self, out: &mut PacketBuffer) {
        self.cpu.samples(out, &mut self.cpu_samples);
        self.waits.samples(out, &mut self.wait_samples);
        self.cpu_samples.clear();
        self.wait_samples.clear();
    }

    pub(super) fn finish(&mut self, out: &mut PacketBuffer, end_ns: u64) {
        self.seen(out);
        let at_ns = self.time.at(end_ns);
        let facts = [("end", Value::Text("exit code 0"))];
        say(out, &mut self.metadata, at_ns, "rsys end", &facts);
        out.clock_snapshot(&self.time.clock.readings(self.time.host, end_ns));
    }
}

/// The program's functions outside of a place, outermost first.
fn outer(is_python: bool) -> [(&'static str, u32); 2] {
    if is_python {
        [("<module>", 340), ("main", 320)]
    } else {
        [("main", 340), ("run", 320)]
    }
}

/// The name of a function as the sampler writes it.
fn name(is_python: bool, function: &str) -> String {
    if is_python {
        format!("{function} (job.py)")
    } else {
        function.to_owned()
    }
}

/// All functions that a thread is in, outermost first.
fn names(is_python: bool, within: Within<'_>) -> Vec<String> {
    let outer = outer(is_python);
    let of_program = outer.iter().map(|(function, _)| *function);
    let of_program = of_program.chain([within.place.function]);
    let names = of_program.map(|function| name(is_python, function));
    let called = within.called.iter();
    names
        .chain(called.map(|(function, _)| (*function).to_owned()))
        .collect()
}

fn file(samples: &mut SampleSequence, path: &str) -> rsys_proto::MappingIid {
    samples.intern_mapping(&MappingDesc {
        path: path.to_owned(),
        ..MappingDesc::default()
    })
}

fn foreign_frame(samples: &mut SampleSequence, function: &str, path: Option<&str>) -> FrameIid {
    let mapping = match path {
        Some(path) => file(samples, path),
        None => samples.unknown_mapping(),
    };
    let function = samples.intern_function(function);
    samples.intern_frame(FrameDesc {
        function: Some(function),
        mapping,
        rel_pc: 0,
        source: None,
        line: None,
    })
}

/// A stack of the program, outermost first.
fn stack(
    samples: &mut SampleSequence,
    is_python: bool,
    root: Option<&str>,
    within: Within<'_>,
) -> CallstackIid {
    let mut frames = Vec::new();
    frames.extend(root.map(|root| foreign_frame(samples, root, None)));
    let (path, source) = if is_python {
        ("/opt/job/job.py", "/opt/job/job.py")
    } else {
        ("/opt/job/solver", "/home/user/solver/solver.cpp")
    };
    let (mapping, source) = (file(samples, path), samples.intern_source(source));
    let outer = outer(is_python);
    let own = [(within.place.function, within.place.line)];
    for (function, line) in outer.into_iter().chain(own) {
        let function = samples.intern_function(&name(is_python, function));
        frames.push(samples.intern_frame(FrameDesc {
            function: Some(function),
            mapping,
            rel_pc: if is_python { 0 } else { u64::from(line) * 16 },
            source: Some(source),
            line: Some(line),
        }));
    }
    for (function, path) in within.called {
        frames.push(foreign_frame(samples, function, Some(path)));
    }
    samples.intern_callstack(&frames)
}

/// What a thread waits for in the kernel, as the sampler calls it.
pub(super) fn of_kernel(what: &str) -> (&str, &str) {
    (what, KERNEL)
}
