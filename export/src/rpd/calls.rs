//! Calls, operations of GPUs, and which caused which.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::Nodes;
use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::copies::Direction;
use crate::rows::each;
use crate::run::Run;
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
    const COLUMNS: [&str; 12] = [
        "call_id",
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
    let stacks = Stacks::read(run.view)?;
    let mut add = database.prepare("insert into rocpd_api values (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut add_frame = database
        .prepare("insert into rocpd_stackframe (api_ptr_id, depth, name_id) values (?, ?, ?)")?;
    let mut links = Links::new();
    let mut words = String::new();
    each(run.view, "calls", &COLUMNS, |row| {
        let (process_id, start_ns, end_ns) = (row.number(1), row.number(3), row.number(4));
        let runtime = row.text(6);
        let process = run.during(process_id, start_ns, end_ns);
        let Some(process) = process.filter(|_| run.only.has_calls_of(runtime)) else {
            return Ok(());
        };
        words.clear();
        let handle = row.known(10).map(|handle| handle.saturating_sub(1));
        let arguments = [
            ("size", row.known(8)),
            ("ptr", row.known(9)),
            ("stream", handle),
        ];
        for (key, value) in arguments {
            let Some(value) = value else { continue };
            let between = if words.is_empty() { "" } else { " | " };
            words.push_str(&format!("{between}{key}=0x{value:x}"));
        }
        // Numbers begin at 1.
        let id = row.number(0) + 1;
        let name = texts.name(row.text(5))?;
        let domain = texts.name(&runtime.to_lowercase())?;
        add.execute(params![
            id,
            nodes.pid(process),
            row.number(2),
            start_ns,
            end_ns,
            name,
            EMPTY,
            domain,
            texts.arguments(&words)?
        ])?;
        if let Some(correlation) = row.known(7) {
            links.insert((process_id, correlation, start_ns), id);
        }
        let stack = row.number(11) as usize;
        for (depth, frame) in stacks.frames(stack).enumerate() {
            add_frame.execute(params![id, depth, texts.name(frame.function)?])?;
        }
        Ok(())
    })?;
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
    let mut add = database.prepare("insert into rocpd_op values (?, ?, ?, 0, ?, ?, ?, ?)")?;
    let mut link = database.prepare("insert into rocpd_api_ops (api_id, op_id) values (?, ?)")?;
    // A call may cause several operations, as graphs do: its arguments are those of the first.
    let mut add_kernel = database.prepare(
        "insert or ignore into rocpd_kernelapi values (?, ?, ?, ?, ?, 0, 0, 0, 0, 0, ?)",
    )?;
    let mut add_copy = database.prepare(
        "insert or ignore into rocpd_copyapi values (?, ?, ?, 0, 0, ?, '', '', 0, 0, 0, 0)",
    )?;
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
        add.execute(params![
            id,
            gpu,
            queue_id,
            start_ns,
            end_ns,
            description,
            op_type
        ])?;
        let call = row.known(8).zip(row.known(9));
        let call = call
            .and_then(|(correlation, start_ns)| links.get(&(process_id, correlation, start_ns)));
        let Some(&call) = call else {
            return Ok(());
        };
        link.execute(params![call, id])?;
        match kind {
            "kernel" => {
                let words = row.text(11).split(|letter: char| !letter.is_ascii_digit());
                let mut sizes = words.filter_map(|word| word.parse::<u64>().ok());
                let mut size = || sizes.next().unwrap_or(0);
                let grid = [size(), size(), size()];
                add_kernel.execute(params![call, queue, grid[0], grid[1], grid[2], description])?;
            }
            "copy" => {
                add_copy.execute(params![call, queue, row.number(10), copy_kind])?;
            }
            _ => {}
        }
        Ok(())
    })
}
