//! Values over time in equal parts, whose length grows with the time that they span.

use std::collections::BTreeMap;

/// There are fewer parts than this.
const BINS_MAX: u64 = 512;

/// What is kept of the values in a part of the time.
pub(super) trait Join {
    /// Takes in what was kept of another part.
    fn join(&mut self, other: Self);
}

impl Join for u64 {
    fn join(&mut self, other: Self) {
        *self += other;
    }
}

/// Parts of 2^`shift` ns each, by their number since time 0. Parts without values are not there.
#[derive(Debug)]
pub(super) struct Bins<T> {
    shift: u32,
    parts: BTreeMap<u64, T>,
}

impl<T> Default for Bins<T> {
    fn default() -> Self {
        // A microsecond: shorter parts show nothing that samples and sensors could tell.
        Self {
            shift: 10,
            parts: BTreeMap::new(),
        }
    }
}

impl<T: Join + Default> Bins<T> {
    /// The part that a time lies in. Parts are made twice as long until all of them are few.
    pub(super) fn at(&mut self, time_ns: u64) -> &mut T {
        while self.is_far(time_ns) {
            self.double();
        }
        self.parts.entry(time_ns >> self.shift).or_default()
    }

    fn double(&mut self) {
        self.shift += 1;
        for (number, part) in std::mem::take(&mut self.parts) {
            self.parts.entry(number / 2).or_default().join(part);
        }
    }

    /// Makes the parts this long at least.
    pub(super) fn widen(&mut self, least_ns: u64) {
        while self.width_ns() < least_ns.min(1 << 62) {
            self.double();
        }
    }

    fn is_far(&self, time_ns: u64) -> bool {
        let number = time_ns >> self.shift;
        let first = self.parts.first_key_value();
        let last = self.parts.last_key_value();
        let first = first.map_or(number, |(first, _)| number.min(*first));
        let last = last.map_or(number, |(last, _)| number.max(*last));
        last - first >= BINS_MAX
    }

    /// The length of a part in nanoseconds.
    pub(super) fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The parts in order, each with the time at which it begins.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &T)> {
        let parts = self.parts.iter();
        parts.map(|(number, part)| (number << self.shift, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_few_and_keep_the_sum() {
        let mut bins = Bins::<u64>::default();
        // In no order, over ten seconds.
        for step in 0..10_000_u64 {
            *bins.at(5_000_000_000 + step * 7919 % 10_000 * 1_000_000) += 3;
        }
        let parts: Vec<(u64, u64)> = bins.parts().map(|(at, sum)| (at, *sum)).collect();
        assert!(parts.len() as u64 <= BINS_MAX && parts.len() > 100);
        assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), 30_000);
        assert!(parts[0].0 <= 5_000_000_000 && parts[0].0 + bins.width_ns() > 5_000_000_000);
        assert!(parts.is_sorted());
        bins.widen(4_000_000_000);
        let sums: Vec<u64> = bins.parts().map(|part| *part.1).collect();
        assert!(sums.len() <= 4 && bins.width_ns() >= 4_000_000_000);
        assert_eq!(sums.iter().sum::<u64>(), 30_000);
    }
}
