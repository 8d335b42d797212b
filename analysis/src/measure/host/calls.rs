//! Which calls of the GPU runtimes threads made, how long those took, and how long they held their thread until a GPU had done something.
//!
//! A call within another of the same runtime counts in its own row. The time of the runtime is that of the outermost calls of each thread, which
//! rows show as well, so that they add up to it exactly. The same holds for the time in calls that wait: one within another counts once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::containers::id_map::IdMap;
use crate::measure::gpu::kernels::Durations;
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::program::nesting::{Nested, Nesting};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{
    Batch, Communication, HostKind, HostSlice, Kinds, Model, ProcessId, TextId, ThreadId, waits_for,
};

/// Calls of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Key {
    process: ProcessId,
    kind: HostKind,
    name: TextId,
}

/// Calls within calls: a name, and the path of what contains it.
type Path = (Option<usize>, Key);

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Calls {
    durations: IdMap<Key, Durations>,
    threads: IdMap<(ThreadId, HostKind), Nesting<(Key, u64)>>,
    /// Calls of threads whose files have no order: they nest when all are known.
    unordered: HashMap<(ThreadId, HostKind), Vec<Unordered>>,
    paths: Paths,
    open: u64,
}

/// A call: begin, end (of those that begin together, the longest contains the others), and what it is.
type Unordered = (u64, Reverse<u64>, Key);

/// All paths, and the time of each. Which calls wait is only known at the end, by their names.
#[derive(Debug, Default)]
struct Paths {
    ids: IdMap<Path, usize>,
    /// By id; what contains a call has the smaller id.
    times: Vec<(Path, u64)>,
    /// The one that was entered last.
    last: usize,
}

impl Paths {
    /// Adds a call and those within it, however deep they are.
    fn add(&mut self, nested: Nested<(Key, u64)>) {
        if nested.inside.is_empty() {
            let (key, duration_ns) = nested.what;
            self.enter(None, key, duration_ns);
            return;
        }
        let mut left = vec![(None, nested)];
        while let Some((outer, nested)) = left.pop() {
            let (key, duration_ns) = nested.what;
            let id = self.enter(outer, key, duration_ns);
            left.extend(nested.inside.into_iter().map(|inner| (Some(id), inner)));
        }
    }

    /// Adds a call within another; returns its path.
    fn enter(&mut self, outer: Option<usize>, key: Key, duration_ns: u64) -> usize {
        let path = (outer, key);
        // Many calls of one name follow one another.
        if let Some(last) = self.times.get_mut(self.last)
            && last.0 == path
        {
            last.1 += duration_ns;
            return self.last;
        }
        let times = &mut self.times;
        let id = *self.ids.entry(path).or_insert_with(|| {
            times.push((path, 0));
            times.len() - 1
        });
        self.times[id].1 += duration_ns;
        self.last = id;
        id
    }

    /// Adds the calls of a thread, which came in any order.
    fn add_unordered(&mut self, mut calls: Vec<Unordered>) {
        calls.sort_unstable();
        let mut open: Vec<(u64, usize)> = Vec::new();
        for (start_ns, Reverse(end_ns), key) in calls {
            while open
                .pop_if(|outer| outer.0 <= start_ns || outer.0 < end_ns)
                .is_some()
            {}
            let outer = open.last().map(|outer| outer.1);
            open.push((end_ns, self.enter(outer, key, end_ns - start_ns)));
        }
    }
}

/// The name of the runtime that a call belongs to.
fn runtime(kind: HostKind, name: &str) -> Option<&'static str> {
    match kind {
        HostKind::Runtime => Some("HIP"),
        HostKind::Hsa => Some("HSA"),
        HostKind::Collective => Some(Communication::of(name).name()),
        HostKind::Range
        | HostKind::Operator
        | HostKind::Function
        | HostKind::Wait
        | HostKind::OffCpu
        | HostKind::Runnable
        | HostKind::OpenMp
        | HostKind::Kokkos => None,
    }
}

