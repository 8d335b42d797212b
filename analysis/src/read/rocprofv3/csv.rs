//! The tables of rocprofv3, of a process each, and that of `rocprof` 1 and 2 with kernels.
//!
//! What a table holds, its columns say (rocprofiler-sdk's `source/lib/output/generateCSV.cpp`).

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::emit::{Call, Emit, Operation, When};
use super::group::{group, pid};
use super::places::Agent;
use super::record::natural;
use super::rows::{Found, Rows, text};
use crate::model::{
    Batch, Counter, CounterId, CounterValue, HostKind, Kinds, Model, Notice, OpKind, Process,
    ProcessId, TextId,
};
use crate::read::{BATCH_RECORDS, BytesRead, Input, Reader, counted_input};

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Agents,
    Kernels,
    Counters,
    Copies,
    Calls,
    Allocations,
    Scratch,
}

/// The columns that count, by their places; those that are absent have none.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    count: usize,
    agent: Option<usize>,
    queue: Option<usize>,
    stream: Option<usize>,
    thread: Option<usize>,
    process: Option<usize>,
    dispatch: Option<usize>,
    kernel: Option<usize>,
    domain: Option<usize>,
    function: Option<usize>,
    operation: Option<usize>,
    direction: Option<usize>,
    source: Option<usize>,
    target: Option<usize>,
    correlation: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    grid: [Option<usize>; 3],
    bytes: Option<usize>,
    address: Option<usize>,
    counter: Option<usize>,
    value: Option<usize>,
    node: Option<usize>,
    agent_type: Option<usize>,
    name: Option<usize>,
    product: Option<usize>,
}

impl Columns {
    /// Finds the columns in a table's first row.
    fn of(rows: &Rows<Input>) -> Self {
        let mut columns = Self {
            count: rows.len(),
            ..Self::default()
        };
        for column in 0..rows.len() {
            let cell = rows.cell(column);
            let cell = cell.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(cell);
            let name = text(cell).trim().trim_matches('"').to_lowercase();
            let place = match name.as_str() {
                "agent_id" | "gpu_id" | "gpu-id" => &mut columns.agent,
                "queue_id" | "queue-id" => &mut columns.queue,
                "stream_id" => &mut columns.stream,
                "thread_id" | "tid" => &mut columns.thread,
                "process_id" | "pid" => &mut columns.process,
                "dispatch_id" => &mut columns.dispatch,
                "kernel_name" | "kernelname" => &mut columns.kernel,
                "domain" | "kind" => &mut columns.domain,
                "function" => &mut columns.function,
                "operation" => &mut columns.operation,
                "direction" => &mut columns.direction,
                "source_agent_id" => &mut columns.source,
                "destination_agent_id" => &mut columns.target,
                "correlation_id" => &mut columns.correlation,
                "start_timestamp" | "beginns" => &mut columns.start,
                "end_timestamp" | "endns" => &mut columns.end,
                "grid_size_x" | "grid_size" => &mut columns.grid[0],
                "grid_size_y" => &mut columns.grid[1],
                "grid_size_z" => &mut columns.grid[2],
                "allocation_size" => &mut columns.bytes,
                "address" => &mut columns.address,
                "counter_name" => &mut columns.counter,
                "counter_value" => &mut columns.value,
                "node_id" => &mut columns.node,
                "agent_type" => &mut columns.agent_type,
                "name" => &mut columns.name,
                "product_name" => &mut columns.product,
                _ => continue,
            };
            place.get_or_insert(column);
        }
        columns
    }

    /// What such a table holds; `None` if that is nothing we know.
    fn table(&self) -> Option<Table> {
        if self.node.is_some() && self.agent_type.is_some() {
            return Some(Table::Agents);
        }
        if self.start.is_none() || self.end.is_none() {
            return None;
        }
        match self {
            Self {
                counter: Some(_), ..
            } => Some(Table::Counters),
            Self {
                kernel: Some(_), ..
            } => Some(Table::Kernels),
            Self {
                direction: Some(_), ..
            } => Some(Table::Copies),
            Self {
                function: Some(_), ..
            } => Some(Table::Calls),
            Self { bytes: Some(_), .. } => Some(Table::Allocations),
            Self {
                operation: Some(_), ..
            } => Some(Table::Scratch),
            _ => None,
        }
    }
}

/// A file while it is read.
struct Open {
    file: String,
    rows: Rows<Input>,
    columns: Columns,
    table: Table,
}

