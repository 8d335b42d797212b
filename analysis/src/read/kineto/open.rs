//! Slices that are written as a begin and an end.

use std::collections::HashMap;

use super::places::HostKeys;
use crate::model::{Batch, GpuRecord, HostSlice};

/// A slice whose end is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum OpenSlice {
    Gpu(GpuRecord),
    Host(HostSlice),
    /// One that is not asked for; its end must not be taken for another's.
    Ignored,
}

/// Slices that have begun, by thread or stream.
#[derive(Debug, Default)]
pub(super) struct OpenSlices(HashMap<HostKeys, Vec<OpenSlice>>);

impl OpenSlices {
    pub(super) fn begin(&mut self, keys: HostKeys, slice: OpenSlice) {
        self.0.entry(keys).or_default().push(slice);
    }

    /// The innermost slice of a thread, which ends.
    pub(super) fn end(&mut self, keys: HostKeys) -> Option<OpenSlice> {
        self.0.get_mut(&keys)?.pop()
    }

    /// The trace ends: slices of the host end with it. Returns how many operations of GPUs were
    /// open.
    pub(super) fn finish(&mut self, last_ns: u64, batch: &mut Batch) -> u64 {
        let mut cut_off = 0;
        let mut threads: Vec<_> = self.0.drain().collect();
        threads.sort_by_key(|(keys, _)| *keys);
        for slice in threads
            .into_iter()
            .flat_map(|(_, slices)| slices.into_iter().rev())
        {
            match slice {
                OpenSlice::Gpu(_) => cut_off += 1,
                OpenSlice::Host(slice) => batch.host.push(HostSlice {
                    end_ns: last_ns.max(slice.start_ns),
                    is_open: true,
                    ..slice
                }),
                OpenSlice::Ignored => {}
            }
        }
        cut_off
    }
}
