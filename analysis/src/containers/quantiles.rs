//! Quantiles of durations: exact as long as there are few, then within one percent.

use std::sync::LazyLock;

use rsys_traces::model::entry;

/// So many values are kept as they are, where nothing else is said.
pub(crate) const EXACT_MAX: usize = 65_536;

/// The ratio of a bucket's bounds: its middle is within one percent of all that is in it.
const GAMMA: f64 = 1.01 / 0.99;

/// Values, of which at most `EXACT` are kept as they are, or how many lie in each bucket.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quantiles<const EXACT: usize = EXACT_MAX> {
    /// Values that fit, in half of the memory, and the others.
    Exact(Vec<u32>, Vec<u64>),
    Sketch(Sketch),
}

impl<const EXACT: usize> Default for Quantiles<EXACT> {
    fn default() -> Self {
        Self::Exact(Vec::new(), Vec::new())
    }
}

/// The upper bounds of the buckets from number 0 on. A table, because the C library's logarithm has another version in each age.
static BOUNDS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let bounds = (0..).map(|bucket| GAMMA.powi(bucket));
    bounds
        .take_while(|bound| *bound < 2.0 * u64::MAX as f64)
        .collect()
});

/// Values with so many binary digits in common behind the first one begin their search at the same bucket.
/// No bucket is so narrow that two end among them.
const DIGITS: u32 = 6;

/// For each number of binary digits and the [`DIGITS`] behind the first one, the first bucket that holds such values.
static FIRST: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let firsts = (0..(u64::BITS + 1) << DIGITS).map(|place| {
        let (digits, behind) = (place >> DIGITS, u128::from(place % (1 << DIGITS)));
        let least = ((1 << DIGITS | behind) << digits) >> (DIGITS + 1);
        BOUNDS.partition_point(|bound| *bound < least as f64) as u16
    });
    firsts.collect()
});

/// The bucket of a value above zero.
#[inline]
fn bucket(value: u64) -> usize {
    let zeros = value.leading_zeros();
    let behind = (value << zeros << 1) >> (u64::BITS - DIGITS);
    let place = (u64::BITS - zeros) << DIGITS | behind as u32;
    let bucket = usize::from(FIRST[place as usize]);
    // One step at most; no jump, which could not be foreseen.
    bucket + usize::from(BOUNDS[bucket] < value as f64)
}

fn middle(bucket: usize) -> f64 {
    2.0 * GAMMA.powi(bucket as i32) / (GAMMA + 1.0)
}

/// How many values lie in each bucket: bucket `n` holds values above `GAMMA^(n-1)`, up to `GAMMA^n`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sketch {
    zeros: u64,
    buckets: Vec<u64>,
    count: u64,
    /// Values that are not counted yet. Those of many names come in turn, and each would find its buckets out of the processor's cache.
    waiting: Vec<u64>,
}

/// So many values are counted at once.
const COUNTED: usize = 64;

impl Sketch {
    #[inline]
    fn add(&mut self, value: u64) {
        self.waiting.push(value);
        if self.waiting.len() >= COUNTED {
            self.count();
        }
    }

    /// Counts what waits.
    fn count(&mut self) {
        for value in self.waiting.drain(..) {
            self.count += 1;
            match value {
                0 => self.zeros += 1,
                value => *entry(&mut self.buckets, bucket(value)) += 1,
            }
        }
    }

    /// The value at a share of the whole, when all were counted.
    fn at(&self, share: f64) -> f64 {
        let mut left = (share * (self.count - 1) as f64) as u64;
        if left < self.zeros {
            return 0.0;
        }
        left -= self.zeros;
        let found = self.buckets.iter().position(|in_bucket| match left {
            rest if rest < *in_bucket => true,
            _ => {
                left -= in_bucket;
                false
            }
        });
        found.map_or(0.0, middle)
    }
}

impl<const EXACT: usize> Quantiles<EXACT> {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        match self {
            Self::Exact(small, large) if small.len() + large.len() < EXACT => {
                match u32::try_from(value) {
                    Ok(value) => small.push(value),
                    Err(_) => large.push(value),
                }
            }
            Self::Exact(small, large) => {
                let mut sketch = Sketch::default();
                let small = small.iter().map(|value| u64::from(*value));
                small
                    .chain(large.iter().copied())
                    .for_each(|value| sketch.add(value));
                sketch.add(value);
                *self = Self::Sketch(sketch);
            }
            Self::Sketch(sketch) => sketch.add(value),
        }
    }

    /// Whether the quantiles are those of all values exactly.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(..))
    }

    /// The values at shares of the whole, 0 being the least and 1 the greatest; between two values in proportion. `None` without values.
    pub(crate) fn at<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        match self {
            Self::Exact(small, large) => {
                let small = small.iter().map(|value| u64::from(*value));
                let mut values: Vec<u64> = small.chain(large.iter().copied()).collect();
                let last = values.len().checked_sub(1)?;
                // Not sorted, for only a few places are asked for.
                Some(shares.map(|share| {
                    let place = share * last as f64;
                    let (_, low, above) = values.select_nth_unstable(place as usize);
                    let low = *low as f64;
                    let high = above.iter().min().map_or(low, |high| *high as f64);
                    low + (high - low) * place.fract()
                }))
            }
            Self::Sketch(sketch) => {
                let mut sketch = sketch.clone();
                sketch.count();
                Some(shares.map(|share| sketch.at(share)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact() {
        let mut quantiles: Quantiles = Quantiles::default();
        assert_eq!(quantiles.at([0.5]), None);
        for value in [4, 1, 1 << 40, 2] {
            quantiles.add(value);
        }
        let largest = (1_u64 << 40) as f64;
        assert_eq!(
            quantiles.at([0.0, 0.5, 0.75, 1.0]),
            Some([1.0, 3.0, 4.0 + (largest - 4.0) / 4.0, largest])
        );
    }

    #[test]
    fn each_value_lies_in_the_first_bucket_that_reaches_up_to_it() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let near = powers.flat_map(|one| [one - 1, one, one + 1, one + one / 3]);
        for value in near.chain([u64::MAX]).filter(|value| *value > 0) {
            let everywhere = BOUNDS.partition_point(|bound| *bound < value as f64);
            assert_eq!(bucket(value), everywhere, "{value}");
        }
    }

    #[test]
    fn many_values_are_within_a_percent() {
        let mut quantiles: Quantiles = Quantiles::default();
        for value in 0..3 * EXACT_MAX as u64 {
            quantiles.add(1_000 + value * 7919 % (3 * EXACT_MAX as u64));
        }
        assert!(!quantiles.is_exact());
        let [median, p95] = quantiles.at([0.5, 0.95]).unwrap();
        for (found, share) in [(median, 0.5), (p95, 0.95)] {
            let truth = 1_000.0 + share * 3.0 * EXACT_MAX as f64;
            assert!((found - truth).abs() <= 0.01 * truth, "{found} {truth}");
        }
    }
}
