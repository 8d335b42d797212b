//! Databases of rocmProfileData: schema versions 1 to 3, merged of several hosts or not, and those of rocm-trace-lite, which look alike.
//!
//! | | rocmProfileData | rocm-trace-lite |
//! |---|---|---|
//! | a call's kind | `domain_id` (version 3), else its name | its name |
//! | texts of arguments | `rocpd_ustring` (versions 2 and 3), else `rocpd_string` | `rocpd_string` |
//! | ranges | calls named `UserMarker` | operations of the type `UserMarker` on GPU -1 |
//! | grids | `rocpd_kernelapi` | `rocpd_kernelapi`, or `grid=x,y,z` in `completionSignal` |

mod owners;

use std::path::Path;

use owners::Owners;
use rsys_traces::model::{
    Activity, Batch, CounterValue, Effect, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model,
    OpKind, StreamOrder, TextId, classify,
};
use rsys_traces::read::Reader;
use rusqlite::Connection;

use crate::places::{Places, Strides};
use crate::stream::{Closed, RowReader, Rows, Sink, Taker, columns, number, text, times};

/// A row.
enum Record {
    Strides(Strides),
    Call {
        id: i64,
        pid: i64,
        tid: i64,
        start_ns: u64,
        end_ns: u64,
        name: String,
        domain: String,
        arguments: String,
    },
    Operation {
        pid: Option<i64>,
        gpu: i64,
        queue: i64,
        start_ns: u64,
        end_ns: u64,
        description: String,
        kind: String,
        /// The call.
        api: Option<i64>,
        bytes: u64,
        grid: String,
    },
    Sensor {
        gpu: i64,
        name: String,
        start_ns: u64,
        end_ns: u64,
        value: f64,
    },
}

/// Makes records of rows.
struct RpdTaker {
    kinds: Kinds,
    places: Places,
}

/// A reader for the file.
pub(crate) fn reader(database: Connection, path: &Path, kinds: Kinds) -> impl Reader + use<> {
    let file = path.display().to_string();
    RowReader {
        rows: Rows::start(database, path, move |database, sink| {
            rows(database, sink, kinds)
        }),
        taker: RpdTaker {
            places: Places::new(&file),
            kinds,
        },
    }
}

/// Whether a call launches a graph, which has many operations, and the arguments of one.
const IS_GRAPH: &str = "(select n.string from rocpd_api a join rocpd_string n on n.id = a.apiName_id where a.id = l.api_id) like '%GraphLaunch%'";

