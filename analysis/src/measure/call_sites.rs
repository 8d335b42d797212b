//! Where in the program calls were made: by samples that were taken of their thread while they went on.

use std::collections::HashMap;

use super::code_place::program_part;
use crate::model::{Basis, Batch, Model, Sample, StackId, ThreadId};

/// In place of a function where no sample was taken within a call, or none shows a function of the program.
pub(crate) const NOT_SEEN: &str = "[no sample within the call]";

/// The samples of threads, at 16 bytes each.
#[derive(Debug, Default)]
pub(crate) struct CallSites {
    threads: HashMap<ThreadId, Vec<(u64, StackId)>>,
}

impl CallSites {
    /// Takes in the samples of a batch.
    pub(crate) fn take(&mut self, batch: &Batch) {
        let is_of_thread =
            |sample: &&Sample| matches!(sample.basis, Basis::CpuTime | Basis::WaitTime);
        for sample in batch.samples.iter().filter(is_of_thread) {
            let samples = self.threads.entry(sample.thread).or_default();
            samples.push((sample.time_ns, sample.stack));
        }
    }

    /// Puts the samples in order; to be called when all were taken in.
    pub(crate) fn sort(&mut self) {
        self.threads
            .values_mut()
            .for_each(|samples| samples.sort_unstable());
    }

    /// The stack down to the innermost function of the program, by the first sample of a thread from `start_ns` on and before `end_ns` that shows
    /// one.
    pub(crate) fn find(
        &self,
        thread: ThreadId,
        (start_ns, end_ns): (u64, u64),
        model: &Model,
    ) -> Option<StackId> {
        let samples = self.threads.get(&thread)?;
        let first = samples.partition_point(|(time_ns, _)| *time_ns < start_ns);
        let within = samples[first..]
            .iter()
            .take_while(|(time_ns, _)| *time_ns < end_ns);
        within
            .filter_map(|(_, stack)| program_part(*stack, model))
            .next()
    }
}
