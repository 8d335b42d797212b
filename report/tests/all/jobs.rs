//! Answers do not depend on how much is read and measured at the same time, nor on the order of files.

use std::path::Path;
use std::process::Command;

use crate::common::{FIRST, PROCESS, Scratch, THREAD, Writer};
use rsys_proto::{
    Annotation, Compression, CpuMode, Event, EventKind, FrameDesc, Name, NamedTrack, PacketBuffer,
    Sample, SampleSequence, TrackSequence, Value,
};

const RANKS: u64 = 5;
/// Enough for several batches of each file.
const ROUNDS: u64 = 4_000;

/// The trace of a rank, in which names and stacks come in an order of its own.
fn trace(rank: u64) -> Vec<u8> {
    let writer = Writer {
        pid: 100 + rank as u32,
        rank: Some(rank),
        rank_count: RANKS,
        compression: match rank % 2 {
            0 => Compression::None,
            _ => Compression::Zlib,
        },
        ..FIRST
    };
    writer.trace(|out| fill(out, &writer, rank))
}

fn fill(out: &mut PacketBuffer, writer: &Writer<'_>, rank: u64) {
    let mut track = |uuid: u64, parent: u64, name: &str| {
        out.track(&NamedTrack {
            uuid,
            parent: Some(parent),
            name,
            ..NamedTrack::default()
        });
        TrackSequence::new(out, uuid)
    };
    let mut calls = track(50, THREAD, "calls");
    track(51, PROCESS, "GPU 0 \u{b7} Simulated");
    let mut streams = [52, 53].map(|uuid| track(uuid, 51, &format!("stream {uuid}")));
    let [hip, kernel, copy, correlation, bytes, address] =
        ["hip", "kernel", "copy", "correlation", "bytes", "address"].map(|name| out.intern(name));
    let names = [
        "hipLaunchKernel",
        "hipMemcpy",
        "hipStreamSynchronize",
        "hipMalloc",
        "hipFree",
    ];
    let names = names.map(|name| out.intern(name));
    let mut cpu = SampleSequence::new(out, "cpu-time ns", Some(1000));
    let mapping = cpu.unknown_mapping();
    let stacks: Vec<_> = (0..40)
        .map(|number| {
            let inner = format!("work_{}", (number * 7 + rank) % 20);
            let frames = ["main", inner.as_str()].map(|name| {
                let function = cpu.intern_function(name);
                cpu.intern_frame(FrameDesc {
                    function: Some(function),
                    mapping,
                    rel_pc: 0,
                    source: None,
                    line: Some(number as u32 % 3),
                })
            });
            cpu.intern_callstack(&frames)
        })
        .collect();
    for round in 0..ROUNDS {
        let at_ns = writer.start_ns + 50_000 * round;
        let link = Annotation::new(correlation, Value::Uint(round + 1));
        let what = (round % 7) as usize;
        let size = Annotation::new(bytes, Value::Uint(4096 * (1 + round % 3)));
        let place = Annotation::new(address, Value::Pointer(0x1000 * (1 + round / 7 % 9)));
        let told: &[Annotation<'_>] = match what {
            1 => &[link, size],
            3 => &[size, place],
            4 => &[place],
            _ => &[link],
        };
        let call = Event {
            name: Name::Interned(names[if what < 5 { what } else { 0 }]),
            category: Some(hip),
            annotations: told,
            ..Event::default()
        };
        calls.event(out, at_ns, EventKind::SliceBegin, &call);
        calls.slice_end(out, at_ns + 5_000 + 1_000 * (round % 30));
        if !matches!(what, 2..=4) {
            let name = format!("gemm_{}", (round * 3 + rank) % 11);
            let operation = Event {
                name: Name::Once(&name),
                category: Some(if what == 1 { copy } else { kernel }),
                annotations: &[link],
                ..Event::default()
            };
            let stream = &mut streams[(round % 2) as usize];
            stream.event(out, at_ns + 9_000, EventKind::SliceBegin, &operation);
            stream.slice_end(out, at_ns + 20_000 + rank * round % 997);
        }
        cpu.sample(
            out,
            &Sample {
                time_ns: at_ns + 2_500,
                pid: writer.pid,
                tid: writer.pid,
                callstack: Some(stacks[(round * 11 % 40) as usize]),
                weight: 50_000,
                mode: CpuMode::User,
                cpu: None,
            },
        );
    }
}

/// What `rsys-report` prints of the traces in `run`.
fn report(question: &str, jobs: &str, folder: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rsys-report"))
        .args([question, "--json", "--jobs", jobs, "run"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn answers_do_not_depend_on_jobs_or_the_order_of_files() {
    let scratch = Scratch::new();
    // Folders in whose order the ranks stand once forward, once backward: files are read in the order of their names.
    let mut folders = Vec::new();
    for is_backward in [false, true] {
        let folder = scratch
            .0
            .join(if is_backward { "backward" } else { "forward" });
        std::fs::create_dir_all(folder.join("run")).unwrap();
        for rank in 0..RANKS {
            let place = if is_backward { RANKS - rank } else { rank };
            std::fs::write(folder.join(format!("run/{place}.proto")), trace(rank)).unwrap();
        }
        folders.push(folder);
    }
    for question in [
        "summary",
        "advice",
        "timeline",
        "gaps",
        "kernels",
        "copies",
        "calls",
        "functions",
        "memory",
        "launch",
    ] {
        let expected = report(question, "1", &folders[0]);
        for jobs in ["2", "3", "16"] {
            for folder in &folders {
                let found = report(question, jobs, folder);
                assert!(found == expected, "{question} --jobs {jobs}");
            }
        }
    }
}

#[test]
fn one_file_has_the_same_answer_with_any_number_of_jobs() {
    let scratch = Scratch::new();
    scratch.write("run", &trace(1));
    let expected = report("summary", "1", &scratch.0);
    for jobs in ["2", "7"] {
        assert!(report("summary", jobs, &scratch.0) == expected, "{jobs}");
    }
}
