//! Calls, operations of GPUs, and which caused which.

use std::collections::HashMap;

use rusqlite::Connection;

use super::Nodes;
use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::calls::{each_call, grid};
use crate::copies::Direction;
use crate::rows::each;
use crate::run::Run;
use crate::sqlite::{Rows, Value};
use crate::stacks::Stacks;
use crate::streams::Streams;

/// The numbers of calls by what operations know of theirs: process, correlation and begin.
pub(super) type Links = HashMap<(u64, u64, u64), u64>;

/// The type of a copy's operation, and its number in `hipMemcpyKind`, whose last is `hipMemcpyDefault`.
fn copy_type(direction: &str) -> (&'static str, u64) {
    match Direction::of(direction) {
        Some(Direction::HostToHost) => ("CopyHostToHost", 0),
        Some(Direction::HostToDevice) => ("CopyHostToDevice", 1),
        Some(Direction::DeviceToHost) => ("CopyDeviceToHost", 2),
        Some(Direction::DeviceToDevice) => ("CopyDeviceToDevice", 3),
        None => ("Copy", 4),
    }
}

/// Writes calls with the stacks from which they were made.
pub(super) fn write_calls(
    run: &Run<'_>,
    nodes: &Nodes,
    database: &Connection,
    texts: &mut Texts<'_>,
) -> Result<Links, Failure> {
    let stacks = Stacks::read(run.view)?;
    let mut add = Rows::new(database, "insert into rocpd_api")?;
    let frames = "insert into rocpd_stackframe (api_ptr_id, depth, name_id)";
    let mut add_frame = Rows::new(database, frames)?;
    let mut links = Links::new();
    let mut words = String::new();
    each_call(run, |call| {
        words.clear();
        let arguments = [
            ("size", call.bytes),
            ("ptr", call.address),
            ("stream", call.stream),
        ];
        for (key, value) in arguments {
            let Some(value) = value else { continue };
            let between = if words.is_empty() { "" } else { " | " };
            words.push_str(&format!("{between}{key}=0x{value:x}"));
        }
        // Numbers begin at 1.
        let id = call.id + 1;
        let name = texts.name(call.name)?;
        let domain = texts.name(&call.runtime.to_lowercase())?;
        add.put([
            id.into(),
            nodes.pid(call.process).into(),
            call.thread.unwrap_or(0).into(),
            call.start_ns.into(),
            call.end_ns.into(),
            name.into(),
            EMPTY.into(),
            domain.into(),
            texts.arguments(&words)?.into(),
        ])?;
        if let Some(correlation) = call.correlation {
            links.insert((call.process_id, correlation, call.start_ns), id);
        }
        for (depth, frame) in stacks.frames(call.stack).enumerate() {
            add_frame.put([id.into(), depth.into(), texts.name(frame.function)?.into()])?;
        }
        Ok(())
    })?;
    add.finish()?;
    add_frame.finish()?;
    Ok(links)
}

/// Writes operations, and what their calls say of them.
pub(super) fn write_operations(
    run: &Run<'_>,
    nodes: &Nodes,
    database: &Connection,
    texts: &mut Texts<'_>,
    links: &Links,
) -> Result<(), Failure> {
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
        "call_start_ns",
        "bytes",
        "grid",
        "direction",
    ];
    let mut add = Rows::new(database, "insert into rocpd_op")?;
    let mut link = Rows::new(database, "insert into rocpd_api_ops (api_id, op_id)")?;
    // A call may cause several operations, as graphs do: its arguments are those of the first.
    let mut add_kernel = Rows::new(database, "insert or ignore into rocpd_kernelapi")?;
    let mut add_copy = Rows::new(database, "insert or ignore into rocpd_copyapi")?;
    let none = || Value::Integer(0);
    // A GPU has each number once, whichever processes use it.
    let mut queues = Streams::default();
    each(run.view, "operations", &COLUMNS, |row| {
        let (process_id, start_ns, end_ns) = (row.number(1), row.number(4), row.number(5));
        let Some(process) = run.during(process_id, start_ns, end_ns) else {
            return Ok(());
        };
        let (kind, queue) = (row.text(2), row.text(7));
        let gpu = nodes.gpu(process, row.number(6));
        let (copy_type, copy_kind) = copy_type(row.text(12));
        let (description, op_type) = match kind {
            "kernel" => (row.text(3), "KernelExecution"),
            "copy" => ("", copy_type),
            "fill" => ("", "FillBuffer"),
            _ => (row.text(3), "Barrier"),
        };
        let (description, op_type) = (texts.name(description)?, texts.name(op_type)?);
        let id = row.number(0) + 1;
        let queue_id = queues.number(process_id, gpu, queue);
        add.put([
            id.into(),
            gpu.into(),
            queue_id.into(),
            none(),
            start_ns.into(),
            end_ns.into(),
            description.into(),
            op_type.into(),
        ])?;
        let call = row.known(8).zip(row.known(9));
        let call = call
            .and_then(|(correlation, start_ns)| links.get(&(process_id, correlation, start_ns)));
        let Some(&call) = call else {
            return Ok(());
        };
        link.put([call.into(), id.into()])?;
        match kind {
            "kernel" => {
                let [x, y, z] = grid(row.text(11));
                add_kernel.put([
                    call.into(),
                    queue.to_owned().into(),
                    x.into(),
                    y.into(),
                    z.into(),
                    none(),
                    none(),
                    none(),
                    none(),
                    none(),
                    description.into(),
                ])?;
            }
            "copy" => {
                add_copy.put([
                    call.into(),
                    queue.to_owned().into(),
                    row.number(10).into(),
                    none(),
                    none(),
                    copy_kind.into(),
                    "".into(),
                    "".into(),
                    none(),
                    none(),
                    none(),
                    none(),
                ])?;
            }
            _ => {}
        }
        Ok(())
    })?;
    for rows in [
        link.finish(),
        add.finish(),
        add_kernel.finish(),
        add_copy.finish(),
    ] {
        rows?;
    }
    Ok(())
}
