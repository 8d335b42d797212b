//! From when to when each process lived and used GPUs, what its main thread did before and after, and what its threads did in all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::loaders::{Loaders, Times};
use crate::containers::sets::widen;
use crate::measure::{Measure, PROCESS_COLUMNS, process_cells, unseen};
use crate::program::code_place::{
    cells as place_cells, innermost, is_own_code, is_python, own_place, runtime_call,
};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Activity, Basis, Batch, Frame, HostKind, Kinds, Model, ProcessId, StackId, TextId, ThreadId,
    is_input, is_loader,
};

/// Samples are put together over so much time.
const PART_NS: u64 = 100_000_000;

/// A process, while records are read.
#[derive(Debug, Clone, Default)]
struct Lifetime {
    /// First and last time of anything.
    seen: Option<(u64, u64)>,
    /// First begin and last end of its work on GPUs.
    used: Option<(u64, u64)>,
    samples: u64,
    cpu_ns: u64,
    /// How long its threads could run and had no processor.
    runnable_ns: u64,
    /// The names of its calls of MPI and the like.
    collective_calls: BTreeSet<TextId>,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct ProcessLifetimes {
    processes: Vec<Lifetime>,
    samples: HashMap<(ThreadId, u64, StackId), u64>,
    /// CPU time and waits of each thread, by stack.
    times: Times,
    loaders: Loaders,
}

const CPU: usize = 0;
const WAIT: usize = 1;

impl Measure for ProcessLifetimes {
    fn needs(&self) -> Kinds {
        Kinds::GPU_HOST_AND_SAMPLES
    }

    fn take(&mut self, batch: &Batch) {
        for record in &batch.gpu {
            let lifetime = entry(&mut self.processes, record.process.index());
            widen(&mut lifetime.seen, (record.start_ns, record.end_ns));
            if record.activity != Activity::None {
                widen(&mut lifetime.used, (record.start_ns, record.end_ns));
            }
        }
        for slice in &batch.host {
            let lifetime = entry(&mut self.processes, slice.process.index());
            widen(&mut lifetime.seen, (slice.start_ns, slice.end_ns));
            if slice.kind == HostKind::Runnable {
                lifetime.runnable_ns += slice.end_ns - slice.start_ns;
            }
            if slice.kind == HostKind::Collective {
                lifetime.collective_calls.insert(slice.name);
            }
        }
        for sample in &batch.samples {
            let lifetime = entry(&mut self.processes, sample.process.index());
            let kind = match sample.basis {
                Basis::CpuTime => {
                    lifetime.samples += 1;
                    lifetime.cpu_ns += sample.weight;
                    CPU
                }
                Basis::WaitTime => WAIT,
                Basis::GpuTime | Basis::CallTime | Basis::Event => continue,
            };
            widen(&mut lifetime.seen, (sample.time_ns, sample.time_ns));
            self.loaders.take(sample, kind == WAIT);
            self.times.entry((sample.thread, sample.stack)).or_default()[kind] += sample.weight;
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
            let lifetime = &self.processes[index];
            let Some((first_ns, last_ns)) = lifetime.seen else {
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
                lifetime.used.map(|used| used.0).into(),
                lifetime.used.map(|used| used.1).into(),
                lifetime.samples.into(),
                lifetime.cpu_ns.into(),
                process.sample_period_ns.into(),
                process.wait_frequency_hz.into(),
            ]);
            let (before, after) = match lifetime.used {
                Some(used) => ((start_ns, used.0), (used.1, last_ns)),
                None => ((start_ns, last_ns), (last_ns, last_ns)),
            };
            for span in [before, after] {
                cells.extend(self.main_thread(id, span, model));
            }
            cells.extend(self.threads(id, model));
            cells.push(lifetime.runnable_ns.into());
            let mut names = lifetime.collective_calls.iter();
            let is_recorded =
                process.has_backend("mpip") || names.any(|name| is_of_mpi(model.text(*name)));
            let unrecorded_ns = (!is_recorded).then(|| self.mpi_ns(id, model));
            cells.push(unrecorded_ns.into());
            table.push(cells);
        }
        Answer {
            is_empty: table.rows.is_empty(),
            tables: vec![table, self.loaders.table(&self.times, model)],
            ..Answer::default()
        }
    }
}

impl ProcessLifetimes {
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

impl ProcessLifetimes {
    /// How long the main thread of a process was seen within MPI, but to start and to end it.
    fn mpi_ns(&self, id: ProcessId, model: &Model) -> u64 {
        let is_main = |thread: ThreadId| {
            let thread = model.threads[thread.index()];
            thread.process == id && thread.tid == model.process(id).pid
        };
        let is_meant = |stack: StackId| {
            let call = runtime_call(stack, model).map_or("", |(name, _)| name);
            is_of_mpi(call) && !STARTS_OF_MPI.iter().any(|part| call.contains(part))
        };
        let within = self.times.iter();
        let within = within.filter(|((thread, stack), _)| is_main(*thread) && is_meant(*stack));
        within.map(|(_, times)| times.iter().sum::<u64>()).sum()
    }

