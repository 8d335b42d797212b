//! Databases of rocprofiler-sdk (rocprofv3 and rocprof-sys), which it calls rocpd as well: schema 3.x, where a row says its place, and 4.x, where
//! rows have tracks that do.
//!
//! Tables end in an id of their process (`rocpd_region_0190…`); a file may have those of several. Facts are those of rocprofiler-sdk's
//! `source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql`. Samples of threads and the call stacks of samples, calls and launches are read as rsys writes them.

mod samples;
mod stacks;

use std::collections::HashMap;
use std::path::Path;

use rsys_traces::model::{
    Basis, Batch, Effect, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model, OpKind, Sample,
    StreamOrder, TextId, ThreadId, classify,
};
use rsys_traces::read::Reader;
use rusqlite::Connection;

use crate::places::{Places, Strides};
use crate::stream::{Closed, RowReader, Rows, Sink, Taker, columns, number, text, times};

/// Process ids are numbered by node, over all tables of the file: the node times this, plus the process id.
const NODE: i64 = 1 << 32;

/// A table by which such databases are known.
pub(crate) const TABLE: &str = "rocpd_info_process";

/// Where a call `r` is in the table of allocations as well, `m`: an export of ours has both, with the same times. Those of rocprofiler-sdk lie within
/// the call of HIP. Another call may have the same times, if they take none.
const SAME_CALL: &str = "m.start = r.start and m.end = r.end and m.tid = r.tid";

/// A row.
struct Record {
    what: What,
    pid: i64,
    start_ns: u64,
    end_ns: u64,
    link: u64,
    name: String,
}

impl Record {
    /// What belongs to no process and no time.
    fn of_all(what: What) -> Self {
        Self {
            what,
            pid: 0,
            start_ns: 0,
            end_ns: 0,
            link: 0,
            name: String::new(),
        }
    }
}

enum What {
    Call {
        tid: i64,
        category: String,
        bytes: u64,
        address: u64,
    },
    Operation {
        kind: OpKind,
        gpu: i64,
        queue: i64,
        queue_name: String,
        bytes: u64,
        grid: String,
    },
    Sampled(samples::Row),
    /// What the file says of a process: the name is that of its host.
    About {
        rank: Option<u64>,
    },
    /// The name of a thread.
    Thread {
        tid: i64,
    },
    /// The name of a GPU.
    Gpu {
        gpu: i64,
    },
    /// The call stack of a call, or of a kernel's launch: the name is that stack as text.
    Stack {
        tid: i64,
        kernel: Option<String>,
    },
}

/// Makes records of rows.
struct RocpdTaker {
    kinds: Kinds,
    places: Places,
    sampled: samples::Sampled,
    stacks: stacks::Stacks,
    /// Names of threads and GPUs that nothing was read of yet.
    threads: HashMap<(i64, i64), String>,
    gpus: HashMap<(i64, i64), String>,
}

/// A reader for the file, whose tables have these names.
pub(crate) fn reader(
    database: Connection,
    path: &Path,
    kinds: Kinds,
    names: Vec<String>,
) -> impl Reader + use<> {
    let file = path.display().to_string();
    let mut places = Places::new(&file);
    places.strides = Strides { pid: NODE, gpu: 0 };
    RowReader {
        rows: Rows::start(database, path, move |database, sink| {
            let mut nodes = Nodes::default();
            for (file, suffix) in suffixes(&names).into_iter().enumerate() {
                let query = Query {
                    database,
                    suffix,
                    first_node: nodes.first(database, suffix),
                };
                query.processes(sink)?;
                query.names(sink)?;
                rows(&query, sink, kinds)?;
                stacks::rows(&query, sink, kinds)?;
                samples::rows(&query, sink, kinds, file)?;
            }
            Ok(())
        }),
        taker: RocpdTaker {
            places,
            sampled: samples::Sampled::default(),
            stacks: stacks::Stacks::default(),
            threads: HashMap::new(),
            gpus: HashMap::new(),
            kinds,
        },
    }
}

/// What stands behind the names of the tables of each process. The plain names are views of all, where there are others.
fn suffixes(names: &[String]) -> Vec<&str> {
    let suffixes = names.iter().filter_map(|name| name.strip_prefix(TABLE));
    let (plain, others): (Vec<&str>, Vec<&str>) = suffixes.partition(|suffix| suffix.is_empty());
    if others.is_empty() { plain } else { others }
}

