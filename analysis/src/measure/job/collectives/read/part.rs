//! What was found of a file, kept in a Parquet file of its own: a row for each operation of each of its ranks. `docs/report.md` has the columns.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::joining::{self, Joining};
use super::operations::{BY_CALL, FUSED, Lane, Member, Shape};
use super::proxies::ProxyTimes;
use crate::containers::packed_rows::PackedRows;
use crate::measure::job::mpi;
use crate::parquet::{self, Columns, ParquetError, PartError, Values};
use rsys_traces::model::{Model, Notice, Process, TextId};

/// Parts of another version are made again.
const VERSION: u32 = 3;
/// The key beside the table.
const KEY: &str = "rsys.collectives";

/// Bytes of a part up to which times stay as they are.
const EXACT_BYTES: usize = 64_000;
/// The limit where it is more: thousandths of a byte for each operation, 64,000 bytes for 20,000.
const MILLIBYTES: usize = 3_200;
/// The coarsest grain that times are given.
const TICK_MAX_NS: u64 = 1_024;

/// What was found of one file.
#[derive(Debug, Default)]
pub struct Part {
    pub(crate) shapes: Vec<Shape<String>>,
    /// At the places of the processes.
    pub(crate) of_processes: Vec<ProcessPart>,
    /// The grain of the times; 1: they are as in the trace.
    pub(crate) tick_ns: u64,
    /// Calls of MPI at the places of the processes: not in a file.
    pub(crate) mpi: Vec<mpi::Calls>,
    /// How many calls of MPI there were that are not there any more.
    pub(crate) without_mpi: u64,
    /// The processes of the file.
    pub processes: Vec<Process>,
    /// What is wrong with it.
    pub notices: Vec<Notice>,
}

/// The operations of a process.
#[derive(Debug, Default)]
pub(crate) struct ProcessPart {
    /// With number, begin, duration, shape and flags of each operation; sorted.
    pub(crate) members: Vec<(Member<String>, PackedRows<4>)>,
    pub(crate) unidentified: u64,
    pub(crate) unmatched_kernels: u64,
    pub(crate) proxy_times: Vec<ProxyClass>,
}

/// What proxies did for the operations of one class, of a rank of a communicator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProxyClass {
    pub(crate) communicator: String,
    pub(crate) shape: Shape<String>,
    pub(crate) times: ProxyTimes,
}

impl ProxyClass {
    /// The order in the file.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.communicator.clone(), one.times.rank, one.shape.clone());
        key(self).cmp(&key(other))
    }
}

/// What stands beside the table.
#[derive(Debug, Serialize, Deserialize)]
struct Beside {
    version: u32,
    source: String,
    tick_ns: u64,
    processes: Vec<Process>,
    notices: Vec<Notice>,
    #[serde(default)]
    without_mpi: u64,
    of_processes: Vec<BesideProcess>,
}

/// The members of a process as far as they are no columns: with them, how many rows each has.
#[derive(Debug, Serialize, Deserialize)]
struct BesideProcess {
    #[serde(rename = "nameless")]
    unidentified: u64,
    #[serde(rename = "strangers")]
    unmatched_kernels: u64,
    rows: Vec<usize>,
    #[serde(rename = "of_proxies")]
    proxy_times: Vec<ProxyClass>,
}

