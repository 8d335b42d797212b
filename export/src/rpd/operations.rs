//! Operations of GPUs, which call caused which, and what those calls say of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::Connection;

use super::nodes::Nodes;
use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::calls::grid;
use crate::copies::Direction;
use crate::links::Links;
use crate::rows::{ByWord, each};
use crate::run::Run;
use crate::sqlite::{Bulk, Late, Ordered, OrderedRow, Value, add_late};
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

/// What a call says of its kernel.
struct Kernel {
    stream: Rc<str>,
    grid: [u64; 3],
    name: i64,
}

impl OrderedRow<11> for Kernel {
    fn values(&self, id: i64) -> [Value<'_>; 11] {
        let [x, y, z] = self.grid.map(Value::from);
        let name = self.name.into();
        [
            id.into(),
            (&*self.stream).into(),
            x,
            y,
            z,
            ZERO,
            ZERO,
            ZERO,
            ZERO,
            ZERO,
            name,
        ]
    }
}

/// What a call says of its copy.
struct Copy {
    stream: Rc<str>,
    bytes: u64,
    kind: u64,
}

impl OrderedRow<12> for Copy {
    fn values(&self, id: i64) -> [Value<'_>; 12] {
        let (stream, nowhere) = ((&*self.stream).into(), "".into());
        let (bytes, kind) = (self.bytes.into(), self.kind.into());
        [
            id.into(),
            stream,
            bytes,
            ZERO,
            ZERO,
            kind,
            nowhere,
            nowhere,
            ZERO,
            ZERO,
            ZERO,
            ZERO,
        ]
    }
}

/// What calls say that were met long after those behind them.
#[derive(Default)]
pub(super) struct LateRows {
    kernels: Late<Kernel>,
    copies: Late<Copy>,
}

impl LateRows {
    /// Adds them.
    pub(super) fn write(&self, database: &Connection) -> rusqlite::Result<()> {
        add_late(database, "rocpd_kernelapi", KERNEL, &self.kernels)?;
        add_late(database, "rocpd_copyapi", COPY, &self.copies)
    }
}

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

/// Writes operations, and what their calls say of them.
pub(super) fn write_operations(
    run: &Run<'_>,
    nodes: &Nodes,
    bulk: &Bulk,
    texts: &mut Texts<'_>,
    links: &mut Links,
) -> Result<LateRows, Failure> {
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
    let mut add = bulk.rows("rocpd_op", OP)?;
    let mut link = bulk.rows("rocpd_api_ops", ["api_id", "op_id"])?;
    let mut by_operation = bulk.index("rocpd_api_ops_op")?;
    let mut pairs = Vec::new();
    // A call may cause several operations, as graphs do: its arguments are those of the first.
    let mut kernels = Ordered::new(bulk.rows("rocpd_kernelapi", KERNEL)?);
    let mut copies = Ordered::new(bulk.rows("rocpd_copyapi", COPY)?);
    let mut handles: BTreeMap<String, Rc<str>> = BTreeMap::new();
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
        let (copy_type, copy_kind) = copy_type(row.text(12));
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
        let call = row.known(8).zip(row.known(9));
        let call = call
            .and_then(|(correlation, start_ns)| links.find((process_id, correlation, start_ns)));
        let Some(call) = call else {
            return Ok(());
        };
        let (call, id) = (call.cast_signed(), id.cast_signed());
        let row_id = link.next_id();
        link.put([call.into(), id.into()])?;
        by_operation.put([id, row_id])?;
        pairs.push([call, id, row_id]);
        let mut handle = || match handles.get(queue) {
            Some(handle) => Rc::clone(handle),
            None => Rc::clone(
                handles
                    .entry(queue.to_owned())
                    .or_insert_with(|| queue.into()),
            ),
        };
        match kind {
            "kernel" => kernels.put(
                call,
                Kernel {
                    stream: handle(),
                    grid: grids.get((), row.word(11), |text| Ok::<_, Failure>(grid(text)))?,
                    name: description,
                },
            ),
            "copy" => copies.put(
                call,
                Copy {
                    stream: handle(),
                    bytes: row.number(10),
                    kind: copy_kind,
                },
            ),
            _ => Ok(()),
        }
    })?;
    add.finish();
    link.finish();
    by_operation.finish();
    pairs.sort_unstable();
    let mut by_pair = bulk.index("rocpd_api_ops_pair")?;
    for pair in pairs {
        by_pair.put(pair)?;
    }
    by_pair.finish();
    Ok(LateRows {
        kernels: kernels.finish()?,
        copies: copies.finish()?,
    })
}
