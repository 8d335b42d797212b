//! What is asked of the tables.

use std::collections::HashMap;

use rsys_traces::model::{HostKind, Kinds, OpKind};
use rusqlite::{Connection, Row};

use super::{Global, Operation, Record};
use crate::stream::{Closed, Sink, columns, number, text, times};

/// Kinds of `NVTX_EVENTS` (`ENUM_NSYS_EVENT_TYPE`).
const MARK: i64 = 34;
const PUSH_POP_RANGE: i64 = 59;
const START_END_RANGE: i64 = 60;
const DOMAIN: i64 = 75;

/// The domain of NVTX in which NCCL marks its calls.
const NCCL: &str = "NCCL";

/// Directions of copies (`CUpti_ActivityMemcpyKind`).
const DIRECTIONS: [(i64, &str); 7] = [
    (1, "host to device"),
    (2, "device to host"),
    (8, "device to device"),
    (9, "host to host"),
    (10, "device to device"),
    // Of unified memory.
    (11, "host to device"),
    (12, "device to host"),
];

/// A table and the columns that it has.
struct Table<'a> {
    name: &'a str,
    columns: Vec<String>,
}

impl<'a> Table<'a> {
    /// The table, if it is there.
    fn find(database: &Connection, name: &'a str) -> Option<Self> {
        let columns = columns(database, name);
        (!columns.is_empty()).then_some(Self { name, columns })
    }

    /// A column, or null.
    fn column(&self, name: &str) -> String {
        match self.columns.iter().any(|one| one == name) {
            true => format!("t.\"{name}\""),
            false => "null".to_owned(),
        }
    }

    /// The text that a column is the number of, in the table of all texts.
    fn string(&self, name: &str) -> String {
        format!(
            "(select value from StringIds where id = {})",
            self.column(name)
        )
    }

    fn select(&self, what: &[String]) -> String {
        format!("select {} from {} t", what.join(", "), self.name)
    }
}

fn all(table: &Table<'_>, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| table.column(name)).collect()
}

/// Hands over the rows of all tables.
pub(super) fn rows(
    database: &Connection,
    sink: &mut Sink<Record>,
    kinds: Kinds,
) -> Result<(), Closed> {
    names(database, sink)?;
    if kinds.host || kinds.recorded {
        calls(database, sink, kinds)?;
    }
    if kinds.host || kinds.marks {
        nvtx(database, sink)?;
    }
    if kinds.gpu {
        operations(database, sink)?;
    }
    Ok(())
}

/// Host, processes, threads and GPUs.
fn names(database: &Connection, sink: &mut Sink<Record>) -> Result<(), Closed> {
    if let Some(table) = Table::find(database, "TARGET_INFO_SYSTEM_ENV") {
        let sql = format!(
            "{} where t.name = 'Hostname'",
            table.select(&all(&table, &["value"]))
        );
        sink.rows(database, table.name, &sql, |row| {
            Some(Record::Host(text(row, 0)))
        })?;
    }
    if let Some(table) = Table::find(database, "PROCESSES") {
        let sql = table.select(&all(&table, &["globalPid", "name"]));
        sink.rows(database, table.name, &sql, |row| {
            let Global { pid, .. } = Global::of(number(row, 0)?);
            Some(Record::ProcessName {
                pid,
                name: text(row, 1),
            })
        })?;
    }
    if let Some(table) = Table::find(database, "ThreadNames") {
        let sql = table.select(&[table.column("globalTid"), table.string("nameId")]);
        sink.rows(database, table.name, &sql, |row| {
            let thread = Global::of(number(row, 0)?);
            Some(Record::ThreadName {
                thread,
                name: text(row, 1),
            })
        })?;
    }
    if let Some(table) = Table::find(database, "TARGET_INFO_GPU") {
        let sql = table.select(&all(&table, &["id", "name"]));
        sink.rows(database, table.name, &sql, |row| {
            Some(Record::Gpu {
                gpu: number(row, 0)?,
                name: text(row, 1),
            })
        })?;
    }
    Ok(())
}

