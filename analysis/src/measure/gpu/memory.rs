//! Memory that programs made and gave back, by the arguments of their calls: how much there was when, and what held it at the peak.
//!
//! Memory counts from the end of the call that made it to the begin of the one that gives it back, also of the asynchronous ones. Which GPU it is
//! on the calls do not tell, so it counts for each process and kind of memory.

use std::collections::{BTreeMap, HashMap};

use crate::measure::gpu::framework_memory::Framework;
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::program::call_sites::{CallSites, NOT_SEEN, ROOT};
use crate::program::code_place::cells as place_cells;
use crate::table::{Answer, Cell, Column, Row, Table};
use rsys_traces::model::{
    Allocated as Kind, Batch, DoesWithMemory as Does, HostKind, HostSlice, Kinds, Model, ProcessId,
    StackId, TextId, ThreadId, does_with_memory as does,
};

/// The time of a process is cut into so many parts.
const PARTS: u64 = 100;

/// A call that tells an address or bytes, for all that is known before names are.
#[derive(Debug, Clone, Copy)]
struct MemoryCall {
    process: ProcessId,
    thread: ThreadId,
    name: TextId,
    start_ns: u64,
    end_ns: u64,
    address: u64,
    bytes: u64,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Memory {
    calls: Vec<MemoryCall>,
    sites: CallSites,
    framework: Framework,
}

impl Measure for Memory {
    fn needs(&self) -> Kinds {
        Kinds {
            host: true,
            samples: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            if tells_memory(slice) {
                self.calls.push(MemoryCall {
                    process: slice.process,
                    thread: slice.thread,
                    name: slice.name,
                    start_ns: slice.start_ns,
                    end_ns: slice.end_ns,
                    address: slice.address,
                    bytes: slice.bytes,
                });
            }
        }
        self.sites.take(batch, tells_memory);
        self.framework.take(batch);
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        self.sites.sort();
        let (usages, doubts) = self.usages(model);
        let mut order: Vec<_> = usages.iter().collect();
        order.sort_by_key(|((process, kind), _)| (model.process(*process).order(), *kind));
        let columns = [&PROCESS_COLUMNS[..], &MEMORY_COLUMNS].concat();
        let mut memory = Table::new("memory", "Memory by process", &columns);
        for ((process, kind), usage) in &order {
            let mut cells = process_cells(model, *process).to_vec();
            cells.push(kind.text().into());
            cells.extend(usage.cells());
            memory.push(Row {
                cells,
                below: vec![usage.over_time()],
            });
        }
        let columns = [&PROCESS_COLUMNS[..], &HOLDER_COLUMNS].concat();
        let mut holders = Table::new("memory_holders", "What held memory at its peak", &columns);
        holders.rows_in_text = 30;
        for ((process, kind), usage) in &order {
            for mut cells in self.holders(usage, model) {
                let mut row = process_cells(model, *process).to_vec();
                row.push(kind.text().into());
                row.append(&mut cells);
                holders.push(row);
            }
        }
        let has_calls = !memory.rows.is_empty();
        let [of_framework, operators] = self.framework.tables(model);
        let is_empty = !has_calls && of_framework.rows.is_empty();
        let mut tables = vec![memory, holders];
        tables.extend(
            [of_framework, operators]
                .into_iter()
                .filter(|one| !one.rows.is_empty()),
        );
        Answer {
            tables,
            notes: all_notes(model, &doubts, (has_calls, is_empty)),
            is_empty,
            ..Answer::default()
        }
    }
}

/// Whether a call may be one that makes memory or gives it back.
#[inline]
fn tells_memory(slice: &HostSlice) -> bool {
    matches!(slice.kind, HostKind::Runtime | HostKind::Hsa) && slice.address | slice.bytes > 0
}

/// A change of what a process has.
#[derive(Debug, Clone, Copy)]
struct Change {
    time_ns: u64,
    /// The call that made the memory.
    made_by: MemoryCall,
    is_free: bool,
}

/// What became of the memory of one kind of a process.
#[derive(Debug, Default)]
struct Usage {
    changes: Vec<Change>,
}

/// What the calls leave open.
#[derive(Debug, Default)]
struct Doubts {
    unknown_frees: u64,
    made_twice: u64,
    without_address: u64,
}

/// The greatest sum of a course: bytes, time, and the number of changes up to there.
type Peak = (u64, u64, usize);

impl Usage {
    fn sums(&self) -> impl Iterator<Item = (&Change, u64)> {
        self.changes.iter().scan(0_u64, |sum, change| {
            let bytes = change.made_by.bytes;
            *sum = match change.is_free {
                true => sum.saturating_sub(bytes),
                false => *sum + bytes,
            };
            Some((change, *sum))
        })
    }

