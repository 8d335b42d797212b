//! What the tables must hold of a run, as far as a format can hold it.

use std::collections::{HashMap, HashSet};

use rsys_synthetic::random_run::{Call, Operation, OperationKind, Process, RandomRun};

use crate::store::{Row, Tables};

/// What a format keeps.
#[derive(Debug, Clone, Copy)]
pub struct Keeps {
    /// The kinds of operations, as they are read again; `None`: left out.
    pub kinds: fn(OperationKind) -> Option<&'static str>,
    /// The name of an operation.
    pub name: fn(&Operation) -> String,
    /// What tells processes apart.
    pub owner: Owner,
    /// What is kept of an operation's size.
    pub sizes: Sizes,
    /// Whether an operation says its GPU.
    pub has_device: fn(&Operation) -> bool,
    /// Whether a call has its number of bytes.
    pub call_bytes: fn(&Call) -> bool,
    /// Whether a range that takes no time is read as a mark.
    pub has_only_long_ranges: bool,
    /// Whether functions that launched something are there as operators, of which the run has none.
    pub has_functions_of_launches: bool,
}

/// What tells processes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Rank and process id.
    RankAndPid,
    /// The process id.
    Pid,
    /// The process id, of operations that of their call.
    PidOfCall,
}

/// What is kept of an operation's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All.
    All,
    /// That of the first kernel and the first copy of each call, which all have that the call caused.
    OfFirst,
}

pub const OPERATION: [&str; 13] = [
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "process",
    "rank",
    "device",
    "queue",
    "bytes",
    "direction",
    "grid",
    "call",
    "call_start_ns",
];
pub const CALL: [&str; 8] = [
    "runtime",
    "name",
    "start_ns",
    "duration_ns",
    "process",
    "rank",
    "thread",
    "bytes",
];
pub const RANGE: [&str; 6] = [
    "name",
    "start_ns",
    "duration_ns",
    "process",
    "rank",
    "thread",
];
pub const MARK: [&str; 5] = ["name", "time_ns", "process", "rank", "thread"];

/// A word for a direction that all formats have their own for.
fn direction(text: &str) -> &'static str {
    for (word, [from, to]) in [
        ("HtoD", ["Host", "Device"]),
        ("DtoH", ["Device", "Host"]),
        ("DtoD", ["Device", "Device"]),
        ("HtoH", ["Host", "Host"]),
    ] {
        let (low_from, low_to) = (from.to_lowercase(), to.to_lowercase());
        if text.contains(&format!("{from}To{to}"))
            || text == format!("{low_from} to {low_to}")
            || text.contains(word)
        {
            return word;
        }
    }
    ""
}

/// The number of a stream or queue.
fn number(queue: &str) -> &str {
    queue.rsplit(' ').next().unwrap_or_default()
}