impl Part {
    /// What was read of a file, of which `model` is.
    pub(crate) fn of(mut joining: Joining, model: &Model) -> Self {
        joining.finish();
        let mpi = joining.mpi.finish(model);
        let text = |id: TextId| model.text(id).to_owned();
        let shapes = joining.shapes.iter();
        let mut shapes: Vec<_> = shapes.map(|one| one.with_names(|id| text(*id))).collect();
        joining
            .processes
            .resize_with(model.processes.len(), joining::ProcessJoin::default);
        let processes = joining.processes.iter_mut().zip(&model.processes);
        let by_order = processes.map(|(of_process, process)| {
            let rows = of_process.members.values().map(|one| &one.rows);
            let mut unrecorded = std::mem::take(&mut of_process.unrecorded);
            unrecorded.leave_out(rows);
            unrecorded.in_order(process, model, &mut shapes)
        });
        let by_order: Vec<_> = by_order.collect();
        let of_processes = joining.processes.into_iter().zip(by_order);
        let of_processes = of_processes.map(|(of_process, by_order)| {
            let mut members: Vec<_> = of_process.members.into_iter().collect();
            members.sort_by_key(|(member, _)| member.order(model));
            let members = members.into_iter().map(|(member, operations)| {
                let mut rows = operations.rows;
                rows.sort();
                (member.with_names(|id| text(*id)), rows)
            });
            let proxy_times = of_process.proxy_times.into_iter();
            let proxy_times = proxy_times.map(|(communicator, shape, times)| ProxyClass {
                communicator: text(communicator),
                shape: shapes[shape as usize].clone(),
                times,
            });
            let mut proxy_times: Vec<ProxyClass> = proxy_times.collect();
            proxy_times.sort_by(ProxyClass::order);
            ProcessPart {
                members: members.chain(by_order.members).collect(),
                proxy_times,
                unidentified: of_process.unidentified,
                unmatched_kernels: by_order.left_out,
            }
        });
        let of_processes = of_processes.collect();
        Self {
            of_processes,
            shapes,
            tick_ns: 1,
            mpi,
            without_mpi: 0,
            processes: model.processes.clone(),
            notices: model.notices.clone(),
        }
    }

    /// Calls of MPI that wait for others in more ways than in collectives of all ranks alike.
    fn mpi_calls(&self) -> u64 {
        let calls = self.mpi.iter().map(mpi::Calls::messages);
        self.without_mpi + calls.sum::<u64>()
    }

    /// The file of a part. `source` says what it was made of, and when that changes. Where it would be large, times are rounded to some nanoseconds.
    ///
    /// # Errors
    /// When it cannot be packed, which does not happen in memory.
    pub fn write(&self, source: &str) -> std::io::Result<Vec<u8>> {
        let rows = self.members().map(|(_, _, rows)| rows.len());
        // Coarser times make nothing smaller of what proxies did.
        let proxy_times = self.of_processes.iter().map(|one| &one.proxy_times);
        let proxy_times = serde_json::to_string(&proxy_times.collect::<Vec<_>>())?;
        let most = EXACT_BYTES.max(rows.sum::<usize>() * MILLIBYTES / 1000) + proxy_times.len();
        let mut tick_ns = self.tick_ns.max(1);
        loop {
            let file = self.write_in(tick_ns, source)?;
            if file.len() <= most || tick_ns >= TICK_MAX_NS {
                return Ok(file);
            }
            // A grain that is twice as coarse saves two bits of each row.
            tick_ns = if tick_ns == 1 { 16 } else { 2 * tick_ns };
        }
    }

    /// With the places of their processes.
    fn members(&self) -> impl Iterator<Item = (usize, &Member<String>, &PackedRows<4>)> {
        let processes = self.of_processes.iter().enumerate();
        processes.flat_map(|(place, one)| {
            let members = one.members.iter();
            members.map(move |(member, rows)| (place, member, rows))
        })
    }

    fn write_in(&self, tick_ns: u64, source: &str) -> std::io::Result<Vec<u8>> {
        let of_processes = self.of_processes.iter().map(|one| BesideProcess {
            unidentified: one.unidentified,
            unmatched_kernels: one.unmatched_kernels,
            rows: one.members.iter().map(|(_, rows)| rows.len()).collect(),
            proxy_times: one.proxy_times.clone(),
        });
        let beside = serde_json::to_string(&Beside {
            version: VERSION,
            source: source.to_owned(),
            tick_ns,
            processes: self.processes.clone(),
            notices: self.notices.clone(),
            without_mpi: self.mpi_calls(),
            of_processes: of_processes.collect(),
        })?;
        parquet::write(&Columns {
            columns: self.columns(tick_ns),
            beside: vec![(KEY.to_owned(), beside)],
        })
    }

