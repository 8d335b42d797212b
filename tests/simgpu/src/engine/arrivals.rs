//! When packets were seen.

use std::collections::VecDeque;

/// Remembers when the write index of a queue was seen to advance.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Everything below this index was seen.
    limit: u64,
    /// Upper bounds of indices, and when they were seen first.
    seen: VecDeque<(u64, u64)>,
    /// Nothing that is asked for from now on was there before this time.
    not_before_ns: u64,
}

impl Arrivals {
    /// Notes that everything below `limit` is there. The clock is read after `limit` was: a packet that came after an earlier look at the
    /// clock would start before it was submitted.
    pub fn note(&mut self, limit: u64, clock_ns: impl FnOnce() -> u64) {
        if limit > self.limit {
            self.limit = limit;
            self.seen.push_back((limit, clock_ns()));
        }
    }

    /// Notes that the packet which is asked for next was not there before `now_ns`, whatever the doorbell said: producers ring in any
    /// order.
    pub fn late(&mut self, now_ns: u64) {
        self.not_before_ns = now_ns;
    }

    /// Everything below this index was seen.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// When this index was seen; it must be below the limit, and not below what was asked before.
    pub fn time_of(&mut self, index: u64) -> u64 {
        while let Some((limit, time)) = self.seen.front() {
            if index < *limit {
                return self.not_before_ns.max(*time);
            }
            self.seen.pop_front();
        }
        self.not_before_ns
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

    #[test]
    fn what_was_written_late_and_all_after_it_came_late() {
        let mut arrivals = Arrivals::default();
        arrivals.note(4, || 100);
        assert_eq!(arrivals.time_of(0), 100);
        arrivals.late(250);
        arrivals.note(5, || 200);
        arrivals.note(6, || 300);
        let times: Vec<u64> = (1..6).map(|index| arrivals.time_of(index)).collect();
        assert_eq!(times, [250, 250, 250, 250, 300]);
    }
}
