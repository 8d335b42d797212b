//! Records become rows, in the pass that reads the traces.
//!
//! What belongs to a record but comes apart from it in the trace is joined when all was read: the call of an operation of a GPU, and the stack
//! from which a call was made or a kernel launched. For that, some ten bytes for each call that caused work and for each stack lie in a file meanwhile.

mod entities;
mod links;

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use rsys_analysis::measure::Measure;
use rsys_analysis::table::Answer;
use rsys_traces::model::{
    Basis, Batch, CollectiveCall, CounterValue, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model,
    Sample, ThreadId,
};

use self::links::Links;
use crate::store::{Rows, StoreWriter};

/// In place of a row of another table, where there is none, and of numbers that are not known.
pub(crate) const NONE: u64 = u64::MAX;

/// What came of writing the tables.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<Mutex<Option<io::Result<()>>>>);

impl Written {
    /// Takes it out. It is there when the pass is over.
    ///
    /// # Errors
    /// What went wrong first; also before the pass is over.
    pub fn take(&self) -> io::Result<()> {
        let mut outcome = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        let outcome = outcome.take();
        outcome.unwrap_or_else(|| Err(io::Error::other("the tables are not finished")))
    }
}

/// Writes the tables of all records of a pass.
#[derive(Debug)]
pub struct Recorder {
    /// What is written; `None` from the first error on.
    tables: Option<Tables>,
    written: Written,
}

impl Recorder {
    /// Writes into an empty file, which may be read as well, the tables of what `identity` names. What is joined at the end is in another empty file
    /// meanwhile, which is of no use then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(file: File, scratch: File, identity: &str) -> io::Result<(Self, Written)> {
        let written = Written::default();
        let recorder = Self {
            tables: Some(Tables::new(StoreWriter::new(file, identity)?, scratch)),
            written: written.clone(),
        };
        Ok((recorder, written))
    }

    fn end(&mut self, outcome: io::Result<()>) {
        self.tables = None;
        let mut written = self.written.0.lock();
        *written.as_mut().map_or(&mut None, |written| &mut **written) = Some(outcome);
    }
}

impl Measure for Recorder {
    fn needs(&self) -> Kinds {
        Kinds::ALL
    }

    fn take(&mut self, batch: &Batch) {
        let taken = self.tables.as_mut().map(|tables| tables.take(batch));
        if let Some(Err(error)) = taken {
            self.end(Err(error));
        }
    }

    /// Finishes the file; the answer is empty.
    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        if let Some(tables) = self.tables.take() {
            self.end(tables.finish(model));
        }
        Answer::default()
    }
}

/// The tables of records.
#[derive(Debug)]
struct Tables {
    out: StoreWriter,
    operations: Rows<12>,
    calls: Rows<13>,
    ranges: Rows<8>,
    waits: Rows<6>,
    samples: Rows<6>,
    markers: Rows<4>,
    counters: Rows<3>,
    collectives: Rows<13>,
    links: Links,
    /// Rows of calls so far.
    call_rows: u64,
}

impl Tables {
    fn new(out: StoreWriter, scratch: File) -> Self {
        Self {
            out,
            operations: Rows::new(
                "operations",
                [
                    ("start", true),
                    ("duration", false),
                    ("link", true),
                    ("bytes", false),
                    ("process", false),
                    ("device", false),
                    ("queue", false),
                    ("name", false),
                    ("grid", false),
                    ("direction", false),
                    ("kind", false),
                    ("activity", false),
                ],
            ),
            calls: Rows::new(
                "calls",
                [
                    ("start", true),
                    ("duration", false),
                    ("link", true),
                    ("bytes", false),
                    ("address", true),
                    ("stream", false),
                    ("process", false),
                    ("thread", false),
                    ("name", false),
                    ("depth", false),
                    ("kind", false),
                    ("order", false),
                    ("open", false),
                ],
            ),
            ranges: Rows::new(
                "ranges",
                [
                    ("start", true),
                    ("duration", false),
                    ("process", false),
                    ("thread", false),
                    ("name", false),
                    ("depth", false),
                    ("kind", false),
                    ("open", false),
                ],
            ),
            waits: Rows::new(
                "waits",
                [
                    ("start", true),
                    ("duration", false),
                    ("process", false),
                    ("thread", false),
                    ("name", false),
                    ("kind", false),
                ],
            ),
            samples: Rows::new(
                "samples",
                [
                    ("time", true),
                    ("weight", false),
                    ("process", false),
                    ("thread", false),
                    ("stack", false),
                    ("basis", false),
                ],
            ),
            markers: Rows::new(
                "markers",
                [
                    ("time", true),
                    ("process", false),
                    ("thread", false),
                    ("name", false),
                ],
            ),
            counters: Rows::new(
                "counters",
                [("time", true), ("counter", false), ("value", false)],
            ),
            collectives: Rows::new(
                "collectives",
                [
                    ("start", true),
                    ("duration", false),
                    ("link", true),
                    ("process", false),
                    ("thread", false),
                    ("name", false),
                    ("communicator", false),
                    ("data_type", false),
                    ("sequence", false),
                    ("bytes", false),
                    ("member", false),
                    ("members", false),
                    ("peer", false),
                ],
            ),
            links: Links::new(scratch),
            call_rows: 0,
        }
    }

