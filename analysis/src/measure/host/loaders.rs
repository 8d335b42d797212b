//! Main threads that wait again and again for what another thread or process hands them, and what that one does meanwhile.
//!
//! Nothing records who ends a wait. A thread may be the one that does something of its own for most of the time of the waits, and while the main thread
//! works as well, and that is not in one and the same wait before and after their ends. Threads that are alike are one. Where more than two kinds fit, nothing is said.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::handovers::{Handover, handover, is_idle, names_loader, waits_for_requests};
use crate::containers::packed_rows::PackedRows;
use crate::containers::sets::Union;
use crate::measure::{PROCESS_COLUMNS, process_cells, unseen};
use crate::program::code_place::{
    cells as place_cells, own_place, place_text, waits_for_interpreter,
};
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Model, ProcessId, Sample, StackId, ThreadId, entry};

/// Maximum number of samples that are kept, some 20 MB. Of longer records only some windows of time count, the same for all threads.
const KEPT: usize = 1 << 21;
const WINDOW_NS: u64 = 1_000_000_000;
/// The fewest waits that show who ends them.
const WAITS: usize = 10;
/// Who ends the waits does something for this part of their time and of the main thread's own, and may have ended this part of them, in percent.
const COVERED: u64 = 60;
const BESIDE: u64 = 50;
const ENDED: usize = 80;
/// A main thread that works for less than this part of the time of its waits only waits for others: one part in this many.
const WORK_PART: u64 = 200;
/// Ends of waits are known to this many looks, and this time.
const LOOKS: u64 = 2;
const LOOK_NS: u64 = 1_000_000;
/// A thread that was not seen for longer may have done anything.
const UNSEEN_NS: u64 = 200_000_000;
/// Maximum depth of descendants.
const GENERATIONS: usize = 8;

/// The samples of threads, while records are read.
#[derive(Debug, Default)]
pub(super) struct Loaders {
    /// By thread: end, length and whether it waits, stack.
    threads: Vec<PackedRows<3>>,
    kept: usize,
    /// One window in this many is kept: a power of two.
    stride: u64,
}

/// CPU time and waits of each thread, by stack.
pub(super) type Times = HashMap<(ThreadId, StackId), [u64; 2]>;

/// What a thread did at one place without a pause.
#[derive(Debug, Clone, Copy)]
struct Piece {
    time_ns: (u64, u64),
    stack: StackId,
    waits: bool,
}

/// The waits of a main thread at one place.
struct Waits {
    times_ns: Vec<(u64, u64)>,
    /// The same, put together.
    all: Union,
    /// When it worked between them.
    work: Union,
    /// Ends are known to this.
    near_ns: u64,
}

/// What a thread does in such waits.
struct Meanwhile {
    thread: ThreadId,
    is_child: bool,
    place: String,
    /// How long it ran and waited, and what it waited for most.
    times_ns: [u64; 2],
    waited_for: String,
    active: Vec<(u64, u64)>,
    /// Which of the waits it may have ended.
    ends: Vec<bool>,
}

impl Loaders {
    /// Takes in a sample of a thread that ran or waited.
    pub(super) fn take(&mut self, sample: &Sample, waits: bool) {
        self.stride = self.stride.max(1);
        if !(sample.time_ns / WINDOW_NS).is_multiple_of(self.stride) {
            return;
        }
        let length = sample.weight << 1 | u64::from(waits);
        let of_thread = entry(&mut self.threads, sample.thread.index());
        of_thread.push([sample.time_ns, length, sample.stack.index() as u64]);
        self.kept += 1;
        if self.kept >= KEPT {
            self.stride *= 2;
            let stride = self.stride;
            let is_kept = |row: &[u64; 3]| (row[0] / WINDOW_NS).is_multiple_of(stride);
            self.threads
                .iter_mut()
                .for_each(|rows| rows.settle(is_kept));
            self.kept = self.threads.iter().map(PackedRows::len).sum();
        }
    }

    /// A row for each main thread of whose waits it is known who ends them.
    pub(super) fn table(&mut self, times: &Times, model: &Model) -> Table {
        self.threads.iter_mut().for_each(PackedRows::sort);
        let columns = unseen(&PROCESS_COLUMNS, &COLUMNS);
        let mut table = Table::new("loaders", "", &columns);
        let kin = Kin::of(model);
        for (thread, (place, cells, wait_ns)) in longest_handovers(times, model) {
            let process = model.threads[thread.index()].process;
            let waits = self.waits(thread, &place, model);
            if waits.times_ns.len() < WAITS {
                continue;
            }
            let Some((names, most)) = self.loaders((process, thread), &waits, &kin, model) else {
                continue;
            };
            let mut row = process_cells(model, process).to_vec();
            row.extend(cells);
            // Windows that were kept stand for the others, of which some may have no wait.
            let runs_ns = (most.times_ns[0] * self.stride).min(wait_ns);
            let waits_ns = (most.times_ns[1] * self.stride).min(wait_ns - runs_ns);
            row.extend::<[Cell; 6]>([
                wait_ns.into(),
                (waits.times_ns.len() as u64 * self.stride).into(),
                names.into(),
                runs_ns.into(),
                waits_ns.into(),
                most.waited_for.as_str().into(),
            ]);
            table.push(row);
        }
        table
    }

