//! JSON as rocprofv3 writes it: a member `rocprofiler-sdk-tool` with an element for each process.
//!
//! Members and their meaning are those of ROCm's rocprofiler-sdk (`source/lib/output/generateJSON.cpp`). What a record's `kind` and `operation` stand
//! for is in `strings.buffer_records`, so the numbers here are our own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::{Value, json};

use crate::Failure;
use crate::calls::grid;
use crate::copies::Direction;
use crate::put::Put;
use crate::rows::each;
use crate::run::{Process, Run};
use crate::streams::Streams;

/// Kinds of records, by their numbers.
const KINDS: [&str; 7] = [
    "NONE",
    "HSA_CORE_API",
    "HIP_RUNTIME_API",
    "RCCL_API",
    "MARKER_CORE_API",
    "MEMORY_COPY",
    "KERNEL_DISPATCH",
];
const HSA: usize = 1;
const HIP: usize = 2;
const RCCL: usize = 3;
const MARKER: usize = 4;
const COPY: usize = 5;
const KERNEL: usize = 6;

/// Operations of copies, by their numbers.
const COPIES: [&str; 5] = [
    "MEMORY_COPY_NONE",
    "MEMORY_COPY_HOST_TO_HOST",
    "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
];
/// Operations of markers, by their numbers.
const MARKERS: [&str; 3] = ["NONE", "roctxMarkA", "roctxRangePushA"];

/// Ids of calls without a correlation are above it.
const CALLS: u64 = 1 << 41;
/// And those of markers.
const RANGES: u64 = 1 << 42;
const MARKS: u64 = 1 << 43;

/// The handle of the host's agent; those of GPUs follow.
const HOST_AGENT: u64 = 1;

/// Writes all processes.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    out.write_all(b"{\"rocprofiler-sdk-tool\":[")?;
    let mut between = "";
    for (id, process) in run.processes() {
        out.write_all(between.as_bytes())?;
        between = ",\n";
        Tool::read(run, id as u64, process)?.write(out)?;
    }
    out.write_all(b"\n]}\n")?;
    Ok(())
}

/// A process while it is written.
struct Tool<'r> {
    run: &'r Run<'r>,
    id: u64,
    process: &'r Process,
    /// Numbers of names: of kernels, and of functions by kind.
    kernels: BTreeMap<String, u64>,
    functions: [BTreeMap<String, u64>; KINDS.len()],
    line: Vec<u8>,
}

fn kind_of(runtime: &str) -> usize {
    match runtime {
        "HIP" => HIP,
        "HSA" => HSA,
        _ => RCCL,
    }
}

impl<'r> Tool<'r> {
    /// Finds the names of kernels and functions, which stand in front of the records.
    fn read(run: &'r Run<'r>, id: u64, process: &'r Process) -> Result<Self, Failure> {
        let mut kernels = BTreeSet::new();
        let mut functions = [const { BTreeMap::new() }; KINDS.len()];
        each(
            run.view,
            "operations",
            &["process_id", "kind", "name"],
            |row| {
                if row.number(0) == id && is_kernel(row.text(1)) && !kernels.contains(row.text(2)) {
                    kernels.insert(row.text(2).to_owned());
                }
                Ok(())
            },
        )?;
        each(
            run.view,
            "calls",
            &["process_id", "runtime", "name"],
            |row| {
                let of_kind = &mut functions[kind_of(row.text(1))];
                if row.number(0) == id && !of_kind.contains_key(row.text(2)) {
                    of_kind.insert(row.text(2).to_owned(), 0);
                }
                Ok(())
            },
        )?;
        // Number 0 is none, and numbers of each kind follow each other.
        for of_kind in &mut functions {
            of_kind
                .values_mut()
                .zip(1..)
                .for_each(|(number, next)| *number = next);
        }
        Ok(Self {
            run,
            id,
            process,
            kernels: kernels.into_iter().zip(1..).collect(),
            functions,
            line: Vec::new(),
        })
    }

