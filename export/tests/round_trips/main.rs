//! Random runs, written as our traces, exported, and read again: every record that a format can hold is there, to the nanosecond.
//!
//! `RSYS_ROUND_TRIPS=1000` asks for so many runs, `RSYS_ROUND_TRIPS_FROM` begins at another number: what fails says its number.

mod collectives;
mod columns;
mod containers;
mod domains;
mod questions;
mod sensors;
mod stacks;
mod store;
mod truth;
mod weights;

use std::env;
use std::path::PathBuf;

use rsys_export::{Format, Selection};
use rsys_synthetic::random_run::{
    Call, Operation, OperationKind, RandomRun, any_name, write_process,
};

use store::{Folder, Tables, same};
use truth::{CALL, Keeps, MARK, Owner, RANGE, Sizes};

/// Runs where nothing else is asked for.
const COUNT: u64 = 60;

/// The numbers of the runs that are tried.
fn numbers() -> impl Iterator<Item = u64> {
    let asked = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let from = asked("RSYS_ROUND_TRIPS_FROM").unwrap_or(0);
    from..from + asked("RSYS_ROUND_TRIPS").unwrap_or(COUNT)
}

/// What our own traces keep.
const ALL: Keeps = Keeps {
    kinds: |kind| {
        Some(match kind {
            OperationKind::Kernel => "kernel",
            OperationKind::Copy => "copy",
            OperationKind::Fill => "fill",
            OperationKind::Barrier => "other",
        })
    },
    name: |operation| operation.name.clone(),
    owner: Owner::RankAndPid,
    sizes: Sizes::All,
    call_bytes: |_| true,
    has_device: |_| true,
    has_only_long_ranges: false,
    has_functions_of_launches: false,
};

/// Copies and fills have PyTorch's names.
fn pytorch_name(operation: &Operation) -> String {
    let name = match (operation.kind, operation.direction) {
        (OperationKind::Copy, "CopyHostToDevice") => "Memcpy HtoD (Host -> Device)",
        (OperationKind::Copy, "CopyDeviceToHost") => "Memcpy DtoH (Device -> Host)",
        (OperationKind::Copy, "CopyDeviceToDevice") => "Memcpy DtoD (Device -> Device)",
        (OperationKind::Copy, _) => "Memcpy HtoH (Host -> Host)",
        (OperationKind::Fill, _) => "Memset (Device)",
        _ => &operation.name,
    };
    name.to_owned()
}

const CHROME: Keeps = Keeps {
    name: pytorch_name,
    ..ALL
};

const KINETO: Keeps = Keeps {
    kinds: |kind| (ALL.kinds)(kind).filter(|kind| *kind != "other"),
    has_functions_of_launches: true,
    ..CHROME
};

/// An operation of RPD says neither its process nor its size: its call does.
const RPD: Keeps = Keeps {
    name: |operation| match operation.kind {
        OperationKind::Copy => operation.direction.to_owned(),
        OperationKind::Fill => "FillBuffer".to_owned(),
        // One without a name is what its kind is called.
        OperationKind::Kernel if operation.name.is_empty() => "KernelExecution".to_owned(),
        _ => operation.name.clone(),
    },
    owner: Owner::PidOfCall,
    sizes: Sizes::OfFirst,
    has_only_long_ranges: true,
    ..ALL
};

/// The formats of rocprofiler-sdk know fills as kernels.
fn sdk_kind(kind: OperationKind) -> Option<&'static str> {
    match kind {
        OperationKind::Kernel | OperationKind::Fill => Some("kernel"),
        OperationKind::Copy => Some("copy"),
        OperationKind::Barrier => None,
    }
}

fn sdk_name(operation: &Operation) -> String {
    let name = match (operation.kind, operation.direction) {
        (OperationKind::Copy, "CopyHostToDevice") => "MEMORY_COPY_HOST_TO_DEVICE",
        (OperationKind::Copy, "CopyDeviceToHost") => "MEMORY_COPY_DEVICE_TO_HOST",
        (OperationKind::Copy, "CopyDeviceToDevice") => "MEMORY_COPY_DEVICE_TO_DEVICE",
        (OperationKind::Copy, _) => "MEMORY_COPY_HOST_TO_HOST",
        _ => &operation.name,
    };
    name.to_owned()
}

/// Agents are those that a copy comes from and goes to.
fn is_of_gpu(operation: &Operation) -> bool {
    operation.direction != "CopyHostToHost"
}

fn is_allocation(call: &Call) -> bool {
    ["hipMalloc", "hipFree"].contains(&call.name)
}

const ROCPD: Keeps = Keeps {
    kinds: sdk_kind,
    name: sdk_name,
    owner: Owner::Pid,
    call_bytes: is_allocation,
    has_device: is_of_gpu,
    has_only_long_ranges: true,
    ..ALL
};

