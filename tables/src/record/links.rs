//! What belongs to calls and operations of GPUs, and comes apart from them.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rsys_analysis::containers::packed_rows::{Finder, PackedRows, RowFile};
use rsys_traces::model::{HostSlice, Model, Sample, StackId};

use super::NONE;
use crate::store::StoreWriter;

/// Calls and stacks, until all was read, in a file.
#[derive(Debug)]
pub(super) struct Links {
    file: Arc<RowFile>,
    /// Calls that caused work: link, process, begin, and its end from behind, so that of two that begin at once the longer is first; the row of the call,
    /// thread and name.
    causes: PackedRows<7>,
    /// Stacks that launched kernels: process, begin and duration of the kernel; the stack.
    launches: PackedRows<4>,
    /// Stacks of calls: thread and begin; the stack.
    call_stacks: PackedRows<3>,
}

impl Links {
    /// None so far. The file is empty and used by no one else.
    pub(super) fn new(file: File) -> Self {
        let file = Arc::new(RowFile::new(file));
        Self {
            causes: PackedRows::in_file(&file),
            launches: PackedRows::in_file(&file),
            call_stacks: PackedRows::in_file(&file),
            file,
        }
    }

    /// Remembers a call, which has this row.
    pub(super) fn call(&mut self, slice: &HostSlice, row: u64) {
        if slice.link != 0 {
            self.causes.push([
                slice.link,
                slice.process.index() as u64,
                slice.start_ns,
                u64::MAX - slice.end_ns,
                row,
                slice.thread.index() as u64,
                slice.name.index() as u64,
            ]);
        }
    }

    /// Remembers the stack that launched a kernel.
    pub(super) fn launch_stack(&mut self, sample: &Sample) {
        let process = sample.process.index() as u64;
        let stack = sample.stack.index() as u64;
        self.launches
            .push([process, sample.time_ns, sample.weight, stack]);
    }

    /// Remembers the stack from which a call was made.
    pub(super) fn call_stack(&mut self, sample: &Sample) {
        let thread = sample.thread.index() as u64;
        let stack = sample.stack.index() as u64;
        self.call_stacks.push([thread, sample.time_ns, stack]);
    }

    /// Writes the columns of calls and operations that come of it.
    pub(super) fn finish(mut self, model: &Model, out: &mut StoreWriter) -> io::Result<()> {
        // Of calls within calls with the same link, the outermost counts: it began first, and of those that began at once it ends last.
        self.causes.sort();
        self.launches.sort();
        self.call_stacks.sort();
        let mut stacks = Finder::new(&self.call_stacks);
        for part in 0..out.parts("calls").len() {
            let starts = out.read_back("calls", "start", part)?;
            let threads = out.read_back("calls", "thread", part)?;
            let keys = threads.iter().zip(&starts);
            let found = keys.map(|(&thread, &start)| stacks.first([thread, start]));
            let found: Vec<u64> = found
                .map(|stack| stack.map_or(NONE, |[.., stack]| stack))
                .collect();
            out.column("calls", "stack", &found, false)?;
        }
        let mut causes = Finder::new(&self.causes);
        let mut launches = Finder::new(&self.launches);
        for part in 0..out.parts("operations").len() {
            operations(part, &mut causes, &mut launches, model, out)?;
        }
        self.file.failure().map_or(Ok(()), Err)
    }
}

/// Writes these columns of a part of the operations.
fn operations(
    part: usize,
    causes: &mut Finder<'_, 7>,
    launches: &mut Finder<'_, 4>,
    model: &Model,
    out: &mut StoreWriter,
) -> io::Result<()> {
    const TABLE: &str = "operations";
    let processes = out.read_back(TABLE, "process", part)?;
    let links = out.read_back(TABLE, "link", part)?;
    let mut columns = [const { Vec::new() }; 4];
    for (&link, &process) in links.iter().zip(&processes) {
        let cause = (link != 0).then(|| causes.first([link, process]));
        let values = match cause.flatten() {
            Some([_, _, start_ns, _, row, thread, name]) => [name, start_ns, thread, row],
            None => [0, NONE, NONE, NONE],
        };
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    let names = [
        ("call", false),
        ("call_start", true),
        ("thread", false),
        ("call_row", true),
    ];
    for ((name, in_order), values) in names.into_iter().zip(&columns) {
        out.column(TABLE, name, values, in_order)?;
    }
    let starts = out.read_back(TABLE, "start", part)?;
    let durations = out.read_back(TABLE, "duration", part)?;
    let keys = processes.iter().zip(starts.iter().zip(&durations));
    let stacks: Vec<u64> = keys
        .map(|(&process, (&start_ns, &duration_ns))| {
            let launch = launches.first([process, start_ns, duration_ns]);
            launch.map_or(NONE, |[.., stack]| launcher(model, stack))
        })
        .collect();
    out.column(TABLE, "stack", &stacks, false)
}

/// The stack that launched a kernel: that of the kernel's time without the kernel itself.
fn launcher(model: &Model, stack: u64) -> u64 {
    match model.stacks.split(StackId::at(stack as usize)) {
        Some((_, caller)) if caller != StackId::ROOT => caller.index() as u64,
        _ => NONE,
    }
}
