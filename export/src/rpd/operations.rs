//! Operations of GPUs, which call caused which, and what those calls say of them.

use std::collections::HashMap;

use super::nodes::Nodes;
use rsys_analysis::containers::packed_rows::PackedRows;

use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::calls::grid;
use crate::copies::Direction;
use crate::links::WrittenCalls;
use crate::rows::{ByWord, each};
use crate::run::Run;
use crate::sqlite::{Bulk, Value};
use crate::streams::Streams;

/// The columns of operations.
const OP: [&str; 8] = [
    "id",
    "gpuId",
    "queueId",
    "sequenceId",
    "start",
    "end",
    "description_id",
    "opType_id",
];
/// The columns of calls of kernels, and of copies.
const KERNEL: [&str; 11] = [
    "api_ptr_id",
    "stream",
    "gridX",
    "gridY",
    "gridZ",
    "workgroupX",
    "workgroupY",
    "workgroupZ",
    "groupSegmentSize",
    "privateSegmentSize",
    "kernelName_id",
];
const COPY: [&str; 12] = [
    "api_ptr_id",
    "stream",
    "size",
    "width",
    "height",
    "kind",
    "dst",
    "src",
    "dstDevice",
    "srcDevice",
    "sync",
    "pinned",
];
const ZERO: Value<'_> = Value::Integer(0);

/// Handles of streams by numbers.
#[derive(Debug, Default)]
struct Handles {
    numbers: HashMap<String, u64>,
    order: Vec<String>,
}

impl Handles {
    fn number(&mut self, handle: &str) -> u64 {
        if let Some(&number) = self.numbers.get(handle) {
            return number;
        }
        let number = self.order.len() as u64;
        self.numbers.insert(handle.to_owned(), number);
        self.order.push(handle.to_owned());
        number
    }

    /// The handle with a number.
    fn get(&self, number: u64) -> Value<'_> {
        let handle = self.order.get(number as usize);
        handle.map_or("", String::as_str).into()
    }
}

/// What is written when all operations are: rows that have another order, or stand once for several.
struct Linked {
    /// Call, operation and row of what links them.
    pairs: PackedRows<3>,
    /// Call and operation; stream, grid and name.
    kernels: PackedRows<7>,
    /// Call and operation; stream, bytes and kind.
    copies: PackedRows<5>,
    handles: Handles,
}

impl Linked {
    /// Writes all. A call may cause several operations, as graphs do: its arguments are those of the first.
    fn write(mut self, bulk: &Bulk) -> Result<(), Failure> {
        self.pairs.sort();
        let mut by_pair = bulk.index("rocpd_api_ops_pair")?;
        for pair in self.pairs.iter() {
            by_pair.put(pair.map(u64::cast_signed))?;
        }
        by_pair.finish();
        self.kernels.sort();
        let (mut rows, mut last) = (bulk.rows("rocpd_kernelapi", KERNEL)?, None);
        for [call, _, stream, x, y, z, name] in self.kernels.iter() {
            if last.replace(call) == Some(call) {
                continue;
            }
            rows.put([
                call.into(),
                self.handles.get(stream),
                x.into(),
                y.into(),
                z.into(),
                ZERO,
                ZERO,
                ZERO,
                ZERO,
                ZERO,
                name.into(),
            ])?;
        }
        rows.finish();
        self.copies.sort();
        let (mut rows, mut last) = (bulk.rows("rocpd_copyapi", COPY)?, None);
        for [call, _, stream, bytes, kind] in self.copies.iter() {
            if last.replace(call) == Some(call) {
                continue;
            }
            let nowhere = "".into();
            rows.put([
                call.into(),
                self.handles.get(stream),
                bytes.into(),
                ZERO,
                ZERO,
                kind.into(),
                nowhere,
                nowhere,
                ZERO,
                ZERO,
                ZERO,
                ZERO,
            ])?;
        }
        rows.finish();
        Ok(())
    }
}

