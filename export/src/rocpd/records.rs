//! Operations of GPUs and calls.

use std::fmt::Write;

use super::Database;
use crate::Failure;
use crate::calls::{each_call, grid};
use crate::copies::Direction;
use crate::memory::allocates;
use crate::rows::{ByWord, each};
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
    /// Writes kernels with the call stacks that launched them, fills, which run as kernels, and copies. Barriers and the like have no table.
    pub(super) fn operations(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 14] = [
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
            "stack_id",
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
        let (mut streams, mut kernels) = (ByWord::default(), ByWord::default());
        let mut grids = ByWord::default();
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
            let stream = streams.get((id, gpu), row.word(7), |name| {
                Ok::<_, Failure>(self.entities.stream(id, gpu, name))
            })?;
            let category = if is_copy { copies } else { dispatches };
            let event = self
                .events
                .put(category, row.known(8), row.number(13) as usize)?;
            if !is_copy {
                let [x, y, z] = grids.get((), row.word(11), |text| Ok::<_, Failure>(grid(text)))?;
                let kernel = kernels.get(id, row.word(3), |name| {
                    Ok::<_, Failure>(self.entities.kernel(id, name))
                })?;
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
            let (name, source, target) = match Direction::of_copy(row.text(12), row.text(3)) {
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
        add_kernel.finish();
        add_copy.finish();
        Ok(())
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
        let mut words = String::new();
        let mut names = ByWord::default();
        each_call(run, |call| {
            let id = call.process_id;
            let (category, called, does) = names.get(call.runtime, call.name, |name| {
                let category = self.entities.text(category(call.runtime));
                Ok::<_, Failure>((category, self.entities.text(name), allocates(name)))
            })?;
            let event = self.events.put(category, call.correlation, call.stack)?;
            let node = self.entities.node(call.process);
            let thread = self.entities.thread(id, call.thread.unwrap_or(0));
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
                ("size_t", "bytes", call.bytes, false),
                ("void*", "address", call.address, true),
                ("hipStream_t", "stream", call.stream, true),
            ];
            let mut position = 0_u64;
            for (kind, key, value, is_handle) in arguments {
                let Some(value) = value else { continue };
                words.clear();
                // A `String` takes whatever is written.
                let written = match is_handle {
                    true => write!(words, "{value:#x}"),
                    false => write!(words, "{value}"),
                };
                written.ok();
                add_argument.put([
                    event.into(),
                    position.into(),
                    kind.into(),
                    key.into(),
                    words.as_str().into(),
                ])?;
                position += 1;
            }
            if let Some(makes) = does {
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
        add.finish();
        add_argument.finish();
        add_memory.finish();
        Ok(())
    }
}
