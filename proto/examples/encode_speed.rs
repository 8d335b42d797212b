//! How fast slices and samples are encoded, and how small, beside the same packets encoded through prost.

use std::hint::black_box;
use std::time::Instant;

use prost::Message;
use rsys_proto::reader::PacketReader;
use rsys_proto::schema::{PerfSample, TracePacket, TrackEvent};
use rsys_proto::{
    Annotation, BLOCK_BYTES, Compression, CpuMode, Event, EventKind, FrameDesc, PacketBuffer,
    Sample, SampleSequence, TraceWriter, TrackSequence, Value,
};

const THREADS: u32 = 16;
const NAMES: u64 = 512;
const PAIRS: u64 = 2_000_000;
const DEPTH: u64 = 8;
const REPEATS: usize = 3;

fn main() {
    println!(
        "{PAIRS} slices on {THREADS} threads, {NAMES} names, nested {DEPTH} deep, about 20 us apart; best of {REPEATS}"
    );
    let (bytes, ns) = best(generator);
    report("the generator alone", bytes, ns, 2 * PAIRS);
    let (bytes, ns) = best(|| slices(false));
    report("slices", bytes, ns, 2 * PAIRS);
    let (bytes, ns) = best(|| slices(true));
    report(
        "slices with category and an integer annotation",
        bytes,
        ns,
        2 * PAIRS,
    );
    let (bytes, ns) = best(prost_slices);
    report("slices through prost", bytes, ns, 2 * PAIRS);
    let (bytes, ns) = best(samples);
    report("samples", bytes, ns, PAIRS);
    let (bytes, ns) = best(prost_samples);
    report("samples through prost", bytes, ns, PAIRS);
    for compression in [Compression::None, Compression::Zlib] {
        let (bytes, ns) = best(|| written(compression));
        report(
            &format!("slices, written with {compression:?}"),
            bytes,
            ns,
            2 * PAIRS,
        );
    }
    decode();
}

fn best(run: impl Fn() -> u64) -> (u64, f64) {
    let mut bytes = 0;
    let mut ns = f64::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        bytes = black_box(run());
        ns = ns.min(start.elapsed().as_nanos() as f64);
    }
    (bytes, ns)
}

fn report(what: &str, bytes: u64, ns: f64, events: u64) {
    println!(
        "{what:50} {:6.1} ns/event {:6.2} bytes/event {:6.0} MB/s",
        ns / events as f64,
        bytes as f64 / events as f64,
        bytes as f64 * 1e3 / ns
    );
}

/// Calls `event(thread, time, name to begin or None to end)` with the slices of all threads in turns of a whole nest.
fn generate(mut event: impl FnMut(usize, u64, Option<u64>)) {
    let mut random = 0x9E37_79B9_u64;
    let mut time = 1_000_000_000;
    for nest in 0..PAIRS / DEPTH {
        let thread = (nest % u64::from(THREADS)) as usize;
        for step in 0..2 * DEPTH {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            time += 1_000 + (random >> 50);
            event(
                thread,
                time,
                (step < DEPTH).then_some((random >> 33) % NAMES),
            );
        }
    }
}

fn generator() -> u64 {
    generate(|thread, time, name| {
        black_box((thread, time, name));
    });
    0
}

fn slices(annotated: bool) -> u64 {
    let mut out = PacketBuffer::new();
    let names: Vec<_> = (0..NAMES)
        .map(|name| out.intern(&format!("function_{name}")))
        .collect();
    let (category, key) = (out.intern("cpu"), out.intern("line"));
    let mut threads: Vec<_> = (0..THREADS)
        .map(|thread| TrackSequence::new(&mut out, 100 + u64::from(thread)))
        .collect();
    let mut total = 0;
    generate(|thread, time, name| {
        match name {
            Some(name) if annotated => {
                let annotations = [Annotation::new(key, Value::Uint(name * 7))];
                let details = Event {
                    name: names[name as usize].into(),
                    category: Some(category),
                    annotations: &annotations,
                    ..Event::default()
                };
                threads[thread].event(&mut out, time, EventKind::SliceBegin, &details);
            }
            Some(name) => threads[thread].slice_begin(&mut out, time, names[name as usize]),
            None => threads[thread].slice_end(&mut out, time),
        }
        total += drain(&mut out);
    });
    total + out.bytes().len() as u64
}

