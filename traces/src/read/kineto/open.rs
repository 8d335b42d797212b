//! Slices that are written as a begin and an end, which may stand anywhere in the file.

use std::collections::HashMap;

use super::places::HostKeys;
use crate::model::{Batch, GpuRecord, HostSlice};
use crate::read::left_out::LeftOut;

/// The most begins and ends that are held until earlier ones that stand behind them in the file were read.
const WAITING: usize = 1 << 16;

/// A slice whose end is not known yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum OpenSlice {
    Gpu(GpuRecord),
    Host(HostSlice),
    /// One that is not asked for; its end must not be taken for another's.
    Ignored,
}

#[derive(Debug)]
enum Edge {
    Begin(OpenSlice),
    /// With its place in the file.
    End(u64),
}

type Waiting = (u64, HostKeys, Edge);

/// Of what a thread begins and ends at one time, first what was open ends, then the rest begins, the outermost first, and then that may end at once: what
/// stands first in the file says nothing. `open` has how many slices of a thread were open before all of it.
fn put_in_order(edges: &mut [Waiting], open: impl Fn(&HostKeys) -> usize) {
    let mut depths: HashMap<HostKeys, usize> = HashMap::new();
    let same = |one: &Waiting, other: &Waiting| (one.0, one.1) == (other.0, other.1);
    for group in edges.chunk_by_mut(same) {
        let depth = depths
            .entry(group[0].1)
            .or_insert_with_key(|keys| open(keys));
        group.sort_by_key(|(_, _, edge)| match edge {
            Edge::End(offset) => (0, 0, *offset),
            Edge::Begin(OpenSlice::Host(slice)) => (1, slice.number, 0),
            Edge::Begin(_) => (1, u64::MAX, 0),
        });
        let ends = group.partition_point(|(_, _, edge)| matches!(edge, Edge::End(_)));
        let begins = group.len() - ends;
        let before = ends.min(*depth);
        group[before..].rotate_left(ends - before);
        *depth = (*depth + begins).saturating_sub(ends);
    }
}

/// Slices that have begun, by thread or stream.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    waiting: Vec<Waiting>,
    open: HashMap<HostKeys, Vec<OpenSlice>>,
    /// Those whose end is nowhere in the file.
    endless: Vec<HostSlice>,
}

impl OpenSlices {
    /// A slice begins; `None`: at an unknown time; it counts where it stands in the file.
    pub(super) fn begin(&mut self, time_ns: Option<u64>, keys: HostKeys, slice: OpenSlice) {
        let last_ns = self.waiting.last().map_or(0, |edge| edge.0);
        let time_ns = time_ns.unwrap_or(last_ns);
        self.waiting.push((time_ns, keys, Edge::Begin(slice)));
    }

    /// The innermost slice of a thread ends.
    pub(super) fn end(&mut self, time_ns: u64, keys: HostKeys, offset: u64) {
        self.waiting.push((time_ns, keys, Edge::End(offset)));
    }

    /// A slice of the host whose end nothing says.
    pub(super) fn never_ends(&mut self, slice: HostSlice, batch: &mut Batch) {
        match self.endless.len() < WAITING {
            true => self.endless.push(slice),
            false => batch.host.push(slice),
        }
    }

    /// Makes records of slices, once enough of the file is known that hardly any can come before them.
    pub(super) fn settle(&mut self, batch: &mut Batch, left_out: &mut LeftOut) {
        if self.waiting.len() >= 2 * WAITING {
            self.pass(WAITING, batch, left_out);
        }
    }

    fn pass(&mut self, count: usize, batch: &mut Batch, left_out: &mut LeftOut) {
        self.waiting
            .sort_by_key(|(time_ns, keys, _)| (*time_ns, *keys));
        put_in_order(&mut self.waiting, |keys| {
            self.open.get(keys).map_or(0, Vec::len)
        });
        for (time_ns, keys, edge) in self.waiting.drain(..count) {
            let of_thread = self.open.entry(keys).or_default();
            match edge {
                Edge::Begin(slice) => of_thread.push(slice),
                Edge::End(offset) => match of_thread.pop() {
                    None => left_out.unmatched.add(offset),
                    Some(OpenSlice::Gpu(record)) => batch.gpu.push(GpuRecord {
                        end_ns: time_ns.max(record.start_ns),
                        ..record
                    }),
                    Some(OpenSlice::Host(slice)) => batch.host.push(HostSlice {
                        end_ns: time_ns.max(slice.start_ns),
                        ..slice
                    }),
                    Some(OpenSlice::Ignored) => {}
                },
            }
        }
    }

    /// The trace ends: slices of the host end with it. Returns how many operations of GPUs were
    /// open.
    pub(super) fn finish(
        &mut self,
        last_ns: u64,
        batch: &mut Batch,
        left_out: &mut LeftOut,
    ) -> u64 {
        self.pass(self.waiting.len(), batch, left_out);
        batch
            .host
            .extend(self.endless.drain(..).map(|slice| HostSlice {
                end_ns: last_ns.max(slice.start_ns),
                is_open: true,
                ..slice
            }));
        let mut cut_off = 0;
        let mut threads: Vec<_> = self.open.drain().collect();
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