    fn write(mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let head = json!({
            "metadata": {
                "pid": self.process.pid,
                "ppid": 0,
                "init_time": self.process.start_ns,
                "fini_time": self.process.end_ns,
                "node": { "hostname": self.process.host },
                "command": self.process.command.split(' ').collect::<Vec<_>>(),
                "rank": self.process.rank,
            },
            "agents": self.agents()?,
            "counters": [],
            "code_objects": [],
            "kernel_symbols": self.symbols(),
            "host_functions": [],
            "callback_records": { "counter_collection": [] },
        });
        let head = head.to_string();
        write!(out, "\n{},\"strings\":", &head[..head.len() - 1])?;
        self.strings(out)?;
        out.write_all(b",\"buffer_records\":{")?;
        let only = self.run.only;
        self.list("kernel_dispatch", "", out)?;
        if only.gpu {
            self.operations(out)?;
        }
        self.list("memory_copy", "],", out)?;
        if only.gpu {
            self.copies(out)?;
        }
        for (key, runtime, is_chosen) in [
            ("hip_api", "HIP", only.gpu),
            ("hsa_api", "HSA", only.gpu),
            ("rccl_api", "RCCL", only.rccl),
        ] {
            self.list(key, "],", out)?;
            if is_chosen {
                self.calls(runtime, out)?;
            }
        }
        self.list("marker_api", "],", out)?;
        if only.ranges {
            self.markers(out)?;
        }
        out.write_all(b"\n]}}")?;
        Ok(())
    }

    /// Begins a list of records behind another.
    fn list(&mut self, key: &str, end: &str, out: &mut dyn Write) -> Result<(), Failure> {
        self.line.clear();
        write!(out, "{end}\n\"{key}\":[")?;
        Ok(())
    }

    /// Begins a record: what stands between it and the one before, and what all have.
    fn record(
        &mut self,
        kind: usize,
        operation: u64,
        correlation: u64,
        thread: u64,
        start_ns: u64,
        end_ns: u64,
    ) -> &mut Vec<u8> {
        let between = if self.line.is_empty() { "\n" } else { ",\n" };
        self.line.clear();
        let line = &mut self.line;
        line.text(between)
            .text("{\"size\":0,\"kind\":")
            .number(kind as u64);
        line.text(",\"operation\":").number(operation);
        line.text(",\"correlation_id\":{\"internal\":")
            .number(correlation);
        line.text(",\"external\":0},\"thread_id\":").number(thread);
        line.text(",\"start_timestamp\":").number(start_ns);
        line.text(",\"end_timestamp\":").number(end_ns);
        &mut self.line
    }

    fn agents(&self) -> Result<Value, Failure> {
        let mut agents = vec![json!({
            "size": 0, "id": { "handle": HOST_AGENT }, "type": 1, "node_id": 0, "logical_node_id": 0,
            "logical_node_type_id": 0, "name": "CPU", "product_name": "CPU", "vendor_name": "CPU",
        })];
        let mut devices = BTreeMap::new();
        each(
            self.run.view,
            "devices",
            &["process_id", "device", "name"],
            |row| {
                if row.number(0) == self.id {
                    devices.insert(row.number(1), row.text(2).to_owned());
                }
                Ok(())
            },
        )?;
        agents.extend(devices.into_iter().map(|(device, name)| {
            json!({
                "size": 0, "id": { "handle": agent(device) }, "type": 2, "node_id": device + 1, "logical_node_id": device + 1,
                "logical_node_type_id": device, "name": name, "product_name": name, "vendor_name": "AMD",
            })
        }));
        Ok(agents.into())
    }

    /// The kernels; readers take an element's place for its number.
    fn symbols(&self) -> Value {
        let none = [(0, "")];
        let kernels = self.kernels.iter().map(|(name, id)| (*id, name.as_str()));
        let symbols = none.into_iter().chain(kernels).map(|(id, name)| {
            json!({
                "size": 0, "kernel_id": id, "code_object_id": 0, "kernel_name": name, "formatted_kernel_name": name,
                "demangled_kernel_name": name, "truncated_kernel_name": name,
            })
        });
        symbols.collect()
    }

