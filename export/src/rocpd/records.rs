//! Operations of GPUs and calls.

use super::Database;
use crate::Failure;
use crate::calls::{each_call, grid};
use crate::copies::Direction;
use crate::memory::allocates;
use crate::rows::each;
use crate::run::Run;

/// The category of a runtime's calls, as rocprofiler-sdk calls it.
fn category(runtime: &str) -> &'static str {
    match runtime {
        "HIP" => "HIP_RUNTIME_API",
        "HSA" => "HSA_CORE_API",
        "MPI" => "MPI_API",
        "SHMEM" => "SHMEM_API",
        "UCX" => "UCX_API",
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
            [
                "nid",
                "pid",
                "tid",
                "agent_id",
                "kernel_id",
                "dispatch_id",
                "queue_id",
                "stream_id",
                "start",
                "end",
                "workgroup_size_x",
                "workgroup_size_y",
                "workgroup_size_z",
                "grid_size_x",
                "grid_size_y",
                "grid_size_z",
                "region_name_id",
                "event_id",
            ],
        )?;
        let mut add_copy = self.insert(
            "memory_copy",
            [
                "nid",
                "pid",
                "tid",
                "start",
                "end",
                "name_id",
                "dst_agent_id",
                "src_agent_id",
                "size",
                "queue_id",
                "stream_id",
                "region_name_id",
                "event_id",
            ],
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
                let [x, y, z] = grid(row.text(11));
                let kernel = self.entities.kernel(id, row.text(3));
                add_kernel.put([
                    node.into(),
                    (id + 1).into(),
                    thread.into(),
                    agent.into(),
                    kernel.into(),
                    (row.number(0) + 1).into(),
                    stream.into(),
                    stream.into(),
                    start_ns.into(),
                    end_ns.into(),
                    0_u64.into(),
                    0_u64.into(),
                    0_u64.into(),
                    x.into(),
                    y.into(),
                    z.into(),
                    none.into(),
                    event.into(),
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
            add_copy.put([
                node.into(),
                (id + 1).into(),
                thread.into(),
                start_ns.into(),
                end_ns.into(),
                name.into(),
                target.into(),
                source.into(),
                row.number(10).into(),
                stream.into(),
                stream.into(),
                none.into(),
                event.into(),
            ])?;
            Ok(())
        })?;
        add_kernel.finish()?;
        Ok(add_copy.finish()?)
    }

    /// Writes calls with their arguments and call stacks, and memory that they make and give back.
    pub(super) fn calls(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        let mut add = self.insert(
            "region",
            ["nid", "pid", "tid", "start", "end", "name_id", "event_id"],
        )?;
        let mut add_argument =
            self.insert("arg", ["event_id", "position", "type", "name", "value"])?;
        let mut add_memory = self.insert(
            "memory_allocate",
            [
                "nid", "pid", "tid", "type", "level", "start", "end", "address", "size", "event_id",
            ],
        )?;
        let allocations = self.entities.text("MEMORY_ALLOCATION");
        each_call(run, |call| {
            let (id, name) = (call.process_id, call.name);
            let category = self.entities.text(category(call.runtime));
            let event = self.events.put(category, call.correlation, call.stack)?;
            let node = self.entities.node(call.process);
            let thread = self.entities.thread(id, call.thread.unwrap_or(0));
            let called = self.entities.text(name);
            add.put([
                node.into(),
                (id + 1).into(),
                thread.into(),
                call.start_ns.into(),
                call.end_ns.into(),
                called.into(),
                event.into(),
            ])?;
            let arguments = [
                ("size_t", "bytes", call.bytes.map(|bytes| bytes.to_string())),
                (
                    "void*",
                    "address",
                    call.address.map(|at| format!("{at:#x}")),
                ),
                (
                    "hipStream_t",
                    "stream",
                    call.stream.map(|at| format!("{at:#x}")),
                ),
            ];
            let known = arguments
                .into_iter()
                .filter_map(|(kind, key, value)| Some((kind, key, value?)));
            for (position, (kind, key, value)) in known.enumerate() {
                add_argument.put([
                    event.into(),
                    position.into(),
                    kind.into(),
                    key.into(),
                    value.into(),
                ])?;
            }
            if let Some(makes) = allocates(name) {
                let event = self.events.put(allocations, call.correlation, 0)?;
                let kind = if makes { "ALLOC" } else { "FREE" };
                add_memory.put([
                    node.into(),
                    (id + 1).into(),
                    thread.into(),
                    kind.into(),
                    "REAL".into(),
                    call.start_ns.into(),
                    call.end_ns.into(),
                    call.address.into(),
                    call.bytes.unwrap_or(0).into(),
                    event.into(),
                ])?;
            }
            Ok(())
        })?;
        for rows in [add.finish(), add_argument.finish(), add_memory.finish()] {
            rows?;
        }
        Ok(())
    }
}