    /// What the threads of a process did in all, and its main thread.
    fn threads(&self, id: ProcessId, model: &Model) -> [Cell; 12] {
        let (mut by_thread, mut main) = (BTreeMap::<ThreadId, u64>::new(), [0; 2]);
        let (mut imports_ns, mut collector_ns) = (0, 0);
        let mut waits: BTreeMap<String, ([Cell; 5], u64)> = BTreeMap::new();
        let of_process = self.times.iter().filter(|((thread, _), _)| {
            let thread = model.threads.get(thread.index());
            thread.is_some_and(|thread| thread.process == id)
        });
        for (&(thread, stack), times) in of_process {
            let is_main = model.threads[thread.index()].tid == model.process(id).pid;
            let cpu_ns = times[CPU];
            *by_thread.entry(thread).or_default() += cpu_ns;
            let has = |part: &str| {
                let mut frames = model.stacks.innermost_first(stack);
                frames.any(|frame| model.text(frame.function).contains(part))
            };
            // Waits count: what is imported is read from disks.
            if is_main && has(IMPORT) {
                imports_ns += times.iter().sum::<u64>();
            }
            if has(COLLECTOR) {
                collector_ns += cpu_ns;
            }
            if !is_main {
                continue;
            }
            main[CPU] += cpu_ns;
            main[WAIT] += times[WAIT];
            if times[WAIT] > 0 && !is_idle_worker(stack, model) {
                let waited_for = model.stacks.innermost_first(stack).next();
                let waited_for = waited_for.map_or("", |frame| model.text(frame.function));
                let is_any = u64::from(is_any_wait(waited_for, stack, model));
                let [function, source, line] = place_cells(own_place(stack, model), model, "");
                let place = [waited_for.into(), function, source, line, is_any.into()];
                let wait = waits.entry(format!("{place:?}")).or_insert((place, 0));
                wait.1 += times[WAIT];
            }
        }
        let most = waits.into_values().min_by_key(|(_, ns)| Reverse(*ns));
        let (place, wait_ns) = most.map_or_else(
            || ([const { Cell::Null }; 5], Cell::Null),
            |(place, ns)| (place, ns.into()),
        );
        let [waited_for, function, source, line, is_any] = place;
        [
            main[CPU].into(),
            main[WAIT].into(),
            waited_for,
            function,
            source,
            line,
            is_any,
            wait_ns,
            (by_thread.len() as u64).into(),
            by_thread.into_values().max().unwrap_or(0).into(),
            imports_ns.into(),
            collector_ns.into(),
        ]
    }
}

/// Loops of Python's own processes, in which they wait for something to do: workers of pools, and the helpers of `multiprocessing`.
const LOOPS_OF_WORKERS: [&str; 4] = [
    "worker (pool.py)",
    "_process_worker (process.py)",
    "main (resource_tracker.py)",
    "main (forkserver.py)",
];

/// Whether a thread waits as a worker of Python does that has nothing to do, not within what it was given to do.
fn is_idle_worker(stack: StackId, model: &Model) -> bool {
    let mut frames = model.stacks.innermost_first(stack);
    let is_loop = |frame: &Frame| {
        is_python(frame, model) && LOOPS_OF_WORKERS.contains(&model.text(frame.function))
    };
    let known = frames.find(|frame| is_loop(frame) || is_own_code(frame, model));
    known.is_some_and(is_loop)
}

/// Beginnings of names of system calls that wait for one of several things, or for a time to come.
const ANY: [&str; 5] = ["poll", "ppoll", "epoll_", "select", "pselect"];
/// Parts of names of functions that wait for data, whatever they do that with.
const OF_DATA: [&str; 9] = [
    "recv", "recvfrom", "recvmsg", "recvinto", "read", "readline", "readinto", "readv", "accept",
];

/// Whether a thread waits in a system call that a timer may end as well as data, and nothing on the stack says that it is for data.
fn is_any_wait(waited_for: &str, stack: StackId, model: &Model) -> bool {
    let names_data = |function: &str| {
        let mut parts = function.split(|letter: char| !letter.is_ascii_alphanumeric());
        parts.any(|part| OF_DATA.contains(&part)) || is_input(function) || is_loader(function)
    };
    let mut frames = model.stacks.innermost_first(stack);
    ANY.iter().any(|start| waited_for.starts_with(start))
        && !frames.any(|frame| names_data(model.text(frame.function)))
}

/// Whether a function is a call of MPI.
fn is_of_mpi(name: &str) -> bool {
    name.starts_with("MPI_") || name.starts_with("PMPI_")
}

/// Calls that start and end MPI.
const STARTS_OF_MPI: [&str; 2] = ["MPI_Init", "MPI_Finalize"];

/// What each import of a module in Python has on its stack.
const IMPORT: &str = "_find_and_load (<frozen importlib._bootstrap>)";
/// A part of the names of CPython's functions that collect garbage: `gc_collect_main`, `gc_collect_young`, `_PyGC_Collect…` calls them.
const COLLECTOR: &str = "gc_collect_";

const LIFE_COLUMNS: [Column; 30] = [
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
    Column::ns("main_cpu_ns", ""),
    Column::ns("main_wait_ns", ""),
    Column::plain("wait_for", ""),
    Column::plain("wait_function", ""),
    Column::plain("wait_source", ""),
    Column::plain("wait_line", ""),
    Column::plain("wait_is_any", ""),
    Column::ns("wait_ns", ""),
    Column::plain("threads", ""),
    Column::ns("most_cpu_ns", ""),
    Column::ns("imports_ns", ""),
    Column::ns("collector_ns", ""),
    Column::ns("runnable_ns", ""),
    Column::ns("unrecorded_mpi_ns", ""),
];
