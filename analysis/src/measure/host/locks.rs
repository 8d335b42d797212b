//! Locks: how often each was taken, how long threads waited for it and where, and who held it meanwhile.
//!
//! What the agent has counted of each lock until the end of its process is exact and has waits that were too short to be drawn. Of a process that was
//! killed the trace has its drawn waits alone: they are added up, and how often its locks were taken is not known.
//!
//! Where a wait names no holder's stack but its thread, the holder's place is that of the sample of CPU time which that thread was at meanwhile: so
//! it is with Python's interpreter lock, whose holder runs Python. Where waits for that lock were not recorded, but seen from outside, a table of its
//! own has what was seen of each thread ([`Interpreter`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::containers::packed_rows::PackedRows;
use crate::measure::host::interpreter::Interpreter;
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::program::call_sites::CallSites;
use crate::program::code_place::{cells as place_cells, file_name, own_place};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{
    Basis, Batch, Frame, Kinds, LockCounts, LockWait, Model, ProcessId, StackId, TextId, ThreadId,
};

/// In place of a function where a wait has no stack, or none shows a function of the program.
const NO_STACK: &str = "[no call stack]";

/// Functions that wait, by a part of their names, and the kind of lock that they are about.
const KINDS: [(&str, &str); 8] = [
    ("GIL", INTERPRETER),
    ("rwlock", "rwlock"),
    ("spin", "spinlock"),
    ("sem_", "semaphore"),
    ("cond_", "condition"),
    ("cnd_", "condition"),
    ("barrier", "barrier"),
    ("join", "thread end"),
];

/// The kind that is Python's interpreter lock.
const INTERPRETER: &str = "Python GIL";
/// The kind of all others.
const MUTEX: &str = "mutex";

/// What waits have in common while records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Common {
    process: ProcessId,
    function: TextId,
    address: u64,
    holder_tid: u32,
    holder: TextId,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Locks {
    counts: Vec<LockCounts>,
    /// Begin, end, and the number of what it has in common with others, by the thread that waited.
    waits: Vec<PackedRows<3>>,
    common: Vec<Common>,
    numbers: HashMap<Common, u64>,
    sites: CallSites,
    /// Time, weight and stack of samples of CPU time, by thread, from the first wait on whose holder's stack is not known.
    running: Vec<PackedRows<3>>,
    wants_running: bool,
    interpreter: Interpreter,
}

/// Some waits.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    waits: u64,
    wait_ns: u64,
    longest_ns: u64,
}

