//! What each stream of a GPU did: why it was idle between two operations, which kernels follow each other again and again, and which ranges of the program the
//! GPU worked in.
//!
//! | file | holds |
//! |---|---|
//! | `idle` | idle time of streams by what the next operation waited for |
//! | `sequences` | kernels that follow each other again and again |
//! | `ranges` | ranges as the GPU saw them |

mod idle;
mod ranges;
mod sequences;

use std::collections::{BTreeMap, HashMap};

use crate::joined::ids::CorrelationId;
use crate::joined::submissions::Submissions;
use crate::measure::{DEVICE_COLUMNS, Measure, device_cells, no_operation, notes};
use crate::table::{Answer, Cell, Column};
use rsys_traces::model::{
    Activity, Batch, GpuRange, Kinds, Model, OpKind, ProcessId, QueueId, TextId,
};

/// Operations, calls and ranges that are kept, at most, some 40 bytes each.
const MOST: usize = 1 << 19;

/// An operation of a stream.
#[derive(Debug, Clone, Copy)]
struct Operation {
    start_ns: u64,
    end_ns: u64,
    link: u64,
    name: TextId,
    is_kernel: bool,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Streams {
    streams: HashMap<QueueId, (ProcessId, Vec<Operation>)>,
    operations: usize,
    calls: BTreeMap<ProcessId, Submissions>,
    /// How many of them there are.
    submissions: usize,
    ranges: Vec<GpuRange>,
    left_out: u64,
}

impl Measure for Streams {
    fn needs(&self) -> Kinds {
        Kinds::GPU_AND_HOST
    }

    fn take(&mut self, batch: &Batch) {
        for one in &batch.gpu {
            if one.activity == Activity::None {
                continue;
            }
            if self.operations == MOST {
                self.left_out += 1;
                continue;
            }
            self.operations += 1;
            let stream = self.streams.entry(one.queue);
            let (_, list) = stream.or_insert_with(|| (one.process, Vec::new()));
            list.push(Operation {
                start_ns: one.start_ns,
                end_ns: one.end_ns,
                link: one.link,
                name: one.name,
                is_kernel: one.kind == OpKind::Kernel,
            });
        }
        for slice in &batch.host {
            if CorrelationId::of_call(slice).is_some() && self.submissions < MOST {
                self.calls.entry(slice.process).or_default().take(slice);
                self.submissions += 1;
            }
        }
        let room = MOST - self.ranges.len();
        self.ranges.extend(batch.gpu_ranges.iter().take(room));
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let mut streams: BTreeMap<Place, Vec<Operation>> = BTreeMap::new();
        let order = order_of_devices(model);
        for (queue, (process, mut list)) in std::mem::take(&mut self.streams) {
            list.sort_by_key(|one| (one.start_ns, one.end_ns, model.text(one.name), one.link));
            let place = Place::of(queue, process, &order, model);
            // Streams of one name are one.
            streams.entry(place).or_default().append(&mut list);
        }
        self.calls.values_mut().for_each(Submissions::sort);
        let mut tables = vec![
            idle::table(&streams, &self.calls, model),
            sequences::table(&streams, model),
            ranges::table(&streams, &self.ranges, &order, model),
        ];
        tables.retain(|table| !table.rows.is_empty());
        let mut notes = notes(model);
        if self.left_out > 0 {
            notes.push(format!(
                "the first {MOST} operations are looked at; {} more are not: ask a part of the file, or one rank",
                self.left_out
            ));
        }
        let is_empty = streams.is_empty();
        if is_empty {
            notes.push(no_operation(model));
        }
        Answer {
            tables,
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

/// A stream, as it is ordered in tables: by its GPU, then its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    device: usize,
    name: String,
    queue: QueueId,
    process: ProcessId,
}

/// The places of GPUs in tables.
fn order_of_devices(model: &Model) -> Vec<usize> {
    let mut order = vec![usize::MAX; model.devices.len()];
    for (place, device) in model.devices_in_order().into_iter().enumerate() {
        order[device.index()] = place;
    }
    order
}

impl Place {
    fn of(queue: QueueId, process: ProcessId, order: &[usize], model: &Model) -> Self {
        let about = model.queues.get(queue.index()).copied().unwrap_or_default();
        Self {
            device: order
                .get(about.device.index())
                .copied()
                .unwrap_or(usize::MAX),
            name: model.text(about.name).to_owned(),
            queue,
            process,
        }
    }

    /// The cells of [`columns`] that name the stream.
    fn cells(&self, model: &Model) -> Vec<Cell> {
        let about = model
            .queues
            .get(self.queue.index())
            .copied()
            .unwrap_or_default();
        let mut cells = device_cells(model, about.device);
        cells.push(self.name.as_str().into());
        cells
    }
}

/// Columns of a table about streams.
fn columns(further: &[Column]) -> Vec<Column> {
    let stream = [Column::plain("stream", "stream")];
    [&DEVICE_COLUMNS[..], &stream, further].concat()
}
