//! Writes a trace that uses every part of the encoder: `sample_trace FILE [zlib]`.
//!
//! Open it in the Perfetto UI, or ask the trace processor for the counts that this prints.

use std::env;
use std::fs::File;
use std::io;

use rsys_proto::schema::{SystemInfo, Utsname};
use rsys_proto::{
    Annotation, ChildOrdering, ClockReadings, Compression, CounterTrack, CounterUnit, CpuMode,
    Event, EventKind, FrameDesc, MappingDesc, Name, NamedTrack, PacketBuffer, ProcessNamespace,
    ProcessTrack, Sample, SampleSequence, SiblingMerge, ThreadTrack, TraceWriter, TrackSequence,
    Value,
};

const START_NS: u64 = 5_000_000_000_000;
const PID: u32 = 4_000_001;
const THREADS: u32 = 3;
const ROUNDS: u64 = 200;
const FUNCTIONS: [&str; 5] = [
    "main",
    "solve(Matrix&)",
    "précondition",
    "axpy",
    "python_step (train.py:12)",
];

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let path = arguments
        .next()
        .unwrap_or_else(|| "sample.pftrace".to_owned());
    let compression = if arguments.next().as_deref() == Some("zlib") {
        Compression::Zlib
    } else {
        Compression::None
    };
    let mut trace = TraceWriter::new(File::create(&path)?, compression);

    let ids = ProcessNamespace::new("0f5c1c2e-demo", PID, 17, 0);
    start(trace.buffer(), ids);
    trace.flush()?;
    let slices = threads(&mut trace, ids)?;
    let samples = samples(&mut trace)?;
    let (gpu_slices, flows) = gpu(trace.buffer(), ids);
    let counters = counters(trace.buffer(), ids);
    metadata(trace.buffer(), ids);
    trace.flush()?;
    println!(
        "{path}: {} bytes; thread slices {slices}, GPU slices {gpu_slices}, flows {flows}, samples {samples}, counter values {counters}, metadata 1",
        trace.written().bytes
    );
    Ok(())
}

fn start(out: &mut PacketBuffer, ids: ProcessNamespace) {
    out.clock_snapshot(&ClockReadings {
        boottime_ns: START_NS,
        monotonic_ns: START_NS - 7,
        realtime_ns: 1_790_000_000_000_000_000,
        monotonic_raw_ns: START_NS - 11,
    });
    out.trace_uuid(ids.trace_uuid());
    out.system_info(SystemInfo {
        utsname: Some(Utsname {
            sysname: Some("Linux".to_owned()),
            machine: Some("x86_64".to_owned()),
            ..Utsname::default()
        }),
        num_cpus: Some(64),
        machine_name: Some("node1".to_owned()),
        ..SystemInfo::default()
    });
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid: PID,
        name: "solver",
        cmdline: &["./solver".to_owned(), "--size".to_owned(), "4".to_owned()],
        start_time_ns: Some(START_NS),
        labels: &["rank 3".to_owned(), "node1".to_owned()],
    });
    for thread in 0..THREADS {
        out.thread(&ThreadTrack {
            uuid: ids.track(10 + thread),
            pid: PID,
            tid: PID + thread,
            name: ["solver", "worker", "io"][thread as usize],
            ..ThreadTrack::default()
        });
    }
}

/// Slices of three threads, interleaved, with pauses, touching ends and beginnings, and late flushes.
fn threads(trace: &mut TraceWriter<File>, ids: ProcessNamespace) -> io::Result<u64> {
    let out = trace.buffer();
    let names = FUNCTIONS.map(|name| out.intern(name));
    let (category, line) = (out.intern("cpu"), out.intern("line"));
    let (file, source) = (out.intern("file"), out.intern("src/solve.cc"));
    let mut sequences: Vec<_> = (0..THREADS)
        .map(|thread| TrackSequence::new(out, ids.track(10 + thread)))
        .collect();
    let mut slices = 0;
    for round in 0..ROUNDS {
        for (thread, sequence) in sequences.iter_mut().enumerate() {
            let out = trace.buffer();
            let mut time = START_NS + round * 10_000_000 + thread as u64 * 1_000;
            let annotations = [
                Annotation::new(line, Value::Uint(round)),
                Annotation::new(file, Value::Interned(source)),
            ];
            let details = Event {
                name: names[0].into(),
                category: Some(category),
                annotations: &annotations,
                ..Event::default()
            };
            sequence.event(out, time, EventKind::SliceBegin, &details);
            for &name in &names[1..] {
                time += 100_000;
                sequence.slice_begin(out, time, name);
            }
            // The innermost slice is replaced at the very same time.
            sequence.slice_end(out, time + 50_000);
            sequence.slice_begin(out, time + 50_000, names[3]);
            sequence.instant(out, time + 60_000, names[1]);
            sequence.close_all(out, time + 900_000);
            slices += names.len() as u64 + 1;
        }
        if round % 10 == 0 {
            trace.flush()?;
        }
    }
    Ok(slices)
}

