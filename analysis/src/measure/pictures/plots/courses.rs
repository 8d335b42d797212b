//! What went on when: how busy each GPU was, how many processors a process had, and what counters said.
//!
//! Times count from the first record on the same machine, `origin_ns`, so that all rows of a machine have one axis.

use std::collections::HashMap;

use super::bins::{Bins, Join};
use crate::containers::sets::{IntervalSet, sweep, widen};
use crate::measure::gpu::sensors::machine;
use crate::measure::{DEVICE_COLUMNS, Measure, PROCESS_COLUMNS, device_cells, process_cells};
use crate::table::{Answer, Cell, Column, Row, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Basis, Batch, CounterId, Kinds, Model, ProcessId};

/// The time of a GPU is cut into at most so many parts, all GPUs together into [`PARTS_OF_ALL`] where they are many.
const PARTS: u64 = 600;
const PARTS_OF_ALL: u64 = 40_000;
/// And no further than into this many.
const PARTS_MIN: u64 = 60;

/// The CPU time of a process is drawn in no more parts than this, of so many samples of one thread at least.
const PROCESSOR_PARTS: u64 = 300;
const SAMPLES_MIN: u64 = 8;

/// So many processes and counters have their courses shown.
const PROCESSES_MAX: usize = 12;
const COUNTERS_MAX: usize = 120;

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Courses {
    devices: Vec<[IntervalSet; 3]>,
    processors: Vec<Bins<u64>>,
    counters: Vec<Bins<Values>>,
    /// First and last time of each process.
    spans: Vec<Option<(u64, u64)>>,
}

/// What a counter said in a part of the time.
#[derive(Debug, Default)]
struct Values {
    count: u64,
    min: f64,
    sum: f64,
    max: f64,
}

impl Join for Values {
    fn join(&mut self, other: Self) {
        if self.count == 0 {
            *self = other;
        } else if other.count > 0 {
            self.min = self.min.min(other.min);
            self.max = self.max.max(other.max);
            self.sum += other.sum;
            self.count += other.count;
        }
    }
}

impl Measure for Courses {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            samples: true,
            counters: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            let set = match record.activity {
                Activity::Compute | Activity::Fill => 0,
                Activity::Comm => 1,
                Activity::Copy => 2,
                Activity::None => continue,
            };
            let sets = entry(&mut self.devices, record.device.index());
            sets[set].add(record.start_ns, record.end_ns);
            self.span(record.process, record.start_ns, record.end_ns);
        }
        for sample in &batch.samples {
            if sample.basis == Basis::CpuTime {
                let bins = entry(&mut self.processors, sample.process.index());
                *bins.at(sample.time_ns) += sample.weight;
                self.span(sample.process, sample.time_ns, sample.time_ns);
            }
        }
        for value in batch.counters.iter().filter(|one| one.value.is_finite()) {
            let bins = entry(&mut self.counters, value.counter.index());
            bins.at(value.time_ns).join(Values {
                count: 1,
                min: value.value,
                sum: value.value,
                max: value.value,
            });
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        for (index, bins) in self.counters.iter().enumerate() {
            let first = bins.parts().next();
            let last = bins.parts().last();
            if let (Some((first, _)), Some((last, _))) = (first, last) {
                let process = model.counters[index].process;
                let span = entry(&mut self.spans, process.index());
                widen(span, (first, last));
            }
        }
        let axes = self.axes(model);
        let mut notes = Vec::new();
        let tables = vec![
            self.busy(&axes, model),
            self.processors(&axes, model, &mut notes),
            self.curves(&axes, model, &mut notes),
        ];
        Answer {
            is_empty: tables.iter().all(|table| table.rows.is_empty()),
            tables,
            notes,
            ..Answer::default()
        }
    }
}

/// First and last time on each machine.
type Axes<'m> = HashMap<&'m str, (u64, u64)>;

fn axis(axes: &Axes<'_>, process: ProcessId, model: &Model) -> (u64, u64) {
    let axis = axes.get(machine(process, model));
    axis.copied().unwrap_or_default()
}