impl Open {
    #[inline]
    fn number(&self, column: Option<usize>) -> u64 {
        natural(self.cell(column)).unwrap_or(0)
    }

    #[inline]
    fn cell(&self, column: Option<usize>) -> &[u8] {
        column.map_or(&[], |column| self.rows.cell(column))
    }

    fn when(&self, offset: u64) -> When {
        When {
            offset,
            start_ns: natural(self.cell(self.columns.start)),
            end_ns: natural(self.cell(self.columns.end)),
        }
    }
}

/// Reads the tables of a process.
pub(in crate::read) struct CsvReader {
    files: VecDeque<PathBuf>,
    current: Option<Open>,
    emit: Emit,
    processes: HashMap<u64, ProcessId>,
    /// The process of rows that do not say theirs.
    main_pid: u64,
    /// What agents are, by what tables call them.
    agents: HashMap<u64, Agent>,
    gpus: u32,
    has_kernels: bool,
    /// The dispatch whose counters are read.
    last_dispatch: Option<(ProcessId, u64)>,
    counters: HashMap<(ProcessId, u64, TextId), CounterId>,
    file: String,
    read_bytes: BytesRead,
}

impl CsvReader {
    pub(in crate::read) fn new(path: &Path, kinds: Kinds, read_bytes: &BytesRead) -> Self {
        let files = group(path);
        let known = files.iter().find_map(|file| pid(file));
        let main_pid = known.map(u64::from);
        let is_of_kernels = |file: &PathBuf| file.to_string_lossy().contains("kernel_trace");
        Self {
            has_kernels: files.iter().any(is_of_kernels),
            main_pid: main_pid
                .or_else(|| files.iter().find_map(|file| first_pid(file)))
                .unwrap_or(0),
            files: files.into(),
            current: None,
            emit: Emit::new(kinds),
            processes: HashMap::new(),
            agents: HashMap::new(),
            gpus: 0,
            last_dispatch: None,
            counters: HashMap::new(),
            file: path.display().to_string(),
            read_bytes: read_bytes.clone(),
        }
    }

    fn notice(file: &str, offset: Option<u64>, text: impl Into<String>, model: &mut Model) {
        model.notices.push(Notice {
            file: file.to_owned(),
            offset,
            text: text.into(),
        });
    }

    /// Opens the next file that has something that is asked for. `false`: there is none.
    fn open(&mut self, model: &mut Model) -> bool {
        while let Some(path) = self.files.pop_front() {
            let file = path.display().to_string();
            match table_of(&path, &self.read_bytes) {
                Ok(Some((rows, columns, table))) if self.is_wanted(table) => {
                    self.current = Some(Open {
                        file,
                        rows,
                        columns,
                        table,
                    });
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let text = "a table of rocprofv3 whose columns are unknown, left out";
                    Self::notice(&file, Some(0), text, model);
                }
                Err(error) => {
                    Self::notice(&file, None, format!("cannot be read: {error}"), model);
                }
            }
        }
        false
    }

    fn is_wanted(&self, table: Table) -> bool {
        let kinds = self.emit.kinds;
        match table {
            Table::Agents => true,
            Table::Kernels | Table::Copies | Table::Scratch => kinds.gpu,
            Table::Counters => kinds.counters || kinds.gpu && !self.has_kernels,
            Table::Calls => kinds.host || kinds.marks,
            Table::Allocations => kinds.host,
        }
    }

