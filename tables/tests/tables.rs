//! Records that were made by hand, and the tables that come of them.

use std::fs::File;
use std::path::PathBuf;

use rsys_analysis::measure::Measure;
use rsys_tables::catalog;
use rsys_tables::record::Recorder;
use rsys_tables::store::{PART_ROWS, Store};
use rsys_tables::view::{Validity, Values, View};
use rsys_traces::model::{
    Basis, Batch, Counter, CounterId, CounterValue, Device, DeviceId, Frame, GpuRecord, HostKind,
    HostSlice, Mark, Model, OpKind, Process, ProcessId, Queue, QueueId, Sample, StackId, Thread,
    ThreadId,
};

/// A file that goes away with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("rsys-tables-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn file(&self) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(&self.0).expect("a file")
    }

    fn store(&self) -> Store {
        let file = File::open(&self.0).expect("the file");
        Store::open(file).expect("a store")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Process 7 with rank 3 and process 8 without one; a thread and a GPU of each.
fn model() -> Model {
    let mut model = Model::default();
    for (pid, rank) in [(7, Some(3)), (8, None)] {
        let process = ProcessId::new(model.processes.len());
        model.processes.push(Process {
            pid,
            rank,
            name: "train".to_owned(),
            host: "node01".to_owned(),
            ..Process::default()
        });
        let name = model.texts.intern(&format!("worker {pid}"));
        model.threads.push(Thread {
            process,
            tid: pid * 10,
            name,
        });
        let device = DeviceId::new(model.devices.len());
        model.devices.push(Device {
            process,
            ordinal: pid - 7,
            name: "MI300X".to_owned(),
            is_physical: true,
        });
        let name = model.texts.intern("stream 1");
        model.queues.push(Queue { device, name });
    }
    model
}

fn stack(model: &mut Model, functions: &[&str]) -> StackId {
    let mut stack = StackId::ROOT;
    for (line, function) in (1..).zip(functions) {
        let frame = Frame {
            function: model.texts.intern(function),
            mapping: model.texts.intern("/opt/app/train"),
            source: model.texts.intern("train.c"),
            line,
        };
        let frame = model.stacks.frame_id(frame);
        stack = model.stacks.child(stack, frame);
    }
    stack
}

fn written(scratch: &Scratch, model: &Model, batches: &[Batch]) {
    let recorder = Recorder::new(
        scratch.file(),
        tempfile::tempfile().expect("a file"),
        "these",
    );
    let (mut recorder, outcome) = recorder.expect("a recorder");
    batches.iter().for_each(|batch| recorder.take(batch));
    assert!(outcome.take().is_err(), "it is not finished");
    recorder.answer(model, "");
    outcome.take().expect("tables");
}

/// All values of a column, as text; `-` is unknown.
fn column(view: &View, table: &str, column: &str) -> Vec<String> {
    let table = catalog::table(table).expect(table);
    let (_, column) = table.column(column).expect(column);
    let mut all = Vec::new();
    for part in 0..view.parts(table).len() {
        let values = view.column(table, column, part).expect("values");
        assert_eq!(values.len(), view.parts(table)[part] as usize);
        let known = |valid: &Validity, row: usize| valid.0.as_ref().is_none_or(|valid| valid[row]);
        for row in 0..values.len() {
            let shown = match &values {
                Values::Integers(values, valid) => {
                    known(valid, row).then(|| values[row].to_string())
                }
                Values::Unsigned(values, valid) => {
                    known(valid, row).then(|| values[row].to_string())
                }
                Values::Numbers(values, valid) => {
                    known(valid, row).then(|| values[row].to_string())
                }
                Values::Texts(ids, words) => words.get(ids[row]).map(str::to_owned),
            };
            all.push(shown.unwrap_or_else(|| "-".to_owned()));
        }
    }
    all
}

/// The second process does what the first does, later: equal links of two processes are two things.
fn records(model: &mut Model) -> Batch {
    let mut batch = Batch::default();
    let launching = stack(model, &["main", "step", "hipLaunchKernel", "gemm"]);
    let calling = stack(model, &["main", "load"]);
    let [gemm, launch, copy, grid, note] = ["gemm", "hipLaunchKernel", "hipMemcpy", "1x1", "epoch"]
        .map(|text| model.texts.intern(text));
    for index in 0..2 {
        let shift = 1_000_000 * index as u64;
        let (process, thread) = (ProcessId::new(index), ThreadId::new(index));
        let call = HostSlice {
            start_ns: 100 + shift,
            end_ns: 130 + shift,
            link: 5,
            process,
            thread,
            name: launch,
            ..HostSlice::default()
        };
        // The call of the layer below has the same link.
        let inner = HostSlice {
            start_ns: 110 + shift,
            end_ns: 120 + shift,
            kind: HostKind::Hsa,
            depth: 1,
            ..call
        };
        let copying = HostSlice {
            start_ns: 300 + shift,
            end_ns: 400 + shift,
            link: 0,
            bytes: 64,
            name: copy,
            depth: HostSlice::UNKNOWN_DEPTH,
            ..call
        };
        batch.host.extend([inner, call, copying]);
        let kernel = GpuRecord {
            start_ns: 200 + shift,
            end_ns: 260 + shift,
            link: 5,
            process,
            device: DeviceId::new(index),
            queue: QueueId::new(index),
            name: gemm,
            grid,
            ..GpuRecord::default()
        };
        let unlinked = GpuRecord {
            link: 0,
            kind: OpKind::Copy,
            bytes: 64,
            start_ns: 310 + shift,
            end_ns: 320 + shift,
            ..kernel
        };
        batch.gpu.extend([kernel, unlinked]);
        let sample = |time_ns, weight, stack, basis| Sample {
            time_ns,
            weight,
            process,
            thread,
            stack,
            basis,
        };
        batch.samples.extend([
            sample(200 + shift, 60, launching, Basis::GpuTime),
            sample(300 + shift, 100, calling, Basis::CallTime),
            sample(50 + shift, 9, calling, Basis::CpuTime),
            sample(60 + shift, 9, StackId::ROOT, Basis::WaitTime),
        ]);
        batch.marks.push(Mark {
            time_ns: 1 + shift,
            process,
            thread,
            name: note,
        });
    }
    let (group, name) = (model.texts.intern("counters"), model.texts.intern("power"));
    let unit = model.texts.intern("W");
    model.counters.push(Counter {
        process: ProcessId::new(0),
        group,
        name,
        unit,
    });
    batch.counters.push(CounterValue {
        time_ns: 3,
        counter: CounterId::new(0),
        value: -1.5,
    });
    batch
}

#[test]
fn records_stand_in_their_tables_with_what_belongs_to_them() {
    let scratch = Scratch::new("records");
    let mut model = model();
    let batch = records(&mut model);
    written(&scratch, &model, &[batch]);
    assert_eq!(scratch.store().identity(), "these");
    let view = View::new(scratch.store());
    for (table, name, expected) in [
        ("operations", "operation_id", "0 1 2 3"),
        ("operations", "kind", "kernel copy kernel copy"),
        ("operations", "activity", "compute compute compute compute"),
        ("operations", "start_ns", "200 310 1000200 1000310"),
        ("operations", "end_ns", "260 320 1000260 1000320"),
        ("operations", "duration_ns", "60 10 60 10"),
        ("operations", "bytes", "- 64 - 64"),
        ("operations", "direction", "- - - -"),
        ("operations", "process", "7 7 8 8"),
        ("operations", "rank", "3 3 - -"),
        ("operations", "device", "0 0 1 1"),
        ("operations", "host", "node01 node01 node01 node01"),
        ("operations", "correlation", "5 - 5 -"),
        ("operations", "call", "hipLaunchKernel - hipLaunchKernel -"),
        ("operations", "call_id", "1 - 4 -"),
        ("operations", "call_start_ns", "100 - 1000100 -"),
        ("operations", "delay_ns", "100 - 100 -"),
        ("operations", "thread", "70 - 80 -"),
        ("operations", "stack_id", "3 - 3 -"),
        ("calls", "runtime", "HSA HIP HIP HSA HIP HIP"),
        ("calls", "depth", "1 0 - 1 0 -"),
        ("calls", "bytes", "- - 64 - - 64"),
        ("calls", "stack_id", "- - 5 - - 5"),
        ("samples", "basis", "cpu wait cpu wait"),
        ("samples", "function", "load - load -"),
        ("samples", "weight", "9 9 9 9"),
        ("markers", "name", "epoch epoch"),
        ("counters", "value", "-1.5"),
        ("counters", "name", "power"),
        ("counters", "belongs_to", "counters"),
        ("counters", "process_id", "0"),
        ("stacks", "depth", "0 1 2 3 4 2"),
        ("stacks", "caller_id", "0 0 1 2 3 1"),
        ("threads", "rank", "3 -"),
        ("queues", "process", "7 8"),
    ] {
        let found = column(&view, table, name).join(" ");
        assert_eq!(found, expected, "{table}.{name}");
    }
    assert_eq!(
        column(&view, "stacks", "frames")[4..],
        ["main;step;hipLaunchKernel;gemm", "main;load"]
    );
    assert_eq!(column(&view, "calls", "place")[2], "load (train.c:2)");
    assert_eq!(column(&view, "threads", "name"), ["worker 7", "worker 8"]);
    assert_eq!(column(&view, "operations", "queue")[3], "stream 1");
    // Every column of every table can be read, also of tables without rows.
    for table in catalog::TABLES {
        for one in table.columns {
            column(&view, table.name, one.name);
        }
    }
}

#[test]
fn of_calls_that_begin_at_once_the_outer_one_caused_the_work() {
    let scratch = Scratch::new("at-once");
    let mut model = model();
    let template = records(&mut model);
    let [inner, outer] = [template.host[0], template.host[1]];
    let inner_first = |link, shift: u64| {
        [(inner, 20), (outer, 30)].map(|(call, length)| HostSlice {
            start_ns: 100 + shift,
            end_ns: 100 + shift + length,
            link,
            ..call
        })
    };
    let mut batch = Batch::default();
    batch.host.extend(inner_first(1, 0));
    batch.host.extend(inner_first(2, 50).into_iter().rev());
    let kernel = |link| GpuRecord {
        link,
        ..template.gpu[0]
    };
    batch.gpu.extend([1, 2].map(kernel));
    written(&scratch, &model, &[batch]);
    let view = View::new(scratch.store());
    assert_eq!(
        column(&view, "calls", "duration_ns"),
        ["20", "30", "30", "20"]
    );
    assert_eq!(column(&view, "operations", "call_id"), ["1", "2"]);
}

#[test]
fn tables_of_many_parts_are_one() {
    let scratch = Scratch::new("parts");
    let mut model = model();
    let template = records(&mut model);
    let count = PART_ROWS + 1234;
    let mut batches = Vec::new();
    for number in 0..count as u64 {
        let mut batch = Batch::default();
        batch.gpu.push(GpuRecord {
            start_ns: 1000 * number + 7,
            end_ns: 1000 * number + 9,
            // Operations come in another order than their calls.
            link: (number ^ 63) + 1,
            ..template.gpu[0]
        });
        batch.host.push(HostSlice {
            start_ns: 10 * number,
            end_ns: 10 * number + 5,
            link: number + 1,
            ..template.host[1]
        });
        batches.push(batch);
    }
    written(&scratch, &model, &batches);
    let view = View::new(scratch.store());
    let ids = column(&view, "operations", "operation_id");
    assert_eq!((ids.len(), &*ids[PART_ROWS]), (count, "65536"));
    let calls = column(&view, "operations", "call_start_ns");
    for (number, found) in calls.iter().enumerate() {
        let link = number ^ 63;
        let expected = (link < count).then(|| (10 * link).to_string());
        assert_eq!(*found, expected.unwrap_or_else(|| "-".to_owned()));
    }
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let scratch = Scratch::new("damage");
    let mut model = model();
    let batch = records(&mut model);
    written(&scratch, &model, &[batch]);
    let whole = std::fs::read(&scratch.0).expect("the file");
    assert!(scratch.store().verify().is_ok());
    // The first bytes say nothing that the last ones do not.
    for at in 8..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&scratch.0, &damaged).expect("written");
        let store = Store::open(File::open(&scratch.0).expect("the file"));
        assert!(store.and_then(|store| store.verify()).is_err(), "byte {at}");
    }
    for at in 0..whole.len() {
        std::fs::write(&scratch.0, &whole[..at]).expect("written");
        let store = Store::open(File::open(&scratch.0).expect("the file"));
        assert!(store.is_err(), "{at} bytes");
    }
}
