//! What of the host is around the launch of a kernel.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::model::{GpuRecord, HostSlice, ProcessId, ThreadId};

/// When a call launched something, and on which thread.
pub(super) type Launch = (u64, ThreadId);

/// Calls by their links. Where a file has no collectives, none is kept.
#[derive(Debug, Default)]
pub(super) struct Launches {
    pub(super) are_wanted: bool,
    all: Vec<(u64, u64, ProcessId, ThreadId)>,
}

impl Launches {
    /// Takes in a call with a link.
    #[inline]
    pub(super) fn take(&mut self, slice: &HostSlice) {
        if self.are_wanted {
            self.all
                .push((slice.link, slice.start_ns, slice.process, slice.thread));
        }
    }

    /// The launches of kernels, by process and link; the first of several.
    pub(super) fn of(self, kernels: &[GpuRecord]) -> HashMap<(ProcessId, u64), Option<Launch>> {
        let keys = kernels.iter().map(|one| ((one.process, one.link), None));
        let mut found: HashMap<_, Option<Launch>> = keys.collect();
        for (link, start_ns, process, thread) in self.all {
            if let Some(known) = found.get_mut(&(process, link)) {
                let launch = (start_ns, thread);
                *known = Some(known.map_or(launch, |known| known.min(launch)));
            }
        }
        found
    }
}

/// Slices in front of a launch that are looked at: it is in one of the last, or in none.
const LOOKED: usize = 64;

/// Slices of threads, each with what it tells.
#[derive(Debug)]
pub(super) struct Spans<T>(HashMap<ThreadId, Vec<Span<T>>>);

#[derive(Debug)]
struct Span<T> {
    start_ns: u64,
    end_ns: u64,
    /// Of slices that begin and end together: a higher number is further within.
    number: u64,
    told: T,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Spans<T> {
    /// Takes in a slice.
    pub(super) fn take(&mut self, slice: &HostSlice, told: T) {
        self.0.entry(slice.thread).or_default().push(Span {
            start_ns: slice.start_ns,
            end_ns: slice.end_ns,
            number: slice.number,
            told,
        });
    }

    /// All were taken in.
    pub(super) fn settle(&mut self) {
        for spans in self.0.values_mut() {
            spans.sort_by_key(|one| (one.start_ns, Reverse(one.end_ns), one.number));
        }
    }

    /// What the innermost slice around a launch tells.
    pub(super) fn around(&self, (time_ns, thread): Launch) -> Option<&T> {
        let spans = self.0.get(&thread)?;
        let begun = spans.partition_point(|one| one.start_ns <= time_ns);
        let mut may_be = spans[..begun].iter().rev().take(LOOKED);
        may_be.find(|one| one.end_ns > time_ns).map(|one| &one.told)
    }
}