/// The names of the nodes of all tables.
#[derive(Debug, Default)]
struct Nodes {
    names: Vec<String>,
}

impl Nodes {
    /// The number of the first node of the tables with a suffix. Each process may have tables of its own, in which its node is the only one: it is the same as that of
    /// others if its name is.
    fn first(&mut self, database: &Connection, suffix: &str) -> i64 {
        let query = Query {
            database,
            suffix,
            first_node: 0,
        };
        let sql = format!(
            "select coalesce(hostname, '') from {} order by id",
            query.table("info_node")
        );
        let names = database.prepare(&sql).and_then(|mut statement| {
            let names = statement.query_map([], |row| Ok(text(row, 0)))?;
            names.collect::<Result<Vec<String>, _>>()
        });
        let names = names.unwrap_or_default();
        let known = match names.as_slice() {
            [] => Some(0),
            [name] => self.names.iter().position(|known| known == name),
            _ => None,
        };
        let first = known.unwrap_or(self.names.len());
        if known.is_none() {
            self.names.extend(names);
        }
        i64::try_from(first).unwrap_or(0)
    }
}

/// A query of rows with their place, event and times.
struct Query<'a> {
    database: &'a Connection,
    suffix: &'a str,
    /// The number of the first node of these tables.
    first_node: i64,
}

impl Query<'_> {
    /// Whether a table is there.
    fn has(&self, table: &str) -> bool {
        !columns(self.database, &self.table(table)).is_empty()
    }

    fn table(&self, name: &str) -> String {
        format!("\"rocpd_{name}{}\"", self.suffix.replace('"', "\"\""))
    }

    /// The number of the node whose id is in a column.
    fn node(&self, column: &str) -> String {
        let (nodes, first) = (self.table("info_node"), self.first_node);
        format!("(select count(*) + {first} from {nodes} where id < {column})")
    }

    /// What is known of the processes.
    fn processes(&self, sink: &mut Sink<Record>) -> Result<(), Closed> {
        let (processes, nodes) = (self.table("info_process"), self.table("info_node"));
        let has =
            |table: &str, name: &str| columns(self.database, table).iter().any(|one| one == name);
        let host = match has(&nodes, "hostname") {
            true => format!("(select hostname from {nodes} where id = p.nid)"),
            false => "''".to_owned(),
        };
        let rank = match has(&processes, "extdata") {
            true => "case when json_valid(p.extdata) then json_extract(p.extdata, '$.rank') end",
            false => "null",
        };
        let sql = format!(
            "select p.id, {}, p.pid, 0, 0, 0, {host}, {rank} from {processes} p order by p.id",
            self.node("p.nid")
        );
        sink.rows(self.database, "rocpd_info_process", &sql, |row| {
            let rank = number(row, 7).and_then(|rank| u64::try_from(rank).ok());
            record(row, What::About { rank })
        })
    }

    /// The names of threads and GPUs.
    fn names(&self, sink: &mut Sink<Record>) -> Result<(), Closed> {
        let place = |table: &str| {
            let process = self.table("info_process");
            format!(
                "select t.id, {}, (select pid from {process} where id = t.pid), 0, 0, 0",
                self.node("t.nid")
            ) + &format!(", %s from {} t where %s is not null", self.table(table))
        };
        let has_all = |table: &str, needed: &[&str]| {
            let there = columns(self.database, &self.table(table));
            needed
                .iter()
                .all(|name| there.iter().any(|one| one == name))
        };
        if has_all("info_thread", &["nid", "pid", "tid", "name"]) {
            let sql = place("info_thread").replacen("%s", "t.name, t.tid", 1);
            let sql = sql.replacen("%s", "t.name", 1);
            sink.rows(self.database, "rocpd_info_thread", &sql, |row| {
                let tid = number(row, 7)?;
                record(row, What::Thread { tid })
            })?;
        }
        if has_all(
            "info_agent",
            &["nid", "pid", "type", "type_index", "product_name"],
        ) {
            let index = "coalesce(t.type_index, t.id)";
            let sql = place("info_agent").replacen("%s", &format!("t.product_name, {index}"), 1);
            let sql = sql.replacen("%s", "t.product_name", 1) + " and t.type = 'GPU'";
            sink.rows(self.database, "rocpd_info_agent", &sql, |row| {
                let gpu = number(row, 7)?;
                record(row, What::Gpu { gpu })
            })?;
        }
        Ok(())
    }

    /// The thread of a row, behind others.
    fn thread(&self) -> String {
        let threads = self.table("info_thread");
        format!(", (select tid from {threads} where id = {{t}}.tid)")
    }

    /// The name of a kernel.
    fn kernel_name(&self) -> String {
        let symbols = self.table("info_kernel_symbol");
        format!(
            "coalesce(nullif((select display_name from {symbols} where id = r.kernel_id), ''), (select kernel_name from {symbols} where id = r.kernel_id))"
        )
    }

    /// The rows of a table: id, node and process id, begin, end, what links them, name, and what `more` asks for. `t` has their place, `e` their
    /// event.
    fn sql(&self, table: &str, name: &str, more: &str, order: &str) -> String {
        let of = self.table(table);
        let has_track = columns(self.database, &of)
            .iter()
            .any(|one| one == "track_id");
        let (place, place_of) = match has_track {
            true => (
                format!("left join {} t on t.id = r.track_id", self.table("track")),
                "t",
            ),
            false => (String::new(), "r"),
        };
        let more = more.replace("{t}", place_of);
        let node = self.node(&format!("{place_of}.nid"));
        let (process, event) = (self.table("info_process"), self.table("event"));
        format!(
            "select r.id, {node}, (select pid from {process} where id = {place_of}.pid), r.start, r.end,
                    coalesce(nullif(e.stack_id, 0), e.correlation_id, 0), {name}{more}
             from {of} r {place} left join {event} e on e.id = r.event_id {order}"
        )
    }
}

