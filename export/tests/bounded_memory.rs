//! What making tables and writing formats keep of records: nothing that grows with their number, or a fraction of a byte for each.
//!
//! The only test of this program, since it counts all memory.

use std::fs::{self, File};
use std::path::PathBuf;

use rsys_analysis::measure::Measure;
use rsys_export::{Format, Output, Selection};
use rsys_synthetic::memory::{Counting, peak_bytes};
use rsys_tables::record::Recorder;
use rsys_traces::model::{
    Basis, Batch, Device, DeviceId, Frame, GpuRecord, HostKind, HostSlice, Model, OpKind, Process,
    ProcessId, Queue, QueueId, Sample, StackId, TextId, Thread, ThreadId,
};

#[global_allocator]
static COUNTING: Counting = Counting;

const PROCESSES: usize = 3;
/// Of each process.
const THREADS: usize = 4;
/// Of each process.
const STREAMS: usize = 4;
const NAMES: u64 = 20;

/// Processes with threads and streams, and stacks and names for all records.
fn model() -> (Model, Vec<TextId>) {
    let mut model = Model::default();
    let names: Vec<TextId> = (0..NAMES)
        .map(|number| model.texts.intern(&format!("kernel{number}")))
        .collect();
    for number in 0..PROCESSES {
        let (process, device) = (ProcessId::new(number), DeviceId::new(number));
        let pid = 100 * (1 + number as u32);
        model.processes.push(Process {
            pid,
            name: "train".to_owned(),
            ..Process::default()
        });
        model
            .threads
            .extend((0..THREADS as u32).map(|thread| Thread {
                process,
                tid: pid + thread,
                name: names[0],
            }));
        model.devices.push(Device {
            process,
            ordinal: 0,
            name: "MI300X".to_owned(),
            is_physical: true,
        });
        for stream in 0..STREAMS {
            let name = model.texts.intern(&format!("stream {stream}"));
            model.queues.push(Queue { device, name });
        }
    }
    let mut launching = StackId::ROOT;
    for number in 0..100_u32 {
        let frame = model.stacks.frame_id(Frame {
            function: names[number as usize % names.len()],
            mapping: TextId::EMPTY,
            source: TextId::EMPTY,
            line: number,
        });
        if number % 10 == 0 {
            launching = StackId::ROOT;
        }
        launching = model.stacks.child(launching, frame);
    }
    (model, names)
}

/// Some records of each kind, from one call on, and the ranges and waits around them.
fn records(calls: std::ops::Range<u64>, names: &[TextId]) -> Batch {
    let mut batch = Batch::default();
    for number in calls {
        // Processes take turns, and in these threads and streams.
        let process = number as usize % PROCESSES;
        let turn = number as usize / PROCESSES;
        let thread = ThreadId::new(process * THREADS + turn % THREADS);
        let stream = turn / THREADS % STREAMS;
        let queue = QueueId::new(process * STREAMS + stream);
        let process = ProcessId::new(process);
        let start_ns = 1_000_000 + 4_000 * number;
        let name = names[(number % NAMES) as usize];
        let call = HostSlice {
            start_ns,
            end_ns: start_ns + 2_000 + number % 500,
            link: number + 1,
            process,
            thread,
            name,
            ..HostSlice::default()
        };
        batch.host.push(call);
        batch
            .host
            .extend([HostKind::Range, HostKind::Wait].map(|kind| HostSlice {
                end_ns: start_ns + 2_600,
                kind,
                link: 0,
                depth: 1,
                ..call
            }));
        // A step of a thousand calls.
        if number % 1000 == 0 {
            batch.host.push(HostSlice {
                end_ns: start_ns + 4_000_000,
                kind: HostKind::Range,
                link: 0,
                ..call
            });
        }
        let kernel = GpuRecord {
            // Streams run behind the calls by different times.
            start_ns: start_ns + 3_000 + stream as u64 * 100_000,
            end_ns: start_ns + 5_000 + stream as u64 * 100_000,
            link: number + 1,
            process,
            queue,
            name,
            kind: if number % 9 == 0 {
                OpKind::Copy
            } else {
                OpKind::Kernel
            },
            bytes: number % 9,
            ..GpuRecord::default()
        };
        batch.gpu.push(kernel);
        let stack = StackId::at(1 + (number % 90) as usize);
        let sample = |time_ns, weight, basis| Sample {
            time_ns,
            weight,
            process,
            thread,
            stack,
            basis,
        };
        batch.samples.extend([
            sample(kernel.start_ns, kernel.duration_ns(), Basis::GpuTime),
            sample(start_ns, 0, Basis::CallTime),
            sample(start_ns + 1_000, 2_000, Basis::CpuTime),
        ]);
    }
    batch
}

/// The tables of this number of calls, and the peak of memory while they were made.
fn tables(calls: u64) -> (File, usize) {
    let (model, names) = model();
    let [file, scratch] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let to = file.try_clone().unwrap();
    let peak = peak_bytes(|| {
        let (mut recorder, written) = Recorder::new(to, scratch, "").unwrap();
        for first in (0..calls).step_by(1000) {
            recorder.take(&records(first..calls.min(first + 1000), &names));
        }
        recorder.answer(&model, "");
        written.take().unwrap();
    });
    (file, peak)
}

#[test]
fn memory_does_not_grow_with_the_records() {
    const FEW: u64 = 400_000;
    const MANY: u64 = 3 * FEW;
    /// Bytes for each call with its kernel, range, wait and samples: of rows in a file the first of 256 stays, in several lists.
    const EACH: f64 = 4.0;
    let folder: PathBuf = std::env::temp_dir().join(format!("rsys-bounded-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let grows = |what: &str, few: usize, many: usize| {
        let each = (many as f64 - few as f64) / (MANY - FEW) as f64;
        println!("{what}: {few} bytes, then {many}: {each:.2} for each call");
        (each >= EACH).then(|| what.to_owned())
    };
    let [(few, few_bytes), (many, many_bytes)] = [FEW, MANY].map(tables);
    let mut growing = Vec::from_iter(grows("tables", few_bytes, many_bytes));
    for format in [
        Format::Kineto,
        Format::Chrome,
        Format::Rpd,
        Format::Rocpd,
        Format::Folded,
        Format::Speedscope,
        Format::Pprof,
        Format::Firefox,
        Format::Rocprofv3Json,
        Format::Aorta,
        Format::Csv,
        Format::Parquet,
    ] {
        let written = |store: &File| {
            let (path, scratch) = (folder.join("written"), tempfile::tempfile().unwrap());
            let output = Output {
                format,
                is_each_rank: false,
                is_packed: false,
            };
            let store = store.try_clone().unwrap();
            let bytes = peak_bytes(|| {
                rsys_export::export(store, scratch, &Selection::default(), output, &path).unwrap();
            });
            match path.is_dir() {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
            bytes
        };
        let what = format!("{format:?}");
        growing.extend(grows(&what, written(&few), written(&many)));
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(growing.is_empty(), "{growing:?}");
}
