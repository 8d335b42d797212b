//! The columns of a table, which say what it holds, and a table that is open.

use std::path::Path;

use crate::read::rocprofv3::emit::When;
use crate::read::rocprofv3::record::natural;
use crate::read::rocprofv3::rows::{Found, Rows, text};
use crate::read::{BytesRead, Input, counted_input};

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
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
pub(super) struct Columns {
    pub(super) count: usize,
    pub(super) agent: Option<usize>,
    pub(super) queue: Option<usize>,
    pub(super) stream: Option<usize>,
    pub(super) thread: Option<usize>,
    pub(super) process: Option<usize>,
    pub(super) dispatch: Option<usize>,
    pub(super) kernel: Option<usize>,
    pub(super) domain: Option<usize>,
    pub(super) function: Option<usize>,
    pub(super) operation: Option<usize>,
    pub(super) direction: Option<usize>,
    pub(super) source: Option<usize>,
    pub(super) target: Option<usize>,
    pub(super) correlation: Option<usize>,
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
    pub(super) grid: [Option<usize>; 3],
    pub(super) bytes: Option<usize>,
    pub(super) address: Option<usize>,
    pub(super) counter: Option<usize>,
    pub(super) value: Option<usize>,
    pub(super) node: Option<usize>,
    pub(super) agent_type: Option<usize>,
    pub(super) name: Option<usize>,
    pub(super) product: Option<usize>,
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
pub(super) struct Open {
    pub(super) file: String,
    pub(super) rows: Rows<Input>,
    pub(super) columns: Columns,
    pub(super) table: Table,
}

impl Open {
    #[inline]
    pub(super) fn number(&self, column: Option<usize>) -> u64 {
        natural(self.cell(column)).unwrap_or(0)
    }

    #[inline]
    pub(super) fn cell(&self, column: Option<usize>) -> &[u8] {
        column.map_or(&[], |column| self.rows.cell(column))
    }

    pub(super) fn when(&self, offset: u64) -> When {
        When {
            offset,
            start_ns: natural(self.cell(self.columns.start)),
            end_ns: natural(self.cell(self.columns.end)),
        }
    }
}

/// The table of a file; `None` if its columns are unknown.
pub(super) fn table_of(
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
pub(super) fn first_pid(path: &Path) -> Option<u64> {
    let (mut rows, columns, _) = table_of(path, &BytesRead::default()).ok()??;
    let column = columns.process?;
    match rows.next().ok()? {
        Found::Row(_) => natural(rows.cell(column)),
        _ => None,
    }
}