/// Reads the rows of all tables of a process.
fn rows(query: &Query<'_>, sink: &mut Sink<Record>, kinds: Kinds) -> Result<(), Closed> {
    let database = query.database;
    let is_there = |table: &str| !columns(database, &query.table(table)).is_empty();
    let strings = query.table("string");
    let category = match is_there("info_category") {
        true => format!(
            "(select name from {} where id = e.category_id)",
            query.table("info_category")
        ),
        false => format!("(select string from {strings} where id = e.category_id)"),
    };
    let thread = query.thread();
    let agent = |column: &str| {
        let agents = query.table("info_agent");
        format!(
            "(select coalesce(type_index, logical_index, id) from {agents} where id = {column})"
        )
    };
    let string = |column: &str| format!("(select string from {strings} where id = {column})");
    if is_there("region") && (kinds.host || kinds.recorded || kinds.marks) {
        // The text of a marker is beside the name of its call.
        let message =
            "case when json_valid(e.extdata) then json_extract(e.extdata, '$.message') end";
        let name = format!("coalesce(nullif({message}, ''), {})", string("r.name_id"));
        let allocations = query.table("memory_allocate");
        let is_joined = columns(database, &allocations)
            .iter()
            .any(|one| one == "tid");
        let (sizes, join) = match is_joined {
            true => (
                ", m.size, m.address",
                format!(
                    "left join {allocations} m on {SAME_CALL} and ifnull((select correlation_id from {} where id = m.event_id) = e.correlation_id, 1)
                     group by r.id order by r.id",
                    query.table("event")
                ),
            ),
            false => ("", "order by r.id".to_owned()),
        };
        let sql = query.sql(
            "region",
            &name,
            &format!("{thread}, {category}{sizes}"),
            &join,
        );
        sink.rows(database, "rocpd_region", &sql, |row| record(row, call(row)))?;
    }
    if is_there("memory_allocate") && kinds.host {
        let name = "'MEMORY_ALLOCATION_' || case when r.type = 'FREE' then 'FREE' when r.level = 'SCRATCH' then 'SCRATCH' else 'ALLOCATE' end";
        let more = format!("{thread}, 'HSA', r.size, r.address");
        let regions = columns(database, &query.table("region"));
        let others = match regions.iter().any(|one| one == "tid") {
            true => format!(
                "where ((r.start, r.end, r.tid) in (select start, end, tid from {})) is not true order by r.id",
                query.table("region")
            ),
            false => "order by r.id".to_owned(),
        };
        let sql = query.sql("memory_allocate", name, &more, &others);
        sink.rows(database, "rocpd_memory_allocate", &sql, |row| {
            record(row, call(row))
        })?;
    }
    if !kinds.gpu {
        return Ok(());
    }
    // Programs that use HSA alone have no streams.
    let name_of = |kind: &str| {
        let names = query.table(&format!("info_{kind}"));
        match columns(database, &names).iter().any(|one| one == "name") {
            true => {
                format!(
                    "(select nullif(name, '') from {names} where id = nullif({{t}}.{kind}_id, 0))"
                )
            }
            false => "null".to_owned(),
        }
    };
    let queue = format!(
        "coalesce(nullif({{t}}.stream_id, 0), {{t}}.queue_id), case when {{t}}.stream_id > 0 then {} else {} end",
        name_of("stream"),
        name_of("queue")
    );
    if is_there("kernel_dispatch") {
        let name = query.kernel_name();
        let more = format!(
            ", {}, {queue}, case when r.grid_size_x > 0 then r.grid_size_x || '\u{d7}' || r.grid_size_y || '\u{d7}' || r.grid_size_z end",
            agent("{t}.agent_id")
        );
        let sql = query.sql("kernel_dispatch", &name, &more, "order by r.id");
        sink.rows(database, "rocpd_kernel_dispatch", &sql, |row| {
            let what = What::Operation {
                kind: OpKind::Kernel,
                gpu: number(row, 7)?,
                queue: number(row, 8).unwrap_or(0),
                queue_name: text(row, 9),
                bytes: 0,
                grid: text(row, 10),
            };
            record(row, what)
        })?;
    }
    if is_there("memory_copy") {
        // The GPU of a copy is the agent that is one.
        let agents = query.table("info_agent");
        let gpu = format!(
            "case when (select type from {agents} where id = r.dst_agent_id) = 'CPU' then r.src_agent_id else r.dst_agent_id end"
        );
        let more = format!(", {}, {queue}, r.size", agent(&gpu));
        let sql = query.sql("memory_copy", &string("r.name_id"), &more, "order by r.id");
        sink.rows(database, "rocpd_memory_copy", &sql, |row| {
            let what = What::Operation {
                kind: OpKind::Copy,
                gpu: number(row, 7).unwrap_or(0),
                queue: number(row, 8).unwrap_or(0),
                queue_name: text(row, 9),
                bytes: natural(number(row, 10)),
                grid: String::new(),
            };
            record(row, what)
        })?;
    }
    Ok(())
}

