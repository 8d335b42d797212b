//! When packets were seen.

use std::collections::VecDeque;

/// Remembers when the write index of a queue was seen to advance.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Everything below this index was seen.
    limit: u64,
    /// Upper bounds of indices, and when they were seen first.
    seen: VecDeque<(u64, u64)>,
}

impl Arrivals {
    /// Notes that everything below `limit` is there. The time must be asked for after the limit was read: between the two
    /// others may have the processor, and what came then would begin before it came.
    pub fn note(&mut self, limit: u64, now_ns: impl FnOnce() -> u64) {
        if limit > self.limit {
            self.limit = limit;
            self.seen.push_back((limit, now_ns()));
        }
    }

    /// Everything below this index was seen.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// When this index was seen; it must be below the limit, and not below what was asked before.
    pub fn time_of(&mut self, index: u64) -> u64 {
        while let Some((limit, time)) = self.seen.front() {
            if index < *limit {
                return *time;
            }
            self.seen.pop_front();
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_the_time_of_its_arrival() {
        let mut arrivals = Arrivals::default();
        arrivals.note(3, || 100);
        arrivals.note(3, || 150);
        arrivals.note(5, || 200);
        arrivals.note(4, || 300);
        assert_eq!(arrivals.limit(), 5);
        let times: Vec<u64> = (0..5).map(|index| arrivals.time_of(index)).collect();
        assert_eq!(times, [100, 100, 100, 200, 200]);
    }
}
