//! Where in the program calls were made: by the stacks that were recorded with them, else by samples of their thread that were taken while
//! they went on.
//!
//! Most samples fall into no call that is asked about. As long as there are few, all are kept; when they are many, those are discarded that no call has
//! contained so far, but for the last of each thread: a call is recorded when it ends.

use crate::containers::packed_rows::PackedRows;
use crate::program::code_place::program_part;
use rsys_traces::model::entry;
use rsys_traces::model::{Basis, Batch, HostSlice, Model, StackId, ThreadId};

/// In place of a function where a call has no stack and no sample was taken within it, or none shows a function of the program.
pub(crate) const NOT_SEEN: &str = "[no sample within the call]";

/// The outermost frame of the stacks of calls in our traces.
pub(crate) const ROOT: &str = "[calls]";

/// The fewest samples that are kept whatever they show: some 20 MB.
const SAMPLES: usize = 1 << 22;
/// Of a thread so many stay, the last ones: those of minutes, as threads are sampled.
const LAST: usize = 1 << 16;
/// And of each call so many, the first ones: one of them shows a function of the program, if any does.
const OF_CALL: usize = 16;

/// Times and stacks, by thread, at some five bytes each.
type ByThread = Vec<PackedRows<2>>;

/// The stacks of calls and the samples of threads.
#[derive(Debug, Default)]
pub(crate) struct CallSites {
    calls: ByThread,
    samples: ByThread,
    /// Begin and end of the calls that may be asked about.
    spans: ByThread,
    /// How many samples there are, and how many may be.
    kept: usize,
    limit: usize,
}

impl CallSites {
    /// Takes in the samples of a batch. Calls that `matters` is false for are not asked about.
    pub(crate) fn take(&mut self, batch: &Batch, matters: impl Fn(&HostSlice) -> bool) {
        for slice in batch.host.iter().filter(|slice| matters(slice)) {
            if slice.thread.index() != HostSlice::NO_THREAD {
                let spans = entry(&mut self.spans, slice.thread.index());
                spans.push([slice.start_ns, slice.end_ns]);
            }
        }
        for sample in &batch.samples {
            let threads = match sample.basis {
                Basis::CallTime => &mut self.calls,
                Basis::CpuTime | Basis::WaitTime => {
                    self.kept += 1;
                    &mut self.samples
                }
                Basis::GpuTime | Basis::Event => continue,
            };
            let of_thread = entry(threads, sample.thread.index());
            of_thread.push([sample.time_ns, sample.stack.index() as u64]);
        }
        if self.kept >= self.limit.max(SAMPLES) {
            self.discard();
            self.limit = 2 * self.kept;
        }
    }

    /// Discards samples that are in no call.
    fn discard(&mut self) {
        self.kept = 0;
        for (thread, samples) in self.samples.iter_mut().enumerate() {
            samples.sort();
            let last = samples.len().saturating_sub(LAST);
            let last_ns = samples.get(last).map_or(0, |row| row[0]);
            let spans = entry(&mut self.spans, thread);
            spans.sort();
            let mut spans = spans.iter().peekable();
            let (mut end_ns, mut within) = (0, 0);
            samples.settle(|row| {
                while let Some(span) = spans.next_if(|span| span[0] <= row[0]) {
                    (end_ns, within) = (span[1].max(end_ns), 0);
                }
                within += 1;
                row[0] >= last_ns || row[0] < end_ns && within <= OF_CALL
            });
            self.kept += samples.len();
        }
    }

    /// Puts stacks and samples in order; to be called when all were taken in.
    pub(crate) fn sort(&mut self) {
        self.spans = ByThread::new();
        for threads in [&mut self.calls, &mut self.samples] {
            threads.iter_mut().for_each(|list| list.sort());
        }
    }

    /// The stack of a call down to the innermost function of the program: the one that was recorded with the call, else that of the first sample
    /// of its thread from `start_ns` on and before `end_ns` that shows one.
    pub(crate) fn find(
        &self,
        thread: ThreadId,
        (start_ns, end_ns): (u64, u64),
        model: &Model,
    ) -> Option<StackId> {
        let within = |threads: &ByThread, end_ns: u64| {
            let list = threads.get(thread.index())?;
            let first = list.partition_point(|row| row[0] < start_ns);
            let mut within = (first..)
                .map_while(|number| list.get(number))
                .take_while(|row| row[0] < end_ns);
            within.find_map(|row| program_part(StackId::at(row[1] as usize), model))
        };
        within(&self.calls, start_ns + 1).or_else(|| within(&self.samples, end_ns))
    }
}
