//! Python threads that held the interpreter's lock, and those that waited for it.
//!
//! A thread holds the lock while its innermost function of the program is Python. It waits for the lock where its stack says so: by a function of the
//! interpreter that takes the lock, or by the mark that `rsys-sample` puts there. Waits that name the holder say who held it meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::measure::{Measure, PROCESS_COLUMNS, process_cells, unseen};
use crate::program::code_place::{cells as place_cells, innermost, is_python};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::{Basis, Batch, Kinds, Model, StackId, ThreadId};

/// Functions of the interpreter that take its lock.
const TAKES_LOCK: [&str; 4] = [
    "take_gil",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyEval_AcquireLock",
];
/// What marks such a wait, wherever that stands.
const MARK: &str = "interpreter's lock";
/// So far from the innermost frame a function that takes the lock may be: below it are the C library's.
const FRAMES: usize = 8;

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Interpreter {
    samples: HashMap<(ThreadId, bool, StackId), Seen>,
    /// How long a thread waited while another one held the lock, by the waiter, whether that was seen from outside, and the holder's id.
    held: BTreeMap<(ThreadId, bool, u32), u64>,
}

/// Samples of a thread with one stack.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    time_ns: u64,
    /// Begin and end of the wait that was seen last: of a long one there are several looks, one behind the other.
    last: (u64, u64),
    /// Length and begin of the longest wait.
    longest: (u64, u64),
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct OfThread {
    python_ns: u64,
    waited_ns: u64,
    longest: (u64, u64),
    holds: BTreeMap<String, ([Cell; 3], u64)>,
    waits: BTreeMap<String, ([Cell; 3], u64)>,
}

impl Measure for Interpreter {
    fn needs(&self) -> Kinds {
        Kinds {
            samples: true,
            locks: true,
            // Waits that were seen from outside are slices of threads.
            host: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for wait in &batch.lock_waits {
            if wait.is_interpreter && wait.holder_tid != 0 {
                let key = (wait.thread, wait.is_sampled, wait.holder_tid);
                *self.held.entry(key).or_default() += wait.end_ns - wait.start_ns;
            }
        }
        for sample in &batch.samples {
            let waits = match sample.basis {
                Basis::CpuTime => false,
                Basis::WaitTime => true,
                Basis::GpuTime | Basis::CallTime | Basis::Event => continue,
            };
            let key = (sample.thread, waits, sample.stack);
            let seen = self.samples.entry(key).or_default();
            seen.time_ns += sample.weight;
            // A look stands at its end.
            let begin_ns = sample.time_ns.saturating_sub(sample.weight);
            if begin_ns != seen.last.1 {
                seen.last.0 = begin_ns;
            }
            seen.last.1 = sample.time_ns;
            let length_ns = sample.time_ns - seen.last.0;
            seen.longest = seen.longest.max((length_ns, seen.last.0));
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let mut table = self.table(model);
        // In text it stands among locks only.
        table.title = String::new();
        table.columns = unseen(&table.columns, &[]);
        Answer {
            is_empty: table.rows.is_empty(),
            tables: vec![table],
            ..Answer::default()
        }
    }
}

impl Interpreter {
    /// Whether a thread was seen to wait for the lock.
    pub(in crate::measure) fn has_waits(&self, model: &Model) -> bool {
        let mut seen = self.samples.keys();
        seen.any(|&(_, waits, stack)| waits && waits_for_lock(stack, model))
    }

    /// What is known of each thread that ran Python or waited for the lock: estimates, for all of it was sampled now and then.
    pub(in crate::measure) fn table(&self, model: &Model) -> Table {
        let mut threads: HashMap<ThreadId, OfThread> = HashMap::new();
        for (&(thread, waits, stack), seen) in &self.samples {
            let place = innermost(stack, model);
            let of_thread = || place_cells(place, model, "");
            if waits && waits_for_lock(stack, model) {
                let found = threads.entry(thread).or_default();
                found.waited_ns += seen.time_ns;
                found.longest = found.longest.max(seen.longest);
                add(&mut found.waits, of_thread(), seen.time_ns);
            } else if !waits && place.is_some_and(|frame| is_python(frame, model)) {
                let found = threads.entry(thread).or_default();
                found.python_ns += seen.time_ns;
                add(&mut found.holds, of_thread(), seen.time_ns);
            }
        }
        let columns = [&PROCESS_COLUMNS[..], &THREAD_COLUMNS].concat();
        let title = "Python's interpreter lock, estimated: threads were sampled now and then";
        let mut table = Table::new("interpreter_threads", title, &columns);
        table.rows_in_text = 30;
        let mut order: Vec<_> = threads.into_iter().collect();
        order.sort_by_key(|(id, _)| {
            let thread = model.threads[id.index()];
            (model.process(thread.process).order(), thread.tid, *id)
        });
        for (id, found) in order {
            let thread = model.threads[id.index()];
            let mut cells = process_cells(model, thread.process).to_vec();
            cells.extend::<[Cell; 6]>([
                thread.tid.into(),
                model.text(thread.name).into(),
                found.python_ns.into(),
                found.waited_ns.into(),
                found.longest.0.into(),
                found.longest.1.into(),
            ]);
            let (holder, held_ns) = self.holder(id).unzip();
            cells.extend::<[Cell; 2]>([holder.into(), held_ns.into()]);
            cells.extend(most(found.holds));
            cells.extend(most(found.waits));
            table.push(cells);
        }
        table
    }

    /// The thread that held the lock longest while another one waited, and how long that was: as it was recorded, else as it was seen.
    fn holder(&self, waiter: ThreadId) -> Option<(u32, u64)> {
        [false, true].into_iter().find_map(|is_sampled| {
            let of_waiter = (waiter, is_sampled, 0)..=(waiter, is_sampled, u32::MAX);
            let held = self.held.range(of_waiter);
            let most = held.min_by_key(|(_, held_ns)| Reverse(**held_ns));
            most.map(|((.., holder), held_ns)| (*holder, *held_ns))
        })
    }
}

fn waits_for_lock(stack: StackId, model: &Model) -> bool {
    let frames = model.stacks.innermost_first(stack).take(FRAMES);
    frames.map(|frame| model.text(frame.function)).any(|name| {
        let plain = name.split(['.', ' ']).next().unwrap_or(name);
        TAKES_LOCK.contains(&plain) || name.contains(MARK)
    })
}

fn add(times: &mut BTreeMap<String, ([Cell; 3], u64)>, place: [Cell; 3], time_ns: u64) {
    let key = format!("{place:?}");
    times.entry(key).or_insert((place, 0)).1 += time_ns;
}

/// The place with most time.
fn most(times: BTreeMap<String, ([Cell; 3], u64)>) -> [Cell; 3] {
    let most = times
        .into_values()
        .min_by_key(|(_, time_ns)| Reverse(*time_ns));
    most.map_or([Cell::Null, Cell::Null, Cell::Null], |(place, _)| place)
}

const THREAD_COLUMNS: [Column; 14] = [
    Column::plain("thread", "thread"),
    Column::plain("thread_name", "name"),
    Column::ns("python_ns", "ran Python"),
    Column::ns("lock_wait_ns", "waited"),
    Column::ns("longest_ns", "longest"),
    Column::ns("longest_at_ns", ""),
    Column::plain("held_by_thread", "held by"),
    Column::ns("held_ns", "for"),
    Column::plain("holds_function", "ran most"),
    Column::plain("holds_source", ""),
    Column::plain("holds_line", ""),
    Column::plain("waits_function", "waited most in"),
    Column::plain("waits_source", ""),
    Column::plain("waits_line", ""),
];
