//! Nsight Systems' exports to SQLite (`nsys export --type sqlite`): work of GPUs, calls of CUDA, ranges and marks of NVTX, calls of the system.
//!
//! Tables are there as far as something was recorded, and columns as far as the version has them ("SQLite Export Schema Reference" of its documentation).
//! Times count from the start of the recording. A `globalTid` is `process << 24 | thread`, below bits that tell machines apart; a `globalPid` is the same
//! without a thread.

mod queries;

use std::collections::HashMap;
use std::path::Path;

use rsys_traces::model::{
    Batch, Effect, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model, OpKind, StreamOrder, TextId,
    classify,
};
use rsys_traces::read::Reader;
use rusqlite::Connection;

use crate::places::Places;
use crate::stream::{RowReader, Rows, Taker};

/// What only these databases have.
pub(crate) const TABLES: [&str; 5] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "OSRT_API",
    "TARGET_INFO_SESSION_START_TIME",
];

/// A row.
enum Record {
    Host(String),
    ProcessName {
        pid: i64,
        name: String,
    },
    ThreadName {
        thread: Global,
        name: String,
    },
    Gpu {
        gpu: i64,
        name: String,
    },
    Slice {
        thread: Global,
        start_ns: u64,
        end_ns: u64,
        kind: HostKind,
        name: String,
        /// 0: no operation.
        correlation: u64,
    },
    Mark {
        thread: Global,
        time_ns: u64,
        name: String,
    },
    Operation(Operation),
}

/// Work of a GPU.
#[derive(Debug, Default)]
struct Operation {
    pid: Option<i64>,
    gpu: i64,
    stream: i64,
    start_ns: u64,
    end_ns: u64,
    correlation: u64,
    kind: OpKind,
    name: String,
    direction: &'static str,
    bytes: u64,
    grid: String,
}

/// A thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Global {
    pid: i64,
    tid: i64,
}

impl Global {
    const BITS: u32 = 24;
    const MASK: i64 = (1 << Self::BITS) - 1;

    fn of(number: i64) -> Self {
        Self {
            pid: number >> Self::BITS & Self::MASK,
            tid: number & Self::MASK,
        }
    }
}

/// Makes records of rows.
struct NsysTaker {
    kinds: Kinds,
    places: Places,
    host: String,
    gpus: HashMap<i64, String>,
}

/// A reader for the file.
pub(crate) fn reader(database: Connection, path: &Path, kinds: Kinds) -> impl Reader + use<> {
    let file = path.display().to_string();
    RowReader {
        rows: Rows::start(database, path, move |database, sink| {
            queries::rows(database, sink, kinds)
        }),
        taker: NsysTaker {
            places: Places::new(&file),
            kinds,
            host: String::new(),
            gpus: HashMap::new(),
        },
    }
}

impl Taker for NsysTaker {
    type Row = Record;

    fn take(&mut self, record: Record, model: &mut Model, batch: &mut Batch) {
        match record {
            Record::Host(name) => self.host = name,
            Record::ProcessName { pid, name } => {
                self.places.about(pid, self.host.clone(), None);
                let (_, process) = self.places.process(Some(pid), model);
                if let Some(process) = model.processes.get_mut(process.index()) {
                    process.name = name;
                }
            }
            Record::ThreadName { thread, name } => {
                let (_, id) = self.places.thread(thread.pid, thread.tid, model);
                if let Some(thread) = model.threads.get_mut(id.index()) {
                    thread.name = model.texts.intern(&name);
                }
            }
            Record::Gpu { gpu, name } => {
                self.gpus.insert(gpu, name);
            }
            Record::Slice {
                thread,
                start_ns,
                end_ns,
                kind,
                name,
                correlation,
            } => {
                let (process, thread) = self.places.thread(thread.pid, thread.tid, model);
                let is_call = kind == HostKind::Runtime;
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    link: correlation,
                    process,
                    thread,
                    name: model.texts.intern(&name),
                    depth: HostSlice::UNKNOWN_DEPTH,
                    kind,
                    order: match is_call {
                        true => StreamOrder::of(&name),
                        false => StreamOrder::None,
                    },
                    effect: match is_call {
                        true => Effect::of(&name),
                        false => Effect::None,
                    },
                    ..HostSlice::default()
                });
            }
            Record::Mark {
                thread,
                time_ns,
                name,
            } => {
                let (process, thread) = self.places.thread(thread.pid, thread.tid, model);
                batch.marks.push(Mark {
                    time_ns,
                    process,
                    thread,
                    name: model.texts.intern(&name),
                });
            }
            Record::Operation(operation) if self.kinds.gpu => {
                self.operation(&operation, model, batch);
            }
            Record::Operation(_) => {}
        }
    }
}

impl NsysTaker {
    fn operation(&mut self, operation: &Operation, model: &mut Model, batch: &mut Batch) {
        let stream = format!("stream {}", operation.stream);
        let queue = (operation.stream, stream.as_str());
        let (process, device, queue) =
            self.places
                .queue(operation.pid, operation.gpu, queue, model);
        if let Some(name) = self.gpus.get(&operation.gpu)
            && let Some(device) = model.devices.get_mut(device.index())
        {
            device.name.clone_from(name);
        }
        batch.gpu.push(GpuRecord {
            start_ns: operation.start_ns,
            end_ns: operation.end_ns,
            link: operation.correlation,
            bytes: operation.bytes,
            process,
            device,
            queue,
            name: model.texts.intern(&operation.name),
            grid: model.texts.intern(&operation.grid),
            direction: model.texts.intern(operation.direction),
            source: TextId::EMPTY,
            kind: operation.kind,
            activity: classify(operation.kind, &operation.name),
        });
    }
}