fn natural(number: Option<i64>) -> u64 {
    number.map_or(0, |number| u64::try_from(number).unwrap_or(0))
}

/// What the columns behind those of all records say of a call.
fn call(row: &rusqlite::Row<'_>) -> What {
    What::Call {
        tid: number(row, 7).unwrap_or(0),
        category: text(row, 8),
        bytes: natural(number(row, 9)),
        address: natural(number(row, 10)),
    }
}

/// The record of a row, if it has a process and times.
fn record(row: &rusqlite::Row<'_>, what: What) -> Option<Record> {
    let (start_ns, end_ns) = times(number(row, 3), number(row, 4))?;
    Some(Record {
        what,
        pid: number(row, 1)?
            .checked_mul(NODE)?
            .checked_add(number(row, 2)?)?,
        start_ns,
        end_ns,
        link: natural(number(row, 5)),
        name: text(row, 6),
    })
}

/// What a region is, by its category: those of rocprofv3 and of rocprof-sys.
fn kind_of(category: &str) -> HostKind {
    let category = category.to_ascii_lowercase();
    let has = |word: &str| category.contains(word);
    match () {
        () if has("marker") || has("roctx") || has("user") => HostKind::Range,
        // Of databases that rsys-report has written.
        () if category == "pytorch_operator" => HostKind::Operator,
        () if category == "wait" => HostKind::Wait,
        () if category == "off_processor" => HostKind::OffCpu,
        () if has("hip_") || category == "hip" => HostKind::Runtime,
        () if has("hsa") => HostKind::Hsa,
        () if ["rccl", "mpi", "shmem", "ucx"].into_iter().any(has) => HostKind::Collective,
        () => HostKind::Function,
    }
}

