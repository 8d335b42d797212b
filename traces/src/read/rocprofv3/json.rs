//! The JSON of rocprofv3: a member `rocprofiler-sdk-tool` with an element for each process.
//!
//! Members and their meaning are those of rocprofiler-sdk's `source/lib/output/generateJSON.cpp`. Names stand in front of the records there; where
//! another program has put them behind, they are looked for first.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::emit::{Call, Emit, Operation, When};
use super::names::Names;
use super::record::Record;
use crate::model::{Batch, HostKind, Kinds, Model, Notice, OpKind, Process, ProcessId};
use crate::read::json::walk::{Choice, Found, Walk};
use crate::read::json::whole;
use crate::read::{BATCH_RECORDS, Input, Reader, input};

/// The member by which such files are known.
pub(in crate::read) const KEY: &[u8] = b"rocprofiler-sdk-tool";

/// A list of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Kernels,
    Copies,
    Scratch,
    Calls(HostKind),
    Markers,
    Allocations,
}

/// A value of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Metadata,
    Agent,
    Kind,
    Message,
    Renamed,
    Kernel,
    Record(Table),
}

/// The list that a key of `buffer_records` stands for.
fn table(key: &[u8]) -> Option<Table> {
    Some(match key {
        b"kernel_dispatch" => Table::Kernels,
        b"memory_copy" => Table::Copies,
        b"scratch_memory" => Table::Scratch,
        b"hip_api" | b"hip_runtime_api" | b"hip_compiler_api" => Table::Calls(HostKind::Runtime),
        b"hsa_api" => Table::Calls(HostKind::Hsa),
        b"rccl_api" | b"rocshmem_api" => Table::Calls(HostKind::Collective),
        b"rocdecode_api" | b"rocjpeg_api" | b"hipfile_api" => Table::Calls(HostKind::Function),
        b"marker_api" => Table::Markers,
        b"memory_allocation" => Table::Allocations,
        _ => return None,
    })
}

/// What becomes of a member of the document, by the keys that lead to it. Of `buffer_records` what `kinds` asks for counts.
fn choose(path: &[&[u8]], kinds: Option<Kinds>) -> Choice<Part> {
    match path {
        [KEY] => Choice::Enter,
        [_, b"metadata"] => Choice::Take(Part::Metadata),
        [_, b"agents"] => Choice::Each(Part::Agent),
        [_, b"kernel_symbols"] => Choice::Each(Part::Kernel),
        [_, b"strings"] | [_, b"strings", b"correlation_id"] => Choice::Enter,
        [_, b"strings", b"buffer_records"] => Choice::Each(Part::Kind),
        [_, b"strings", b"marker_api"] => Choice::Each(Part::Message),
        [_, b"strings", b"correlation_id", b"external"] => Choice::Each(Part::Renamed),
        [_, b"buffer_records"] if kinds.is_some() => Choice::Enter,
        [_, b"buffer_records", key] => match (table(key), kinds) {
            (Some(table), Some(kinds)) if is_wanted(table, kinds) => {
                Choice::Each(Part::Record(table))
            }
            _ => Choice::Skip,
        },
        _ => Choice::Skip,
    }
}

fn is_wanted(table: Table, kinds: Kinds) -> bool {
    match table {
        Table::Kernels | Table::Copies | Table::Scratch => kinds.gpu,
        Table::Calls(kind) => kinds.wants(kind),
        Table::Allocations => kinds.host,
        Table::Markers => kinds.host || kinds.marks,
    }
}

/// Reads a file.
pub(in crate::read) struct JsonReader {
    path: PathBuf,
    file: String,
    walk: Walk<Input, Part>,
    emit: Emit,
    names: Names,
    /// The process whose records are read, and how many elements the list of processes had up to here.
    process: Option<ProcessId>,
    elements: usize,
    /// Whether the names of this process were looked for behind its records.
    has_looked: bool,
    operations: u64,
    records: u64,
    is_done: bool,
}

