//! How well the ranks of a job and their GPUs were kept at work: the efficiencies of POP and TALP, as a tree of factors.
//!
//! | file | holds |
//! |---|---|
//! | `regions` | the whole run and the ranges of the program, with what each rank and GPU did in them |
//! | `factors` | the efficiencies, from those times |
//! | `tables` | the tables |
//!
//! A rank is in MPI, in a call of the GPU's runtime, or at work of its own (*useful*). Only durations are compared, each by the clock of its own host.

mod factors;
mod regions;
mod tables;

use std::collections::BTreeMap;

use crate::containers::packed_rows::PackedRows;
use crate::containers::sets::IntervalSet;
use crate::measure::{Measure, notes};
use crate::table::Answer;
use rsys_traces::model::{
    Activity, Batch, HostKind, HostSlice, Kinds, Model, TextId, ThreadId, entry,
};

use self::regions::Regions;

/// What a thread did.
#[derive(Debug, Default)]
struct OfThread {
    /// Calls of MPI and RCCL by name.
    calls: BTreeMap<TextId, IntervalSet>,
    /// Calls of HIP and HSA.
    runtime: IntervalSet,
    /// Begin, end and name of each range of the program.
    ranges: PackedRows<3>,
}

/// What a GPU did for a process.
#[derive(Debug, Default)]
struct OfDevice {
    compute: IntervalSet,
    /// Collectives and copies.
    moves: IntervalSet,
}

/// The question, while records are read.
#[derive(Debug, Default)]
pub struct Pop {
    threads: BTreeMap<ThreadId, OfThread>,
    devices: Vec<OfDevice>,
    /// First begin and last end of anything, by process.
    seen: Vec<Option<(u64, u64)>>,
}

impl Pop {
    fn see(&mut self, process: usize, start_ns: u64, end_ns: u64) {
        let (first_ns, last_ns) = entry(&mut self.seen, process).get_or_insert((start_ns, end_ns));
        *first_ns = start_ns.min(*first_ns);
        *last_ns = end_ns.max(*last_ns);
    }

    fn slice(&mut self, slice: &HostSlice) {
        self.see(slice.process.index(), slice.start_ns, slice.end_ns);
        if slice.thread.index() == HostSlice::NO_THREAD {
            return;
        }
        let of_thread = match slice.kind {
            HostKind::Collective | HostKind::Runtime | HostKind::Hsa | HostKind::Range => {
                self.threads.entry(slice.thread).or_default()
            }
            _ => return,
        };
        match slice.kind {
            HostKind::Collective => {
                let calls = of_thread.calls.entry(slice.name).or_default();
                calls.add(slice.start_ns, slice.end_ns);
            }
            HostKind::Range => {
                let name = slice.name.index() as u64;
                of_thread.ranges.push([slice.start_ns, slice.end_ns, name]);
            }
            _ => of_thread.runtime.add(slice.start_ns, slice.end_ns),
        }
    }
}

impl Measure for Pop {
    fn needs(&self) -> Kinds {
        Kinds {
            gpu: true,
            host: true,
            ..Kinds::default()
        }
    }

    fn take(&mut self, batch: &Batch) {
        for slice in &batch.host {
            self.slice(slice);
        }
        for record in &batch.gpu {
            self.see(record.process.index(), record.start_ns, record.end_ns);
            let device = entry(&mut self.devices, record.device.index());
            match record.activity {
                Activity::Compute | Activity::Fill => {
                    device.compute.add(record.start_ns, record.end_ns);
                }
                Activity::Comm | Activity::Copy => {
                    device.moves.add(record.start_ns, record.end_ns);
                }
                Activity::None => {}
            }
        }
    }

    fn answer(&mut self, model: &Model, _label: &str) -> Answer {
        let regions = Regions::of(std::mem::take(self), model);
        let mut notes = notes(model);
        notes.extend(regions.notes());
        Answer {
            is_empty: regions.list.is_empty(),
            tables: tables::tables(&regions, model),
            notes,
            ..Answer::default()
        }
    }
}
