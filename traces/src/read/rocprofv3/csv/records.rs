//! From rows to records.

use super::CsvReader;
use super::columns::{Open, Table};
use crate::model::{Batch, Counter, CounterId, CounterValue, HostKind, Model, OpKind};
use crate::read::rocprofv3::emit::{Call, Operation};
use crate::read::rocprofv3::places::Agent;
use crate::read::rocprofv3::rows::text;

impl CsvReader {
    /// Takes in a row.
    pub(super) fn row(&mut self, open: &Open, offset: u64, model: &mut Model, batch: &mut Batch) {
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
        let name = text(open.cell(columns.function));
        let kind = match domain {
            _ if is_marker => HostKind::of_range(&name),
            domain if domain.starts_with(b"HIP_") => HostKind::Runtime,
            domain if domain.starts_with(b"HSA_") => HostKind::Hsa,
            domain if domain.starts_with(b"RCCL") || domain.starts_with(b"ROCSHMEM") => {
                HostKind::Collective
            }
            _ => HostKind::Function,
        };
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
            false if self.emit.kinds.wants(kind) => self.emit.call(call, model, batch),
            _ => {}
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