/// The same packets as those of [`slices`], without the first ones of each sequence.
fn prost_slices() -> u64 {
    let mut out = PacketBuffer::new();
    let mut last = [1_000_000_000; THREADS as usize];
    let mut total = 0;
    generate(|thread, time, name| {
        let kind = if name.is_some() {
            EventKind::SliceBegin
        } else {
            EventKind::SliceEnd
        };
        out.packet(&TracePacket {
            timestamp: Some(time - last[thread]),
            trusted_packet_sequence_id: Some(2 + thread as u32),
            track_event: Some(TrackEvent {
                r#type: Some(kind as i32),
                name_iid: name.map(|name| name + 1),
                ..TrackEvent::default()
            }),
            ..TracePacket::default()
        });
        last[thread] = time;
        total += drain(&mut out);
    });
    total + out.bytes().len() as u64
}

fn drain(out: &mut PacketBuffer) -> u64 {
    let length = out.bytes().len();
    if length < BLOCK_BYTES {
        return 0;
    }
    out.clear();
    length as u64
}

fn samples() -> u64 {
    let mut out = PacketBuffer::new();
    let mut sequence = SampleSequence::new(&mut out, "cpu-time ns", Some(100));
    let mapping = sequence.unknown_mapping();
    let stacks: Vec<_> = (0..2_000)
        .map(|stack| {
            let frames: Vec<_> = (0..20)
                .map(|level| {
                    let rel_pc = stack % (1 + 100 * level);
                    sequence.intern_frame(FrameDesc {
                        function: None,
                        mapping,
                        rel_pc,
                        source: None,
                        line: None,
                    })
                })
                .collect();
            sequence.intern_callstack(&frames)
        })
        .collect();
    let mut total = 0;
    for index in 0..PAIRS {
        let sample = Sample {
            time_ns: 1_000_000_000 + index * 625_000,
            pid: 123_456,
            tid: 123_456 + index as u32 % THREADS,
            callstack: Some(stacks[(index * 31 % 2_000) as usize]),
            weight: 10_000_000,
            mode: CpuMode::User,
            cpu: None,
        };
        sequence.sample(&mut out, &sample);
        total += drain(&mut out);
    }
    total + out.bytes().len() as u64
}

/// The same packets as those of [`samples`], without the definitions.
fn prost_samples() -> u64 {
    let mut out = PacketBuffer::new();
    let mut total = 0;
    for index in 0..PAIRS {
        out.packet(&TracePacket {
            timestamp: Some(625_000),
            trusted_packet_sequence_id: Some(2),
            perf_sample: Some(PerfSample {
                pid: Some(123_456),
                tid: Some(123_456 + index as u32 % THREADS),
                callstack_iid: Some(1 + index * 31 % 2_000),
                cpu_mode: Some(CpuMode::User as i32),
                timebase_count: Some(10_000_000),
                ..PerfSample::default()
            }),
            ..TracePacket::default()
        });
        total += drain(&mut out);
    }
    total + out.bytes().len() as u64
}

fn written(compression: Compression) -> u64 {
    let mut trace = TraceWriter::new(std::io::sink(), compression);
    fill(&mut trace);
    trace.written().bytes
}

fn fill<W: std::io::Write>(trace: &mut TraceWriter<W>) {
    let names: Vec<_> = (0..NAMES)
        .map(|name| trace.buffer().intern(&format!("function_{name}")))
        .collect();
    let mut threads: Vec<_> = (0..THREADS)
        .map(|thread| TrackSequence::new(trace.buffer(), 100 + u64::from(thread)))
        .collect();
    generate(|thread, time, name| {
        match name {
            Some(name) => threads[thread].slice_begin(trace.buffer(), time, names[name as usize]),
            None => threads[thread].slice_end(trace.buffer(), time),
        }
        trace.flush_if_full().expect("memory and sinks do not fail");
    });
    trace.flush().expect("memory and sinks do not fail");
}

fn decode() {
    let mut trace = TraceWriter::new(Vec::new(), Compression::None);
    fill(&mut trace);
    let file = trace.finish().expect("memory does not fail");
    let start = Instant::now();
    let mut reader = PacketReader::new(file.as_slice());
    let mut events = 0;
    while let Some(packet) = reader.next_encoded().expect("a whole file") {
        events += u64::from(
            TracePacket::decode(packet)
                .expect("a whole packet")
                .track_event
                .is_some(),
        );
    }
    report(
        "read back",
        file.len() as u64,
        start.elapsed().as_nanos() as f64,
        events,
    );
}