/// The type of a copy's operation, and its number in `hipMemcpyKind`, whose last is `hipMemcpyDefault`.
fn copy_type(direction: &str, name: &str) -> (&'static str, u64) {
    match Direction::of_copy(direction, name) {
        Some(Direction::HostToHost) => ("CopyHostToHost", 0),
        Some(Direction::HostToDevice) => ("CopyHostToDevice", 1),
        Some(Direction::DeviceToHost) => ("CopyDeviceToHost", 2),
        Some(Direction::DeviceToDevice) => ("CopyDeviceToDevice", 3),
        None => ("Copy", 4),
    }
}

/// Writes operations, and what their calls say of them.
pub(super) fn write_operations(
    run: &Run<'_>,
    nodes: &Nodes<'_>,
    bulk: &Bulk,
    texts: &mut Texts<'_>,
    calls: &WrittenCalls,
) -> Result<(), Failure> {
    const COLUMNS: [&str; 12] = [
        "operation_id",
        "process_id",
        "kind",
        "name",
        "start_ns",
        "end_ns",
        "device",
        "queue",
        "call_id",
        "bytes",
        "grid",
        "direction",
    ];
    let mut add = bulk.rows("rocpd_op", OP)?;
    let mut link = bulk.rows("rocpd_api_ops", ["api_id", "op_id"])?;
    let mut by_operation = bulk.index("rocpd_api_ops_op")?;
    let mut linked = Linked {
        pairs: run.rows(),
        kernels: run.rows(),
        copies: run.rows(),
        handles: Handles::default(),
    };
    let execution = texts.name("KernelExecution")?;
    let mut names = ByWord::default();
    let mut grids = ByWord::default();
    let mut numbers = ByWord::default();
    // A GPU has each number once, whichever processes use it.
    let mut queues = Streams::default();
    each(run.view, "operations", &COLUMNS, |row| {
        let (process_id, start_ns, end_ns) = (row.number(1), row.number(4), row.number(5));
        let Some(process) = run.during(process_id, start_ns, end_ns) else {
            return Ok(());
        };
        let (kind, queue) = (row.text(2), row.text(7));
        let gpu = nodes.gpu(process, row.number(6));
        let (copy_type, copy_kind) = copy_type(row.text(11), row.text(3));
        let nameless = [("copy", copy_type), ("fill", "FillBuffer")];
        let nameless = nameless.iter().find(|(one, _)| *one == kind);
        let (description, op_type) = match nameless {
            Some((_, op_type)) => (EMPTY, texts.name(op_type)?),
            None => (
                names.get((), row.word(3), |name| texts.name(name))?,
                if kind == "kernel" {
                    execution
                } else {
                    texts.name("Barrier")?
                },
            ),
        };
        let id = row.number(0) + 1;
        let queue_id = numbers.get((process_id, gpu), row.word(7), |queue| {
            Ok::<_, Failure>(queues.number(process_id, gpu, queue))
        })?;
        add.put([
            id.into(),
            gpu.into(),
            queue_id.into(),
            0_i64.into(),
            start_ns.into(),
            end_ns.into(),
            description.into(),
            op_type.into(),
        ])?;
        let Some(call) = row.known(8).filter(|&call| calls.has(call)) else {
            return Ok(());
        };
        let call = call + 1;
        let row_id = link.next_id();
        link.put([call.into(), id.into()])?;
        by_operation.put([id.cast_signed(), row_id])?;
        linked.pairs.push([call, id, row_id.cast_unsigned()]);
        let handle = linked.handles.number(queue);
        match kind {
            "kernel" => {
                let sizes = grids.get((), row.word(10), |text| Ok::<_, Failure>(grid(text)))?;
                let ([x, y, z], name) = (sizes, description.cast_unsigned());
                linked.kernels.push([call, id, handle, x, y, z, name]);
            }
            "copy" => {
                let bytes = row.number(9);
                linked.copies.push([call, id, handle, bytes, copy_kind]);
            }
            _ => {}
        }
        Ok(())
    })?;
    add.finish();
    link.finish();
    by_operation.finish();
    linked.write(bulk)
}
