//! Which functions took the CPU time, and what threads waited for.
//!
//! Each sample stands for its weight in nanoseconds. The function of its innermost frame has that as its own time (`self`), and each function
//! on its stack in its total, once, however often it stands there. Own times therefore add up to the CPU time exactly; a sample without
//! a stack is a row as well. What was recorded from begin to end, as PyTorch's profiler does it, is in a table of its own.

use std::collections::HashMap;

use super::own_code;
use crate::containers::id_map::IdMap;
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::program::code_place::{cells as place_cells, is_python, own_place};
use crate::program::recorded::{Apart, Recorded};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{
    Basis, Batch, Frame, HostKind, Kinds, Model, ProcessId, StackId, TextId, ThreadId,
};

/// In place of a function where there is no stack.
const NO_STACK: &str = "[no stack]";
/// In place of a function of the program where a stack has none.
const NO_PROGRAM: &str = "[no function of the program]";

/// What tells functions apart beside their name and file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct By {
    /// The line.
    pub line: bool,
    /// The thread, and with it the process.
    pub thread: bool,
    /// The process.
    pub process: bool,
    /// What recorded operators were called with.
    pub shapes: bool,
}

/// Samples of one stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) samples: u64,
    pub(super) time_ns: u64,
}

impl Weight {
    pub(super) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.time_ns += other.time_ns;
    }
}

/// What threads did.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    cpu: Weight,
    waits_ns: u64,
    runnable_ns: u64,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Functions {
    by: By,
    cpu: IdMap<(ThreadId, StackId), Weight>,
    waits: IdMap<(ThreadId, StackId), Weight>,
    /// How long threads could run, and had no processor.
    runnable: IdMap<ThreadId, u64>,
    /// Samples that count events instead of time.
    events: u64,
    recorded: Recorded,
}

/// Whose a function's time is.
type Owner = (Option<ProcessId>, Option<ThreadId>);

/// What a row is about; `None` for samples without a stack.
type Key = (Owner, Option<Frame>);

/// The time of a function.
#[derive(Debug, Clone, Copy, Default)]
struct Time {
    own: Weight,
    total_ns: u64,
    /// The last stack that was counted in the total.
    last: usize,
}