impl Sum {
    fn add(&mut self, ns: u64) {
        self.waits += 1;
        self.wait_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// Names a lock within the traces: process, kind, address.
type LockKey = (ProcessId, &'static str, u64);
/// A place in the program: its cells, and the same in words.
type Place = ([Cell; 3], String);

/// What waits for one lock add up to.
#[derive(Debug, Default)]
struct OfLock {
    all: Sum,
    /// By the waiters' and the holders' places in words.
    places: BTreeMap<(String, String), ([Cell; 3], Sum)>,
}

impl OfLock {
    /// The place that has most of the time, of waiters or of holders.
    fn most(&self, of: impl Fn(&(String, String)) -> &String) -> Option<String> {
        let mut sums: BTreeMap<&String, u64> = BTreeMap::new();
        for (places, (_, sum)) in &self.places {
            *sums.entry(of(places)).or_default() += sum.wait_ns;
        }
        let known = sums.into_iter().filter(|(place, _)| is_known(place));
        let most = known.min_by_key(|(_, wait_ns)| Reverse(*wait_ns));
        most.map(|(place, _)| place.clone())
    }
}

/// Whether words name a place.
fn is_known(place: &str) -> bool {
    !place.is_empty() && place != NO_STACK
}

/// The kind of lock that a function waits for.
fn kind(function: &str) -> &'static str {
    let found = KINDS.iter().find(|(part, _)| function.contains(part));
    found.map_or(MUTEX, |(_, kind)| kind)
}

/// A function and its line, as `rsys-sample` writes the places of locks.
fn in_words(frame: &Frame, model: &Model) -> String {
    let file = file_name(model.text(frame.source));
    let in_file = format!(" ({file})");
    let function = model.text(frame.function);
    let function = function.strip_suffix(&in_file).unwrap_or(function);
    match (file, frame.line) {
        ("", _) => function.to_owned(),
        (file, 0) => format!("{function} ({file})"),
        (file, line) => format!("{function} ({file}:{line})"),
    }
}

impl Measure for Locks {
    fn needs(&self) -> Kinds {
        Kinds {
            locks: true,
            ..self.interpreter.needs()
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.counts.extend_from_slice(&batch.locks);
        // What was seen from outside has its place among the waits of threads.
        let recorded = batch.lock_waits.iter().filter(|wait| !wait.is_sampled);
        recorded.for_each(|wait| self.wait(wait));
        if self.wants_running {
            for sample in &batch.samples {
                if sample.basis == Basis::CpuTime {
                    let row = [sample.time_ns, sample.weight, sample.stack.index() as u64];
                    entry(&mut self.running, sample.thread.index()).push(row);
                }
            }
        }
        self.sites.take(batch, |_| false);
        self.interpreter.take(batch);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.sites.sort();
        self.running.iter_mut().for_each(PackedRows::sort);
        let sums = self.sums(model);
        let locks = self.table(&sums, model);
        let mut tables = vec![locks, waits_table(&sums, model)];
        let is_recorded = sums.keys().any(|(_, kind, _)| *kind == INTERPRETER);
        if !is_recorded && self.interpreter.has_waits(model) {
            tables.push(self.interpreter.table(model));
        }
        let mut notes = notes(model);
        let is_empty = tables.iter().all(|table| table.rows.is_empty());
        if is_empty {
            notes.push(
                "no lock is in these traces; rsys-sample -I mutex-locks rw-locks spin-locks records them"
                    .to_owned(),
            );
        }
        Answer {
            tables,
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Locks {
    fn wait(&mut self, wait: &LockWait) {
        let common = Common {
            process: wait.process,
            function: wait.function,
            address: wait.address,
            holder_tid: wait.holder_tid,
            holder: wait.holder,
        };
        self.wants_running |= wait.holder.is_empty() && wait.holder_tid != 0;
        let number = *self.numbers.entry(common).or_insert_with(|| {
            self.common.push(common);
            self.common.len() as u64 - 1
        });
        let of_thread = entry(&mut self.waits, wait.thread.index());
        of_thread.push([wait.start_ns, wait.end_ns, number]);
    }

    /// What the waits for each lock add up to.
    fn sums(&mut self, model: &Model) -> BTreeMap<LockKey, OfLock> {
        let threads: HashMap<(ProcessId, u32), ThreadId> = (0..)
            .map(ThreadId::new)
            .zip(&model.threads)
            .map(|(id, thread)| ((thread.process, thread.tid), id))
            .collect();
        let kinds: Vec<_> = self
            .common
            .iter()
            .map(|common| kind(model.text(common.function)))
            .collect();
        let mut places: HashMap<StackId, Place> = HashMap::new();
        let mut sums: BTreeMap<LockKey, OfLock> = BTreeMap::new();
        for (thread, waits) in self.waits.iter_mut().enumerate() {
            waits.sort();
            for [start_ns, end_ns, number] in waits.iter() {
                let common = self.common[number as usize];
                let time = (start_ns, end_ns);
                let stack = self.sites.find(ThreadId::new(thread), time, model);
                let place = places
                    .entry(stack.unwrap_or(StackId::ROOT))
                    .or_insert_with_key(|stack| {
                        let frame = own_place(*stack, model);
                        let words = frame.map(|frame| in_words(frame, model));
                        let words = words.unwrap_or_else(|| NO_STACK.to_owned());
                        (place_cells(frame, model, NO_STACK), words)
                    });
                let holder = match model.text(common.holder) {
                    "" => {
                        let holder = threads.get(&(common.process, common.holder_tid));
                        let frame = holder
                            .and_then(|holder| running_at(&self.running, *holder, time))
                            .and_then(|stack| own_place(stack, model));
                        frame.map_or_else(String::new, |frame| in_words(frame, model))
                    }
                    holder => holder.to_owned(),
                };
                let key = (common.process, kinds[number as usize], common.address);
                let of_lock = sums.entry(key).or_default();
                of_lock.all.add(end_ns - start_ns);
                let (cells, words) = place;
                let both = (words.clone(), holder);
                let of_places = of_lock.places.entry(both);
                let (_, sum) = of_places.or_insert_with(|| (cells.clone(), Sum::default()));
                sum.add(end_ns - start_ns);
            }
        }
        sums
    }

    fn table(&self, sums: &BTreeMap<LockKey, OfLock>, model: &Model) -> Table {
        let columns = [&LOCK_COLUMNS[..], &PROCESS_COLUMNS].concat();
        let mut table = Table::new("locks", "Locks", &columns);
        table.rows_in_text = 30;
        let mut rows = Vec::new();
        let mut counted = HashSet::new();
        for counts in &self.counts {
            counted.insert(counts.process);
            let kind = model.text(counts.kind);
            let known = KINDS.iter().map(|(_, kind)| *kind).chain([MUTEX]);
            let own = known
                .filter(|known| *known == kind)
                .find_map(|kind| sums.get(&(counts.process, kind, counts.address)));
            let place = |written: TextId, of: fn(&(String, String)) -> &String| {
                let written = Some(model.text(written)).filter(|written| !written.is_empty());
                let written = written.map(str::to_owned);
                written.or_else(|| own?.most(of))
            };
            let places = [
                place(counts.waiter, |(waiter, _)| waiter),
                place(counts.holder, |(_, holder)| holder),
            ];
            let sum = Sum {
                waits: counts.contended,
                wait_ns: counts.wait_ns,
                longest_ns: counts.longest_ns,
            };
            let what = (counts.process, kind, counts.address);
            rows.push((what, Some(counts.acquisitions), sum, places));
        }
        for (&(process, kind, address), of_lock) in sums {
            if !counted.contains(&process) {
                let places = [
                    of_lock.most(|(waiter, _)| waiter),
                    of_lock.most(|(_, holder)| holder),
                ];
                rows.push(((process, kind, address), None, of_lock.all, places));
            }
        }
        rows.sort_by_cached_key(|((process, kind, address), taken, sum, _)| {
            let process = model.process(*process);
            let (rank, host, start_ns, pid, file) = process.order();
            let process = (rank, host.to_owned(), start_ns, pid, file.to_owned());
            (
                Reverse((sum.wait_ns, *taken)),
                process,
                (*kind).to_owned(),
                *address,
            )
        });
        for ((process, kind, address), taken, sum, [waiter, holder]) in rows {
            let mut cells = lock_cells(kind, address).to_vec();
            cells.extend::<[Cell; 6]>([
                taken.into(),
                sum.waits.into(),
                sum.wait_ns.into(),
                sum.longest_ns.into(),
                waiter.into(),
                holder.into(),
            ]);
            cells.extend(process_cells(model, process));
            table.push(cells);
        }
        table
    }
}

/// The stack at which a thread was while something took a time: that of the sample that stands for a part of it.
fn running_at(
    running: &[PackedRows<3>],
    thread: ThreadId,
    (start_ns, end_ns): (u64, u64),
) -> Option<StackId> {
    let list = running.get(thread.index())?;
    let first = list.partition_point(|row| row[0] < start_ns);
    let [time_ns, weight_ns, stack] = list.get(first)?;
    // A sample stands for the CPU time in front of it.
    (time_ns.saturating_sub(weight_ns) < end_ns).then(|| StackId::at(stack as usize))
}

/// Kind and address of a lock; the rest of a kind has no address.
fn lock_cells(kind: &str, address: u64) -> [Cell; 2] {
    let address = match address {
        0 => "other locks".to_owned(),
        address => format!("{address:#x}"),
    };
    [kind.into(), address.into()]
}

/// Who waited where while whom held the lock.
fn waits_table(sums: &BTreeMap<LockKey, OfLock>, model: &Model) -> Table {
    let columns = [&WAIT_COLUMNS[..], &PROCESS_COLUMNS].concat();
    let title = "Waits for locks, by where threads waited and who held them";
    let mut table = Table::new("lock_waits", title, &columns);
    table.rows_in_text = 30;
    let mut rows = Vec::new();
    for (&(process, kind, address), of_lock) in sums {
        for ((words, holder), (place, sum)) in &of_lock.places {
            let order = model.process(process).order();
            let key = (
                Reverse(sum.wait_ns),
                order,
                kind,
                address,
                words.as_str(),
                holder.as_str(),
            );
            rows.push((key, process, place, *sum));
        }
    }
    rows.sort_by_key(|(one, ..)| *one);
    for ((.., kind, address, _, holder), process, place, sum) in rows {
        let mut cells = lock_cells(kind, address).to_vec();
        cells.extend_from_slice(place);
        cells.extend::<[Cell; 4]>([
            (!holder.is_empty()).then_some(holder).into(),
            sum.waits.into(),
            sum.wait_ns.into(),
            sum.longest_ns.into(),
        ]);
        cells.extend(process_cells(model, process));
        table.push(cells);
    }
    table
}

const LOCK_COLUMNS: [Column; 8] = [
    Column::plain("kind", "kind"),
    Column::plain("lock", "lock"),
    Column::plain("acquisitions", "taken"),
    Column::plain("contended", "waits"),
    Column::ns("wait_ns", "waited"),
    Column::ns("longest_ns", "longest"),
    Column::plain("waiter", "most waited in"),
    Column::plain("holder", "most held by"),
];

const WAIT_COLUMNS: [Column; 9] = [
    Column::plain("kind", "kind"),
    Column::plain("lock", "lock"),
    Column::plain("function", "waited in"),
    Column::plain("source", "source"),
    Column::plain("line", "line"),
    Column::plain("holder", "held by"),
    Column::plain("waits", "waits"),
    Column::ns("wait_ns", "waited"),
    Column::ns("longest_ns", "longest"),
];