impl JsonReader {
    pub(in crate::read) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        Self {
            path: path.to_path_buf(),
            file: path.display().to_string(),
            walk: Walk::new(input),
            emit: Emit::new(kinds),
            names: Names::default(),
            process: None,
            elements: 0,
            has_looked: false,
            operations: 0,
            records: 0,
            is_done: false,
        }
    }

    fn notice(&self, offset: Option<u64>, text: impl Into<String>, model: &mut Model) {
        model.notices.push(Notice {
            file: self.file.clone(),
            offset,
            text: text.into(),
        });
    }

    /// The process whose records are read.
    fn process(&mut self, model: &mut Model) -> ProcessId {
        let file = &self.file;
        *self.process.get_or_insert_with(|| {
            model.processes.push(Process {
                file: file.clone(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// Takes in what a file says of a process.
    fn metadata(&mut self, model: &mut Model) {
        let about = serde_json::from_slice(self.walk.value()).unwrap_or(Value::Null);
        let id = self.process(model);
        let process = &mut model.processes[id.index()];
        let number = |key: &str| whole(&about[key]);
        process.pid = number("pid")
            .and_then(|pid| u32::try_from(pid).ok())
            .unwrap_or(0);
        process.start_ns = number("init_time").unwrap_or(0);
        process.end_ns = number("fini_time").unwrap_or(0);
        process.rank = number("rank");
        let host = about["node"]["hostname"].as_str();
        process.host = host.unwrap_or_default().to_owned();
        let words = about["command"].as_array().into_iter().flatten();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        process.command_line = words.join(" ");
        let program = words.first().map(Path::new).and_then(Path::file_name);
        process.name = program.unwrap_or_default().to_string_lossy().into_owned();
    }

    /// Finds the names of the process behind its records.
    fn look_ahead(&mut self, model: &mut Model) {
        self.has_looked = true;
        let Ok(whole) = input(&self.path) else {
            return;
        };
        let mut walk = Walk::new(whole);
        let mut elements = 0;
        while let Ok(found) = walk.next(|path| choose(path, None)) {
            match found {
                Found::Began => elements += 1,
                Found::Value(part, _) if elements == self.elements => {
                    self.names.take(part, walk.value(), model);
                }
                Found::End | Found::CutOff(_) => return,
                _ => {}
            }
            if elements > self.elements {
                return;
            }
        }
    }

    fn take(&mut self, part: Part, offset: u64, model: &mut Model, batch: &mut Batch) {
        match part {
            Part::Metadata => self.metadata(model),
            Part::Record(table) => {
                if self.names.is_empty() && !self.has_looked {
                    self.look_ahead(model);
                }
                match Record::read(self.walk.value()) {
                    Ok(record) => self.record(table, &record, offset, model, batch),
                    Err(_) => self.emit.left_out.malformed.add(offset),
                }
            }
            // Those that were found behind the records come once more.
            _ if self.has_looked => {}
            part => self.names.take(part, self.walk.value(), model),
        }
    }

    fn record(
        &mut self,
        table: Table,
        record: &Record,
        offset: u64,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        self.records += 1;
        let process = self.process(model);
        let when = When {
            offset,
            start_ns: record.start_ns,
            end_ns: record.end_ns,
        };
        let names = &self.names;
        match table {
            Table::Kernels | Table::Copies | Table::Scratch => {
                self.operations += 1;
                let (kind, name) = match table {
                    Table::Kernels => (
                        OpKind::Kernel,
                        names.kernel_of(record.kernel, record.external, model),
                    ),
                    Table::Copies => (
                        OpKind::Copy,
                        names.operation(record.kind, record.operation, model),
                    ),
                    _ => (
                        OpKind::Other,
                        names.operation(record.kind, record.operation, model),
                    ),
                };
                let agent = match table {
                    Table::Copies if names.is_host(record.target) => record.source,
                    Table::Copies => record.target,
                    _ => record.agent,
                };
                let words = match table {
                    Table::Copies => model.text(name).to_owned(),
                    _ => String::new(),
                };
                let operation = Operation {
                    when,
                    process,
                    agent,
                    stream: record.stream,
                    queue: record.queue,
                    correlation: record.correlation,
                    bytes: if kind == OpKind::Copy {
                        record.bytes
                    } else {
                        0
                    },
                    kind,
                    name,
                    grid: record.grid,
                    direction: &words,
                };
                let agent = || names.agent_of(agent);
                self.emit.operation(operation, agent, model, batch);
            }
            Table::Calls(kind) => {
                let name = names.operation(record.kind, record.operation, model);
                let call = call(record, when, process, kind, name);
                self.emit.call(call, model, batch);
            }
            Table::Allocations => {
                let name = names.operation(record.kind, record.operation, model);
                let name = match names.is_host(record.agent) {
                    // Which memory it is does not follow from the operation alone.
                    true => {
                        let text = format!("{} (CPU)", model.text(name));
                        model.texts.intern(&text)
                    }
                    false => name,
                };
                let call = Call {
                    bytes: record.bytes,
                    address: record.address,
                    ..call(record, when, process, HostKind::Hsa, name)
                };
                self.emit.call(call, model, batch);
            }
            Table::Markers => self.marker(record, when, process, model, batch),
        }
    }

    fn marker(
        &mut self,
        record: &Record,
        when: When,
        process: ProcessId,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let operation = self.names.operation(record.kind, record.operation, model);
        let text = self.names.message_of(record.correlation);
        let kinds = self.emit.kinds;
        let Some((what, name)) = super::marker(model.text(operation)).zip(text) else {
            // It ends a range, or says something to the profiler.
            return;
        };
        let kind = HostKind::of_range(model.text(name));
        let call = call(record, when, process, kind, name);
        match what {
            super::Marker::Mark if kinds.marks => self.emit.mark(call, model, batch),
            super::Marker::Range if kinds.host => self.emit.call(call, model, batch),
            super::Marker::ProcessRange if kinds.host => {
                let call = Call { tid: None, ..call };
                self.emit.call(call, model, batch);
            }
            _ => {}
        }
    }

    fn finish(&mut self, model: &mut Model) {
        self.is_done = true;
        model.notices.extend(self.emit.left_out.notices(&self.file));
        if self.elements == 0 {
            self.notice(None, "JSON of rocprofv3 without a process", model);
        } else if self.operations == 0 && self.emit.kinds.gpu {
            let text = match self.records {
                0 => "no operations of GPUs".to_owned(),
                records => format!("no operations of GPUs, but {records} other records"),
            };
            self.notice(None, text, model);
        }
    }
}

fn call(
    record: &Record,
    when: When,
    process: ProcessId,
    kind: HostKind,
    name: crate::model::TextId,
) -> Call {
    Call {
        when,
        process,
        tid: Some(record.thread),
        correlation: record.correlation,
        bytes: 0,
        address: 0,
        kind,
        name,
    }
}

impl Names {
    /// Takes in a value that names something.
    fn take(&mut self, part: Part, bytes: &[u8], model: &mut Model) {
        match part {
            Part::Agent => self.agent(bytes),
            Part::Kind => self.kind(bytes, model),
            Part::Message => self.message(bytes, model),
            Part::Renamed => self.renamed(bytes, model),
            Part::Kernel => self.kernel(bytes, model),
            Part::Metadata | Part::Record(_) => {}
        }
    }
}

impl Reader for JsonReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        let kinds = self.emit.kinds;
        while !self.is_done && batch.len() < goal {
            match self.walk.next(|path| choose(path, Some(kinds))) {
                Ok(Found::Value(part, offset)) => self.take(part, offset, model, batch),
                Ok(Found::Began) => {
                    self.elements += 1;
                    self.process = None;
                    self.has_looked = false;
                    self.names = Names::default();
                }
                Ok(Found::Malformed(offset)) => self.emit.left_out.malformed.add(offset),
                Ok(Found::CutOff(offset)) => {
                    let text = "the file ends before its JSON does; what begins here is left out";
                    self.notice(Some(offset), text, model);
                    self.finish(model);
                }
                Ok(Found::End) => self.finish(model),
                Err(error) => {
                    let text =
                        format!("cannot be read further: {error}; what begins here is left out");
                    self.notice(Some(self.walk.position()), text, model);
                    self.finish(model);
                }
            }
        }
        !self.is_done
    }
}
