//! Where in the program calls were made: by the stacks that were recorded with them, else by samples of their thread that were taken while
//! they went on.

use super::code_place::program_part;
use super::entry;
use super::packed_rows::PackedRows;
use crate::model::{Basis, Batch, Model, StackId, ThreadId};

/// In place of a function where a call has no stack and no sample was taken within it, or none shows a function of the program.
pub(crate) const NOT_SEEN: &str = "[no sample within the call]";

/// The outermost frame of the stacks of calls in our traces.
pub(crate) const ROOT: &str = "[calls]";

/// Times and stacks, by thread, at some five bytes each.
type ByThread = Vec<PackedRows<2>>;

/// The stacks of calls and the samples of threads.
#[derive(Debug, Default)]
pub(crate) struct CallSites {
    calls: ByThread,
    samples: ByThread,
}

impl CallSites {
    /// Takes in the samples of a batch.
    pub(crate) fn take(&mut self, batch: &Batch) {
        for sample in &batch.samples {
            let threads = match sample.basis {
                Basis::CallTime => &mut self.calls,
                Basis::CpuTime | Basis::WaitTime => &mut self.samples,
                Basis::GpuTime | Basis::Event => continue,
            };
            let of_thread = entry(threads, sample.thread.index());
            of_thread.push([sample.time_ns, sample.stack.index() as u64]);
        }
    }

    /// Puts stacks and samples in order; to be called when all were taken in.
    pub(crate) fn sort(&mut self) {
        for threads in [&mut self.calls, &mut self.samples] {
            threads.iter_mut().for_each(|list| list.settle(|_| true));
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