/// Whether a name is that of a call of roctx which ends a range or speaks to the profiler: it has no text.
fn is_no_message(name: &str) -> bool {
    name.strip_prefix("roctx")
        .is_some_and(|call| call.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

const DIRECTIONS: [(&str, &str); 4] = [
    ("HOST_TO_DEVICE", "host to device"),
    ("DEVICE_TO_HOST", "device to host"),
    ("DEVICE_TO_DEVICE", "device to device"),
    ("HOST_TO_HOST", "host to host"),
];

impl RocpdTaker {
    /// Gives a thread of a process its name, once.
    fn name_thread(&mut self, pid: i64, thread: ThreadId, model: &mut Model) {
        if self.threads.is_empty() {
            return;
        }
        let Some(about) = model.threads.get_mut(thread.index()) else {
            return;
        };
        if let Some(known) = self.threads.remove(&(pid, i64::from(about.tid))) {
            about.name = model.texts.intern(&known);
        }
    }
}

impl Taker for RocpdTaker {
    type Row = Record;

    fn take(&mut self, record: Record, model: &mut Model, batch: &mut Batch) {
        let Record {
            what,
            pid,
            start_ns,
            end_ns,
            link,
            name,
        } = record;
        match what {
            What::About { rank } => self.places.about(pid, name, rank),
            What::Thread { tid } => {
                self.threads.insert((pid, tid), name);
            }
            What::Gpu { gpu } => {
                self.gpus.insert((pid, gpu), name);
            }
            What::Sampled(row) => {
                let at = (pid, start_ns);
                self.sampled.take(row, at, &mut self.places, model, batch);
                if let Some(sample) = batch.samples.last() {
                    self.name_thread(pid, sample.thread, model);
                }
            }
            What::Stack { tid, kernel } => {
                let Some(stack) = self.stacks.of(&name, kernel.as_deref(), model) else {
                    return;
                };
                let (process, thread) = self.places.thread(pid, tid, model);
                let is_call = kernel.is_none();
                batch.samples.push(Sample {
                    time_ns: start_ns,
                    weight: end_ns - start_ns,
                    process,
                    thread,
                    stack,
                    basis: if is_call {
                        Basis::CallTime
                    } else {
                        Basis::GpuTime
                    },
                });
            }
            What::Call {
                tid,
                category,
                bytes,
                address,
            } => {
                let kind = kind_of(&category).of_slice(&name);
                if kind == HostKind::Range && is_no_message(&name) {
                    return;
                }
                let (process, thread) = self.places.thread(pid, tid, model);
                self.name_thread(pid, thread, model);
                let name_id = model.texts.intern(&name);
                if kind == HostKind::Range && start_ns == end_ns {
                    if self.kinds.marks {
                        batch.marks.push(Mark {
                            time_ns: start_ns,
                            process,
                            thread,
                            name: name_id,
                        });
                    }
                    return;
                }
                let kind = match kind {
                    HostKind::Range => HostKind::of_range(&name),
                    kind => kind,
                };
                if !self.kinds.wants(kind) {
                    return;
                }
                let is_of_gpu = matches!(kind, HostKind::Runtime | HostKind::Hsa);
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    link: if is_of_gpu { link } else { 0 },
                    bytes,
                    address,
                    process,
                    thread,
                    name: name_id,
                    depth: HostSlice::UNKNOWN_DEPTH,
                    kind,
                    order: if is_of_gpu {
                        StreamOrder::of(&name)
                    } else {
                        StreamOrder::None
                    },
                    effect: if is_of_gpu {
                        Effect::of(&name)
                    } else {
                        Effect::None
                    },
                    ..HostSlice::default()
                });
            }
            What::Operation {
                kind,
                gpu,
                queue,
                queue_name,
                bytes,
                grid,
            } => {
                let (process, device, queue) =
                    self.places
                        .queue(Some(pid), gpu, (queue, &queue_name), model);
                if let Some(known) = self.gpus.remove(&(pid, gpu)) {
                    model.devices[device.index()].name = known;
                }
                let direction = DIRECTIONS.iter().find(|(word, _)| name.contains(word));
                let direction = direction.filter(|_| kind == OpKind::Copy);
                batch.gpu.push(GpuRecord {
                    start_ns,
                    end_ns,
                    link,
                    bytes,
                    process,
                    device,
                    queue,
                    name: model.texts.intern(&name),
                    grid: model.texts.intern(&grid),
                    direction: direction
                        .map_or(TextId::EMPTY, |(_, words)| model.texts.intern(words)),
                    source: TextId::EMPTY,
                    kind,
                    activity: classify(kind, &name),
                });
            }
        }
    }
}