/// Reads the rows of all tables.
fn rows(database: &Connection, sink: &mut Sink<Record>, kinds: Kinds) -> Result<(), Closed> {
    let stride = |tag: &str| {
        let sql = "select cast(value as integer) from rocpd_metadata where tag = ?";
        database
            .query_row(sql, [tag], |row| row.get::<_, i64>(0))
            .unwrap_or(0)
    };
    sink.put(Record::Strides(Strides {
        pid: stride("pid_stride"),
        gpu: stride("gpu_stride"),
    }))?;
    let (api, op) = (
        columns(database, "rocpd_api"),
        columns(database, "rocpd_op"),
    );
    let has = |columns: &[String], name: &str| columns.iter().any(|one| one == name);
    let is_there = |table: &str| !columns(database, table).is_empty();
    let texts = if is_there("rocpd_ustring") {
        "rocpd_ustring"
    } else {
        "rocpd_string"
    };
    let domain = if has(&api, "domain_id") {
        "(select string from rocpd_string where id = a.domain_id)"
    } else {
        "''"
    };
    // Operations name no process: it is that of their call, which is read first.
    let sql = format!(
        "select a.id, a.pid, a.tid, a.start, a.end, (select string from rocpd_string where id = a.apiName_id), {domain},
                (select string from {texts} where id = a.args_id) from rocpd_api a order by a.id"
    );
    if kinds.host || kinds.recorded || kinds.marks {
        sink.rows(database, "rocpd_api", &sql, |row| {
            let (start_ns, end_ns) = times(number(row, 3), number(row, 4))?;
            Some(Record::Call {
                id: number(row, 0)?,
                pid: number(row, 1)?,
                tid: number(row, 2)?,
                start_ns,
                end_ns,
                name: text(row, 5),
                domain: text(row, 6),
                arguments: text(row, 7),
            })
        })?;
    }
    let signal = if has(&op, "completionSignal") {
        "o.completionSignal"
    } else {
        "''"
    };
    // What a call is known by in these two: `api_ptr_id` of rocmProfileData, `api_id` of rocm-trace-lite.
    let key = |table: &str| {
        let columns = columns(database, table);
        ["api_ptr_id", "api_id"]
            .into_iter()
            .find(|name| has(&columns, name))
    };
    // The first is the table's primary key. Of the other there may be several rows, each of which would be an operation more.
    let once = |table: &str, key: &str| match key {
        "api_ptr_id" => table.to_owned(),
        key => format!("(select * from {table} group by {key})"),
    };
    let (mut joins, mut grid, mut bytes) = (String::new(), "''".to_owned(), "0".to_owned());
    if let Some(key) = key("rocpd_kernelapi") {
        let table = once("rocpd_kernelapi", key);
        joins += &format!(" left join {table} k on k.{key} = l.api_id");
        grid = format!(
            "case when k.gridX > 0 and not {IS_GRAPH} then k.gridX || '\u{d7}' || k.gridY || '\u{d7}' || k.gridZ end"
        );
    }
    if let Some(key) = key("rocpd_copyapi") {
        let table = once("rocpd_copyapi", key);
        joins += &format!(" left join {table} c on c.{key} = l.api_id");
        bytes = format!("case when c.size > 0 and not {IS_GRAPH} then c.size end");
    }
    let sql = format!(
        "select o.id, l.api_id, (select pid from rocpd_api where id = l.api_id), o.gpuId, o.queueId, o.start, o.end,
                (select string from rocpd_string where id = o.description_id), (select string from rocpd_string where id = o.opType_id),
                {bytes}, {grid}, {signal}
         from rocpd_op o left join (select op_id, min(api_id) as api_id from rocpd_api_ops group by op_id) l on l.op_id = o.id{joins}"
    );
    let owners = Owners::read(database);
    let mut of_nobody = 0_u64;
    sink.rows(database, "rocpd_op", &sql, |row| {
        let (start_ns, end_ns) = times(number(row, 5), number(row, 6))?;
        let grid = Some(text(row, 10)).filter(|grid| !grid.is_empty());
        let pid = number(row, 2).or_else(|| owners.of(number(row, 3)?));
        of_nobody += u64::from(pid.is_none());
        Some(Record::Operation {
            api: number(row, 1),
            pid,
            gpu: number(row, 3)?,
            queue: number(row, 4).unwrap_or(0),
            start_ns,
            end_ns,
            description: text(row, 7),
            kind: text(row, 8),
            bytes: number(row, 9)
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(0),
            grid: grid.unwrap_or_else(|| grid_of(&text(row, 11))),
        })
    })?;
    if of_nobody > 0 && owners.are_told_apart() {
        sink.say(format!(
            "{of_nobody} of rocpd_op are linked with no call, and not one process alone used their GPU: they are shown as process 0"
        ))?;
    }
    if kinds.counters && is_there("rocpd_monitor") {
        // A value holds up to its end, where mostly the next begins. Of two at one time the later row counts.
        let sql = "select id, deviceId, monitorType, start, end, value, next from (select *, lead(start) over
                (partition by deviceId, monitorType order by start, id) as next from rocpd_monitor where deviceType = 'gpu')
            where next is null or next <> start order by id";
        sink.rows(database, "rocpd_monitor", sql, |row| {
            let (start_ns, end_ns) = times(number(row, 3), number(row, 4))?;
            let next_ns = number(row, 6).and_then(|next| u64::try_from(next).ok());
            Some(Record::Sensor {
                gpu: number(row, 1)?,
                name: text(row, 2),
                start_ns,
                end_ns: next_ns.map_or(
                    end_ns,
                    |next_ns| {
                        if next_ns > end_ns { end_ns } else { start_ns }
                    },
                ),
                value: text(row, 5).trim().parse().ok()?,
            })
        })?;
    }
    Ok(())
}