    fn process(&mut self, open: &Open, model: &mut Model) -> ProcessId {
        let pid = natural(open.cell(open.columns.process)).unwrap_or(self.main_pid);
        let file = &self.file;
        *self.processes.entry(pid).or_insert_with(|| {
            model.processes.push(Process {
                pid: u32::try_from(pid).unwrap_or(0),
                file: file.clone(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// Takes in a row.
    fn row(&mut self, open: &Open, offset: u64, model: &mut Model, batch: &mut Batch) {
        // A line that was cut off, or has a cell too many.
        if open.rows.len() != open.columns.count {
            self.emit.left_out.malformed.add(offset);
            return;
        }
        match open.table {
            Table::Agents => self.agent(open),
            Table::Kernels => self.operation(open, offset, OpKind::Kernel, model, batch),
            Table::Copies => self.operation(open, offset, OpKind::Copy, model, batch),
            Table::Scratch => self.operation(open, offset, OpKind::Other, model, batch),
            Table::Counters => self.counter(open, offset, model, batch),
            Table::Calls => self.call(open, offset, model, batch),
            Table::Allocations => {
                let process = self.process(open, model);
                let mut name = text(open.cell(open.columns.operation)).into_owned();
                if open.cell(open.columns.agent).starts_with(b"CPU") {
                    name += " (CPU)";
                }
                let call = Call {
                    when: open.when(offset),
                    process,
                    tid: Some(open.number(open.columns.thread)),
                    correlation: open.number(open.columns.correlation),
                    bytes: open.number(open.columns.bytes),
                    address: open.number(open.columns.address),
                    kind: HostKind::Hsa,
                    name: model.texts.intern(&name),
                };
                self.emit.call(call, model, batch);
            }
        }
    }

    fn agent(&mut self, open: &Open) {
        let columns = &open.columns;
        let is_gpu = open.cell(columns.agent_type).eq_ignore_ascii_case(b"GPU");
        let product = open.cell(columns.product);
        let name = if product.is_empty() {
            open.cell(columns.name)
        } else {
            product
        };
        if is_gpu {
            let agent = Agent {
                is_gpu,
                ordinal: self.gpus,
                name: text(name).into_owned(),
            };
            let node = open.number(columns.node);
            self.agents
                .insert(key(format!("agent {node}").as_bytes()), agent.clone());
            self.agents
                .insert(key(format!("gpu {}", self.gpus).as_bytes()), agent);
            self.gpus += 1;
        }
    }

    fn operation(
        &mut self,
        open: &Open,
        offset: u64,
        kind: OpKind,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        let columns = &open.columns;
        let process = self.process(open, model);
        let (name, agent) = match kind {
            OpKind::Kernel => (columns.kernel, columns.agent),
            OpKind::Copy => {
                let to_host = open.cell(columns.direction).ends_with(b"DEVICE_TO_HOST");
                let agent = if to_host {
                    columns.source
                } else {
                    columns.target
                };
                (columns.direction, agent)
            }
            OpKind::Fill | OpKind::Other => (columns.operation, columns.agent),
        };
        let words = match kind {
            OpKind::Copy => text(open.cell(name)).into_owned(),
            _ => String::new(),
        };
        let agent = open.cell(agent);
        let number = key(agent);
        let operation = Operation {
            when: open.when(offset),
            process,
            agent: number,
            stream: open.number(columns.stream),
            queue: open.number(columns.queue),
            correlation: open.number(columns.correlation),
            bytes: 0,
            kind,
            name: model.texts.intern(&text(open.cell(name))),
            grid: columns.grid.map(|column| open.number(column)),
            direction: &words,
        };
        let agents = &self.agents;
        let agent = || {
            agents.get(&number).cloned().unwrap_or_else(|| Agent {
                is_gpu: true,
                ordinal: trailing_number(agent),
                name: String::new(),
            })
        };
        self.emit.operation(operation, agent, model, batch);
    }

    /// A value of a counter; the first of a dispatch stands for its kernel where no other table has it.
    fn counter(&mut self, open: &Open, offset: u64, model: &mut Model, batch: &mut Batch) {
        let columns = &open.columns;
        let process = self.process(open, model);
        let dispatch = (process, open.number(columns.dispatch));
        let is_first = self.last_dispatch != Some(dispatch);
        self.last_dispatch = Some(dispatch);
        if is_first && !self.has_kernels && self.emit.kinds.gpu {
            self.operation(open, offset, OpKind::Kernel, model, batch);
        }
        let when = open.when(offset);
        let value = std::str::from_utf8(open.cell(columns.value));
        let value = value
            .ok()
            .and_then(|value| value.trim().parse::<f64>().ok());
        let (Some(start_ns), Some(value), true) = (
            when.start_ns,
            value.filter(|value| value.is_finite()),
            self.emit.kinds.counters,
        ) else {
            return;
        };
        let name = model.texts.intern(&text(open.cell(columns.counter)));
        let agent = open.cell(columns.agent);
        let counter = *self
            .counters
            .entry((process, key(agent), name))
            .or_insert_with(|| {
                let ordinal = self.agents.get(&key(agent)).map(|agent| agent.ordinal);
                let ordinal = ordinal.unwrap_or_else(|| trailing_number(agent));
                let group = model.texts.intern(&format!("Counters of GPU {ordinal}"));
                model.counters.push(Counter {
                    process,
                    group,
                    name,
                    ..Counter::default()
                });
                CounterId::new(model.counters.len() - 1)
            });
        batch.counters.push(CounterValue {
            time_ns: start_ns,
            counter,
            value,
        });
    }

    fn call(&mut self, open: &Open, offset: u64, model: &mut Model, batch: &mut Batch) {
        let columns = &open.columns;
        let process = self.process(open, model);
        let domain = open.cell(columns.domain);
        let is_marker = domain.starts_with(b"MARKER");
        let kind = match domain {
            _ if is_marker => HostKind::Range,
            domain if domain.starts_with(b"HIP_") => HostKind::Runtime,
            domain if domain.starts_with(b"HSA_") => HostKind::Hsa,
            domain if domain.starts_with(b"RCCL") || domain.starts_with(b"ROCSHMEM") => {
                HostKind::Collective
            }
            _ => HostKind::Function,
        };
        let name = text(open.cell(columns.function));
        if is_marker && is_no_message(domain, &name) {
            return;
        }
        let call = Call {
            when: open.when(offset),
            process,
            tid: Some(open.number(columns.thread)),
            correlation: open.number(columns.correlation),
            bytes: 0,
            address: 0,
            kind,
            name: model.texts.intern(&name),
        };
        let is_mark = is_marker && call.when.start_ns == call.when.end_ns;
        match is_mark {
            true if self.emit.kinds.marks => self.emit.mark(call, model, batch),
            false if self.emit.kinds.host => self.emit.call(call, model, batch),
            _ => {}
        }
    }

    /// Says what was left out of the file that was read.
    fn close(&mut self, model: &mut Model) {
        if let Some(open) = self.current.take() {
            let left_out = std::mem::take(&mut self.emit.left_out);
            model.notices.extend(left_out.notices(&open.file));
        }
    }
}

/// Whether a row of roctx's calls is no mark or range: such rows have the call's name for a text.
fn is_no_message(domain: &[u8], name: &str) -> bool {
    const CALLS: [&str; 5] = [
        "roctxRangePop",
        "roctxRangeStop",
        "roctxRangePushA",
        "roctxRangeStartA",
        "roctxGetThreadId",
    ];
    domain.starts_with(b"MARKER_CONTROL")
        || domain.starts_with(b"MARKER_NAME")
        || CALLS.contains(&name)
}

/// The table of a file; `None` if its columns are unknown.
fn table_of(
    path: &Path,
    read_bytes: &BytesRead,
) -> std::io::Result<Option<(Rows<Input>, Columns, Table)>> {
    let mut rows = Rows::new(counted_input(path, read_bytes)?);
    if !matches!(rows.next()?, Found::Row(_)) {
        return Ok(None);
    }
    let columns = Columns::of(&rows);
    Ok(columns.table().map(|table| (rows, columns, table)))
}

/// The process id in the first row of a table, if it has one.
fn first_pid(path: &Path) -> Option<u64> {
    let (mut rows, columns, _) = table_of(path, &BytesRead::default()).ok()??;
    let column = columns.process?;
    match rows.next().ok()? {
        Found::Row(_) => natural(rows.cell(column)),
        _ => None,
    }
}

/// A number for what a table calls an agent: `Agent 2`, `GPU 0`, `2`.
fn key(agent: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let words = text(agent).trim().to_lowercase();
    let words = match words.parse::<u64>() {
        Ok(number) => format!("agent {number}"),
        Err(_) => words,
    };
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// The number at the end of an agent's name.
fn trailing_number(agent: &[u8]) -> u32 {
    let words = text(agent);
    let digits = words.rsplit(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl Reader for CsvReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while batch.len() < goal {
            let Some(mut open) = self.current.take() else {
                match self.open(model) {
                    true => continue,
                    false => return false,
                }
            };
            let found = open.rows.next();
            let (is_done, trouble) = match found {
                Ok(Found::Row(offset)) => {
                    self.row(&open, offset, model, batch);
                    (false, None)
                }
                Ok(Found::Malformed(offset)) => {
                    self.emit.left_out.malformed.add(offset);
                    (false, None)
                }
                Ok(Found::End) => (true, None),
                Err(error) => (true, Some((open.rows.position(), error))),
            };
            if let Some((offset, error)) = trouble {
                let text = format!("cannot be read further: {error}; what begins here is left out");
                Self::notice(&open.file, Some(offset), text, model);
            }
            self.current = Some(open);
            if is_done {
                self.close(model);
            }
        }
        true
    }
}