    fn columns(&self, tick_ns: u64) -> Vec<(String, Values)> {
        let shared = |text: &str| Some(Arc::<str>::from(text));
        let shapes: Vec<[Option<Arc<str>>; 2]> = self
            .shapes
            .iter()
            .map(|shape| [&shape.name, &shape.data_type].map(|text| shared(text)))
            .collect();
        let timing = [shared("kernel"), shared("call")];
        let mut counts: [Vec<Option<i64>>; COUNTS.len()] = Default::default();
        let mut texts: [Vec<Option<Arc<str>>>; TEXTS.len()] = Default::default();
        let count = |value: u64| i64::try_from(value).ok();
        for (place, member, rows) in self.members() {
            let process = &self.processes[place];
            let (host, communicator) = (shared(&process.host), shared(&member.communicator));
            let peer = match member.lane {
                Lane::Everyone => None,
                Lane::With(peer, _) => Some(peer),
            };
            for [sequence, start_ns, duration_ns, info] in rows.iter() {
                let shape = (info >> 2) as usize;
                let about = &self.shapes[shape];
                let start = start_ns / tick_ns;
                // Rounded like this, what ended before another began still does.
                let duration = (start_ns + duration_ns) / tick_ns - start;
                let values = [
                    process.rank.and_then(count),
                    Some(i64::from(process.pid)),
                    member.rank.and_then(count),
                    peer.and_then(count),
                    count(sequence),
                    count(about.bytes),
                    about.ranks.and_then(count),
                    count(start),
                    count(duration),
                    count(tick_ns),
                    Some(i64::from(info & FUSED != 0)),
                ];
                for (list, value) in counts.iter_mut().zip(values) {
                    list.push(value);
                }
                let [name, data_type] = shapes[shape].clone();
                let timing = timing[usize::from(info & BY_CALL != 0)].clone();
                let values = [host.clone(), communicator.clone(), name, data_type, timing];
                for (list, value) in texts.iter_mut().zip(values) {
                    list.push(value);
                }
            }
        }
        let counts = COUNTS.into_iter().zip(counts.map(Values::Counts));
        let texts = TEXTS.into_iter().zip(texts.map(Values::Texts));
        let columns = counts.chain(texts);
        columns
            .map(|(name, values)| (name.to_owned(), values))
            .collect()
    }

    /// The part in a file, if that was made of the same source.
    ///
    /// # Errors
    /// When it was not, or is damaged.
    pub fn read(file: &[u8], source: &str) -> Result<Self, PartError> {
        let table = parquet::read(file)?;
        let beside = table.beside.iter().find(|(key, _)| key == KEY);
        let beside: Beside = beside
            .and_then(|(_, text)| serde_json::from_str(text).ok())
            .ok_or(PartError::Outdated)?;
        let is_whole = beside.of_processes.len() == beside.processes.len();
        if beside.version != VERSION || beside.source != source {
            return Err(PartError::Outdated);
        }
        if !is_whole || beside.tick_ns == 0 {
            return Err(ParquetError::Damaged.into());
        }
        let mut rows = RowReader::new(&table, beside.tick_ns).ok_or(ParquetError::Damaged)?;
        let mut of_processes = Vec::with_capacity(beside.of_processes.len());
        for one in beside.of_processes {
            let members = one.rows.iter().map(|&count| rows.member(count));
            let members: Option<Vec<_>> = members.collect();
            of_processes.push(ProcessPart {
                members: members.ok_or(ParquetError::Damaged)?,
                unidentified: one.unidentified,
                unmatched_kernels: one.unmatched_kernels,
                proxy_times: one.proxy_times,
            });
        }
        Ok(Self {
            shapes: rows.shapes,
            of_processes,
            tick_ns: beside.tick_ns,
            mpi: Vec::new(),
            without_mpi: beside.without_mpi,
            processes: beside.processes,
            notices: beside.notices,
        })
    }
}

/// Columns of whole numbers and of texts, in the order of the file.
const COUNTS: [&str; 11] = [
    "rank",
    "process",
    "communicator_rank",
    "peer",
    "sequence",
    "message_bytes",
    "communicator_ranks",
    "start_ticks",
    "duration_ticks",
    "tick_ns",
    "fused",
];
const TEXTS: [&str; 5] = ["host", "communicator", "operation", "data_type", "timing"];

