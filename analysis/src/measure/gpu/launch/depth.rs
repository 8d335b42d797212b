//! How much work lies before a GPU: operations that were submitted and are not finished.

use crate::containers::sets::{IntervalSet, in_order};

/// So many changes wait at least for those that should stand in front of them.
const WAITING: usize = 1 << 20;
/// So many are counted at once.
const COUNTED: usize = 1 << 18;

/// The depth of all queues of a GPU over time.
#[derive(Debug, Default)]
pub(super) struct Depth {
    /// Operations that count.
    pub(super) operations: u64,
    /// Σ of the times from submission to end: the mean depth times the span.
    unfinished_ns: u128,
    /// When at least one operation was submitted and had not begun.
    waiting: IntervalSet,
    span_ns: Option<(u64, u64)>,
    /// Times at which the depth grows, not counted yet.
    begins: Vec<u64>,
    /// Times at which it shrinks.
    ends: Vec<u64>,
    now: i64,
    max: i64,
    reached_ns: u64,
    late: u64,
    pub(super) held: Held,
}

/// Launches of kernels that are too long to end while their call still returns, and those of them whose calls returned only then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) launches: u64,
    pub(super) held: u64,
    /// How long their calls waited for them.
    pub(super) held_ns: u64,
}

impl Held {
    /// Shorter kernels may end before their calls return.
    const LONG_NS: u64 = 20_000;
    /// GPU and host may tell times that are so far apart.
    const CLOCKS_NS: u64 = 5_000;

    /// A kernel that ran from a time to another, and the times of its call.
    pub(super) fn add(&mut self, (start_ns, end_ns): (u64, u64), call_ns: (u64, u64)) {
        if end_ns - start_ns >= Self::LONG_NS {
            self.launches += 1;
            if call_ns.0 <= start_ns + Self::CLOCKS_NS && call_ns.1 + Self::CLOCKS_NS >= end_ns {
                self.held += 1;
                self.held_ns += end_ns - start_ns;
            }
        }
    }
}

/// The depth over the whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DepthOverTime {
    /// From the first submission to the last end.
    pub(super) span_ns: u64,
    /// Mean, weighted by time; 0 without a span.
    pub(super) mean: f64,
    /// Maximum.
    pub(super) max: u64,
    /// How long nothing waited to begin.
    pub(super) none_waiting_ns: u64,
    /// Whether the maximum may have been missed, as too much came out of order.
    pub(super) is_rough: bool,
}

impl Depth {
    /// An operation that was submitted, began, and ended at these times.
    pub(super) fn add(&mut self, submitted_ns: u64, start_ns: u64, end_ns: u64) {
        self.operations += 1;
        self.unfinished_ns += u128::from(end_ns - submitted_ns);
        self.waiting.add(submitted_ns, start_ns);
        let (first_ns, last_ns) = self.span_ns.unwrap_or((submitted_ns, end_ns));
        self.span_ns = Some((first_ns.min(submitted_ns), last_ns.max(end_ns)));
        if submitted_ns == end_ns {
            return;
        }
        in_order::push(&mut self.begins, submitted_ns);
        in_order::push(&mut self.ends, end_ns);
        if self.begins.len() + self.ends.len() >= WAITING + COUNTED {
            self.count(COUNTED);
        }
    }

    /// Counts the first of the changes that wait; of those at one time, ends come first.
    fn count(&mut self, changes: usize) {
        in_order::sort(&mut self.begins);
        in_order::sort(&mut self.ends);
        let (mut begun, mut ended) = (0, 0);
        for _ in 0..changes {
            let (begin, end) = (self.begins.get(begun), self.ends.get(ended));
            let (time_ns, change) = match (begin, end) {
                (Some(&begin), Some(&end)) if begin < end => (begin, 1),
                (_, Some(&end)) => (end, -1),
                (Some(&begin), None) => (begin, 1),
                (None, None) => break,
            };
            begun += usize::from(change > 0);
            ended += usize::from(change < 0);
            self.late += u64::from(time_ns < self.reached_ns);
            self.reached_ns = self.reached_ns.max(time_ns);
            self.now += change;
            self.max = self.max.max(self.now);
        }
        self.begins.drain(..begun);
        self.ends.drain(..ended);
    }

    /// The depth, when all operations are known.
    pub(super) fn over_time(&mut self) -> DepthOverTime {
        self.count(usize::MAX);
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        let span_ns = last_ns - first_ns;
        let intervals = self.waiting.intervals();
        let waiting_ns: u64 = intervals.map(|(start_ns, end_ns)| end_ns - start_ns).sum();
        DepthOverTime {
            span_ns,
            mean: match span_ns {
                0 => 0.0,
                span_ns => self.unfinished_ns as f64 / span_ns as f64,
            },
            max: self.max.unsigned_abs(),
            none_waiting_ns: span_ns - waiting_ns,
            is_rough: self.late > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn depths_are_those_of_every_nanosecond(
            operations in vec((0..200_usize, 0..50_usize, 0..50_usize), 1..30),
        ) {
            let (mut depth, mut submitted, mut waiting) = (Depth::default(), [0; 300], [0; 300]);
            for &(submit, queue, run) in &operations {
                depth.add(submit as u64, (submit + queue) as u64, (submit + queue + run) as u64);
                submitted[submit..submit + queue + run].iter_mut().for_each(|at| *at += 1);
                waiting[submit..submit + queue].iter_mut().for_each(|at| *at += 1);
            }
            let first = operations.iter().map(|one| one.0).min().unwrap_or(0);
            let last = operations.iter().map(|one| one.0 + one.1 + one.2).max().unwrap_or(0);
            let found = depth.over_time();
            prop_assert_eq!(found.span_ns, (last - first) as u64);
            prop_assert_eq!(found.max, submitted.iter().max().copied().unwrap_or(0));
            let none = waiting[first..last].iter().filter(|at| **at == 0).count();
            prop_assert_eq!(found.none_waiting_ns, none as u64);
            let sum: u64 = submitted.iter().sum();
            let mean = sum as f64 / ((last - first) as f64).max(1.0);
            prop_assert!((found.mean - mean).abs() < 1e-9);
        }
    }
}