/// Calls of CUDA, and of the system as far as they may wait.
fn calls(database: &Connection, sink: &mut Sink<Record>, kinds: Kinds) -> Result<(), Closed> {
    for (name, kind) in [
        ("CUPTI_ACTIVITY_KIND_RUNTIME", HostKind::Runtime),
        ("OSRT_API", HostKind::Wait),
    ] {
        let Some(table) = Table::find(database, name).filter(|_| kinds.wants(kind)) else {
            continue;
        };
        let mut what = all(&table, &["start", "end", "globalTid", "correlationId"]);
        what.push(table.string("nameId"));
        // A call of the runtime and the driver's within it may share a number: the outer one made the operation.
        let [start, end, thread, correlation] =
            ["start", "end", "globalTid", "correlationId"].map(|name| table.column(name));
        what.push(match kind {
            HostKind::Runtime => format!(
                "row_number() over (partition by {thread} >> 24, {correlation} order by {start}, {end} desc, {})",
                table.column("nameId")
            ),
            _ => "0".to_owned(),
        });
        sink.rows(database, name, &table.select(&what), |row| {
            let (start_ns, end_ns) = times(number(row, 0), number(row, 1))?;
            let is_outermost = number(row, 5) == Some(1);
            let correlation = number(row, 3).filter(|_| is_outermost);
            let correlation = correlation.and_then(|id| u64::try_from(id).ok());
            Some(Record::Slice {
                thread: Global::of(number(row, 2).unwrap_or(0)),
                start_ns,
                end_ns,
                kind,
                name: unversioned(&text(row, 4)).to_owned(),
                correlation: correlation.unwrap_or(0),
            })
        })?;
    }
    Ok(())
}