const AXIS_COLUMNS: [Column; 3] = [
    Column::ns("origin_ns", ""),
    Column::ns("axis_ns", ""),
    Column::ns("bucket_ns", ""),
];

impl Courses {
    fn span(&mut self, process: ProcessId, start_ns: u64, end_ns: u64) {
        let span = entry(&mut self.spans, process.index());
        widen(span, (start_ns, end_ns));
    }

    fn axes<'m>(&self, model: &'m Model) -> Axes<'m> {
        let mut axes = Axes::new();
        for (index, span) in self.spans.iter().enumerate() {
            if let Some(span) = *span {
                let on = machine(ProcessId::new(index), model);
                let mut axis = axes.get(on).copied();
                widen(&mut axis, span);
                axes.extend(axis.map(|axis| (on, axis)));
            }
        }
        axes
    }

    fn busy(&mut self, axes: &Axes<'_>, model: &Model) -> Table {
        let columns = [&DEVICE_COLUMNS[..], &AXIS_COLUMNS].concat();
        let mut table = Table::new("busy", "GPUs over time", &columns);
        let count = self.devices.len().max(1) as u64;
        let parts = (PARTS_OF_ALL / count).clamp(PARTS_MIN, PARTS);
        for id in model.devices_in_order() {
            let Some(sets) = self.devices.get_mut(id.index()) else {
                continue;
            };
            if sets.iter().all(IntervalSet::is_empty) {
                continue;
            }
            let (origin_ns, end_ns) = axis(axes, model.device(id).process, model);
            let axis_ns = end_ns - origin_ns;
            let bucket_ns = axis_ns.div_ceil(parts).max(1);
            let mut cells = device_cells(model, id);
            cells.extend::<[Cell; 3]>([origin_ns.into(), axis_ns.into(), bucket_ns.into()]);
            table.push(Row {
                cells,
                below: vec![buckets(sets, origin_ns, axis_ns, bucket_ns)],
            });
        }
        table
    }

    fn processors(&mut self, axes: &Axes<'_>, model: &Model, notes: &mut Vec<String>) -> Table {
        let columns = [
            &PROCESS_COLUMNS[..],
            &[Column::ns("cpu_ns", "CPU")],
            &AXIS_COLUMNS,
        ]
        .concat();
        let mut table = Table::new("processors", "Processors that programs had", &columns);
        let sum = |bins: &Bins<u64>| bins.parts().map(|(_, sum)| sum).sum::<u64>();
        let mut rows: Vec<(u64, ProcessId)> = (0..self.processors.len())
            .map(|index| (sum(&self.processors[index]), ProcessId::new(index)))
            .filter(|(sum_ns, _)| *sum_ns > 0)
            .collect();
        rows.sort_by_key(|&(sum_ns, id)| (std::cmp::Reverse(sum_ns), model.process(id).order()));
        if rows.len() > PROCESSES_MAX {
            notes.push(format!(
                "of {} processes, the {PROCESSES_MAX} with the most CPU time are drawn over time",
                rows.len()
            ));
        }
        for (sum_ns, id) in rows.into_iter().take(PROCESSES_MAX) {
            let bins = &mut self.processors[id.index()];
            let (origin_ns, end_ns) = axis(axes, id, model);
            // A sample stands for the time before it: in parts shorter than several of these there would be more processors than there are.
            let period_ns = model.process(id).sample_period_ns;
            let least_ns = ((end_ns - origin_ns) / PROCESSOR_PARTS).max(SAMPLES_MIN * period_ns);
            bins.widen(least_ns);
            let columns = [Column::ns("start_ns", ""), Column::ns("cpu_ns", "")];
            let mut below = Table::new("buckets", "", &columns);
            below.is_detail = true;
            for (start_ns, cpu_ns) in bins.parts() {
                below.push(vec![
                    start_ns.saturating_sub(origin_ns).into(),
                    (*cpu_ns).into(),
                ]);
            }
            let mut cells = process_cells(model, id).to_vec();
            cells.extend::<[Cell; 4]>([
                sum_ns.into(),
                origin_ns.into(),
                (end_ns - origin_ns).into(),
                bins.width_ns().into(),
            ]);
            table.push(Row {
                cells,
                below: vec![below],
            });
        }
        table
    }

    fn curves(&self, axes: &Axes<'_>, model: &Model, notes: &mut Vec<String>) -> Table {
        let columns = [
            &PROCESS_COLUMNS[..],
            &[
                Column::plain("group", "of"),
                Column::plain("name", "counter"),
                Column::plain("unit", "unit"),
            ],
            &AXIS_COLUMNS,
        ]
        .concat();
        let mut table = Table::new("curves", "Counters over time", &columns);
        let mut order: Vec<_> = (0..self.counters.len())
            .filter(|&index| self.counters[index].parts().next().is_some())
            .map(|index| {
                let counter = &model.counters[index];
                let (group, name) = (model.text(counter.group), model.text(counter.name));
                let is_sensor = group.contains("GPU") || name.starts_with("GPU ");
                let process = model.process(counter.process).order();
                ((!is_sensor, process, group, name), CounterId::new(index))
            })
            .collect();
        order.sort();
        if order.len() > COUNTERS_MAX {
            notes.push(format!(
                "of {} counters, {COUNTERS_MAX} are drawn over time",
                order.len()
            ));
        }
        for ((_, _, group, name), id) in order.into_iter().take(COUNTERS_MAX) {
            let (counter, bins) = (&model.counters[id.index()], &self.counters[id.index()]);
            let (origin_ns, end_ns) = axis(axes, counter.process, model);
            let columns = [
                Column::ns("start_ns", ""),
                Column::plain("min", ""),
                Column::plain("mean", ""),
                Column::plain("max", ""),
            ];
            let mut below = Table::new("values", "", &columns);
            below.is_detail = true;
            for (start_ns, values) in bins.parts() {
                below.push(vec![
                    start_ns.saturating_sub(origin_ns).into(),
                    values.min.into(),
                    (values.sum / values.count as f64).into(),
                    values.max.into(),
                ]);
            }
            let mut cells = process_cells(model, counter.process).to_vec();
            cells.extend::<[Cell; 6]>([
                group.into(),
                name.into(),
                model.text(counter.unit).into(),
                origin_ns.into(),
                (end_ns - origin_ns).into(),
                bins.width_ns().into(),
            ]);
            table.push(Row {
                cells,
                below: vec![below],
            });
        }
        table
    }
}

