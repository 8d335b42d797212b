//! Collective operations as measures of the distance between clocks.
//!
//! No rank can end an all-reduce before all ranks have begun it. So on every pair of hosts, each end is after each start, and each collective
//! bounds how far the clocks can be apart from both sides. What counts is when the kernels ran: an RCCL call returns long before. From the
//! call to its kernel leads a chain of flows: RCCL call, HIP launch inside of it or at the end of its arrow, kernel.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result};
use rsys_proto::reader::PacketReader;
use rsys_traces::perfetto::clocks::WallClock;
use rsys_traces::read::Chain;

use crate::trace_info::explain;

mod reader;

use reader::CollectiveReader;

/// Collectives that are kept of all traces together.
const COLLECTIVES_MAX: usize = 200_000;

/// A collective operation: a hash of its communicator, and the number of the operation in it.
pub type Key = (u64, u64);

/// When a collective ran: earliest start and latest end on one rank, or latest start and earliest end of the ranks of a host.
pub type Span = (i64, i64);

/// Collectives by host.
#[derive(Debug, Default)]
pub struct Collectives {
    spans: HashMap<Key, BTreeMap<usize, Span>>,
    /// Collectives are kept whose hash ends in this many zeros: the same on all ranks, whatever comes first.
    zeros: u32,
}

impl Collectives {
    /// Adds those of one rank.
    pub fn add(&mut self, host: usize, spans: HashMap<Key, Span>) {
        for (key, (start, end)) in spans {
            if self.keeps(key) {
                let known = self.spans.entry(key).or_default();
                let span = known.entry(host).or_insert((start, end));
                *span = (span.0.max(start), span.1.min(end));
            }
        }
        while self.spans.len() > COLLECTIVES_MAX {
            self.zeros += 1;
            let zeros = self.zeros;
            self.spans
                .retain(|&key, _| hash(key).trailing_zeros() >= zeros);
        }
    }

    fn keeps(&self, key: Key) -> bool {
        hash(key).trailing_zeros() >= self.zeros
    }

    /// Those that ran on more than one host, in order.
    #[must_use]
    pub fn shared(self) -> Vec<(Key, BTreeMap<usize, Span>)> {
        let shared = self.spans.into_iter().filter(|(_, hosts)| hosts.len() > 1);
        let mut shared: Vec<_> = shared.collect();
        shared.sort_unstable();
        shared
    }
}

fn hash((communicator, sequence): Key) -> u64 {
    let mixed = (communicator ^ sequence.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 8
}

/// Reads a trace as a whole: its collectives and its clocks.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn read(path: &Path) -> Result<(HashMap<Key, Span>, WallClock)> {
    let told = || path.display().to_string();
    let mut reader = PacketReader::new(Chain::open(path).with_context(told)?);
    let mut found = CollectiveReader::default();
    loop {
        match reader.next_encoded() {
            Ok(Some(encoded)) => found.packet(encoded),
            Ok(None) => return Ok(found.finish()),
            Err(error) => return Err(explain(error)).with_context(told),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_too_many_is_the_same_in_any_order() {
        let spans = |keys: std::ops::Range<u64>| keys.map(|n| ((7, n), (0, 1))).collect();
        let many = COLLECTIVES_MAX as u64;
        let (mut one, mut other) = (Collectives::default(), Collectives::default());
        one.add(0, spans(0..many));
        one.add(1, spans(many / 2..2 * many));
        other.add(1, spans(many / 2..2 * many));
        other.add(0, spans(0..many));
        let (one, other) = (one.shared(), other.shared());
        assert!(one.len() > 10_000 && one == other);
    }
}