    fn pieces(&self, thread: ThreadId) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let rows = self.threads.get(thread.index());
        for [end_ns, length, stack] in rows.into_iter().flat_map(PackedRows::iter) {
            let (stack, waits) = (StackId::at(stack as usize), length & 1 == 1);
            let start_ns = end_ns.saturating_sub(length >> 1);
            match pieces.last_mut() {
                Some(last)
                    if (last.time_ns.1, last.stack, last.waits) == (start_ns, stack, waits) =>
                {
                    last.time_ns.1 = end_ns;
                }
                _ => pieces.push(Piece {
                    time_ns: (start_ns, end_ns),
                    stack,
                    waits,
                }),
            }
        }
        pieces
    }

    fn waits(&self, thread: ThreadId, place: &str, model: &Model) -> Waits {
        let mut known: HashMap<StackId, bool> = HashMap::new();
        let mut is_meant = |stack: StackId| {
            *known.entry(stack).or_insert_with(|| {
                handover(stack, model).is_some()
                    && place_text(stack, model).is_some_and(|text| text == place)
            })
        };
        let pieces = self.pieces(thread);
        let meant = pieces.iter().filter(|one| one.waits && is_meant(one.stack));
        let times_ns: Vec<(u64, u64)> = meant.map(|one| one.time_ns).collect();
        let span = times_ns.first().zip(times_ns.last());
        let (first_ns, last_ns) = span.map_or((0, 0), |(first, last)| (first.0, last.1));
        let work = pieces
            .iter()
            .filter(|one| !one.waits && first_ns <= one.time_ns.0 && one.time_ns.1 <= last_ns);
        let work = work.map(|one| one.time_ns).collect();
        let process = model.process(model.threads[thread.index()].process);
        let look_ns = 1_000_000_000 / process.wait_frequency_hz.max(1);
        Waits {
            all: times_ns.iter().copied().collect(),
            times_ns,
            work,
            near_ns: LOOKS * look_ns + LOOK_NS,
        }
    }

    /// Who ends the waits, in words, and the one of these that does most.
    fn loaders(
        &self,
        (process, main): (ProcessId, ThreadId),
        waits: &Waits,
        kin: &Kin,
        model: &Model,
    ) -> Option<(String, Meanwhile)> {
        let through_pipe = |stack| handover(stack, model) == Some(Handover::Pipe);
        let (mut alike, mut has_pipe) = (BTreeMap::<(bool, String), Vec<Meanwhile>>::new(), false);
        for thread in kin.threads(process).into_iter().filter(|one| *one != main) {
            let is_child = model.threads[thread.index()].process != process;
            let pieces = self.pieces(thread);
            has_pipe |= !is_child && waiting(&pieces).into_iter().any(through_pipe);
            if let Some(one) = meanwhile((thread, is_child), &pieces, waits, model) {
                let function = one.place.split(" (").next().unwrap_or_default().to_owned();
                alike.entry((is_child, function)).or_default().push(one);
            }
        }
        let of_main = waiting(&self.pieces(main));
        has_pipe |= of_main.iter().copied().any(through_pipe);
        let named = of_main.into_iter().any(|stack| names_loader(stack, model));
        let fitting = alike.into_iter().filter(|((is_child, _), threads)| {
            (!is_child || has_pipe) && fits(threads, waits, named)
        });
        let mut fitting: Vec<Vec<Meanwhile>> = fitting.map(|(_, threads)| threads).collect();
        let does_ns = |one: &Meanwhile| one.times_ns[0] + one.times_ns[1];
        for threads in &mut fitting {
            threads.sort_by_key(|one| (Reverse(does_ns(one)), one.thread));
        }
        if !(1..=2).contains(&fitting.len()) {
            return None;
        }
        fitting.sort_by_key(|threads| Reverse(does_ns(&threads[0])));
        let names: Vec<String> = fitting
            .iter()
            .map(|threads| name(threads, (process, main), model))
            .collect();
        let most = fitting.swap_remove(0).swap_remove(0);
        Some((names.join(", or "), most))
    }
}

/// The stacks with which a thread waits.
fn waiting(pieces: &[Piece]) -> HashSet<StackId> {
    let waiting = pieces.iter().filter(|one| one.waits);
    waiting.map(|one| one.stack).collect()
}

