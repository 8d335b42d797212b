//! Operations of GPUs and calls.

use rusqlite::params;

use super::Database;
use crate::Failure;
use crate::copies::Direction;
use crate::memory::allocates;
use crate::rows::each;
use crate::run::Run;

/// The category of a runtime's calls, as rocprofiler-sdk calls it.
fn category(runtime: &str, call: &str) -> &'static str {
    match runtime {
        "HIP" => "HIP_RUNTIME_API",
        "HSA" => "HSA_CORE_API",
        _ if call.starts_with("MPI_") => "MPI_API",
        _ => "RCCL_API",
    }
}

impl Database<'_> {
    /// Writes kernels, fills, which run as kernels, and copies. Barriers and the like have no table.
    pub(super) fn operations(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 13] = [
            "operation_id",
            "process_id",
            "kind",
            "name",
            "start_ns",
            "end_ns",
            "device",
            "queue",
            "correlation",
            "thread",
            "bytes",
            "grid",
            "direction",
        ];
        let mut add_kernel = self.insert(
            "kernel_dispatch",
            "nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, end, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, region_name_id, event_id",
        )?;
        let mut add_copy = self.insert(
            "memory_copy",
            "nid, pid, tid, start, end, name_id, dst_agent_id, src_agent_id, size, queue_id, stream_id, region_name_id, event_id",
        )?;
        let [dispatches, copies] =
            ["KERNEL_DISPATCH", "MEMORY_COPY"].map(|text| self.entities.text(text));
        let none = self.entities.text("");
        each(run.view, "operations", &COLUMNS, |row| {
            let (id, start_ns, end_ns) = (row.number(1), row.number(4), row.number(5));
            let Some(process) = run.during(id, start_ns, end_ns) else {
                return Ok(());
            };
            let is_copy = row.text(2) == "copy";
            if row.text(2) == "other" {
                return Ok(());
            }
            let gpu = row.number(6);
            let node = self.entities.node(process);
            let thread = self.entities.thread(id, row.number(9));
            let agent = self.entities.agent(id, Some(gpu));
            let stream = self.entities.stream(id, gpu, row.text(7));
            let category = if is_copy { copies } else { dispatches };
            let event = self.events.put(category, row.known(8), 0)?;
            if !is_copy {
                let words = row.text(11).split(|letter: char| !letter.is_ascii_digit());
                let mut sizes = words.filter_map(|word| word.parse::<u64>().ok());
                let mut size = || sizes.next().unwrap_or(0);
                let grid = [size(), size(), size()];
                let kernel = self.entities.kernel(id, row.text(3));
                add_kernel.execute(params![
                    node,
                    id + 1,
                    thread,
                    agent,
                    kernel,
                    row.number(0) + 1,
                    stream,
                    stream,
                    start_ns,
                    end_ns,
                    0,
                    0,
                    0,
                    grid[0],
                    grid[1],
                    grid[2],
                    none,
                    event
                ])?;
                return Ok(());
            }
            let host = self.entities.agent(id, None);
            let (name, source, target) = match Direction::of(row.text(12)) {
                Some(Direction::HostToHost) => ("MEMORY_COPY_HOST_TO_HOST", host, host),
                Some(Direction::HostToDevice) => ("MEMORY_COPY_HOST_TO_DEVICE", host, agent),
                Some(Direction::DeviceToHost) => ("MEMORY_COPY_DEVICE_TO_HOST", agent, host),
                Some(Direction::DeviceToDevice) => ("MEMORY_COPY_DEVICE_TO_DEVICE", agent, agent),
                None => ("MEMORY_COPY_NONE", agent, agent),
            };
            let name = self.entities.text(name);
            add_copy.execute(params![
                node,
                id + 1,
                thread,
                start_ns,
                end_ns,
                name,
                target,
                source,
                row.number(10),
                stream,
                stream,
                none,
                event
            ])?;
            Ok(())
        })
    }

    /// Writes calls with their arguments and call stacks, and memory that they make and give back.
    pub(super) fn calls(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 11] = [
            "process_id",
            "thread",
            "start_ns",
            "end_ns",
            "name",
            "runtime",
            "correlation",
            "bytes",
            "address",
            "stream",
            "stack_id",
        ];
        let mut add = self.insert("region", "nid, pid, tid, start, end, name_id, event_id")?;
        let mut add_argument = self.insert("arg", "event_id, position, type, name, value")?;
        let mut add_memory = self.insert(
            "memory_allocate",
            "nid, pid, tid, type, level, start, end, address, size, event_id",
        )?;
        let allocations = self.entities.text("MEMORY_ALLOCATION");
        each(run.view, "calls", &COLUMNS, |row| {
            let (id, start_ns, end_ns) = (row.number(0), row.number(2), row.number(3));
            let (name, runtime) = (row.text(4), row.text(5));
            let process = run.during(id, start_ns, end_ns);
            let Some(process) = process.filter(|_| run.only.has_calls_of(runtime)) else {
                return Ok(());
            };
            let category = self.entities.text(category(runtime, name));
            let (correlation, stack) = (row.known(6), row.number(10) as usize);
            let event = self.events.put(category, correlation, stack)?;
            let node = self.entities.node(process);
            let thread = self.entities.thread(id, row.number(1));
            let called = self.entities.text(name);
            add.execute(params![
                node,
                id + 1,
                thread,
                start_ns,
                end_ns,
                called,
                event
            ])?;
            let stream = row.known(9).map(|handle| handle.saturating_sub(1));
            let arguments = [
                (
                    "size_t",
                    "bytes",
                    row.known(7).map(|bytes| bytes.to_string()),
                ),
                (
                    "void*",
                    "address",
                    row.known(8).map(|at| format!("{at:#x}")),
                ),
                ("hipStream_t", "stream", stream.map(|at| format!("{at:#x}"))),
            ];
            let known = arguments
                .into_iter()
                .filter_map(|(kind, key, value)| Some((kind, key, value?)));
            for (position, (kind, key, value)) in known.enumerate() {
                add_argument.execute(params![event, position, kind, key, value])?;
            }
            if let Some(makes) = allocates(name) {
                let event = self.events.put(allocations, correlation, 0)?;
                let kind = if makes { "ALLOC" } else { "FREE" };
                add_memory.execute(params![
                    node,
                    id + 1,
                    thread,
                    kind,
                    "REAL",
                    start_ns,
                    end_ns,
                    row.known(8).map(u64::cast_signed),
                    row.number(7),
                    event
                ])?;
            }
            Ok(())
        })
    }
}