/// Nanoseconds of each part of the time in which a GPU computed, in which communication, and in which copies were all it did.
fn buckets(sets: &mut [IntervalSet; 3], origin_ns: u64, axis_ns: u64, bucket_ns: u64) -> Table {
    let mut parts = vec![[0_u64; 3]; axis_ns.div_ceil(bucket_ns).max(1) as usize];
    let unions = sets.iter_mut().map(IntervalSet::intervals).collect();
    sweep(unions, |segment| {
        let what = match segment.sets {
            0 => return,
            sets => sets.trailing_zeros() as usize,
        };
        let mut at_ns = segment.start_ns - origin_ns;
        let end_ns = segment.end_ns - origin_ns;
        while at_ns < end_ns {
            let part = (at_ns / bucket_ns) as usize;
            let until_ns = end_ns.min((part as u64 + 1) * bucket_ns);
            if let Some(part) = parts.get_mut(part) {
                part[what] += until_ns - at_ns;
            }
            at_ns = until_ns;
        }
    });
    let columns = [
        Column::ns("computation_ns", ""),
        Column::ns("exposed_comm_ns", ""),
        Column::ns("exposed_memcpy_ns", ""),
    ];
    let mut table = Table::new("buckets", "", &columns);
    table.is_detail = true;
    for part in parts {
        table.push(part.map(Cell::from).to_vec());
    }
    table
}