    fn peak(&self) -> Peak {
        let mut peak = (0, 0, 0);
        for (count, (change, sum)) in (1..).zip(self.sums()) {
            if sum > peak.0 {
                peak = (sum, change.time_ns, count);
            }
        }
        peak
    }

    /// What was there after some changes, by address.
    fn held(&self, changes: usize) -> Vec<MemoryCall> {
        let mut held: HashMap<u64, MemoryCall> = HashMap::new();
        for change in &self.changes[..changes] {
            match change.is_free {
                true => _ = held.remove(&change.made_by.address),
                false => _ = held.insert(change.made_by.address, change.made_by),
            }
        }
        held.into_values().collect()
    }

    /// Parts of equal length from the first to the last change.
    fn over_time(&self) -> Table {
        let columns = [
            Column::ns("start_ns", ""),
            Column::ns("duration_ns", ""),
            Column::plain("allocations", ""),
            Column::plain("frees", ""),
            Column::bytes("max_bytes", ""),
            Column::bytes("end_bytes", ""),
        ];
        let mut table = Table::new("over_time", "", &columns);
        table.is_detail = true;
        let times = || self.changes.iter().map(|change| change.time_ns);
        let (Some(first_ns), Some(last_ns)) = (times().min(), times().max()) else {
            return table;
        };
        let part_ns = ((last_ns - first_ns) / PARTS + 1).max(1);
        let mut sums = self.sums().peekable();
        let (mut sum, mut start_ns) = (0, first_ns);
        while start_ns <= last_ns {
            let end_ns = start_ns + part_ns;
            let (mut made, mut freed, mut most) = (0_u64, 0_u64, sum);
            while let Some((change, now)) = sums.next_if(|(change, _)| change.time_ns < end_ns) {
                *(if change.is_free {
                    &mut freed
                } else {
                    &mut made
                }) += 1;
                most = most.max(now);
                sum = now;
            }
            table.push(vec![
                start_ns.into(),
                part_ns.into(),
                made.into(),
                freed.into(),
                most.into(),
                sum.into(),
            ]);
            start_ns = end_ns;
        }
        table
    }

    fn cells(&self) -> [Cell; 7] {
        let sum = |is_free: bool| {
            let some = self.changes.iter().filter(|one| one.is_free == is_free);
            some.fold((0, 0), |(count, bytes), one| {
                (count + 1, bytes + one.made_by.bytes)
            })
        };
        let ((made, made_bytes), (freed, freed_bytes)): ((u64, u64), (u64, u64)) =
            (sum(false), sum(true));
        let (peak_bytes, peak_ns, _) = self.peak();
        [
            made.into(),
            made_bytes.into(),
            freed.into(),
            freed_bytes.into(),
            peak_bytes.into(),
            peak_ns.into(),
            (made_bytes - freed_bytes).into(),
        ]
    }
}

impl Memory {
    /// The changes of each process and kind of memory, in order of time.
    fn usages(&self, model: &Model) -> (HashMap<(ProcessId, Kind), Usage>, Doubts) {
        let mut calls: Vec<(u64, bool, MemoryCall, Does)> = Vec::new();
        for &call in &self.calls {
            match does(model.text(call.name)) {
                Some(what @ Does::Allocate(_)) => calls.push((call.end_ns, true, call, what)),
                Some(Does::Free) => calls.push((call.start_ns, false, call, Does::Free)),
                None => {}
            }
        }
        // What is given back may be made again by another thread at the same time.
        calls.sort_by_key(|&(time_ns, is_made, call, _)| {
            let order = model.process(call.process).order();
            (order, time_ns, is_made, call.address, call.bytes)
        });
        let mut usages: HashMap<(ProcessId, Kind), Usage> = HashMap::new();
        let mut live: HashMap<(ProcessId, u64), (Kind, MemoryCall)> = HashMap::new();
        let mut doubts = Doubts::default();
        for (time_ns, _, call, what) in calls {
            let place = (call.process, call.address);
            let mut change = |kind, made_by, is_free| {
                let usage = usages.entry((call.process, kind)).or_default();
                usage.changes.push(Change {
                    time_ns,
                    made_by,
                    is_free,
                });
            };
            match what {
                Does::Allocate(_) if call.address == 0 => doubts.without_address += 1,
                Does::Allocate(kind) => {
                    if let Some((old_kind, old)) = live.insert(place, (kind, call)) {
                        doubts.made_twice += 1;
                        change(old_kind, old, true);
                    }
                    change(kind, call, false);
                }
                Does::Free => match live.remove(&place) {
                    Some((kind, made_by)) => change(kind, made_by, true),
                    None => doubts.unknown_frees += 1,
                },
            }
        }
        (usages, doubts)
    }

