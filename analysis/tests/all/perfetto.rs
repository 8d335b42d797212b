//! Traces as `rsys-sample` writes them.

use crate::common::{Scratch, read};
use rsys_proto::{
    Annotation, ClockReadings, Compression, CounterTrack, CounterUnit, CpuMode, Event, EventKind,
    FrameDesc, Name, NamedTrack, ProcessNamespace, ProcessTrack, Sample, SampleSequence,
    ThreadTrack, TraceWriter, TrackSequence, Value,
};
use rsys_traces::model::{Activity, Basis, Batch, HostKind, Kinds, Model, OpKind, ThreadId};

const PID: u32 = 4711;

/// A program with two threads, a stream, a counter and samples.
fn trace(compression: Compression) -> Vec<u8> {
    let ids = ProcessNamespace::new("b00t", PID, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), compression);
    let out = trace.buffer();
    out.clock_snapshot(&ClockReadings {
        boottime_ns: 1_000,
        ..ClockReadings::default()
    });
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid: PID,
        name: "train",
        labels: &["rank 2".to_owned(), "host alpha".to_owned()],
        ..ProcessTrack::default()
    });
    out.thread(&ThreadTrack {
        uuid: ids.track(2),
        pid: PID,
        tid: PID,
        name: "main",
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
    let mut about = track(3, Some(1), "rsys");
    let mut calls = track(4, Some(2), "calls");
    let mut ranges = track(5, Some(2), "roctx");
    let mut waits = track(6, Some(2), "waiting");
    let mut stack = TrackSequence::new(out, ids.track(2));
    let mut track = |number: u32, parent: Option<u32>, name: &str| {
        out.track(&NamedTrack {
            uuid: ids.track(number),
            parent: parent.map(|parent| ids.track(parent)),
            name,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, ids.track(number))
    };
    track(7, None, "GPU 1 \u{b7} AMD Instinct MI300X");
    let mut stream = track(8, Some(7), "stream 1");
    let mut lane = track(9, Some(7), "stream 1");
    out.counter_track(&CounterTrack {
        uuid: ids.track(10),
        parent: Some(ids.track(7)),
        name: "power",
        unit: CounterUnit::Named("W"),
        ..CounterTrack::default()
    });
    let mut power = TrackSequence::new(out, ids.track(10));

    let keys = ["boot_id", "frequency_hz", "rank"].map(|key| out.intern(key));
    about.event(
        out,
        1_000,
        EventKind::Instant,
        &Event {
            name: Name::Once("rsys start"),
            annotations: &[
                Annotation::new(keys[0], Value::Text("b00t")),
                Annotation::new(keys[1], Value::Uint(1_000)),
                Annotation::new(keys[2], Value::Uint(2)),
            ],
            ..Event::default()
        },
    );
    let [correlation, bytes, direction, device] =
        ["correlation", "bytes", "direction", "device"].map(|key| out.intern(key));
    let [hip, roctx, kernel, copy] =
        ["hip", "roctx", "kernel", "copy"].map(|name| out.intern(name));
    let step = out.intern("step");
    let launch = out.intern("hipLaunchKernel");
    stack.slice_begin(out, 1_100, step);
    ranges.event(
        out,
        1_200,
        EventKind::SliceBegin,
        &Event {
            name: Name::Once("step 7"),
            category: Some(roctx),
            ..Event::default()
        },
    );
    calls.event(
        out,
        1_300,
        EventKind::SliceBegin,
        &Event {
            name: Name::Interned(launch),
            category: Some(hip),
            flows: &[ids.flow(99)],
            annotations: &[Annotation::new(correlation, Value::Uint(1 << 40 | 99))],
            ..Event::default()
        },
    );
    calls.slice_end(out, 1_400);
    let gemm = out.intern("gemm<float>");
    let up = out.intern("host to device");
    let copy_name = out.intern("CopyHostToDevice");
    stream.event(
        out,
        1_500,
        EventKind::SliceBegin,
        &Event {
            name: Name::Interned(gemm),
            category: Some(kernel),
            flows: &[ids.flow(99)],
            annotations: &[
                Annotation::new(device, Value::Uint(1)),
                Annotation::new(correlation, Value::Uint(1 << 40 | 99)),
            ],
            ..Event::default()
        },
    );
    stream.slice_end(out, 1_750);
    lane.event(
        out,
        1_600,
        EventKind::SliceBegin,
        &Event {
            name: Name::Interned(copy_name),
            category: Some(copy),
            annotations: &[
                Annotation::new(bytes, Value::Uint(4096)),
                Annotation::new(direction, Value::Interned(up)),
                Annotation::new(device, Value::Uint(1)),
            ],
            ..Event::default()
        },
    );
    lane.slice_end(out, 1_900);
    waits.slice_begin(out, 1_450, step);
    waits.slice_end(out, 1_800);
    power.counter(out, 1_500, 250.5);
    stack.slice_end(out, 2_000);

    for (time_base, weight) in [("cpu-time ns", 1_000_000), ("gpu-time ns", 250)] {
        let mut samples = SampleSequence::new(out, time_base, Some(1_000));
        let mapping = samples.unknown_mapping();
        let source = samples.intern_source("train.py");
        let frames = ["main", "step"].map(|name| {
            let function = samples.intern_function(name);
            samples.intern_frame(FrameDesc {
                function: Some(function),
                mapping,
                rel_pc: 0,
                source: Some(source),
                line: Some(12),
            })
        });
        let callstack = samples.intern_callstack(&frames);
        samples.sample(
            out,
            &Sample {
                time_ns: 1_700,
                pid: PID,
                tid: PID,
                callstack: Some(callstack),
                weight,
                mode: CpuMode::Unknown,
                cpu: None,
            },
        );
    }
    trace.finish().unwrap()
}

fn functions(model: &Model, stack: rsys_traces::model::StackId) -> Vec<(&str, &str, u32)> {
    let frames = model.stacks.innermost_first(stack);
    frames
        .map(|frame| {
            (
                model.text(frame.function),
                model.text(frame.source),
                frame.line,
            )
        })
        .collect()
}

#[test]
fn all_kinds_of_records_are_read() {
    let scratch = Scratch::new();
    for compression in [Compression::None, Compression::Zlib] {
        let (model, batch) = read(&scratch.write("a.proto", &trace(compression)));
        let process = &model.processes[0];
        assert_eq!(
            (
                process.rank,
                process.host.as_str(),
                process.boot_id.as_str()
            ),
            (Some(2), "alpha", "b00t")
        );
        assert_eq!(process.sample_period_ns, 1_000_000);
        let [gemm, copy] = batch.gpu.as_slice() else {
            panic!("{:?}", batch.gpu);
        };
        assert_eq!(
            (gemm.start_ns, gemm.end_ns, gemm.link),
            (1_500, 1_750, 1 << 40 | 99)
        );
        assert_eq!(
            (model.text(gemm.name), gemm.kind, gemm.activity),
            ("gemm<float>", OpKind::Kernel, Activity::Compute)
        );
        assert_eq!(
            (copy.kind, copy.bytes, model.text(copy.direction)),
            (OpKind::Copy, 4096, "host to device")
        );
        // Two rows of one stream are one queue.
        assert_eq!((gemm.queue, gemm.device), (copy.queue, copy.device));
        let device = model.device(gemm.device);
        assert_eq!(
            (device.ordinal, device.name.as_str(), device.is_physical),
            (1, "AMD Instinct MI300X", true)
        );

        let [call, wait, range] = batch.host.as_slice() else {
            panic!("{:?}", batch.host);
        };
        assert_eq!((call.kind, call.link), (HostKind::Runtime, gemm.link));
        assert_eq!(
            (wait.kind, wait.start_ns, wait.end_ns),
            (HostKind::Wait, 1_450, 1_800)
        );
        assert_eq!(
            (
                range.kind,
                model.text(range.name),
                range.is_open,
                range.end_ns
            ),
            (HostKind::Range, "step 7", true, 2_000)
        );
        assert_eq!(call.thread, ThreadId::new(0));

        let [cpu, gpu] = batch.samples.as_slice() else {
            panic!("{:?}", batch.samples);
        };
        assert_eq!((cpu.basis, cpu.weight), (Basis::CpuTime, 1_000_000));
        assert_eq!((gpu.basis, gpu.weight), (Basis::GpuTime, 250));
        assert_eq!(cpu.stack, gpu.stack);
        assert_eq!(
            functions(&model, cpu.stack),
            [("step", "train.py", 12), ("main", "train.py", 12)]
        );
        let [power] = batch.counters.as_slice() else {
            panic!("{:?}", batch.counters);
        };
        let counter = &model.counters[power.counter.index()];
        assert_eq!((power.value, model.text(counter.unit)), (250.5, "W"));
        assert_eq!(model.notices, []);
    }
}

#[test]
fn a_trace_cut_anywhere_is_read_up_to_there() {
    let scratch = Scratch::new();
    let whole = trace(Compression::None);
    let mut most = 0;
    for length in (0..whole.len()).step_by(11).chain([whole.len()]) {
        let (model, batch) = read(&scratch.write("cut.proto", &whole[..length]));
        most = most.max(batch.len());
        let cut_off = model.notices.iter().any(|notice| notice.offset.is_some());
        assert!(cut_off || batch.len() >= most, "{length}");
    }
    assert_eq!(most, 8);
}

#[test]
fn a_slice_that_ends_before_it_begins_is_told_with_its_place() {
    let ids = ProcessNamespace::new("b00t", PID, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid: PID,
        name: "train",
        ..ProcessTrack::default()
    });
    out.track(&NamedTrack {
        uuid: ids.track(2),
        name: "GPU 0",
        ..NamedTrack::default()
    });
    let mut stream = TrackSequence::new(out, ids.track(2));
    let kernel = out.intern("kernel");
    let event = Event {
        name: Name::Once("gemm"),
        category: Some(kernel),
        ..Event::default()
    };
    for (start_ns, end_ns) in [(1_000, 2_000), (5_000, 4_000), (6_000, 5_500)] {
        stream.event(out, start_ns, EventKind::SliceBegin, &event);
        stream.slice_end(out, end_ns);
    }
    let bytes = trace.finish().unwrap();
    let scratch = Scratch::new();
    let (model, batch) = read(&scratch.write("backward.proto", &bytes));
    let times: Vec<_> = batch
        .gpu
        .iter()
        .map(|record| (record.start_ns, record.end_ns))
        .collect();
    assert_eq!(times, [(1_000, 2_000), (5_000, 5_000), (6_000, 6_000)]);
    let [notice] = model.notices.as_slice() else {
        panic!("{:?}", model.notices);
    };
    assert_eq!(
        notice.text,
        "2 slices end before they begin; they count with no duration"
    );
    // The packet of the first such end: a shorter file has none.
    let offset = usize::try_from(notice.offset.unwrap()).unwrap();
    let (shorter, _) = read(&scratch.write("shorter.proto", &bytes[..offset]));
    let mut notices = shorter.notices.iter();
    assert!(!notices.any(|notice| notice.text.contains("before they begin")));
}

#[test]
fn an_operation_without_its_begin_is_told() {
    let ids = ProcessNamespace::new("b00t", PID, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let mut track = |number: u32, name: &str| {
        out.track(&NamedTrack {
            uuid: ids.track(number),
            name,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, ids.track(number))
    };
    let (mut stream, mut other) = (track(2, "GPU 0"), track(3, "calls"));
    let kernel = out.intern("kernel");
    let event = Event {
        name: Name::Once("gemm"),
        category: Some(kernel),
        ..Event::default()
    };
    let mark = out.intern("mark");
    other.instant(out, 400, mark);
    stream.instant(out, 500, mark);
    stream.event(out, 1_000, EventKind::SliceBegin, &event);
    stream.slice_end(out, 2_000);
    let mut bytes = trace.finish().unwrap();
    // The writer ends no slice that has not begun, so instants become ends: field 9 of an event is its type.
    let is_instant = |two: &[u8]| two == [9 << 3, 3];
    let instants = bytes.windows(2).enumerate();
    let instants = instants.filter(|(_, two)| is_instant(two));
    let places: Vec<_> = instants.map(|(place, _)| place).collect();
    assert_eq!(places.len(), 2);
    for place in places {
        bytes[place + 1] = 2;
    }
    let (model, batch) = read(&Scratch::new().write("late.proto", &bytes));
    assert_eq!(batch.gpu.len(), 1);
    let notices: Vec<_> = model.notices.iter().map(|one| one.text.as_str()).collect();
    let told = "1 ends of operations of GPUs are left out: the trace does not have their begins";
    assert_eq!(notices, [told]);
}

#[test]
fn operators_have_their_shapes_if_they_are_asked_for() {
    let ids = ProcessNamespace::new("b00t", PID, 17, 0);
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    out.process(&ProcessTrack {
        uuid: ids.track(1),
        pid: PID,
        name: "train",
        ..ProcessTrack::default()
    });
    out.thread(&ThreadTrack {
        uuid: ids.track(2),
        pid: PID,
        tid: PID,
        name: "main",
        title: "calls",
    });
    let mut calls = TrackSequence::new(out, ids.track(2));
    let key = out.intern("shapes");
    let kept = out.intern("[64, 3] [3]");
    let slices = [
        ("torch", Some(Value::Interned(kept))),
        ("torch", Some(Value::Text("[]"))),
        ("torch", None),
        ("user", Some(Value::Text("[1]"))),
    ];
    for ((category, value), start_ns) in slices.into_iter().zip((1_000..).step_by(100)) {
        let category = out.intern(category);
        let annotations = value.map(|value| Annotation::new(key, value));
        let event = Event {
            name: Name::Once("aten::addmm"),
            category: Some(category),
            annotations: annotations.as_slice(),
            ..Event::default()
        };
        calls.event(out, start_ns, EventKind::SliceBegin, &event);
        calls.slice_end(out, start_ns + 50);
    }
    let scratch = Scratch::new();
    let path = scratch.write("torch.proto", &trace.finish().unwrap());
    for (shapes, expected) in [(true, ["[64, 3] [3]", "[]", "", ""]), (false, [""; 4])] {
        let kinds = Kinds {
            shapes,
            ..Kinds::ALL
        };
        let (mut model, mut batch) = (Model::default(), Batch::default());
        let mut reader = rsys_traces::read::open(&path, kinds).unwrap();
        while reader.read(&mut model, &mut batch) {}
        let slices = batch.host.iter();
        let found: Vec<&str> = slices.map(|slice| model.text(slice.shapes)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn comparisons_of_clocks_hold_for_all_processes_of_a_file() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    let out = trace.buffer();
    let compare = |out: &mut rsys_proto::PacketBuffer, boottime_ns: u64| {
        out.clock_snapshot(&ClockReadings {
            boottime_ns,
            realtime_ns: 5_000 + boottime_ns,
            ..ClockReadings::default()
        });
    };
    compare(out, 1_000);
    // Of two hosts, as a merged trace has them.
    for (pid, host) in [(7, "alpha"), (8, "beta")] {
        out.process(&ProcessTrack {
            uuid: u64::from(pid),
            pid,
            name: "train",
            labels: &[format!("host {host}")],
            ..ProcessTrack::default()
        });
    }
    compare(out, 9_000);
    let bytes = trace.finish().unwrap();
    let scratch = Scratch::new();
    let path = scratch.write("merged.proto", &bytes);
    let (model, _) = read(&path);
    let points: Vec<_> = model.processes.iter().map(|one| &one.wall_clock).collect();
    let expected = vec![(1_000, 5_000), (9_000, 5_000)];
    assert_eq!(points, [&expected, &expected]);
}
