//! Where each thread was when the trace of its process ended: of threads that wait for each other, all belong to the answer.

use std::cmp::Reverse;

use super::process::{ProcessState, place_of};
use super::{LONG_NS, ROWS_IN_TEXT, Stuck};
use crate::measure::{PROCESS_COLUMNS, process_cells};
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Model, ProcessId, StackId, ThreadId};

/// Where a thread was last.
#[derive(Debug, Clone, Copy)]
struct LastPlace {
    thread: ThreadId,
    stack: StackId,
    waits: bool,
    seen_ns: u64,
}

impl ProcessState {
    /// Threads that were seen within the last second, those that were longest at their place first.
    fn last_places(&self, end_ns: u64) -> Vec<LastPlace> {
        let last = self.seen.iter().filter_map(|(&thread, seen)| {
            let of_stack = seen
                .iter()
                .max_by_key(|((stack, waits), (sum_ns, last_ns))| {
                    (*last_ns, *sum_ns, *waits, *stack)
                });
            let (&(stack, waits), &(seen_ns, last_ns)) = of_stack?;
            (last_ns.saturating_add(LONG_NS) >= end_ns).then_some(LastPlace {
                thread,
                stack,
                waits,
                seen_ns,
            })
        });
        let mut last: Vec<LastPlace> = last.collect();
        last.sort_by_key(|one| (Reverse(one.seen_ns), one.thread));
        last
    }
}

impl Stuck {
    /// The last places of the threads of processes that have stood still for a second, if these have several.
    pub(super) fn threads(&self, model: &Model) -> Table {
        let columns = [&PROCESS_COLUMNS[..], &COLUMNS].concat();
        let title = "Where their threads were";
        let mut table = Table::new("last_threads", title, &columns);
        table.rows_in_text = ROWS_IN_TEXT;
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|&index| model.process(ProcessId::new(index)).order());
        for index in order {
            let (id, process) = (ProcessId::new(index), &self.processes[index]);
            let places = process.last_places(process.end_ns(id, model));
            let stands_still = |one: &LastPlace| one.waits && one.seen_ns >= LONG_NS;
            if places.len() < 2 || !places.iter().any(stands_still) {
                continue;
            }
            for one in places {
                let thread = model.threads[one.thread.index()];
                let mut frames = model.stacks.innermost_first(one.stack);
                let waited_for = frames.next().filter(|_| one.waits);
                let waited_for = waited_for.map(|frame| model.text(frame.function));
                let lock = process.locks.get(&one.thread);
                let holder = lock.filter(|(_, holder)| one.waits && !holder.is_empty());
                let mut cells = process_cells(model, id).to_vec();
                cells.extend::<[Cell; 7]>([
                    thread.tid.into(),
                    model.text(thread.name).into(),
                    (if one.waits { "waits" } else { "runs" }).into(),
                    place_of(one.stack, model).into(),
                    waited_for.into(),
                    holder.map(|(_, holder)| model.text(*holder)).into(),
                    one.seen_ns.into(),
                ]);
                table.push(cells);
            }
        }
        table
    }
}

const COLUMNS: [Column; 7] = [
    Column::plain("thread", "thread"),
    Column::plain("thread_name", "name"),
    Column::plain("state", "state"),
    Column::plain("place", "place"),
    Column::plain("waited_for", "for"),
    Column::plain("holder", "held by"),
    Column::ns("seen_ns", "seen there"),
];