const ROCPROFV3: Keeps = Keeps {
    kinds: sdk_kind,
    name: sdk_name,
    owner: Owner::Pid,
    call_bytes: |_| false,
    has_device: is_of_gpu,
    ..ALL
};

/// The traces of a run.
fn written(run: &RandomRun, folder: &Folder) -> Vec<PathBuf> {
    let processes = run.processes.iter();
    let files = processes.map(|one| write_process(one, run.processes.len(), &folder.0).unwrap());
    files.collect()
}

/// Holds what was read against the run.
fn check(what: &str, run: &RandomRun, tables: &Tables, keeps: Keeps) {
    // A file may well be of a process that used no GPU, or have operations of which nobody knows whose they are.
    let is_known = |notice: &str| {
        notice.starts_with("no operations of GPUs") || notice.contains("linked with no call")
    };
    let is_loss = |notice: &&String| !is_known(notice);
    let losses: Vec<_> = tables.notices.iter().filter(is_loss).collect();
    assert!(losses.is_empty(), "{what}: {losses:?}");
    let of = |table: &str| format!("{what}: {table}");
    same(
        &of("operations"),
        truth::operations(run, keeps),
        truth::read_operations(tables, run, keeps),
    );
    let found = |table: &str, columns: &[&str]| truth::read_rows(tables, table, columns, keeps);
    same(
        &of("calls"),
        truth::calls(run, keeps),
        found("calls", &CALL),
    );
    let (ranges, marks) = truth::ranges(run, keeps);
    let mut found_ranges = found("ranges", &RANGE);
    if keeps.has_functions_of_launches {
        let mut kinds = tables.rows("ranges", &["kind"]).into_iter();
        found_ranges.retain(|_| kinds.next().is_some_and(|kind| kind[0] != "operator"));
    }
    same(&of("ranges"), ranges, found_ranges);
    same(&of("markers"), marks, found("markers", &MARK));
}

/// Exports each run in a format and holds what is read again against it.
fn round_trips(name: &str, format: Format, is_each_rank: bool, keeps: Keeps) {
    let folder = Folder::new(name);
    for number in numbers() {
        let run = RandomRun::draw(number);
        let tables = Tables::read(&written(&run, &folder));
        check(&format!("run {number}"), &run, &tables, ALL);
        let output = folder.path("output");
        tables.export(format, is_each_rank, &Selection::default(), &output);
        let files = match is_each_rank {
            true => {
                let files = std::fs::read_dir(&output).unwrap();
                let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
                files.sort();
                files
            }
            false => vec![output],
        };
        let again = Tables::read(&files);
        check(&format!("run {number} as {name}"), &run, &again, keeps);
    }
}

#[test]
fn kineto_files_of_ranks() {
    round_trips("kineto", Format::Kineto, true, KINETO);
}

#[test]
fn chrome_in_one_file() {
    round_trips("chrome", Format::Chrome, false, CHROME);
}

#[test]
fn databases_of_rpd() {
    round_trips("rpd", Format::Rpd, false, RPD);
}

#[test]
fn databases_of_rocpd() {
    round_trips("rocpd", Format::Rocpd, false, ROCPD);
}

#[test]
fn json_of_rocprofv3() {
    round_trips("rocprofv3", Format::Rocprofv3Json, false, ROCPROFV3);
}

/// As many different names as large programs have: templates make one for each instance.
#[test]
fn a_hundred_thousand_names() {
    let folder = Folder::new("names");
    let mut run = RandomRun::draw(1);
    run.processes.truncate(1);
    let process = &mut run.processes[0];
    process.calls.clear();
    process.samples.clear();
    process.operations = (0..100_000)
        .map(|number| Operation {
            kind: OperationKind::Kernel,
            name: format!("{}<{number}>", any_name(number)),
            start_ns: process.start_ns + 2 * number,
            end_ns: process.start_ns + 2 * number + number % 3,
            device: 0,
            stream: 0,
            call: None,
            bytes: 0,
            direction: "",
            grid: "",
        })
        .collect();
    let tables = Tables::read(&written(&run, &folder));
    check("names", &run, &tables, ALL);
    let output = folder.path("output");
    for (format, keeps) in [
        (Format::Chrome, CHROME),
        (Format::Rpd, RPD),
        (Format::Rocpd, ROCPD),
        (Format::Rocprofv3Json, ROCPROFV3),
    ] {
        tables.export(format, false, &Selection::default(), &output);
        let again = Tables::read(std::slice::from_ref(&output));
        check(&format!("names as {format:?}"), &run, &again, keeps);
    }
}
