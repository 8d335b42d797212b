//! Where every process stood when its trace ended, which operation between ranks was never done, and which kernel never ended: who of a job that hangs is
//! waited for.
//!
//! An operation of a communicator is *unfinished* on a rank that has called it, if no kernel that was launched within the call is known to have ended, or, where the
//! call itself waits, if that has not returned. The first one that is unfinished anywhere is compared over all ranks: those that have called it wait, those that have not are *missing*. A rank
//! that works on has called something lately, so only what has been so for [`LONG_NS`] counts.

mod hung;
mod never_done;
mod process;
#[cfg(test)]
mod tests;
mod threads;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use self::hung::Durations;
use self::never_done::NEVER_DONE_COLUMNS;
use self::process::ProcessState;
use crate::joined::group_launches::GroupLaunches;
use crate::joined::ids::CorrelationId;
use crate::measure::{Measure, PROCESS_COLUMNS, notes, process_cells};
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::model::entry;
use rsys_traces::model::{Activity, Basis, Batch, HostKind, Kinds, Model, ProcessId};

/// The shortest wait between ranks that is reported.
const LONG_NS: u64 = 1_000_000_000;
/// Rows of a table in text.
const ROWS_IN_TEXT: usize = 20;

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Stuck {
    processes: Vec<ProcessState>,
    launches: GroupLaunches,
    /// Of all processes: ranks run the same kernels.
    durations: Durations,
    /// Calls of the runtimes of GPUs were recorded.
    has_calls: bool,
}

