//! What was found of a file, kept in a Parquet file of its own: the iterations are its table, and what else there is stands beside it. `docs/report.md` has
//! the columns.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Options;
use super::lane::{Detail, Iteration, Lane, SENSORS};
use super::sums::{FIELDS, Field, Sums};
use super::verdicts::Verdict;
use crate::parquet::{self, Columns, ParquetError, PartError, Values};
use rsys_traces::model::{Notice, Process};

/// Parts of another version are made again.
const VERSION: u32 = 7;
/// The key beside the table.
const KEY: &str = "rsys.overlap";

/// What was found of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Part {
    /// Iterations, in the order of output.
    pub lanes: Vec<Lane>,
    /// The processes of the file.
    pub processes: Vec<Process>,
    /// What is wrong with it.
    pub notices: Vec<Notice>,
}

/// What stands beside the table.
#[derive(Debug, Serialize, Deserialize)]
struct Beside {
    version: u32,
    marker: Option<String>,
    assign: String,
    source: String,
    lanes: Vec<Lane>,
    counts: Vec<usize>,
    processes: Vec<Process>,
    notices: Vec<Notice>,
}

impl Part {
    /// The file of a part. `source` says what it was made of, and when that changes.
    ///
    /// # Errors
    /// When it cannot be packed, which does not happen in memory.
    pub fn write(&self, options: &Options, source: &str) -> std::io::Result<Vec<u8>> {
        let beside = Beside {
            version: VERSION,
            marker: options.marker.clone(),
            assign: options.assign.text().to_owned(),
            source: source.to_owned(),
            lanes: self.lanes.clone(),
            counts: self
                .lanes
                .iter()
                .map(|lane| lane.iterations.len())
                .collect(),
            processes: self.processes.clone(),
            notices: self.notices.clone(),
        };
        let beside = serde_json::to_string(&beside)?;
        parquet::write(&Columns {
            columns: self.columns(),
            beside: vec![(KEY.to_owned(), beside)],
        })
    }

    fn columns(&self) -> Vec<(String, Values)> {
        let rows = || {
            let lanes = self.lanes.iter();
            lanes.flat_map(|lane| {
                let rows = lane.iterations.iter().zip(&lane.details);
                rows.map(move |(one, detail)| (lane, one, detail))
            })
        };
        type Seen<'a> = (&'a Lane, &'a Iteration, &'a Detail);
        let count = |name: &str, of: &dyn Fn(&Seen<'_>) -> Option<u64>| {
            let values = rows().map(|row| of(&row).and_then(|one| i64::try_from(one).ok()));
            (name.to_owned(), Values::Counts(values.collect()))
        };
        let text = |name: &str, of: &dyn Fn(&Seen<'_>) -> String| {
            let values = rows().map(|row| Some(Arc::from(of(&row))));
            (name.to_owned(), Values::Texts(values.collect()))
        };
        let mut columns = vec![
            count("rank", &|row| row.0.rank),
            text("host", &|row| row.0.host.clone()),
            count("process", &|row| Some(u64::from(row.0.pid))),
            count("device", &|row| Some(u64::from(row.0.device.0))),
            count("iteration", &|row| Some(row.1.number)),
            text("verdict", &|row| row.1.verdict.text().to_owned()),
            count("start_ns", &|row| Some(row.1.start_ns)),
            count("duration_ns", &|row| Some(row.1.duration_ns)),
            count("work_end_ns", &|row| Some(row.1.work_end_ns)),
            count("host_start_ns", &|row| Some(row.1.host_ns.0)),
            count("host_end_ns", &|row| Some(row.1.host_ns.1)),
        ];
        for (field, key, _) in FIELDS {
            columns.push(count(key, &|row| Some(row.2.sums.get(field))));
        }
        for (place, (_, _, key)) in SENSORS.iter().enumerate() {
            let values = rows().map(|row| row.2.sensors[place]);
            columns.push(((*key).to_owned(), Values::Numbers(values.collect())));
        }
        columns
    }

    /// The part in a file, if that was made for the same question of the same source.
    ///
    /// # Errors
    /// When it was not, or is damaged.
    pub fn read(file: &[u8], options: &Options, source: &str) -> Result<Self, PartError> {
        let table = parquet::read(file)?;
        let beside = table.beside.iter().find(|(key, _)| key == KEY);
        let beside: Beside = beside
            .and_then(|(_, text)| serde_json::from_str(text).ok())
            .ok_or(PartError::Outdated)?;
        let is_asked = beside.version == VERSION
            && beside.marker == options.marker
            && beside.assign == options.assign.text()
            && beside.source == source;
        if !is_asked {
            return Err(PartError::Outdated);
        }
        let mut part = Self {
            lanes: beside.lanes,
            processes: beside.processes,
            notices: beside.notices,
        };
        let rows = Rows::new(&table).ok_or(ParquetError::Damaged)?;
        let mut at = 0_usize;
        for (lane, count) in part.lanes.iter_mut().zip(beside.counts) {
            for row in at..at.checked_add(count).ok_or(ParquetError::Damaged)? {
                let (iteration, detail) = rows.row(row).ok_or(ParquetError::Damaged)?;
                lane.iterations.push(iteration);
                lane.details.push(detail);
            }
            at += count;
        }
        Ok(part)
    }
}

/// The rows of a table.
struct Rows<'a> {
    /// Number, begin, duration, the end of its work, begin and end on the host.
    iteration: [&'a [Option<i64>]; 6],
    verdict: &'a [Option<Arc<str>>],
    sums: [&'a [Option<i64>]; FIELDS.len()],
    sensors: [&'a [Option<f64>]; 3],
}

impl<'a> Rows<'a> {
    fn new(table: &'a Columns) -> Option<Self> {
        let counts = |name: &str| match table.get(name) {
            Some(Values::Counts(values)) => values.as_slice(),
            _ => &[],
        };
        let numbers = |name: &str| match table.get(name) {
            Some(Values::Numbers(values)) => values.as_slice(),
            _ => &[],
        };
        let Some(Values::Texts(verdict)) = table.get("verdict") else {
            return None;
        };
        Some(Self {
            iteration: [
                "iteration",
                "start_ns",
                "duration_ns",
                "work_end_ns",
                "host_start_ns",
                "host_end_ns",
            ]
            .map(counts),
            verdict,
            sums: FIELDS.map(|(_, key, _)| counts(key)),
            sensors: SENSORS.map(|(_, _, key)| numbers(key)),
        })
    }

    fn row(&self, row: usize) -> Option<(Iteration, Detail)> {
        let count = |values: &[Option<i64>]| u64::try_from((*values.get(row)?)?).ok();
        let mut sums = Sums::default();
        for ((field, _, _), values) in FIELDS.iter().zip(self.sums) {
            sums.add(*field, count(values)?);
        }
        let [number, start_ns, duration_ns, work_end_ns, from_ns, to_ns] =
            self.iteration.map(count);
        let iteration = Iteration {
            number: number?,
            start_ns: start_ns?,
            duration_ns: duration_ns?,
            work_end_ns: work_end_ns?,
            host_ns: (from_ns?, to_ns?),
            exposed_comm_ns: sums.get(Field::ExposedComm),
            verdict: Verdict::of(self.verdict.get(row)?.as_deref().unwrap_or("")),
        };
        let sensors = self
            .sensors
            .map(|values| values.get(row).copied().flatten());
        Some((iteration, Detail { sums, sensors }))
    }
}