    fn take(&mut self, batch: &Batch) -> io::Result<()> {
        for record in &batch.gpu {
            self.operation(record)?;
        }
        for slice in &batch.host {
            self.slice(slice)?;
        }
        for sample in &batch.samples {
            self.sample(sample)?;
        }
        for mark in &batch.marks {
            self.mark(mark)?;
        }
        for value in &batch.counters {
            self.counter(value)?;
        }
        for call in &batch.collectives {
            self.collective(call)?;
        }
        Ok(())
    }

    fn operation(&mut self, record: &GpuRecord) -> io::Result<()> {
        let row = [
            record.start_ns,
            record.duration_ns(),
            record.link,
            record.bytes,
            record.process.index() as u64,
            record.device.index() as u64,
            record.queue.index() as u64,
            record.name.index() as u64,
            record.grid.index() as u64,
            record.direction.index() as u64,
            record.kind as u64,
            record.activity as u64,
        ];
        self.operations.push(row, &mut self.out)
    }

    fn slice(&mut self, slice: &HostSlice) -> io::Result<()> {
        let duration_ns = slice.end_ns - slice.start_ns;
        let (process, thread) = (slice.process.index() as u64, thread_row(slice.thread));
        let (name, depth) = (slice.name.index() as u64, depth(slice));
        let (kind, open) = (slice.kind as u64, u64::from(slice.is_open));
        match slice.kind {
            HostKind::Runtime | HostKind::Hsa | HostKind::Collective => {
                self.links.call(slice, self.call_rows);
                self.call_rows += 1;
                let row = [
                    slice.start_ns,
                    duration_ns,
                    slice.link,
                    slice.bytes,
                    slice.address,
                    slice.stream,
                    process,
                    thread,
                    name,
                    depth,
                    kind,
                    slice.order as u64,
                    open,
                ];
                self.calls.push(row, &mut self.out)
            }
            HostKind::Range | HostKind::Operator | HostKind::Function => {
                let row = [
                    slice.start_ns,
                    duration_ns,
                    process,
                    thread,
                    name,
                    depth,
                    kind,
                    open,
                ];
                self.ranges.push(row, &mut self.out)
            }
            HostKind::Wait | HostKind::OffCpu | HostKind::Runnable => {
                // The name tells in which of them it could run.
                let kind = match slice.kind {
                    HostKind::Runnable => HostKind::OffCpu as u64,
                    _ => kind,
                };
                let row = [slice.start_ns, duration_ns, process, thread, name, kind];
                self.waits.push(row, &mut self.out)
            }
            HostKind::OpenMp | HostKind::Kokkos => Ok(()),
        }
    }

    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        match sample.basis {
            Basis::GpuTime => self.links.launch_stack(sample),
            Basis::CallTime => self.links.call_stack(sample),
            Basis::CpuTime | Basis::WaitTime | Basis::Event => {
                let row = [
                    sample.time_ns,
                    sample.weight,
                    sample.process.index() as u64,
                    sample.thread.index() as u64,
                    sample.stack.index() as u64,
                    sample.basis as u64,
                ];
                self.samples.push(row, &mut self.out)?;
            }
        }
        Ok(())
    }

    fn mark(&mut self, mark: &Mark) -> io::Result<()> {
        let row = [
            mark.time_ns,
            mark.process.index() as u64,
            mark.thread.index() as u64,
            mark.name.index() as u64,
        ];
        self.markers.push(row, &mut self.out)
    }

    fn counter(&mut self, value: &CounterValue) -> io::Result<()> {
        let row = [
            value.time_ns,
            value.counter.index() as u64,
            value.value.to_bits(),
        ];
        self.counters.push(row, &mut self.out)
    }

    fn collective(&mut self, call: &CollectiveCall) -> io::Result<()> {
        let row = [
            call.start_ns,
            call.end_ns - call.start_ns,
            call.link,
            call.process.index() as u64,
            thread_row(call.thread),
            call.name.index() as u64,
            call.communicator.index() as u64,
            call.data_type.index() as u64,
            call.sequence.unwrap_or(NONE),
            call.bytes,
            call.rank.unwrap_or(NONE),
            call.ranks.unwrap_or(NONE),
            call.peer.unwrap_or(NONE),
        ];
        self.collectives.push(row, &mut self.out)
    }

    fn finish(mut self, model: &Model) -> io::Result<()> {
        let out = &mut self.out;
        self.operations.flush(out)?;
        self.calls.flush(out)?;
        self.ranges.flush(out)?;
        self.waits.flush(out)?;
        self.samples.flush(out)?;
        self.markers.flush(out)?;
        self.counters.flush(out)?;
        self.collectives.flush(out)?;
        self.links.finish(model, out)?;
        entities::write(model, out)?;
        self.out.finish()
    }
}

fn thread_row(thread: ThreadId) -> u64 {
    match thread.index() {
        HostSlice::NO_THREAD => NONE,
        index => index as u64,
    }
}

fn depth(slice: &HostSlice) -> u64 {
    match slice.depth {
        HostSlice::UNKNOWN_DEPTH => NONE,
        depth => u64::from(depth),
    }
}