impl Measure for Stuck {
    fn needs(&self) -> Kinds {
        Kinds {
            locks: true,
            ..Kinds::GPU_HOST_AND_SAMPLES
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut got_on: BTreeSet<usize> = BTreeSet::new();
        // Calls come before what they cause.
        for call in &batch.collectives {
            let index = call.process.index();
            entry(&mut self.processes, index).called(call);
            got_on.insert(index);
        }
        for call in &batch.open_messages {
            let index = call.process.index();
            let process = entry(&mut self.processes, index);
            process.progress_ns = process.progress_ns.max(call.start_ns);
            process.submitted(call.start_ns, call.thread);
            process.messages.push(*call);
            got_on.insert(index);
        }
        for slice in &batch.host {
            let index = slice.process.index();
            let process = entry(&mut self.processes, index);
            process.last_ns = process.last_ns.max(slice.end_ns);
            self.has_calls |= slice.kind == HostKind::Runtime;
            if hung::is_of_gpu(slice) {
                process.gpu.call(slice);
            }
            if slice.kind == HostKind::Collective && slice.is_open {
                process.open.insert((slice.thread, slice.start_ns));
            } else if slice.kind == HostKind::Collective && process.progress_ns < slice.end_ns {
                // Messages are among them.
                process.progress_ns = slice.end_ns;
                got_on.insert(index);
            }
            if slice.kind == HostKind::Runtime && CorrelationId::of_call(slice).is_some() {
                process.submitted(slice.start_ns, slice.thread);
            }
            self.launches
                .take(slice, |group, launch| process.launches(group, launch));
        }
        for record in &batch.gpu {
            let index = record.process.index();
            let process = entry(&mut self.processes, index);
            process.last_ns = process.last_ns.max(record.end_ns);
            process.has_gpu = true;
            process.gpu.operation(record);
            self.durations.add(record);
            if process.progress_ns < record.end_ns {
                process.progress_ns = record.end_ns;
                got_on.insert(index);
            }
            if record.activity == Activity::Comm {
                process.ended(record);
            }
        }
        for index in got_on {
            self.processes[index].discard();
        }
        for wait in &batch.lock_waits {
            let process = entry(&mut self.processes, wait.process.index());
            process.waits_for_lock(wait);
        }
        for sample in &batch.samples {
            if sample.basis == Basis::Event {
                continue;
            }
            let process = entry(&mut self.processes, sample.process.index());
            let waits = match sample.basis {
                Basis::CpuTime => false,
                Basis::WaitTime => true,
                _ => {
                    process.gpu.sample(sample);
                    continue;
                }
            };
            let (time_ns, weight) = (sample.time_ns, sample.weight);
            process.see(sample.thread, sample.stack, waits, time_ns, weight);
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let mut waiting = self.collectives(model);
        waiting.extend(self.messages(model));
        waiting.sort_by_key(|row| Reverse(row.waited_ns));
        let missing = waiting.iter().flat_map(|row| &row.missing);
        let missed: BTreeSet<usize> = missing.copied().collect();
        let mut table = Table::new(
            "never_done",
            "Operations between ranks that were never done",
            &NEVER_DONE_COLUMNS,
        );
        let all: BTreeSet<usize> = waiting
            .iter()
            .flat_map(|row| &row.waiting)
            .copied()
            .collect();
        for row in &waiting {
            table.push(row.cells(self, &all, model));
        }
        table.rows_in_text = ROWS_IN_TEXT;
        let (hung, between_ranks) = self.hung(&all, model);
        let processes = self.table(&missed, model);
        let is_empty = processes.rows.is_empty();
        let mut notes = notes(model);
        if between_ranks {
            let how = match self.is_judged(model) {
                true => "is not known of messages of RCCL: compare where processes were",
                false => "is known with rsys-sample -I rocm rccl",
            };
            notes.push(format!("kernels between ranks that never ended wait for other ranks: which of these did not come {how}"));
        }
        if !is_empty && table.rows.is_empty() && hung.rows.is_empty() {
            if self.has_calls && self.is_seen_to_its_end(model) {
                notes.push("no call waited for a GPU at the end for longer than what was submitted may take".to_owned());
            }
            notes.push(match self.is_judged(model) {
                true => format!(
                    "no rank waited for another one for the last {} s and more of its trace",
                    LONG_NS / 1_000_000_000
                ),
                false => "nothing says whether ranks waited for each other: rsys-sample records that with -I rocm rccl, or -I mpip".to_owned(),
            });
        }
        Answer {
            tables: vec![table, hung, processes, self.threads(model)],
            notes,
            is_empty,
            ..Answer::default()
        }
    }
}

impl Stuck {
    /// Whether the records of all processes reach to their ends.
    fn is_seen_to_its_end(&self, model: &Model) -> bool {
        let mut processes = self.processes.iter().enumerate();
        processes.all(|(index, process)| process.is_seen_to_its_end(ProcessId::new(index), model))
    }

    /// Where each process stood; those that were waited for come first.
    fn table(&self, missed: &BTreeSet<usize>, model: &Model) -> Table {
        let columns = [&PROCESS_COLUMNS[..], &LAST_PLACE_COLUMNS].concat();
        let mut table = Table::new(
            "last_places",
            "Where processes were when their traces ended",
            &columns,
        );
        table.rows_in_text = ROWS_IN_TEXT;
        let took_part = |index: &usize| self.processes[*index].progress_ns > 0;
        let all = 0..self.processes.len();
        let mut order: Vec<usize> = match all.clone().any(|index| took_part(&index)) {
            true => all.filter(took_part).collect(),
            false => all.collect(),
        };
        let is_missed = |index: usize| missed.contains(&index);
        order.sort_by_key(|&index| {
            let id = ProcessId::new(index);
            (!is_missed(index), model.process(id).order())
        });
        for index in order {
            let (id, process) = (ProcessId::new(index), &self.processes[index]);
            let place = process.place(id, model);
            let mut cells = process_cells(model, id).to_vec();
            cells.extend::<[Cell; 6]>([
                is_missed(index).into(),
                process.still_ns(id, model).into(),
                process.end_ns(id, model).into(),
                place
                    .as_ref()
                    .map(|(_, _, waits)| if *waits { "waits" } else { "runs" })
                    .into(),
                place.as_ref().map(|(text, ..)| text.as_str()).into(),
                place.as_ref().map(|(_, ns, _)| *ns).into(),
            ]);
            table.push(cells);
        }
        table
    }
}

const LAST_PLACE_COLUMNS: [Column; 6] = [
    Column::plain("is_missing", "missing"),
    Column::ns("still_ns", "nothing new for"),
    Column::ns("end_ns", ""),
    Column::plain("state", "state"),
    Column::plain("place", "place"),
    Column::ns("seen_ns", "seen there"),
];
