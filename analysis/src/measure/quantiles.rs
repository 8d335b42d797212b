//! Quantiles of durations: exact as long as there are few, then within one percent.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// So many values are kept as they are.
pub(crate) const EXACT_MAX: usize = 65_536;

/// The ratio of a bucket's bounds: its middle is within one percent of all that is in it.
const GAMMA: f64 = 1.01 / 0.99;

/// Values, or how many lie in each bucket.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quantiles {
    Exact(Vec<u64>),
    /// Bucket `n` holds values above `GAMMA^(n-1)`, up to `GAMMA^n`; zeros have the smallest number.
    Sketch(BTreeMap<i32, u64>, u64),
}

impl Default for Quantiles {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

/// The upper bounds of the buckets from number 0 on. A table, because the C library's logarithm has another version in each age.
static BOUNDS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let bounds = (0..).map(|bucket| GAMMA.powi(bucket));
    bounds
        .take_while(|bound| *bound < 2.0 * u64::MAX as f64)
        .collect()
});

fn bucket(value: u64) -> i32 {
    match value {
        0 => i32::MIN,
        value => BOUNDS.partition_point(|bound| *bound < value as f64) as i32,
    }
}

fn middle(bucket: i32) -> f64 {
    match bucket {
        i32::MIN => 0.0,
        bucket => 2.0 * GAMMA.powi(bucket) / (GAMMA + 1.0),
    }
}

impl Quantiles {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        match self {
            Self::Exact(values) if values.len() < EXACT_MAX => values.push(value),
            Self::Exact(values) => {
                let mut buckets = BTreeMap::new();
                for &value in values.iter() {
                    *buckets.entry(bucket(value)).or_default() += 1;
                }
                let count = values.len() as u64;
                *self = Self::Sketch(buckets, count);
                self.add(value);
            }
            Self::Sketch(buckets, count) => {
                *buckets.entry(bucket(value)).or_default() += 1;
                *count += 1;
            }
        }
    }

    /// Whether the quantiles are those of all values exactly.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// The values at shares of the whole, 0 being the least and 1 the greatest; between two values in proportion. `None` without values.
    pub(crate) fn at<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        match self {
            Self::Exact(values) => {
                let mut values = values.clone();
                values.sort_unstable();
                let last = values.len().checked_sub(1)?;
                Some(shares.map(|share| {
                    let place = share * last as f64;
                    let low = values[place as usize] as f64;
                    let high = values[(place as usize + 1).min(last)] as f64;
                    low + (high - low) * place.fract()
                }))
            }
            Self::Sketch(buckets, count) => Some(shares.map(|share| {
                let mut left = (share * (count - 1) as f64) as u64;
                let found = buckets.iter().find(|(_, in_bucket)| match left {
                    rest if rest < **in_bucket => true,
                    _ => {
                        left -= **in_bucket;
                        false
                    }
                });
                found.map_or(0.0, |(bucket, _)| middle(*bucket))
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.at([0.5]), None);
        for value in [4, 1, 3, 2] {
            quantiles.add(value);
        }
        assert_eq!(
            quantiles.at([0.0, 0.5, 0.75, 1.0]),
            Some([1.0, 2.5, 3.25, 4.0])
        );
    }

    #[test]
    fn many_values_are_within_a_percent() {
        let mut quantiles = Quantiles::default();
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
