//! Sums over spans of time that become longer as a run does.

use std::collections::HashSet;
use std::hash::Hash;

use rsys_proto::hashing::FastMap;

/// The first length of a span.
const FIRST_NS: u64 = 10_000_000;
/// Equal spans from the beginning of a process, and what is summed up in each under a key. Where there are more sums than `sums_max`, two spans become
/// one: memory grows with the number of keys, not with time, and each total stays exact.
#[derive(Debug)]
pub struct Spans<K, S> {
    begin_ns: u64,
    /// The length of a span.
    pub span_ns: u64,
    sums: FastMap<(K, u32), S>,
    sums_max: usize,
}

/// What can be added up.
pub trait Sum: Default + Copy {
    /// Adds another.
    fn add(&mut self, other: Self);
}

impl Sum for u64 {
    fn add(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

impl<K: Copy + Eq + Hash + Ord, S: Sum> Spans<K, S> {
    /// No sums yet.
    pub fn new(begin_ns: u64, sums_max: usize) -> Self {
        Self {
            begin_ns,
            span_ns: FIRST_NS,
            sums: FastMap::default(),
            sums_max,
        }
    }

    /// Adds something to the span of this time.
    pub fn add(&mut self, key: K, time_ns: u64, what: S) {
        let span = time_ns.saturating_sub(self.begin_ns) / self.span_ns;
        let span = u32::try_from(span).unwrap_or(u32::MAX);
        self.sums.entry((key, span)).or_default().add(what);
        while self.sums.len() > self.sums_max {
            self.widen();
        }
    }

    /// When a span begins.
    pub fn time_ns(&self, span: u32) -> u64 {
        self.begin_ns
            .saturating_add(u64::from(span).saturating_mul(self.span_ns))
    }

    /// All sums, by key and time.
    pub fn sorted(&self) -> Vec<(K, u32, S)> {
        let sums = self.sums.iter();
        let mut sums: Vec<(K, u32, S)> =
            sums.map(|(&(key, span), &sum)| (key, span, sum)).collect();
        sums.sort_unstable_by_key(|&(key, span, _)| (key, span));
        sums
    }

    fn widen(&mut self) {
        self.span_ns = self.span_ns.saturating_mul(2);
        for ((key, span), sum) in std::mem::take(&mut self.sums) {
            self.sums.entry((key, span / 2)).or_default().add(sum);
        }
        let keys: HashSet<K> = self.sums.keys().map(|(key, _)| *key).collect();
        // Longer spans do not help where there are that many keys.
        self.sums_max = self.sums_max.max(2 * keys.len());
    }
}

impl<K: Copy + Eq + Hash + Ord> Spans<K, u64> {
    /// Adds the time from `begin_ns` to `end_ns`, to each span what lies in it.
    pub fn add_time(&mut self, key: K, begin_ns: u64, end_ns: u64) {
        let mut from_ns = begin_ns;
        if from_ns < self.begin_ns.min(end_ns) {
            // What lies before all spans counts to the first.
            let to_ns = end_ns.min(self.begin_ns);
            self.add(key, from_ns, to_ns - from_ns);
            from_ns = to_ns;
        }
        while from_ns < end_ns {
            let offset = from_ns.saturating_sub(self.begin_ns);
            let span_end_ns = from_ns.saturating_add(self.span_ns - offset % self.span_ns);
            let to_ns = span_end_ns.min(end_ns);
            self.add(key, from_ns, to_ns - from_ns);
            from_ns = to_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_stay_exact_and_memory_bounded() {
        let mut spans: Spans<u32, u64> = Spans::new(1_000, 64);
        for number in 0..10_000_u64 {
            let begin_ns = 1_000 + number * 7_000_000;
            spans.add((number % 3) as u32, begin_ns, 5);
            spans.add_time(3, begin_ns, begin_ns + 3_000_001);
            assert!(spans.sorted().len() <= 64);
        }
        let total = |of: u32| {
            let sums = spans.sorted();
            sums.iter()
                .filter(|(key, ..)| *key == of)
                .map(|(.., sum)| *sum)
                .sum::<u64>()
        };
        assert_eq!([0, 1, 2].map(total), [3334 * 5, 3333 * 5, 3333 * 5]);
        assert_eq!(total(3), 10_000 * 3_000_001);
        assert!(spans.sorted().len() > 16);
        let last = spans
            .sorted()
            .iter()
            .map(|(_, span, _)| *span)
            .max()
            .expect("a span");
        let end_ns = 1_000 + 9_999 * 7_000_000;
        assert!((spans.time_ns(last)..spans.time_ns(last + 1)).contains(&end_ns));
    }

    #[test]
    fn times_before_the_process_count_to_the_first_span() {
        let mut spans: Spans<u32, u64> = Spans::new(10_000_000_000_000_000, 16);
        spans.add_time(1, 5, 10_000_000_000_000_007);
        spans.add_time(2, 5, 9);
        let expected = [(1, 0, 10_000_000_000_000_002), (2, 0, 4)];
        assert_eq!(spans.sorted(), expected);
    }

    #[test]
    fn more_keys_than_sums_end() {
        let mut spans: Spans<u32, u64> = Spans::new(0, 16);
        for number in 0..1_000 {
            spans.add(number, u64::from(number), 1);
        }
        assert_eq!(spans.sorted().len(), 1_000);
    }
}