    /// What numbers stand for, and the texts of markers.
    fn strings(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut operations: Vec<Vec<&str>> = vec![vec!["NONE"]; KINDS.len()];
        for (operations, functions) in operations.iter_mut().zip(&self.functions) {
            operations.extend(functions.keys().map(String::as_str));
        }
        operations[MARKER] = MARKERS.to_vec();
        operations[COPY] = COPIES.to_vec();
        operations[KERNEL] = vec![
            "NONE",
            "KERNEL_DISPATCH_ENQUEUE",
            "KERNEL_DISPATCH_COMPLETE",
        ];
        let kinds = KINDS.iter().zip(operations);
        let kinds =
            kinds.map(|(kind, operations)| json!({ "kind": kind, "operations": operations }));
        let kinds = json!(kinds.collect::<Vec<_>>());
        write!(
            out,
            "{{\"buffer_records\":{kinds},\"callback_records\":[],\"marker_api\":["
        )?;
        if self.run.only.ranges {
            let (mut line, mut between) = (Vec::new(), "");
            self.each_marker(|_, correlation, text, _, _, _| {
                line.clear();
                line.text(between).text("{\"key\":").number(correlation);
                line.text(",\"value\":").quoted(text).text("}");
                between = ",";
                Ok(out.write_all(&line)?)
            })?;
        }
        Ok(out.write_all(b"]}")?)
    }

