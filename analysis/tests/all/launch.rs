//! Who launched the kernels: every nanosecond is in one row of each table.

use proptest::collection::vec;
use proptest::prelude::*;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::table::{Answer, Cell};
use rsys_traces::model::{
    Basis, Batch, Device, DeviceId, Frame, GpuRecord, HostKind, HostSlice, Model, Process,
    ProcessId, Sample, StackId, Thread, ThreadId,
};

/// The functions of stacks, ranges and kernels.
const NAMES: [&str; 6] = [
    "main",
    "at::_ops::linear::call",
    "at::_ops::addmm::call",
    "train",
    "hipblasLtMatmul",
    "gemm",
];
const KERNEL: usize = 5;

/// Two processes with a thread and a GPU each.
fn model() -> Model {
    let mut model = Model::default();
    for pid in [10, 20] {
        let process = ProcessId::new(model.processes.len());
        model.processes.push(Process {
            pid,
            ..Process::default()
        });
        model.threads.push(Thread {
            process,
            tid: pid,
            ..Thread::default()
        });
        model.devices.push(Device {
            process,
            ..Device::default()
        });
    }
    model
}

/// The stack of functions, outermost first.
fn stack(model: &mut Model, names: &[&str]) -> StackId {
    names.iter().fold(StackId::ROOT, |caller, name| {
        let function = model.texts.intern(name);
        let frame = model.stacks.frame_id(Frame {
            function,
            ..Frame::default()
        });
        model.stacks.child(caller, frame)
    })
}

/// A kernel: begin, duration, functions of the stack that launched it (no sample without), whether its call is known, process.
type Drawn = (u64, u64, Option<Vec<usize>>, bool, usize);

fn batches(drawn: &[Drawn], model: &mut Model, size: usize) -> Vec<Batch> {
    let name = model.texts.intern(NAMES[KERNEL]);
    let range = model.texts.intern("step");
    let mut made = Vec::new();
    for (part, kernels) in drawn.chunks(size).enumerate() {
        let mut batch = Batch::default();
        for (place, (start_ns, duration_ns, functions, is_linked, process)) in
            kernels.iter().enumerate()
        {
            let link = (part * size + place + 1) as u64;
            let (id, thread) = (ProcessId::new(*process), ThreadId::new(*process));
            batch.gpu.push(GpuRecord {
                start_ns: 1_000 + start_ns,
                end_ns: 1_000 + start_ns + duration_ns,
                link,
                process: id,
                device: DeviceId::new(*process),
                name,
                ..GpuRecord::default()
            });
            if *is_linked {
                for kind in [HostKind::Runtime, HostKind::Range] {
                    batch.host.push(HostSlice {
                        start_ns: 900 + start_ns,
                        end_ns: 950 + start_ns,
                        link,
                        process: id,
                        thread,
                        name: range,
                        kind,
                        ..HostSlice::default()
                    });
                }
            }
            if let Some(functions) = functions {
                let mut names = vec!["[GPU]"];
                names.extend(functions.iter().map(|&function| NAMES[function]));
                names.push(NAMES[KERNEL]);
                batch.samples.push(Sample {
                    time_ns: 1_000 + start_ns,
                    weight: *duration_ns,
                    process: id,
                    thread,
                    stack: stack(model, &names),
                    basis: Basis::GpuTime,
                });
            }
        }
        made.push(batch);
    }
    made
}

fn answer(drawn: &[Drawn], size: usize) -> Answer {
    let mut model = model();
    let batches = batches(drawn, &mut model, size);
    let mut launch = Launch::default();
    batches.iter().for_each(|batch| launch.take(batch));
    launch.answer(&model, "")
}

fn column(answer: &Answer, table: &str, key: &str) -> Vec<(String, u64)> {
    let Some(table) = answer.tables.iter().find(|one| one.key == table) else {
        return Vec::new();
    };
    let at = table.columns.iter().position(|column| column.key == key);
    let at = at.expect("a column");
    let row = |row: &rsys_analysis::table::Row| match (&row.cells[0], &row.cells[at]) {
        (Cell::Text(name), Cell::Count(count)) => (name.clone(), *count),
        (_, Cell::Count(count)) => (String::new(), *count),
        cells => panic!("{cells:?}"),
    };
    table.rows.iter().map(row).collect()
}

fn sum(answer: &Answer, table: &str, key: &str) -> u64 {
    let column = column(answer, table, key);
    column.iter().map(|(_, value)| value).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exclusive_times_sum_to_the_durations(
        drawn in vec(
            (0..500_u64, 0..100_u64, proptest::option::of(vec(0..KERNEL, 0..6)), any::<bool>(), 0..2_usize),
            1..40,
        ),
        size in 1..20_usize,
    ) {
        let answer = answer(&drawn, size);
        let total_ns: u64 = drawn.iter().map(|kernel| kernel.1).sum();
        for table in ["gpu_operators", "gpu_functions", "launch_tree", "launch_calls"] {
            prop_assert_eq!(sum(&answer, table, "exclusive_ns"), total_ns, "{}", table);
        }
        let linked = drawn.iter().filter(|kernel| kernel.3);
        let linked_ns: u64 = linked.clone().map(|kernel| kernel.1).sum();
        if linked.count() > 0 {
            prop_assert_eq!(sum(&answer, "launch_ranges", "exclusive_ns"), total_ns);
        }
        prop_assert_eq!(sum(&answer, "launch_delays", "run_total_ns"), linked_ns);
        prop_assert_eq!(sum(&answer, "launch_delays", "unlinked_ns"), total_ns - linked_ns);

        // What is inside of an operator, counted without a ledger.
        let inside = drawn.iter().filter(|kernel| kernel.2.as_ref().is_some_and(|stack| stack.contains(&2)));
        let addmm_ns: u64 = inside.map(|kernel| kernel.1).sum();
        let rows = column(&answer, "gpu_operators", "inclusive_ns");
        let found_ns = rows.iter().find(|row| row.0 == "aten::addmm").map_or(0, |row| row.1);
        prop_assert_eq!(found_ns, addmm_ns);
    }
}

#[test]
fn delays_and_depth_are_those_of_the_records() {
    // Two kernels that were launched at 900 and 905, until 950 and 955, and run one after the other.
    let drawn = [(0, 40, None, true, 0), (5, 60, None, true, 0)];
    let answer = answer(&drawn, 2);
    let value = |table, key| sum(&answer, table, key);
    assert_eq!(value("launch_delays", "submit_total_ns"), 100);
    assert_eq!(value("launch_delays", "queue_total_ns"), 100);
    assert_eq!(value("launch_delays", "run_total_ns"), 100);
    assert_eq!(value("queue_depth", "max_depth"), 2);
    assert_eq!(value("queue_depth", "span_ns"), 1_065 - 950);
    assert_eq!(value("queue_depth", "none_waiting_ns"), 60);
}

#[test]
fn traces_without_kernels_and_operators_have_no_answer() {
    let mut launch = Launch::default();
    assert!(launch.answer(&model(), "").is_empty);
}