    /// What held memory at the peak, by call and stack: rows that add up to the peak.
    fn holders(&self, usage: &Usage, model: &Model) -> Vec<Vec<Cell>> {
        let (_, _, changes) = usage.peak();
        let mut sums: HashMap<(TextId, Option<StackId>), (u64, u64)> = HashMap::new();
        for call in usage.held(changes) {
            let time = (call.start_ns, call.end_ns);
            let stack = self.sites.find(call.thread, time, model);
            let (count, bytes) = sums.entry((call.name, stack)).or_default();
            *count += 1;
            *bytes += call.bytes;
        }
        let mut rows: BTreeMap<(std::cmp::Reverse<u64>, String), Vec<Cell>> = BTreeMap::new();
        for ((name, stack), (count, bytes)) in sums {
            let frame = stack.and_then(|stack| model.stacks.split(stack));
            let mut cells = vec![model.text(name).into()];
            let place = place_cells(frame.map(|(frame, _)| frame), model, NOT_SEEN);
            cells.extend(place);
            cells.extend::<[Cell; 3]>([
                stack.map(|stack| folded(stack, model)).into(),
                count.into(),
                bytes.into(),
            ]);
            // Stacks may differ in lines alone, which the text of a stack does not show.
            let order = (std::cmp::Reverse(bytes), format!("{cells:?} {stack:?}"));
            rows.insert(order, cells);
        }
        rows.into_values().collect()
    }
}

/// The functions of a stack, outermost first.
fn folded(stack: StackId, model: &Model) -> String {
    let frames = model.stacks.innermost_first(stack);
    let names = frames.map(|frame| model.text(frame.function));
    let mut names: Vec<&str> = names.filter(|name| *name != ROOT).collect();
    names.reverse();
    names.join(";")
}

fn all_notes(model: &Model, doubts: &Doubts, (has_calls, is_empty): (bool, bool)) -> Vec<String> {
    let mut notes = notes(model);
    if is_empty {
        notes.push(
            "no allocation with its address is in these traces: rsys-sample records them with -I rocm, PyTorch's profiler with profile_memory=True".to_owned(),
        );
    } else if has_calls {
        notes.push(
            "allocation calls do not say which GPU they use, and leave out the runtime's own memory; see sensors for total use".to_owned(),
        );
    }
    for (count, what) in [
        (
            doubts.unknown_frees,
            "calls give back memory whose allocation is not in these traces",
        ),
        (
            doubts.made_twice,
            "allocations have the address of memory that nobody is seen to give back; it counts as given back then",
        ),
        (
            doubts.without_address,
            "allocations tell no address (they failed, or had not returned) and are left out",
        ),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    notes
}

const MEMORY_COLUMNS: [Column; 8] = [
    Column::plain("memory", "memory"),
    Column::plain("allocations", "made"),
    Column::bytes("allocated_bytes", "bytes"),
    Column::plain("frees", "freed"),
    Column::bytes("freed_bytes", "bytes"),
    Column::bytes("peak_bytes", "peak"),
    Column::ns("peak_time_ns", ""),
    Column::bytes("end_bytes", "at the end"),
];

const HOLDER_COLUMNS: [Column; 8] = [
    Column::plain("memory", "memory"),
    Column::plain("call", "call"),
    Column::plain("function", "in"),
    Column::plain("source", "source"),
    Column::plain("line", "line"),
    Column::plain("stack", ""),
    Column::plain("count", "count"),
    Column::bytes("bytes", "bytes"),
];