/// The place at which each main thread waits longest for what it is handed, in words and as cells, and how long that is.
fn longest_handovers(times: &Times, model: &Model) -> BTreeMap<ThreadId, (String, [Cell; 3], u64)> {
    let mut places: BTreeMap<(ThreadId, String), ([Cell; 3], u64)> = BTreeMap::new();
    for (&(thread, stack), &[_, wait_ns]) in times {
        let of = model.threads.get(thread.index());
        let is_main = of.is_some_and(|of| of.tid == model.process(of.process).pid);
        if wait_ns == 0 || !is_main || handover(stack, model).is_none() {
            continue;
        }
        let Some(place) = place_text(stack, model) else {
            continue;
        };
        let cells = || (place_cells(own_place(stack, model), model, ""), 0);
        places.entry((thread, place)).or_insert_with(cells).1 += wait_ns;
    }
    let mut longest: BTreeMap<ThreadId, (String, [Cell; 3], u64)> = BTreeMap::new();
    for ((thread, place), (cells, wait_ns)) in places {
        let known = longest.get(&thread).map_or(0, |(_, _, known_ns)| *known_ns);
        if wait_ns > known {
            longest.insert(thread, (place, cells, wait_ns));
        }
    }
    longest
}

/// What a thread does of its own while another waits; `None` if that is nothing.
fn meanwhile(
    (thread, is_child): (ThreadId, bool),
    pieces: &[Piece],
    waits: &Waits,
    model: &Model,
) -> Option<Meanwhile> {
    // `None`: nothing of its own. Who waits until he may run Python has something to do, wherever that is.
    let mut known: HashMap<(StackId, bool), Option<Option<String>>> = HashMap::new();
    let mut own = |piece: &Piece| {
        let own = || {
            let is_idle = piece.waits && is_idle(piece.stack, model);
            match waits_for_interpreter(piece.stack, model) {
                true => Some(None),
                false => place_text(piece.stack, model)
                    .filter(|_| !is_idle)
                    .map(Some),
            }
        };
        known
            .entry((piece.stack, piece.waits))
            .or_insert_with(own)
            .clone()
    };
    // Who waits for work as often as others wait for him is given it by them.
    let mut idle: HashMap<StackId, bool> = HashMap::new();
    let mut is_idle = |stack| *idle.entry(stack).or_insert_with(|| is_idle(stack, model));
    let span_ns = waits.times_ns.first()?.0..waits.times_ns.last()?.1;
    let waiting = pieces.iter().filter(|one| one.waits);
    let waiting = waiting.filter(|one| span_ns.contains(&one.time_ns.0) && is_idle(one.stack));
    if 2 * waiting.count() >= waits.times_ns.len() {
        return None;
    }
    let (first_ns, last_ns) = (pieces.first()?.time_ns.0, pieces.last()?.time_ns.1);
    let mut ends: Vec<bool> = waits
        .times_ns
        .iter()
        .map(|(_, end_ns)| first_ns <= end_ns + waits.near_ns && *end_ns <= last_ns + waits.near_ns)
        .collect();
    let mut places: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut waited_for: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut active, mut since_ns) = (Vec::new(), None::<u64>);
    for piece in pieces {
        let (start_ns, end_ns) = piece.time_ns;
        if piece.waits && end_ns - start_ns > 2 * waits.near_ns {
            let within = (start_ns + waits.near_ns, end_ns - waits.near_ns);
            let first = waits.times_ns.partition_point(|wait| wait.1 <= within.0);
            let behind = waits
                .times_ns
                .partition_point(|wait| wait.1 < within.1)
                .max(first);
            ends[first..behind].fill(false);
        }
        let Some(place) = own(piece) else {
            since_ns = None;
            continue;
        };
        // Between two pieces, who does not wait wants to run.
        let since_ns = since_ns.replace(end_ns).unwrap_or(start_ns);
        let is_near = since_ns + UNSEEN_NS >= start_ns;
        active.push((
            if is_near {
                since_ns.min(start_ns)
            } else {
                start_ns
            },
            end_ns,
        ));
        let common_ns = waits.all.within(piece.time_ns);
        if let Some(place) = place {
            places.entry(place).or_default()[usize::from(piece.waits)] += common_ns;
        }
        if piece.waits {
            let frame = model.stacks.innermost_first(piece.stack).next();
            let what = frame.map_or("", |frame| model.text(frame.function));
            *waited_for.entry(what).or_default() += common_ns;
        }
    }
    let times_ns = places
        .values()
        .fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let (place, _) = places
        .into_iter()
        .max_by_key(|(_, times)| times[0] + times[1])?;
    let waited_for = waited_for.into_iter().max_by_key(|(_, ns)| *ns);
    let waited_for = waited_for.map_or_else(String::new, |(what, _)| what.to_owned());
    Some(Meanwhile {
        thread,
        is_child,
        place,
        times_ns,
        waited_for,
        active,
        ends,
    })
}