/// A function's name without the version of its interface: `cudaLaunchKernel` of `cudaLaunchKernel_ptsz_v7000`.
fn unversioned(name: &str) -> &str {
    let name = match name.rsplit_once("_v") {
        Some((name, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    name.strip_suffix("_ptsz")
        .or_else(|| name.strip_suffix("_ptds"))
        .unwrap_or(name)
}

/// Ranges and marks of NVTX, and NCCL's calls.
fn nvtx(database: &Connection, sink: &mut Sink<Record>) -> Result<(), Closed> {
    let Some(table) = Table::find(database, "NVTX_EVENTS") else {
        return Ok(());
    };
    let name = format!(
        "coalesce({}, {}, '')",
        table.column("text"),
        table.string("textId")
    );
    let mut what = all(
        &table,
        &["start", "end", "globalTid", "eventType", "domainId"],
    );
    what.push(name);
    let sql = table.select(&what);
    // Domains are defined by events of the same table.
    let mut domains: HashMap<(i64, i64), String> = HashMap::new();
    let has_kinds = table.columns.iter().any(|one| one == "eventType");
    if has_kinds {
        let domain = |row: &Row<'_>| {
            let pid = Global::of(number(row, 2).unwrap_or(0)).pid;
            domains.insert((pid, number(row, 4)?), text(row, 5));
            None
        };
        // What cannot be read is said below, of the same table.
        each(
            database,
            &format!("{sql} where t.eventType = {DOMAIN}"),
            domain,
        );
    }
    let mut unfinished = 0_u64;
    let filter = match has_kinds {
        true => format!("{sql} where t.eventType in ({MARK}, {PUSH_POP_RANGE}, {START_END_RANGE})"),
        false => sql,
    };
    sink.rows(database, table.name, &filter, |row| {
        let thread = Global::of(number(row, 2).unwrap_or(0));
        let kind = number(row, 3);
        let (start, end) = (number(row, 0), number(row, 1));
        let is_mark = kind == Some(MARK) || kind.is_none() && end.is_none();
        if is_mark {
            let (time_ns, _) = times(start, start)?;
            return Some(Record::Mark {
                thread,
                time_ns,
                name: text(row, 5),
            });
        }
        // A range that never ended has none.
        if end.is_none_or(|end| end < 0) {
            unfinished += 1;
            let (time_ns, _) = times(start, start)?;
            return Some(Record::Mark {
                thread,
                time_ns,
                name: text(row, 5),
            });
        }
        let (start_ns, end_ns) = times(start, end)?;
        let domain = number(row, 4).and_then(|domain| domains.get(&(thread.pid, domain)));
        let name = text(row, 5);
        Some(Record::Slice {
            thread,
            start_ns,
            end_ns,
            kind: match domain.is_some_and(|name| name == NCCL) {
                true => HostKind::Collective,
                false => HostKind::of_range(&name),
            },
            name,
            correlation: 0,
        })
    })?;
    match unfinished {
        0 => Ok(()),
        count => sink.say(format!(
            "{count} ranges of NVTX never ended: their starts are marks"
        )),
    }
}

fn each(database: &Connection, sql: &str, mut take: impl FnMut(&Row<'_>) -> Option<()>) {
    let Ok(mut statement) = database.prepare(sql) else {
        return;
    };
    let mut rows = statement.raw_query();
    while let Ok(Some(row)) = rows.next() {
        take(row);
    }
}

/// The only process whose calls are there: that of operations that name none.
fn only_process(database: &Connection) -> Option<i64> {
    let sql = "select min(globalTid >> 24), max(globalTid >> 24) from CUPTI_ACTIVITY_KIND_RUNTIME";
    let found = database.query_row(sql, [], |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
    });
    let (least, most) = found.ok()?;
    least
        .filter(|_| least == most)
        .map(|pid| pid & Global::MASK)
}

/// Kernels, copies, fills, and graphs that were recorded as a whole.
fn operations(database: &Connection, sink: &mut Sink<Record>) -> Result<(), Closed> {
    let only = only_process(database);
    for (name, kind) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", OpKind::Kernel),
        ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", OpKind::Kernel),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", OpKind::Copy),
        ("CUPTI_ACTIVITY_KIND_MEMSET", OpKind::Fill),
    ] {
        let Some(table) = Table::find(database, name) else {
            continue;
        };
        let mut what = all(
            &table,
            &[
                "start",
                "end",
                "globalPid",
                "deviceId",
                "streamId",
                "correlationId",
                "bytes",
                "copyKind",
            ],
        );
        what.push(format!(
            "coalesce({}, {})",
            table.string("demangledName"),
            table.string("shortName")
        ));
        let [x, y, z] = ["gridX", "gridY", "gridZ"].map(|name| table.column(name));
        what.push(format!("{x} || '\u{d7}' || {y} || '\u{d7}' || {z}"));
        what.push(table.column("graphId"));
        sink.rows(database, name, &table.select(&what), |row| {
            let (start_ns, end_ns) = times(number(row, 0), number(row, 1))?;
            let unsigned = |column| number(row, column).and_then(|value| u64::try_from(value).ok());
            let direction = number(row, 7).and_then(|kind| {
                let known = DIRECTIONS.iter().find(|(number, _)| *number == kind);
                known.map(|(_, words)| *words)
            });
            Some(Record::Operation(Operation {
                pid: number(row, 2).map(|pid| Global::of(pid).pid).or(only),
                gpu: number(row, 3).unwrap_or(0),
                stream: number(row, 4).unwrap_or(0),
                start_ns,
                end_ns,
                correlation: unsigned(5).unwrap_or(0),
                kind,
                name: match (kind, text(row, 8)) {
                    (OpKind::Copy, _) => {
                        format!("memcpy {}", direction.unwrap_or("of unknown direction"))
                    }
                    (OpKind::Fill, _) => "memset".to_owned(),
                    (_, name) if name.is_empty() => match number(row, 10) {
                        Some(graph) => format!("graph {graph}"),
                        None => "[unknown]".to_owned(),
                    },
                    (_, name) => name,
                },
                direction: direction.unwrap_or(""),
                bytes: unsigned(6).unwrap_or(0),
                grid: text(row, 9),
            }))
        })?;
    }
    Ok(())
}