/// The grid in what rocm-trace-lite writes for a signal: `hwq=0x1 wg=64,1,1 grid=256,1,1`.
fn grid_of(signal: &str) -> String {
    let word = signal
        .split(' ')
        .find_map(|word| word.strip_prefix("grid="));
    word.map_or(String::new(), |sizes| sizes.replace(',', "\u{d7}"))
}

/// The number of an argument: `ptr=0x10 | size=0x40`, `size=64`.
fn argument(arguments: &str, key: &str) -> Option<u64> {
    let mut words = arguments.split(['|', ',', ' ']);
    let value = words.find_map(|word| word.trim().strip_prefix(key)?.strip_prefix('='))?;
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

/// What a call is; `None`: a point in time or a range, whose name its arguments are.
fn kind_of(domain: &str, name: &str) -> Option<HostKind> {
    match (domain, name) {
        ("UserMarker", _) | (_, "UserMarker") => None,
        ("hsa", _) => Some(HostKind::Hsa),
        ("rccl" | "nccl" | "mpi" | "shmem" | "ucx", _) => Some(HostKind::Collective),
        ("python", _) => Some(HostKind::Function),
        ("pytorch", _) => Some(HostKind::Operator),
        ("hip", _) => Some(HostKind::Runtime),
        (_, name) if name.starts_with("hsa_") => Some(HostKind::Hsa),
        (_, name) if name.starts_with("nccl") => Some(HostKind::Collective),
        (_, name)
            if name.starts_with("hip") || name.starts_with("__hip") || name.starts_with("cu") =>
        {
            Some(HostKind::Runtime)
        }
        _ => Some(HostKind::Function),
    }
}

/// Types of operations by the directions that their names say.
const COPIES: [(&str, &str); 4] = [
    ("HostToDevice", "host to device"),
    ("DeviceToHost", "device to host"),
    ("DeviceToDevice", "device to device"),
    ("HostToHost", "host to host"),
];

impl Taker for RpdTaker {
    type Row = Record;

    fn take(&mut self, record: Record, model: &mut Model, batch: &mut Batch) {
        match record {
            Record::Strides(strides) => self.places.strides = strides,
            Record::Call {
                id,
                pid,
                tid,
                start_ns,
                end_ns,
                name,
                domain,
                arguments,
            } => {
                let (process, thread) = self.places.thread(pid, tid, model);
                let kind = kind_of(&domain, &name);
                let is_mark = kind.is_none() && start_ns == end_ns;
                let text = if kind.is_none() { &arguments } else { &name };
                let name_id = model.texts.intern(text);
                if is_mark && self.kinds.marks {
                    batch.marks.push(Mark {
                        time_ns: start_ns,
                        process,
                        thread,
                        name: name_id,
                    });
                }
                let of_slice = kind.unwrap_or_else(|| HostKind::of_range(text));
                if is_mark || !self.kinds.wants(of_slice) {
                    return;
                }
                let is_of_gpu = matches!(kind, Some(HostKind::Runtime | HostKind::Hsa));
                let found = |key: &str| argument(&arguments, key).filter(|_| kind.is_some());
                batch.host.push(HostSlice {
                    start_ns,
                    end_ns,
                    link: if is_of_gpu { link(id) } else { 0 },
                    bytes: found("size").unwrap_or(0),
                    address: found("ptr").unwrap_or(0),
                    stream: found("stream").map_or(0, |handle| handle.saturating_add(1)),
                    process,
                    thread,
                    name: name_id,
                    depth: HostSlice::UNKNOWN_DEPTH,
                    kind: of_slice,
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
            Record::Operation { gpu, .. } if gpu < 0 => self.marker(&record, model, batch),
            Record::Operation { .. } if !self.kinds.gpu => {}
            Record::Operation {
                pid,
                gpu,
                queue,
                start_ns,
                end_ns,
                description,
                kind,
                api,
                bytes,
                grid,
            } => {
                let (process, device, queue) = self.places.queue(pid, gpu, (queue, ""), model);
                let direction = COPIES.iter().find(|(word, _)| kind.contains(word));
                let is_copy = kind.starts_with("Copy") || direction.is_some();
                let (op_kind, name) = match kind.as_str() {
                    _ if is_copy => (OpKind::Copy, &kind),
                    kind if kind.starts_with("Fill") => (OpKind::Fill, &description),
                    kind if kind.contains("Barrier") => (OpKind::Other, &description),
                    _ => (OpKind::Kernel, &description),
                };
                let name = if name.is_empty() { &kind } else { name };
                let activity: Activity = classify(op_kind, name);
                let direction = direction.filter(|_| is_copy);
                batch.gpu.push(GpuRecord {
                    start_ns,
                    end_ns,
                    link: api.map_or(0, link),
                    bytes: if is_copy || op_kind == OpKind::Fill {
                        bytes
                    } else {
                        0
                    },
                    process,
                    device,
                    queue,
                    name: model.texts.intern(name),
                    grid: match op_kind {
                        OpKind::Kernel => model.texts.intern(&grid),
                        _ => TextId::EMPTY,
                    },
                    direction: direction
                        .map_or(TextId::EMPTY, |(_, words)| model.texts.intern(words)),
                    source: TextId::EMPTY,
                    kind: op_kind,
                    activity,
                });
            }
            Record::Sensor {
                gpu,
                name,
                start_ns,
                end_ns,
                value,
            } => {
                let counter = self.places.sensor(gpu, &name, model);
                let mut put = |time_ns| {
                    batch.counters.push(CounterValue {
                        time_ns,
                        counter,
                        value,
                    });
                };
                put(start_ns);
                if end_ns > start_ns {
                    put(end_ns);
                }
            }
        }
    }
}

impl RpdTaker {
    /// A range of rocm-trace-lite, which has no thread.
    fn marker(&mut self, record: &Record, model: &mut Model, batch: &mut Batch) {
        let Record::Operation {
            pid,
            start_ns,
            end_ns,
            description,
            ..
        } = record
        else {
            return;
        };
        if !self.kinds.host {
            return;
        }
        let (pid, _) = self.places.process(*pid, model);
        let (process, thread) = self.places.thread(pid, 0, model);
        batch.host.push(HostSlice {
            start_ns: *start_ns,
            end_ns: *end_ns,
            process,
            thread,
            name: model.texts.intern(description),
            depth: HostSlice::UNKNOWN_DEPTH,
            kind: HostKind::Range,
            ..HostSlice::default()
        });
    }
}

/// What links a call with its operations: 0 is none.
fn link(id: i64) -> u64 {
    id.cast_unsigned().wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_by_name() {
        for (text, key, expected) in [
            ("ptr=0x10 | size=0x40", "size", Some(0x40)),
            ("ptr=0x10 | size=0x40", "ptr", Some(0x10)),
            ("size=64", "size", Some(64)),
            ("resize=64", "size", None),
            ("", "size", None),
        ] {
            assert_eq!(argument(text, key), expected, "{text}");
        }
    }

    #[test]
    fn domains_and_names_say_what_a_call_is() {
        for (domain, name, expected) in [
            ("hip", "hipLaunchKernel", Some(HostKind::Runtime)),
            ("", "hipMemcpy", Some(HostKind::Runtime)),
            ("", "UserMarker", None),
            ("UserMarker", "UserMarker", None),
            ("python", "train", Some(HostKind::Function)),
            ("", "hsa_signal_wait", Some(HostKind::Hsa)),
        ] {
            assert_eq!(kind_of(domain, name), expected, "{domain} {name}");
        }
    }
}
