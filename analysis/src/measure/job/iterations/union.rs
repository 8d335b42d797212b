//! Lengths of unions of intervals, within any time.

/// Half-open intervals in order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Union {
    list: Vec<(u64, u64)>,
    /// The length of all intervals in front of each.
    sums: Vec<u64>,
}

impl Union {
    /// The union of intervals in any order.
    pub(super) fn of(mut intervals: Vec<(u64, u64)>) -> Self {
        intervals.retain(|(start_ns, end_ns)| start_ns < end_ns);
        if !intervals.is_sorted() {
            intervals.sort_unstable();
        }
        intervals.dedup_by(|later, earlier| {
            let touches = later.0 <= earlier.1;
            if touches {
                earlier.1 = earlier.1.max(later.1);
            }
            touches
        });
        let mut sum_ns = 0;
        let sums = intervals.iter().map(|(start_ns, end_ns)| {
            let before_ns = sum_ns;
            sum_ns += end_ns - start_ns;
            before_ns
        });
        Self {
            sums: sums.collect(),
            list: intervals,
        }
    }

    pub(super) fn length_ns(&self) -> u64 {
        self.before(u64::MAX)
    }

    /// How much of it lies in front of a time.
    fn before(&self, time_ns: u64) -> u64 {
        let behind = self.list.partition_point(|one| one.0 < time_ns);
        behind.checked_sub(1).map_or(0, |last| {
            let (start_ns, end_ns) = self.list[last];
            self.sums[last] + time_ns.min(end_ns) - start_ns
        })
    }

    /// How much of it lies within a time.
    pub(super) fn within(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        match start_ns < end_ns {
            true => self.before(end_ns) - self.before(start_ns),
            false => 0,
        }
    }

    /// What both have.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut found = Vec::new();
        let (mut one, mut two) = (self.list.iter().peekable(), other.list.iter().peekable());
        while let (Some(first), Some(second)) = (one.peek(), two.peek()) {
            let (start_ns, end_ns) = (first.0.max(second.0), first.1.min(second.1));
            if start_ns < end_ns {
                found.push((start_ns, end_ns));
            }
            match first.1 <= second.1 {
                true => drop(one.next()),
                false => drop(two.next()),
            }
        }
        Self::of(found)
    }

    /// How long both hold at the same time.
    pub(super) fn common_ns(&self, other: &Self) -> u64 {
        self.list.iter().map(|&one| other.within(one)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_within_times_are_those_of_the_parts() {
        let union = Union::of(vec![(20, 30), (5, 10), (10, 12), (7, 7), (25, 40)]);
        assert_eq!(union.list, [(5, 12), (20, 40)]);
        for (within, length) in [((0, 99), 27), ((6, 21), 7), ((12, 20), 0), ((39, 10), 0)] {
            assert_eq!(union.within(within), length, "{within:?}");
        }
        let other = Union::of(vec![(0, 6), (11, 25), (39, 50)]);
        assert_eq!(
            union.common(&other).list,
            [(5, 6), (11, 12), (20, 25), (39, 40)]
        );
        assert_eq!(union.common_ns(&other), 8);
    }
}
