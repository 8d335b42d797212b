//! Where in the program calls were made: by the stacks that were recorded with them, else by samples of their thread that were taken while
//! they went on.

use std::collections::HashMap;

use super::code_place::program_part;
use crate::model::{Basis, Batch, Model, StackId, ThreadId};

/// In place of a function where a call has no stack and no sample was taken within it, or none shows a function of the program.
pub(crate) const NOT_SEEN: &str = "[no sample within the call]";

/// The outermost frame of the stacks of calls in our traces.
pub(crate) const ROOT: &str = "[calls]";

/// Times and stacks of threads, at 16 bytes each.
type ByThread = HashMap<ThreadId, Vec<(u64, StackId)>>;

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
            let of_thread = threads.entry(sample.thread).or_default();
            of_thread.push((sample.time_ns, sample.stack));
        }
    }

    /// Puts stacks and samples in order; to be called when all were taken in.
    pub(crate) fn sort(&mut self) {
        for threads in [&mut self.calls, &mut self.samples] {
            threads.values_mut().for_each(|list| list.sort_unstable());
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
            let list = threads.get(&thread)?;
            let first = list.partition_point(|(time_ns, _)| *time_ns < start_ns);
            let within = list[first..].iter();
            within
                .take_while(|(time_ns, _)| *time_ns < end_ns)
                .find_map(|(_, stack)| program_part(*stack, model))
        };
        within(&self.calls, start_ns + 1).or_else(|| within(&self.samples, end_ns))
    }
}
