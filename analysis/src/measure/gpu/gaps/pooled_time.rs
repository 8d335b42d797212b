//! Times of threads between their calls, which are divided by samples.

use std::collections::BTreeMap;

use super::causes::{Example, keep_longest};
use crate::measure::idle_cause::IdleCause;
use rsys_traces::model::{StackId, TextId, ThreadId};

/// Times of a thread between its calls, which are divided together.
#[derive(Debug, Default)]
pub(super) struct PooledTime {
    pub(super) time_ns: u64,
    pub(super) count: u64,
    /// The longest, whatever was seen in it.
    pub(super) longest: Option<Example>,
    /// What was seen in them, by cause and place.
    pub(super) seen: BTreeMap<(IdleCause, String), Seen>,
}

/// One of these times: begin and length.
pub(super) type Span = (u64, u64);

/// A call, and the stack that it was made from, if that was recorded.
pub(super) type CallAt = (TextId, Option<StackId>);

/// Whose time between calls it is, and what is known around it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Around {
    pub(super) thread: ThreadId,
    /// Where the thread waited around that time. Not an empty text for nowhere: to compare such ones takes glibc's `memcmp` with AVX-512 a
    /// microsecond, because they lie at no address.
    pub(super) waits: Option<String>,
    /// The call with which it went on.
    pub(super) next: Option<CallAt>,
}

/// What samples of a pool say of one place.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) weight_ns: u64,
    /// In how many of the times it was seen.
    pub(super) count: u64,
    /// Those of them in which it was seen longest.
    pub(super) examples: Vec<Example>,
}

impl PooledTime {
    /// Adds a time and what its samples say: causes, places and weights.
    pub(super) fn add(
        &mut self,
        (start_ns, length_ns): Span,
        samples: impl Iterator<Item = (IdleCause, String, u64)>,
    ) {
        self.time_ns += length_ns;
        self.count += 1;
        self.longest = self.longest.max(Some(Example::new(start_ns, length_ns)));
        let mut weights: BTreeMap<(IdleCause, String), u64> = BTreeMap::new();
        for (cause, place, weight_ns) in samples {
            let sum_ns = weights.entry((cause, place)).or_default();
            *sum_ns = sum_ns.saturating_add(weight_ns);
        }
        for (of, weight_ns) in weights {
            let seen = self.seen.entry(of).or_default();
            seen.weight_ns = seen.weight_ns.saturating_add(weight_ns);
            seen.count += 1;
            let example = Example::new(start_ns, weight_ns.min(length_ns));
            keep_longest(&mut seen.examples, [example]);
        }
    }
}