fn samples(trace: &mut TraceWriter<File>) -> io::Result<u64> {
    let out = trace.buffer();
    let mut sequence = SampleSequence::new(out, "cpu-time ns", Some(100));
    let solver = sequence.intern_mapping(&MappingDesc {
        path: "/opt/app/bin/solver".to_owned(),
        build_id: vec![0xAB; 20],
        start: 0x40_0000,
        end: 0x80_0000,
        ..MappingDesc::default()
    });
    let python = sequence.intern_mapping(&MappingDesc {
        path: "[python]".to_owned(),
        ..MappingDesc::default()
    });
    let source = sequence.intern_source("/opt/app/src/train.py");
    let mut count = 0;
    for round in 0..ROUNDS {
        let mut batch = Vec::new();
        for thread in 0..THREADS {
            for step in 0..5_u64 {
                let depth = 1 + (round + step) as usize % FUNCTIONS.len();
                let frames: Vec<_> = (0..depth)
                    .map(|level| {
                        let function = Some(sequence.intern_function(FUNCTIONS[level]));
                        let is_python = level == 4;
                        sequence.intern_frame(FrameDesc {
                            function,
                            mapping: if is_python { python } else { solver },
                            rel_pc: 0x1000 + 16 * level as u64 + round % 3,
                            source: is_python.then_some(source),
                            line: is_python.then_some(12),
                        })
                    })
                    .collect();
                batch.push(Sample {
                    time_ns: START_NS
                        + round * 10_000_000
                        + step * 2_000_000
                        + u64::from(thread) * 700,
                    pid: PID,
                    tid: PID + thread,
                    callstack: Some(sequence.intern_callstack(&frames)),
                    weight: 2_000_000,
                    mode: CpuMode::User,
                    cpu: None,
                });
                count += 1;
            }
        }
        if round % 50 == 7 {
            // One thread's batch after another's, unsorted.
            batch
                .iter()
                .for_each(|sample| sequence.sample(trace.buffer(), sample));
        } else {
            sequence.samples(trace.buffer(), &mut batch);
        }
        trace.flush_if_full()?;
    }
    Ok(count)
}

/// Two overlapping lanes of a queue, filled late and out of order, with flows from the first thread.
fn gpu(out: &mut PacketBuffer, ids: ProcessNamespace) -> (u64, u64) {
    out.track(&NamedTrack {
        uuid: ids.track(100),
        parent: Some(ids.track(1)),
        name: "GPU 0 (gfx90a)",
        child_ordering: Some(ChildOrdering::Explicit),
        rank: Some(1),
        description: Some("What the GPU did for this process"),
        ..NamedTrack::default()
    });
    let lanes = [101, 102].map(|local| {
        out.track(&NamedTrack {
            uuid: ids.track(local),
            parent: Some(ids.track(100)),
            name: "queue 0",
            rank: Some(5),
            merge: Some(SiblingMerge::ByName),
            ..NamedTrack::default()
        });
        TrackSequence::new(out, ids.track(local))
    });
    let mut host = TrackSequence::new(out, ids.track(10));
    let (kernel, launch) = (
        out.intern("axpy_kernel(float*)"),
        out.intern("hipLaunchKernel"),
    );
    let mut count = 0;
    for (lane, mut sequence) in lanes.into_iter().enumerate() {
        for number in (0..40_u64).rev() {
            let flow = [ids.flow(number * 2 + lane as u64)];
            let launched = START_NS + 3_000_000_000 + number * 20_000 + lane as u64 * 100;
            let details = Event {
                name: Name::Interned(launch),
                flows: &flow,
                ..Event::default()
            };
            host.event(out, launched, EventKind::SliceBegin, &details);
            host.slice_end(out, launched + 50);
            let details = Event {
                name: Name::Interned(kernel),
                terminating_flows: &flow,
                ..Event::default()
            };
            sequence.event(out, launched + 5_000, EventKind::SliceBegin, &details);
            sequence.slice_end(out, launched + 15_000);
            count += 1;
        }
    }
    (2 * count, count)
}

fn counters(out: &mut PacketBuffer, ids: ProcessNamespace) -> u64 {
    out.counter_track(&CounterTrack {
        uuid: ids.track(200),
        parent: Some(ids.track(1)),
        name: "memory",
        unit: CounterUnit::Bytes,
        ..CounterTrack::default()
    });
    out.counter_track(&CounterTrack {
        uuid: ids.track(201),
        parent: Some(ids.track(1)),
        name: "power",
        unit: CounterUnit::Named("W"),
        ..CounterTrack::default()
    });
    let mut memory = TrackSequence::new(out, ids.track(200));
    for step in 0..50_u64 {
        let time = START_NS + step * 40_000_000;
        memory.counter(out, time, (step as i64 - 10) << 20);
        memory.counter_on(out, time, ids.track(201), 90.5 + step as f64);
    }
    100
}

fn metadata(out: &mut PacketBuffer, ids: ProcessNamespace) {
    out.track(&NamedTrack {
        uuid: ids.track(300),
        parent: Some(ids.track(1)),
        name: "rsys",
        ..NamedTrack::default()
    });
    let mut sequence = TrackSequence::new(out, ids.track(300));
    let values = [
        ("version", Value::Text("0.1.0")),
        ("dropped", Value::Uint(0)),
        ("nice", Value::Int(-5)),
        ("overhead", Value::Double(0.015)),
        ("complete", Value::Bool(true)),
    ];
    let annotations = values.map(|(key, value)| Annotation::new(out.intern(key), value));
    let details = Event {
        name: Name::Once("rsys run"),
        annotations: &annotations,
        ..Event::default()
    };
    sequence.event(out, START_NS, EventKind::Instant, &details);
}