/// What of a row is one of few: operation and type by where they stand in memory, which is the same for equal ones, bytes and ranks.
type Key = ([*const u8; 2], i64, Option<i64>);

/// Takes rows from the front.
struct RowReader<'a> {
    tick_ns: u64,
    at: usize,
    counts: [&'a [Option<i64>]; COUNTS.len()],
    texts: [&'a [Option<Arc<str>>]; TEXTS.len()],
    shapes: Vec<Shape<String>>,
    known: HashMap<Key, u64>,
    last: Option<(Key, u64)>,
}

impl<'a> RowReader<'a> {
    fn new(table: &'a Columns, tick_ns: u64) -> Option<Self> {
        let mut counts = [[].as_slice(); COUNTS.len()];
        for (column, name) in counts.iter_mut().zip(COUNTS) {
            let Some(Values::Counts(values)) = table.get(name) else {
                return None;
            };
            *column = values;
        }
        let mut texts = [[].as_slice(); TEXTS.len()];
        for (column, name) in texts.iter_mut().zip(TEXTS) {
            let Some(Values::Texts(values)) = table.get(name) else {
                return None;
            };
            *column = values;
        }
        Some(Self {
            tick_ns,
            at: 0,
            counts,
            texts,
            shapes: Vec::new(),
            known: HashMap::new(),
            last: None,
        })
    }

    /// The next rows, which are those of one member.
    fn member(&mut self, count: usize) -> Option<(Member<String>, PackedRows<4>)> {
        let first = self.at;
        let last = first.checked_add(count)?;
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let [_, _, rank, peer, ..] = self.counts;
        let [_, communicator, name, ..] = self.texts;
        let peer = number(*peer.get(first)?);
        let member = Member {
            communicator: communicator[first].as_deref()?.to_owned(),
            rank: number(rank[first]),
            lane: match peer.zip(name[first].as_deref()) {
                Some((peer, name)) => Lane::With(peer, name.to_owned()),
                None => Lane::Everyone,
            },
        };
        let mut rows = PackedRows::default();
        for at in first..last {
            rows.push(self.row(at)?);
        }
        rows.sort();
        self.at = last;
        Some((member, rows))
    }

    fn row(&mut self, at: usize) -> Option<[u64; 4]> {
        let [
            _,
            _,
            _,
            _,
            sequence,
            bytes,
            ranks,
            start,
            duration,
            _,
            fused,
        ] = self.counts;
        let [_, _, name, data_type, timing] = self.texts;
        let (name, data_type) = (name.get(at)?.as_ref()?, data_type[at].as_ref()?);
        let key: Key = ([name.as_ptr(), data_type.as_ptr()], bytes[at]?, ranks[at]);
        let last = self.last.filter(|(last, _)| *last == key);
        let known = last.map(|(_, shape)| shape);
        let shape = match known.or_else(|| self.known.get(&key).copied()) {
            Some(shape) => shape,
            None => {
                let shape = self.shapes.len() as u64;
                self.shapes.push(Shape {
                    name: name.to_string(),
                    data_type: data_type.to_string(),
                    bytes: u64::try_from(bytes[at]?).ok()?,
                    ranks: ranks[at].and_then(|ranks| u64::try_from(ranks).ok()),
                });
                self.known.insert(key, shape);
                shape
            }
        };
        self.last = Some((key, shape));
        let time = |ticks: i64| u64::try_from(ticks).ok()?.checked_mul(self.tick_ns);
        let is_by_call = timing[at].as_deref()? == "call";
        let by_call = if is_by_call { BY_CALL } else { 0 };
        let fused = if fused[at]? != 0 { FUSED } else { 0 };
        Some([
            u64::try_from(sequence[at]?).ok()?,
            time(start[at]?)?,
            time(duration[at]?)?,
            shape << 2 | by_call | fused,
        ])
    }
}