    fn operations(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        const COLUMNS: [&str; 9] = [
            "process_id",
            "kind",
            "name",
            "start_ns",
            "end_ns",
            "device",
            "queue",
            "correlation",
            "grid",
        ];
        const OTHERS: [&str; 2] = ["operation_id", "thread"];
        let columns = [&COLUMNS[..], &OTHERS[..]].concat();
        let (run, mut streams) = (self.run, Streams::default());
        each(run.view, "operations", &columns, |row| {
            let (start_ns, end_ns) = (row.number(3), row.number(4));
            let is_chosen = row.number(0) == self.id && is_kernel(row.text(1));
            if !is_chosen || run.during(self.id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            let (device, stream) = (row.number(5), row.text(6));
            let kernel = self.kernels.get(row.text(2)).copied().unwrap_or(0);
            let stream = streams.number(0, device, stream);
            let [x, y, z] = grid(row.text(8));
            let (dispatch, thread) = (row.number(9) + 1, row.number(10));
            let line = self.record(KERNEL, 2, row.number(7), thread, start_ns, end_ns);
            line.text(",\"dispatch_info\":{\"size\":0,\"agent_id\":{\"handle\":")
                .number(agent(device));
            line.text("},\"queue_id\":{\"handle\":").number(stream);
            line.text("},\"kernel_id\":").number(kernel);
            line.text(",\"dispatch_id\":").number(dispatch);
            line.text(",\"private_segment_size\":0,\"group_segment_size\":0,\"workgroup_size\":{\"x\":0,\"y\":0,\"z\":0},\"grid_size\":{\"x\":");
            line.number(x).text(",\"y\":").number(y);
            line.text(",\"z\":").number(z);
            line.text("}},\"stream_id\":{\"handle\":").number(stream);
            line.text("}}");
            Ok(out.write_all(line)?)
        })
    }

    fn copies(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        const COLUMNS: [&str; 11] = [
            "process_id",
            "kind",
            "direction",
            "start_ns",
            "end_ns",
            "device",
            "queue",
            "correlation",
            "bytes",
            "thread",
            "name",
        ];
        let (run, mut streams) = (self.run, Streams::default());
        each(run.view, "operations", &COLUMNS, |row| {
            let (start_ns, end_ns) = (row.number(3), row.number(4));
            let is_chosen = row.number(0) == self.id && row.text(1) == "copy";
            if !is_chosen || run.during(self.id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            let (gpu, bytes) = (agent(row.number(5)), row.number(8));
            let stream = streams.number(0, row.number(5), row.text(6));
            let (operation, source, target) = match Direction::of_copy(row.text(2), row.text(10)) {
                None => (0, gpu, gpu),
                Some(Direction::HostToHost) => (1, HOST_AGENT, HOST_AGENT),
                Some(Direction::HostToDevice) => (2, HOST_AGENT, gpu),
                Some(Direction::DeviceToHost) => (3, gpu, HOST_AGENT),
                Some(Direction::DeviceToDevice) => (4, gpu, gpu),
            };
            let line = self.record(
                COPY,
                operation,
                row.number(7),
                row.number(9),
                start_ns,
                end_ns,
            );
            write!(
                line,
                ",\"dst_agent_id\":{{\"handle\":{target}}},\"src_agent_id\":{{\"handle\":{source}}},\"bytes\":{bytes},\"stream_id\":{{\"handle\":{stream}}}}}"
            )?;
            Ok(out.write_all(line)?)
        })
    }

    fn calls(&mut self, runtime: &str, out: &mut dyn Write) -> Result<(), Failure> {
        const COLUMNS: [&str; 8] = [
            "process_id",
            "runtime",
            "name",
            "start_ns",
            "end_ns",
            "thread",
            "correlation",
            "call_id",
        ];
        let run = self.run;
        each(run.view, "calls", &COLUMNS, |row| {
            let (start_ns, end_ns) = (row.number(3), row.number(4));
            let is_chosen = row.number(0) == self.id && row.text(1) == runtime;
            if !is_chosen || run.during(self.id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            let kind = kind_of(runtime);
            let function = self.functions[kind].get(row.text(2));
            let function = function.copied().unwrap_or(0);
            let correlation = row.known(6).unwrap_or(CALLS + row.number(7));
            let line = self.record(kind, function, correlation, row.number(5), start_ns, end_ns);
            line.push(b'}');
            Ok(out.write_all(line)?)
        })
    }

    fn markers(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let tool = Self {
            kernels: BTreeMap::new(),
            functions: [const { BTreeMap::new() }; KINDS.len()],
            line: Vec::new(),
            ..*self
        };
        tool.each_marker(|operation, correlation, _, thread, start_ns, end_ns| {
            let line = self.record(MARKER, operation, correlation, thread, start_ns, end_ns);
            line.push(b'}');
            Ok(out.write_all(line)?)
        })
    }

    /// Hands each marker to `take`: its operation, correlation, text, thread, begin and end.
    fn each_marker(
        &self,
        mut take: impl FnMut(u64, u64, &str, u64, u64, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let run = self.run;
        const RANGE: [&str; 6] = [
            "process_id",
            "name",
            "start_ns",
            "end_ns",
            "thread",
            "range_id",
        ];
        each(run.view, "ranges", &RANGE, |row| {
            let (start_ns, end_ns) = (row.number(2), row.number(3));
            if row.number(0) != self.id || run.during(self.id, start_ns, end_ns).is_none() {
                return Ok(());
            }
            take(
                2,
                RANGES + row.number(5),
                row.text(1),
                row.number(4),
                start_ns,
                end_ns,
            )
        })?;
        const MARK: [&str; 4] = ["process_id", "name", "time_ns", "thread"];
        let mut number = 0;
        each(run.view, "markers", &MARK, |row| {
            let time_ns = row.number(2);
            number += 1;
            if row.number(0) != self.id || run.at(self.id, time_ns).is_none() {
                return Ok(());
            }
            take(
                1,
                MARKS + number,
                row.text(1),
                row.number(3),
                time_ns,
                time_ns,
            )
        })
    }
}

/// The handle of a GPU.
fn agent(device: u64) -> u64 {
    HOST_AGENT + 1 + device
}

/// Whether an operation runs as a kernel: fills do, and rocprofv3 has no other record for them.
fn is_kernel(kind: &str) -> bool {
    matches!(kind, "kernel" | "fill")
}
