//! The longest calls and ranges.

/// A call or a range of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Long {
    /// The thread.
    pub tid: u32,
    /// The title of its track, and what is on it.
    pub track: (&'static str, &'static str),
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The id of its name.
    pub name: u64,
}

/// At most this many are kept: the longest.
const LONG_MAX: usize = 1 << 15;

/// The longest calls and ranges: those above a length that grows with their number.
#[derive(Debug, Default)]
pub struct Longest {
    kept: Vec<Long>,
    /// Nothing shorter is kept.
    pub at_least_ns: u64,
}

impl Longest {
    /// Adds a call or range.
    pub fn add(&mut self, long: Long) {
        if long.end_ns - long.begin_ns < self.at_least_ns {
            return;
        }
        self.kept.push(long);
        if self.kept.len() > LONG_MAX {
            let length_ns = |one: &Long| one.end_ns - one.begin_ns;
            let middle = LONG_MAX / 2;
            self.kept.select_nth_unstable_by_key(middle, length_ns);
            // Of many equal ones, none is better than the others.
            self.at_least_ns = length_ns(&self.kept[middle]) + 1;
            let at_least_ns = self.at_least_ns;
            self.kept.retain(|one| length_ns(one) >= at_least_ns);
        }
    }

    /// What was kept, by thread, track and time; of those that begin together, the outer one first.
    pub fn sorted(mut self) -> Vec<Long> {
        self.kept
            .sort_by_key(|one| (one.tid, one.track, one.begin_ns, u64::MAX - one.end_ns));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept() {
        let mut longest = Longest::default();
        for number in 0..200_000_u64 {
            longest.add(Long {
                tid: 1,
                track: ("calls", ""),
                begin_ns: 1_000 * number,
                end_ns: 1_000 * number + (number * 7_919) % 1_000,
                name: 1,
            });
        }
        let at_least_ns = longest.at_least_ns;
        assert!(at_least_ns > 500);
        let kept = longest.sorted();
        assert!(kept.len() <= LONG_MAX);
        let expected = (0..200_000_u64).filter(|number| (number * 7_919) % 1_000 >= at_least_ns);
        assert_eq!(kept.len(), expected.count());
    }
}