impl Measure for Calls {
    fn needs(&self) -> Kinds {
        Kinds {
            host: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            if runtime(slice.kind, "").is_some() {
                self.call(slice);
            }
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let times = self.times(model);
        let mut runtimes: BTreeMap<Runtime, Times> = BTreeMap::new();
        for (key, times) in &times {
            let name = runtime(key.kind, model.text(key.name));
            let sum = runtimes.entry((key.process, key.kind, name)).or_default();
            sum.count += times.count;
            sum.outermost_ns += times.outermost_ns;
            sum.blocked_ns += times.blocked_ns;
        }
        let calls = self.table(&times, &runtimes, model);
        let mut notes = notes(model);
        let is_empty = calls.rows.is_empty();
        if is_empty {
            notes.push("no calls of GPU runtimes are in these traces".to_owned());
        }
        if self.open > 0 {
            notes.push(format!(
                "{} calls had not returned when their traces ended; they count up to there",
                self.open
            ));
        }
        if !self.durations.values().all(|one| one.quantiles.is_exact()) {
            notes.push(
                "medians and 95th percentiles of calls that were made more than 65536 times are within 1 %".to_owned(),
            );
        }
        Answer {
            tables: vec![calls, runtimes_table(&runtimes, model)],
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

/// Times of the calls of one name, or of one runtime.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    count: u64,
    outermost_ns: u64,
    blocked_ns: u64,
}

impl Calls {
    #[inline]
    fn call(&mut self, slice: &HostSlice) {
        let key = Key {
            process: slice.process,
            kind: slice.kind,
            name: slice.name,
        };
        let duration_ns = slice.end_ns - slice.start_ns;
        self.durations.entry(key).or_default().add(duration_ns);
        self.open += u64::from(slice.is_open);
        let thread = (slice.thread, slice.kind);
        if slice.depth == HostSlice::UNKNOWN_DEPTH {
            let calls = self.unordered.entry(thread).or_default();
            return calls.push((slice.start_ns, Reverse(slice.end_ns), key));
        }
        let nesting = self.threads.entry(thread).or_default();
        let paths = &mut self.paths;
        let what = (key, duration_ns);
        nesting.add(slice.start_ns, what, slice.depth == 0, |nested| {
            paths.add(nested);
        });
    }

    /// The times of each name.
    fn times(&mut self, model: &Model) -> HashMap<Key, Times> {
        for calls in std::mem::take(&mut self.unordered).into_values() {
            self.paths.add_unordered(calls);
        }
        for nesting in self.threads.values_mut() {
            nesting.finish(|nested| self.paths.add(nested));
        }
        let mut times: HashMap<Key, Times> = HashMap::new();
        // Of each path, whether a call on it waits.
        let mut waits: Vec<bool> = Vec::new();
        for &((outer, key), time_ns) in &self.paths.times {
            let own = waits_for(model.text(key.name)).is_some();
            let outer_waits = outer.is_some_and(|outer| waits[outer]);
            waits.push(own || outer_waits);
            let times = times.entry(key).or_default();
            if outer.is_none() {
                times.outermost_ns += time_ns;
            }
            if own && !outer_waits {
                times.blocked_ns += time_ns;
            }
        }
        for (key, durations) in &self.durations {
            times.entry(*key).or_default().count = durations.count;
        }
        times
    }

    fn table(
        &self,
        times: &HashMap<Key, Times>,
        runtimes: &BTreeMap<Runtime, Times>,
        model: &Model,
    ) -> Table {
        let columns = [&NAME_COLUMNS[..], &PROCESS_COLUMNS, &NUMBERS].concat();
        let mut table = Table::new("calls", "Calls of runtimes", &columns);
        table.rows_in_text = 30;
        let mut rows: Vec<(u64, Vec<Cell>)> = self
            .durations
            .iter()
            .map(|(key, durations)| {
                let name = model.text(key.name);
                let times = times.get(key).copied().unwrap_or_default();
                let runtime = runtime(key.kind, name);
                let sum = runtimes.get(&(key.process, key.kind, runtime));
                let sum_ns = sum.map_or(0, |sum| sum.outermost_ns);
                let waits = waits_for(name).map(|what| what.text());
                let [median, p95] = durations.quantiles.at([0.5, 0.95]).unwrap_or_default();
                let mut cells = vec![name.into(), runtime.into()];
                cells.extend(process_cells(model, key.process));
                cells.extend::<[Cell; 11]>([
                    durations.count.into(),
                    durations.total_ns.into(),
                    times.outermost_ns.into(),
                    share(times.outermost_ns, sum_ns),
                    durations.mean_ns().into(),
                    median.into(),
                    p95.into(),
                    durations.min_ns.into(),
                    durations.max_ns.into(),
                    times.blocked_ns.into(),
                    waits.into(),
                ]);
                (durations.total_ns, cells)
            })
            .collect();
        rows.sort_by_cached_key(|(total_ns, cells)| (Reverse(*total_ns), format!("{cells:?}")));
        rows.into_iter().for_each(|(_, cells)| table.push(cells));
        table
    }
}

/// A runtime in one process: of kinds that are ordered, and by name.
type Runtime = (ProcessId, HostKind, Option<&'static str>);

fn runtimes_table(runtimes: &BTreeMap<Runtime, Times>, model: &Model) -> Table {
    let numbers = [
        Column::plain("count", "calls"),
        Column::ns("time_ns", "time"),
        Column::ns("blocked_ns", "blocked"),
    ];
    let columns = [
        &PROCESS_COLUMNS[..],
        &[Column::plain("runtime", "runtime")],
        &numbers,
    ];
    let title = "Time of threads in GPU runtimes";
    let mut table = Table::new("runtimes", title, &columns.concat());
    let mut order: Vec<_> = runtimes.iter().collect();
    order.sort_by_key(|((process, kind, name), _)| (model.process(*process).order(), *kind, *name));
    for ((process, _, name), times) in order {
        let mut cells = process_cells(model, *process).to_vec();
        cells.extend::<[Cell; 4]>([
            (*name).into(),
            times.count.into(),
            times.outermost_ns.into(),
            times.blocked_ns.into(),
        ]);
        table.push(cells);
    }
    table
}

const NAME_COLUMNS: [Column; 2] = [
    Column::plain("name", "call"),
    Column::plain("runtime", "runtime"),
];

const NUMBERS: [Column; 11] = [
    Column::plain("count", "count"),
    Column::ns("total_ns", "total"),
    Column::ns("outermost_ns", ""),
    Column::share("share", "share"),
    Column::ns("mean_ns", "mean"),
    Column::ns("median_ns", "median"),
    Column::ns("p95_ns", "p95"),
    Column::ns("min_ns", ""),
    Column::ns("max_ns", "max"),
    Column::ns("blocked_ns", "blocked"),
    Column::plain("waits_for", "waits for"),
];

fn share(part: u64, whole: u64) -> Cell {
    (whole > 0).then(|| part as f64 / whole as f64).into()
}