impl Measure for Functions {
    fn needs(&self) -> Kinds {
        Kinds {
            samples: true,
            recorded: true,
            shapes: self.by.shapes,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            self.recorded.take(slice);
            if slice.kind == HostKind::Runnable {
                let sum_ns = self.runnable.entry(slice.thread).or_default();
                *sum_ns += slice.end_ns.saturating_sub(slice.start_ns);
            }
        }
        for sample in &batch.samples {
            let stacks = match sample.basis {
                Basis::CpuTime => &mut self.cpu,
                Basis::WaitTime => &mut self.waits,
                Basis::Event => {
                    self.events += 1;
                    continue;
                }
                Basis::GpuTime | Basis::CallTime => continue,
            };
            let weight = stacks.entry((sample.thread, sample.stack)).or_default();
            weight.add(Weight {
                samples: 1,
                time_ns: sample.weight,
            });
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let mut notes = notes(model);
        let has_recorded = !self.recorded.is_empty();
        let is_empty = self.cpu.is_empty() && self.waits.is_empty() && !has_recorded;
        if self.cpu.is_empty() {
            notes.push("no samples of CPU time are in these traces".to_owned());
        }
        if self.waits.is_empty() {
            notes.push(
                "no samples of waiting threads are in these traces: rsys-sample takes them with --realtime".to_owned(),
            );
        }
        if self.events > 0 {
            notes.push(format!(
                "{} samples count events instead of time and are left out",
                self.events
            ));
        }
        let mut tables = vec![self.functions(model)];
        tables.extend(self.own_code(model));
        tables.extend([
            self.threads(model),
            self.processes(model),
            self.waits(model),
        ]);
        if has_recorded {
            tables.push(self.recorded(model));
        }
        Answer {
            tables,
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Functions {
    /// Functions by name and file and whatever `by` says.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    fn owner(&self, thread: ThreadId, model: &Model) -> Owner {
        let process = model.threads[thread.index()].process;
        (
            (self.by.process || self.by.thread).then_some(process),
            self.by.thread.then_some(thread),
        )
    }

    /// The time of each function.
    fn times(&self, model: &Model) -> HashMap<Key, Time> {
        let mut stacks: HashMap<(Owner, StackId), Weight> = HashMap::new();
        for (&(thread, stack), &weight) in &self.cpu {
            let key = (self.owner(thread, model), stack);
            stacks.entry(key).or_default().add(weight);
        }
        let mut times: HashMap<Key, Time> = HashMap::new();
        for (number, ((owner, stack), weight)) in (1..).zip(stacks) {
            let mut frames = model.stacks.innermost_first(stack).map(|frame| Frame {
                line: if self.by.line { frame.line } else { 0 },
                ..*frame
            });
            let innermost = times.entry((owner, frames.next())).or_default();
            innermost.own.add(weight);
            innermost.total_ns += weight.time_ns;
            innermost.last = number;
            for frame in frames {
                let time = times.entry((owner, Some(frame))).or_default();
                if time.last != number {
                    time.last = number;
                    time.total_ns += weight.time_ns;
                }
            }
        }
        times
    }

    /// The user's own files; of all processes together.
    fn own_code(&self, model: &Model) -> Option<Table> {
        let mut stacks: HashMap<StackId, Weight> = HashMap::new();
        for (&(_, stack), &weight) in &self.cpu {
            stacks.entry(stack).or_default().add(weight);
        }
        own_code::table(&stacks, model)
    }

    fn functions(&self, model: &Model) -> Table {
        let mut columns = vec![
            Column::plain("function", "function"),
            Column::plain("language", "language"),
            Column::plain("module", ""),
            Column::plain("source", if self.by.line { "source" } else { "" }),
        ];
        if self.by.line {
            columns.push(Column::plain("line", "line"));
        }
        columns.extend(self.owner_columns());
        columns.extend([
            Column::plain("samples", "samples"),
            Column::ns("self_ns", "self"),
            Column::share("self_share", "self"),
            Column::ns("total_ns", "total"),
            Column::share("total_share", "total"),
        ]);
        let whole_ns = sum_ns(&self.cpu);
        let times = self.times(model).into_iter();
        let mut rows: Vec<(Time, Vec<Cell>)> = times
            .map(|((owner, frame), time)| {
                let mut cells = self.frame_cells(frame.as_ref(), model);
                cells.extend(owner_cells(owner, model));
                (time, cells)
            })
            .collect();
        rows.sort_by_cached_key(|(time, cells)| {
            let times = (time.own.time_ns, time.total_ns);
            (std::cmp::Reverse(times), format!("{cells:?}"))
        });
        let mut table = Table::new("functions", "CPU time by function", &columns);
        table.rows_in_text = 30;
        for (time, mut cells) in rows {
            cells.extend::<[Cell; 5]>([
                time.own.samples.into(),
                time.own.time_ns.into(),
                share(time.own.time_ns, whole_ns),
                time.total_ns.into(),
                share(time.total_ns, whole_ns),
            ]);
            table.push(cells);
        }
        table
    }

    /// What was recorded from begin to end.
    fn recorded(&mut self, model: &Model) -> Table {
        let by = self.by;
        let apart = Apart {
            line: by.line,
            shapes: by.shapes,
        };
        let mut recorded = std::mem::take(&mut self.recorded);
        recorded.table(model, apart, &self.owner_columns(), |thread| {
            owner_cells(self.owner(thread, model), model)
        })
    }

    /// The columns of [`owner_cells`].
    fn owner_columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        if self.by.process || self.by.thread {
            columns.extend(PROCESS_COLUMNS);
        }
        if self.by.thread {
            columns.extend(THREAD_COLUMNS);
        }
        columns
    }

    fn frame_cells(&self, frame: Option<&Frame>, model: &Model) -> Vec<Cell> {
        let text = |id: TextId| Cell::from((!id.is_empty()).then(|| model.text(id)));
        let [function, source, line] = place_cells(frame, model, NO_STACK);
        let language = frame.map(|frame| match is_python(frame, model) {
            true => "Python",
            false => "native",
        });
        let module = frame.map_or(Cell::Null, |frame| text(frame.mapping));
        let mut cells = vec![function, language.into(), module, source];
        if self.by.line {
            cells.push(line);
        }
        cells
    }

    /// What the threads of each owner did.
    fn by_owner(&self, owner: impl Fn(ThreadId) -> Owner) -> HashMap<Owner, Spent> {
        let mut sums: HashMap<Owner, Spent> = HashMap::new();
        for (&(thread, _), &weight) in &self.cpu {
            sums.entry(owner(thread)).or_default().cpu.add(weight);
        }
        for (&(thread, _), weight) in &self.waits {
            sums.entry(owner(thread)).or_default().waits_ns += weight.time_ns;
        }
        for (&thread, &sum_ns) in &self.runnable {
            sums.entry(owner(thread)).or_default().runnable_ns += sum_ns;
        }
        sums
    }

    fn threads(&self, model: &Model) -> Table {
        let owner = |thread: ThreadId| {
            let process = model.threads[thread.index()].process;
            (Some(process), Some(thread))
        };
        let columns = [&PROCESS_COLUMNS[..], &THREAD_COLUMNS].concat();
        let title = "CPU and wait time of threads";
        owners_table("threads", title, &columns, self.by_owner(owner), model)
    }

    fn processes(&self, model: &Model) -> Table {
        let owner = |thread: ThreadId| (Some(model.threads[thread.index()].process), None);
        let title = "CPU and wait time of processes";
        let sums = self.by_owner(owner);
        owners_table("processes", title, &PROCESS_COLUMNS, sums, model)
    }

    /// Waits by what was waited for, which is the innermost frame, and by the place in the program.
    fn waits(&self, model: &Model) -> Table {
        let whole_ns = sum_ns(&self.waits);
        type Waited = (TextId, Option<Frame>);
        type Sum = (Weight, Option<f64>);
        let mut of_threads: HashMap<(ThreadId, Waited), Weight> = HashMap::new();
        let mut threads: HashMap<ThreadId, u64> = HashMap::new();
        for (&(thread, stack), &weight) in &self.waits {
            let split = model.stacks.split(stack);
            let what = split.map_or(TextId::EMPTY, |(frame, _)| frame.function);
            let place = own_place(stack, model).copied();
            let key = (thread, (what, place));
            of_threads.entry(key).or_default().add(weight);
            *threads.entry(thread).or_default() += weight.time_ns;
        }
        // With the variance, which follows from the rate of the samples of waiting threads.
        let mut sums: HashMap<Waited, Sum> = HashMap::new();
        for ((thread, waited), weight) in of_threads {
            let process = model.process(model.threads[thread.index()].process);
            let looks_hz = process.wait_frequency_hz as f64;
            let variance = variance(weight.time_ns, threads[&thread], looks_hz);
            let (sum, of_sum) = sums.entry(waited).or_insert((Weight::default(), Some(0.0)));
            sum.add(weight);
            *of_sum = of_sum.zip(variance).map(|(one, other)| one + other);
        }
        let mut rows: Vec<(Sum, Vec<Cell>)> = sums
            .into_iter()
            .map(|((what, place), weight)| {
                let what = match what {
                    TextId::EMPTY => NO_STACK,
                    what => model.text(what),
                };
                let mut cells = vec![what.into()];
                cells.extend(place_cells(place.as_ref(), model, NO_PROGRAM));
                let module = place.map(|frame| model.text(frame.mapping));
                cells.push(module.into());
                (weight, cells)
            })
            .collect();
        rows.sort_by_cached_key(|((weight, _), cells)| {
            (std::cmp::Reverse(weight.time_ns), format!("{cells:?}"))
        });
        let columns = [
            Column::plain("waited_for", "waited for"),
            Column::plain("function", "by"),
            Column::plain("source", "source"),
            Column::plain("line", "line"),
            Column::plain("module", ""),
            Column::plain("samples", "samples"),
            Column::ns("wait_ns", "time"),
            Column::ns("error_ns", "±"),
            Column::share("wait_share", "share"),
        ];
        let mut table = Table::new("waits", "Waits of threads", &columns);
        table.rows_in_text = 30;
        for ((weight, variance), mut cells) in rows {
            let error_ns = variance.map(|variance| variance.sqrt().round() as u64);
            cells.extend::<[Cell; 4]>([
                weight.samples.into(),
                weight.time_ns.into(),
                error_ns.into(),
                share(weight.time_ns, whole_ns),
            ]);
            table.push(cells);
        }
        table
    }
}

const THREAD_COLUMNS: [Column; 2] = [
    Column::plain("thread", "thread"),
    Column::plain("thread_name", "name"),
];

fn owner_cells((process, thread): Owner, model: &Model) -> Vec<Cell> {
    let mut cells = Vec::new();
    if let Some(process) = process {
        cells.extend(process_cells(model, process));
    }
    if let Some(thread) = thread.map(|id| model.threads[id.index()]) {
        cells.extend::<[Cell; 2]>([thread.tid.into(), model.text(thread.name).into()]);
    }
    cells
}

fn owners_table(
    key: &'static str,
    title: &str,
    columns: &[Column],
    sums: HashMap<Owner, Spent>,
    model: &Model,
) -> Table {
    // Known only where the kernel recorded all switches, and looks from outside said when waits ended.
    let has_delays = model.processes.iter().any(|process| process.has_delays);
    let runnable = match has_delays {
        true => "ready, no processor",
        false => "",
    };
    let mut columns = columns.to_vec();
    columns.extend([
        Column::plain("samples", "samples"),
        Column::ns("cpu_ns", "CPU"),
        Column::ns("wait_ns", "waits"),
        Column::ns("runnable_ns", runnable),
    ]);
    let mut table = Table::new(key, title, &columns);
    table.rows_in_text = 30;
    let mut order: Vec<_> = sums.into_iter().collect();
    order.sort_by_cached_key(|(owner, spent)| {
        let times = std::cmp::Reverse((spent.cpu.time_ns, spent.waits_ns));
        (times, format!("{:?}", owner_cells(*owner, model)))
    });
    for (owner, spent) in order {
        let mut cells = owner_cells(owner, model);
        let process = owner.0.map(|process| model.process(process));
        let has_delays = process.is_some_and(|process| process.has_delays);
        cells.extend::<[Cell; 4]>([
            spent.cpu.samples.into(),
            spent.cpu.time_ns.into(),
            spent.waits_ns.into(),
            has_delays.then_some(spent.runnable_ns).into(),
        ]);
        table.push(cells);
    }
    table
}

/// The variance of the time that a thread waited at one of its places, in square nanoseconds: looks divide its waits, whose sum is known. `None` where it
/// is not known how often they were made.
fn variance(time_ns: u64, of_thread_ns: u64, looks_hz: f64) -> Option<f64> {
    let others = 1.0 - time_ns as f64 / of_thread_ns.max(1) as f64;
    (looks_hz > 0.0).then(|| time_ns as f64 * others * 1e9 / looks_hz)
}

fn sum_ns(stacks: &IdMap<(ThreadId, StackId), Weight>) -> u64 {
    stacks.values().map(|weight| weight.time_ns).sum()
}

pub(super) fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}