fn is_number_of_kernel(name: &str) -> bool {
    let number = name.strip_prefix("kernel ");
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

fn owner(process: &Process, keeps: Keeps) -> [String; 2] {
    let rank = process.rank.filter(|_| keeps.owner == Owner::RankAndPid);
    [
        process.pid.to_string(),
        rank.map(|rank| rank.to_string()).unwrap_or_default(),
    ]
}

fn known(number: u64) -> String {
    match number {
        0 => String::new(),
        number => number.to_string(),
    }
}

/// The operations of a run.
pub fn operations(run: &RandomRun, keeps: Keeps) -> Vec<Row> {
    let mut rows = Vec::new();
    for process in &run.processes {
        let mut firsts = HashMap::new();
        for operation in &process.operations {
            let Some(kind) = (keeps.kinds)(operation.kind) else {
                continue;
            };
            let call = operation.call.map(|call| &process.calls[call]);
            let (bytes, grid) = match (keeps.sizes, operation.call, call) {
                (Sizes::All, ..) => (operation.bytes, operation.grid),
                (Sizes::OfFirst, Some(place), Some(call)) => {
                    let own = (operation.bytes, operation.grid);
                    let (bytes, grid) = *firsts.entry((place, operation.kind)).or_insert(own);
                    // A graph has many operations, and RPD the arguments of one.
                    match call.name {
                        "hipGraphLaunch" => (0, ""),
                        _ => (bytes, grid),
                    }
                }
                _ => (0, ""),
            };
            let [pid, rank] = match (keeps.owner, call) {
                (Owner::PidOfCall, None) => [String::new(), String::new()],
                _ => owner(process, keeps),
            };
            rows.push(vec![
                kind.to_owned(),
                (keeps.name)(operation),
                operation.start_ns.to_string(),
                (operation.end_ns - operation.start_ns).to_string(),
                pid,
                rank,
                if (keeps.has_device)(operation) {
                    operation.device
                } else {
                    0
                }
                .to_string(),
                if has_streams(run, keeps) {
                    operation.stream.to_string()
                } else {
                    String::new()
                },
                known(bytes),
                direction(operation.direction).to_owned(),
                grid.to_owned(),
                call.map_or("", |call| call.name).to_owned(),
                call.map_or(String::new(), |call| call.start_ns.to_string()),
            ]);
        }
    }
    rows
}

/// Whether streams have their numbers again: where operations do not say their process, those of several processes of a host on one GPU are told
/// apart by numbers of their own.
fn has_streams(run: &RandomRun, keeps: Keeps) -> bool {
    let hosts: HashSet<u64> = run.processes.iter().map(|process| process.host).collect();
    keeps.owner != Owner::PidOfCall || hosts.len() == run.processes.len()
}

/// The operations of the run that were read, in the same words.
pub fn read_operations(tables: &Tables, run: &RandomRun, keeps: Keeps) -> Vec<Row> {
    let mut rows = tables.rows("operations", &OPERATION);
    for row in &mut rows {
        row[7] = match has_streams(run, keeps) {
            true => number(&row[7]).to_owned(),
            false => String::new(),
        };
        // rocprofv3's kernels without a name are called by their number.
        if is_number_of_kernel(&row[1]) {
            row[1].clear();
        }
        row[9] = direction(&row[9]).to_owned();
        if keeps.owner == Owner::PidOfCall && row[11].is_empty() {
            row[4].clear();
        }
        if keeps.owner != Owner::RankAndPid {
            row[5].clear();
        }
    }
    rows
}

/// The calls of a run.
pub fn calls(run: &RandomRun, keeps: Keeps) -> Vec<Row> {
    let mut rows = Vec::new();
    for process in &run.processes {
        for call in &process.calls {
            let [pid, rank] = owner(process, keeps);
            let has_bytes = (keeps.call_bytes)(call);
            rows.push(vec![
                // The tables have calls of MPI among those of RCCL.
                match call.category {
                    "mpi" => "RCCL".to_owned(),
                    category => category.to_uppercase(),
                },
                call.name.to_owned(),
                call.start_ns.to_string(),
                (call.end_ns - call.start_ns).to_string(),
                pid,
                rank,
                process.threads[call.thread].to_string(),
                known(if has_bytes { call.bytes } else { 0 }),
            ]);
        }
    }
    rows
}

/// The ranges and marks of a run.
pub fn ranges(run: &RandomRun, keeps: Keeps) -> (Vec<Row>, Vec<Row>) {
    let (mut ranges, mut marks) = (Vec::new(), Vec::new());
    for process in &run.processes {
        let [pid, rank] = owner(process, keeps);
        let thread = |thread: usize| process.threads[thread].to_string();
        let mut mark = |name: &str, time_ns: u64, of: usize| {
            let time_ns = time_ns.to_string();
            marks.push(vec![
                name.to_owned(),
                time_ns,
                pid.clone(),
                rank.clone(),
                thread(of),
            ]);
        };
        for range in &process.ranges {
            let duration_ns = range.end_ns - range.start_ns;
            if keeps.has_only_long_ranges && duration_ns == 0 {
                mark(&range.name, range.start_ns, range.thread);
                continue;
            }
            ranges.push(vec![
                range.name.clone(),
                range.start_ns.to_string(),
                duration_ns.to_string(),
                pid.clone(),
                rank.clone(),
                thread(range.thread),
            ]);
        }
        for one in &process.marks {
            mark(&one.name, one.time_ns, one.thread);
        }
    }
    (ranges, marks)
}

/// Rows that were read, without the column of ranks where the format has none.
pub fn read_rows(tables: &Tables, table: &str, columns: &[&str], keeps: Keeps) -> Vec<Row> {
    let mut rows = tables.rows(table, columns);
    let rank = columns.iter().position(|name| *name == "rank");
    if let Some(rank) = rank.filter(|_| keeps.owner != Owner::RankAndPid) {
        rows.iter_mut().for_each(|row| row[rank].clear());
    }
    rows
}
