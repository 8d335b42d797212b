//! From when to when each process lived and used GPUs, and what its main thread did before and after.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::measure::{Measure, PROCESS_COLUMNS, process_cells, unseen};
use crate::model::entry;
use crate::model::{Activity, Basis, Batch, Kinds, Model, ProcessId, StackId, ThreadId};
use crate::program::code_place::{cells as place_cells, innermost};
use crate::table::{Answer, Cell, Column, Table};

/// Samples are put together over so much time.
const PART_NS: u64 = 100_000_000;

/// A process, while records are read.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    /// First and last time of anything.
    seen: Option<(u64, u64)>,
    /// First begin and last end of its work on GPUs.
    used: Option<(u64, u64)>,
    samples: u64,
    cpu_ns: u64,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Lives {
    processes: Vec<Life>,
    samples: HashMap<(ThreadId, u64, StackId), u64>,
}

/// Widens a span by another.
fn widen(span: &mut Option<(u64, u64)>, start_ns: u64, end_ns: u64) {
    let (first_ns, last_ns) = span.unwrap_or((start_ns, end_ns));
    *span = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
}

impl Measure for Lives {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            host: true,
            samples: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            let life = entry(&mut self.processes, record.process.index());
            widen(&mut life.seen, record.start_ns, record.end_ns);
            if record.activity != Activity::None {
                widen(&mut life.used, record.start_ns, record.end_ns);
            }
        }
        for slice in &batch.host {
            let life = entry(&mut self.processes, slice.process.index());
            widen(&mut life.seen, slice.start_ns, slice.end_ns);
        }
        for sample in &batch.samples {
            let life = entry(&mut self.processes, sample.process.index());
            match sample.basis {
                Basis::CpuTime => {
                    life.samples += 1;
                    life.cpu_ns += sample.weight;
                }
                Basis::WaitTime => {}
                Basis::GpuTime | Basis::CallTime | Basis::Event => continue,
            }
            widen(&mut life.seen, sample.time_ns, sample.time_ns);
            let key = (sample.thread, sample.time_ns / PART_NS, sample.stack);
            *self.samples.entry(key).or_default() += sample.weight;
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let columns = unseen(&PROCESS_COLUMNS, &LIFE_COLUMNS);
        let mut table = Table::new("lives", "", &columns);
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|index| model.process(ProcessId::new(*index)).order());
        for index in order {
            let life = self.processes[index];
            let Some((first_ns, last_ns)) = life.seen else {
                continue;
            };
            let id = ProcessId::new(index);
            let process = model.process(id);
            let start_ns = match process.start_ns {
                0 => first_ns,
                start_ns => start_ns.min(first_ns),
            };
            let mut cells = process_cells(model, id).to_vec();
            cells.extend::<[Cell; 8]>([
                start_ns.into(),
                last_ns.into(),
                life.used.map(|used| used.0).into(),
                life.used.map(|used| used.1).into(),
                life.samples.into(),
                life.cpu_ns.into(),
                process.sample_period_ns.into(),
                process.wait_frequency_hz.into(),
            ]);
            let (before, after) = match life.used {
                Some(used) => ((start_ns, used.0), (used.1, last_ns)),
                None => ((start_ns, last_ns), (last_ns, last_ns)),
            };
            for span in [before, after] {
                cells.extend(self.main_thread(id, span, model));
            }
            table.push(cells);
        }
        Answer {
            is_empty: table.rows.is_empty(),
            tables: vec![table],
            ..Answer::default()
        }
    }
}

impl Lives {
    /// Where the main thread of a process was most in a span of time, and for how long.
    fn main_thread(&self, id: ProcessId, (from_ns, to_ns): (u64, u64), model: &Model) -> [Cell; 4] {
        let process = model.process(id);
        let is_main = |thread: ThreadId| {
            let thread = model.threads[thread.index()];
            thread.process == id && thread.tid == process.pid
        };
        let mut times: BTreeMap<String, ([Cell; 3], u64)> = BTreeMap::new();
        for (&(thread, part, stack), &time_ns) in &self.samples {
            let middle_ns = part * PART_NS + PART_NS / 2;
            if (from_ns..to_ns).contains(&middle_ns) && is_main(thread) {
                let place = place_cells(innermost(stack, model), model, "");
                let time = times.entry(format!("{place:?}")).or_insert((place, 0));
                time.1 += time_ns;
            }
        }
        let most = times
            .into_values()
            .min_by_key(|(_, time_ns)| Reverse(*time_ns));
        let Some(([function, source, line], time_ns)) = most else {
            return [Cell::Null, Cell::Null, Cell::Null, Cell::Null];
        };
        [function, source, line, time_ns.into()]
    }
}

const LIFE_COLUMNS: [Column; 16] = [
    Column::ns("start_ns", ""),
    Column::ns("end_ns", ""),
    Column::ns("first_operation_ns", ""),
    Column::ns("last_operation_ns", ""),
    Column::plain("samples", ""),
    Column::ns("cpu_ns", ""),
    Column::ns("sample_period_ns", ""),
    Column::plain("wait_frequency_hz", ""),
    Column::plain("before_function", ""),
    Column::plain("before_source", ""),
    Column::plain("before_line", ""),
    Column::ns("before_ns", ""),
    Column::plain("after_function", ""),
    Column::plain("after_source", ""),
    Column::plain("after_line", ""),
    Column::ns("after_ns", ""),
];
