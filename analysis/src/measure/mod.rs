//! One module for each question. All consume the same batches, in one pass.
//!
//! | folder | questions |
//! |---|---|
//! | [`gpu`] | what GPUs did, and why they were idle |
//! | [`host`] | what threads did: functions, calls, locks |
//! | [`job`] | what ranks did together, iteration by iteration |
//! | [`pictures`] | what pictures and comparisons are made from |
//!
//! Why something was idle is said in the words of `idle_cause`.
//!
//! Times are whole nanoseconds and intervals are half-open. Intervals that overlap are united, never added up ([`crate::containers::sets`]); what
//! cannot be attributed is a row of its own, so that the parts of a table add up to its total exactly.

pub mod gpu;
pub mod host;
pub(crate) mod idle_cause;
pub mod job;
pub mod pictures;

use std::collections::BTreeSet;

use crate::program::runs;
use crate::table::{Answer, Cell, Column};
use rsys_traces::model::{Batch, DeviceId, Kinds, Model, Process, ProcessId};

/// A question, while records are read.
pub trait Measure: Send {
    /// The kinds of records that it needs.
    fn needs(&self) -> Kinds;

    /// Takes in a batch of records. What their ids stand for is only known at the end.
    fn take(&mut self, batch: &Batch);

    /// Whether so much is kept that [`Measure::settle`] should be called.
    fn is_full(&self) -> bool {
        false
    }

    /// Makes less of what is kept. Of the model so far, texts and stacks are as they will be at the end; what it says of processes, threads, GPUs,
    /// queues and counters is known at the end only.
    fn settle(&mut self, model: &Model) {
        let _ = model;
    }

    /// The answer, when all was read; `label` is the name of the run. The order in which files were read must not show in it.
    fn answer(&mut self, model: &Model, label: &str) -> Answer;
}

/// The columns by which a GPU is named, in all tables.
pub(crate) const DEVICE_COLUMNS: [Column; 5] = [
    Column::plain("rank", "rank"),
    Column::plain("host", ""),
    Column::plain("process", "process"),
    Column::plain("device", "GPU"),
    Column::plain("name", ""),
];

/// The cells of [`DEVICE_COLUMNS`].
pub(crate) fn device_cells(model: &Model, id: DeviceId) -> Vec<Cell> {
    let device = model.device(id);
    let process = model.process(device.process);
    vec![
        process.rank.into(),
        process.host.as_str().into(),
        process.pid.into(),
        device.ordinal.into(),
        device.name.as_str().into(),
    ]
}

/// The columns by which a process is named, in all tables.
pub(crate) const PROCESS_COLUMNS: [Column; 4] = [
    Column::plain("rank", "rank"),
    Column::plain("host", ""),
    Column::plain("process", "process"),
    Column::plain("process_name", "program"),
];

/// The cells of [`PROCESS_COLUMNS`].
pub(crate) fn process_cells(model: &Model, id: ProcessId) -> [Cell; 4] {
    let process = model.process(id);
    [
        process.rank.into(),
        process.host.as_str().into(),
        process.pid.into(),
        process.name.as_str().into(),
    ]
}

/// A measure, and the name of its question.
pub type Named = (&'static str, Box<dyn Measure>);

/// All questions about single processes, in the order of a summary.
#[must_use]
pub fn of_summary() -> Vec<Named> {
    vec![
        ("timeline", Box::<gpu::timeline::Timeline>::default()),
        ("gaps", Box::<gpu::gaps::Gaps>::default()),
        ("kernels", Box::<gpu::kernels::Kernels>::default()),
        ("launch", Box::<gpu::launch::Launch>::default()),
        ("copies", Box::<gpu::copies::Copies>::default()),
        ("calls", Box::<host::calls::Calls>::default()),
        ("functions", Box::<host::functions::Functions>::default()),
        ("locks", Box::<host::locks::Locks>::default()),
        ("memory", Box::<gpu::memory::Memory>::default()),
        ("sensors", Box::<gpu::sensors::Sensors>::default()),
    ]
}

/// Columns of tables that text does not have: `owner` names what they are about.
pub(crate) fn unseen(owner: &[Column], columns: &[Column]) -> Vec<Column> {
    let columns = owner.iter().chain(columns);
    columns.map(|column| column.unseen()).collect()
}

/// What a question about GPUs says of traces without one.
pub(crate) fn no_operation(model: &Model) -> String {
    let records = |process: &Process| RECORD_GPUS.iter().any(|name| process.has_backend(name));
    let what = "no operation of a GPU is in these traces";
    match !model.processes.is_empty() && model.processes.iter().all(records) {
        // Who has asked for them need not be told how.
        true => format!("{what}, though they were asked for: no work of a GPU was seen"),
        false => format!("{what}: rsys-sample records them with -I rocm"),
    }
}

/// Backends that record operations of GPUs.
const RECORD_GPUS: [&str; 2] = ["roctracer", "hsa"];

/// The notices of a model as notes of an answer.
pub(crate) fn notes(model: &Model) -> Vec<String> {
    let mut notes: Vec<String> = model.notices.iter().map(ToString::to_string).collect();
    notes.sort();
    notes.extend(missing_ranks(model));
    notes.extend(runs::note(&model.processes));
    notes
}

/// Ranks of the job that none of the processes has.
fn missing_ranks(model: &Model) -> Option<String> {
    const NAMED: usize = 8;
    let known: BTreeSet<u64> = model.processes.iter().filter_map(|one| one.rank).collect();
    let counts = model.processes.iter().filter_map(|one| one.rank_count);
    let count = counts.max()?;
    // A job may be larger than any list that is worth making.
    let missing = count.saturating_sub(known.range(..count).count() as u64);
    let named = (0..count).filter(|rank| !known.contains(rank)).take(NAMED);
    let mut list: Vec<String> = named.map(|rank| rank.to_string()).collect();
    if missing > NAMED as u64 {
        list.push("\u{2026}".to_owned());
    }
    let list = list.join(", ");
    (missing > 0)
        .then(|| format!("{missing} of the job's {count} ranks are not in these traces: {list}"))
}
