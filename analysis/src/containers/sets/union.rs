//! A union of intervals that nothing is added to any more: what of it lies within any time.

/// Half-open intervals in nanoseconds, in order, that neither overlap nor touch. Collected from intervals in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Union {
    list: Vec<(u64, u64)>,
    /// The length of all intervals in front of each.
    sums: Vec<u64>,
}

impl FromIterator<(u64, u64)> for Union {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(intervals: I) -> Self {
        let intervals = intervals.into_iter();
        let mut list: Vec<_> = intervals.filter(|(start, end)| start < end).collect();
        if !list.is_sorted() {
            list.sort_unstable();
        }
        list.dedup_by(|later, earlier| {
            let touches = later.0 <= earlier.1;
            if touches {
                earlier.1 = earlier.1.max(later.1);
            }
            touches
        });
        let mut sum_ns = 0;
        let sums = list.iter().map(|(start_ns, end_ns)| {
            let before_ns = sum_ns;
            sum_ns += end_ns - start_ns;
            before_ns
        });
        Self {
            sums: sums.collect(),
            list,
        }
    }
}

impl Union {
    pub(crate) fn intervals(&self) -> &[(u64, u64)] {
        &self.list
    }

    pub(crate) fn into_intervals(self) -> Vec<(u64, u64)> {
        self.list
    }

    pub(crate) fn length_ns(&self) -> u64 {
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
    pub(crate) fn within(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        match start_ns < end_ns {
            true => self.before(end_ns) - self.before(start_ns),
            false => 0,
        }
    }

    /// What of it lies within a time.
    pub(crate) fn parts(&self, (start_ns, end_ns): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let first = self.list.partition_point(|one| one.1 <= start_ns);
        let inside = self.list[first..]
            .iter()
            .take_while(move |one| one.0 < end_ns);
        inside.map(move |one| (one.0.max(start_ns), one.1.min(end_ns)))
    }

    /// What both have.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let parts = self.list.iter().flat_map(|&one| other.parts(one));
        parts.collect()
    }

    /// How long both hold at the same time.
    pub(crate) fn common_ns(&self, other: &Self) -> u64 {
        self.list.iter().map(|&one| other.within(one)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_within_times_are_those_of_the_parts() {
        let union: Union = [(20, 30), (5, 10), (10, 12), (7, 7), (25, 40)]
            .into_iter()
            .collect();
        assert_eq!(union.list, [(5, 12), (20, 40)]);
        for (within, length) in [((0, 99), 27), ((6, 21), 7), ((12, 20), 0), ((39, 10), 0)] {
            assert_eq!(union.within(within), length, "{within:?}");
            let parts = union.parts(within);
            let sum: u64 = parts.map(|(start, end)| end - start).sum();
            assert_eq!(sum, length, "{within:?}");
        }
        let other: Union = [(0, 6), (11, 25), (39, 50)].into_iter().collect();
        assert_eq!(
            union.common(&other).list,
            [(5, 6), (11, 12), (20, 25), (39, 40)]
        );
        assert_eq!(union.common_ns(&other), 8);
    }
}