/// Whether one of some threads may have ended nearly all waits, and they do something all the time. What asks a loader by name may have it work for nothing else.
fn fits(threads: &[Meanwhile], waits: &Waits, named: bool) -> bool {
    let active = threads.iter().flat_map(|one| one.active.iter().copied());
    let active: Union = active.collect();
    let (wait_ns, work_ns) = (waits.all.length_ns(), waits.work.length_ns());
    let covered_ns = waits.all.common_ns(&active);
    let beside_ns = waits.work.common_ns(&active);
    let works_beside = work_ns * WORK_PART >= wait_ns && 100 * beside_ns >= BESIDE * work_ns;
    let ended = (0..waits.times_ns.len()).filter(|&wait| threads.iter().any(|one| one.ends[wait]));
    // Who waits for requests loads nothing.
    let serves =
        |one: &Meanwhile| one.times_ns[1] > one.times_ns[0] && waits_for_requests(&one.waited_for);
    if !named && threads.iter().any(serves) {
        return false;
    }
    100 * covered_ns >= COVERED * wait_ns
        && (named || works_beside)
        && 100 * ended.count() >= ENDED * waits.times_ns.len()
}

/// Threads that are alike, and what they do: `thread reader, which does load (train.py:9)`.
fn name(threads: &[Meanwhile], (process, main): (ProcessId, ThreadId), model: &Model) -> String {
    let first = &threads[0];
    let thread = model.threads[first.thread.index()];
    let main_name = model.text(model.threads[main.index()].name);
    let own = [model.text(thread.name), &model.process(thread.process).name];
    let is_own = |name: &&str| {
        !name.is_empty() && *name != main_name && *name != model.process(process).name
    };
    let named = own.into_iter().find(is_own);
    let (kind, number) = match first.is_child {
        true => ("process", model.process(thread.process).pid),
        false => ("thread", thread.tid),
    };
    let who = named.map_or_else(
        || format!("{kind} {number}"),
        |name| format!("{kind} {name}"),
    );
    match threads.len() - 1 {
        0 => format!("{who}, which does {}", first.place),
        others => format!("{who} and {others} more, which do {}", first.place),
    }
}

/// Which processes are children of which, and whose threads are whose.
struct Kin {
    children: HashMap<ProcessId, Vec<ProcessId>>,
    threads: Vec<Vec<ThreadId>>,
}

impl Kin {
    fn of(model: &Model) -> Self {
        let ids = || (0..model.processes.len()).map(ProcessId::new);
        let mut by_pid: HashMap<(&str, &str, u32), Vec<ProcessId>> = HashMap::new();
        let folder = |id| Path::new(&model.process(id).file).parent();
        for id in ids() {
            let one = model.process(id);
            let key = (one.boot_id.as_str(), one.host.as_str(), one.pid);
            by_pid.entry(key).or_default().push(id);
        }
        let mut children: HashMap<ProcessId, Vec<ProcessId>> = HashMap::new();
        for id in ids().filter(|id| model.process(*id).parent_pid != 0) {
            let one = model.process(id);
            let key = (one.boot_id.as_str(), one.host.as_str(), one.parent_pid);
            let parents = by_pid.get(&key).map_or(&[][..], Vec::as_slice);
            // Containers and later runs have the same numbers again.
            let near = || parents.iter().filter(|at| folder(**at) == folder(id));
            let parent = match parents {
                [parent] => Some(*parent),
                _ if near().count() == 1 => near().next().copied(),
                _ => None,
            };
            if let Some(parent) = parent.filter(|parent| *parent != id) {
                children.entry(parent).or_default().push(id);
            }
        }
        let mut threads = vec![Vec::new(); model.processes.len()];
        for (thread, of) in (0..).map(ThreadId::new).zip(&model.threads) {
            if let Some(own) = threads.get_mut(of.process.index()) {
                own.push(thread);
            }
        }
        Self { children, threads }
    }

    /// The threads of a process and of its descendants.
    fn threads(&self, process: ProcessId) -> BTreeSet<ThreadId> {
        let (mut all, mut generation) = (BTreeSet::new(), vec![process]);
        for _ in 0..=GENERATIONS {
            let own = generation.iter().map(|one| &self.threads[one.index()]);
            all.extend(own.flatten());
            let children = generation.iter().filter_map(|one| self.children.get(one));
            generation = children.flatten().copied().collect();
        }
        all
    }
}

const COLUMNS: [Column; 9] = [
    Column::plain("function", ""),
    Column::plain("source", ""),
    Column::plain("line", ""),
    Column::ns("wait_ns", ""),
    Column::plain("waits", ""),
    Column::plain("loader", ""),
    Column::ns("loader_runs_ns", ""),
    Column::ns("loader_waits_ns", ""),
    Column::plain("loader_waits_for", ""),
];
