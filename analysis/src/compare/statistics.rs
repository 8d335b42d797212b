//! Estimates from what was measured, and whether two of them differ by more than chance.

use crate::measure::pictures::spread::Stretch;

/// A change below this part is none that anybody cares for, however sure it is.
pub const LEAST_CHANGE: f64 = 0.005;

/// Fewer units say nothing of how much they vary.
const UNITS_MIN: usize = 3;

/// Of fewer samples, none in another run is chance.
const SAMPLES_MIN: u64 = 10;

/// The variance of a count is known by the count.
const COUNTED_FREEDOM: f64 = 30.0;

/// Draws for the interval of a change.
const DRAWS: usize = 1000;

/// A part of what was measured: some launches, or a repetition of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// How many values it is of.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
}

impl From<Stretch> for Unit {
    fn from(stretch: Stretch) -> Self {
        Self {
            count: stretch.count as f64,
            sum: stretch.sum_ns as f64,
        }
    }
}

/// A mean, and what is known of its error.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// The square of its standard error; `None` if that is not known.
    variance: Option<f64>,
    /// How many independent values the variance is of, less one.
    freedom: f64,
    units: Vec<Unit>,
    /// Of how many samples it is, if it is of samples.
    samples: Option<u64>,
}

impl Estimate {
    /// The mean of what is in units, by how much those differ.
    #[must_use]
    pub fn of_units(units: Vec<Unit>) -> Self {
        let count: f64 = units.iter().map(|unit| unit.count).sum();
        let sum: f64 = units.iter().map(|unit| unit.sum).sum();
        let value = if count > 0.0 { sum / count } else { 0.0 };
        let rests = units.iter().map(|unit| unit.sum - value * unit.count);
        let squares: f64 = rests.map(|rest| rest * rest).sum();
        let freedom = units.len() as f64 - 1.0;
        let variance = squares * units.len() as f64 / freedom / (count * count);
        Self {
            value,
            variance: (units.len() >= UNITS_MIN).then_some(variance),
            freedom,
            units,
            samples: None,
        }
    }

    /// A time of which samples were counted: by chance another number of them would have been. How much that varies the number itself says.
    #[must_use]
    pub fn of_samples(value: f64, samples: u64) -> Self {
        let count = samples as f64;
        Self {
            value,
            variance: (samples > 0).then(|| value * value / count),
            freedom: COUNTED_FREEDOM,
            units: Vec::new(),
            samples: Some(samples),
        }
    }

    /// Whether it is a count of samples.
    #[must_use]
    pub fn is_of_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// Whether it is of so few samples that it may be there in one run and not in another by chance.
    #[must_use]
    pub fn is_chance(&self) -> bool {
        self.samples.is_some_and(|samples| samples < SAMPLES_MIN)
    }

    /// The mean of repetitions. One alone says nothing of its error.
    #[must_use]
    pub fn of_runs(values: &[f64]) -> Self {
        let unit = |&sum: &f64| Unit { count: 1.0, sum };
        Self::of_units(values.iter().map(unit).collect())
    }

    /// A sum of means, each taken so many times.
    #[must_use]
    pub fn sum<'a>(parts: impl Iterator<Item = (&'a Self, f64)> + Clone) -> Self {
        let value = parts.clone().map(|(part, times)| part.value * times).sum();
        let known = parts.filter_map(|(part, times)| Some((part, part.variance? * times * times)));
        let (mut variance, mut largest, mut freedom) = (0.0, 0.0, 0.0);
        for (part, of_part) in known {
            variance += of_part;
            if of_part >= largest {
                (largest, freedom) = (of_part, part.freedom);
            }
        }
        Self {
            value,
            variance: (freedom > 0.0).then_some(variance),
            freedom,
            units: Vec::new(),
            samples: None,
        }
    }
}

/// How sure a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It takes longer, or is more.
    More,
    /// It takes less.
    Less,
    /// No more than chance, or too little to care for.
    Same,
    /// There is too little to say.
    Unknown,
}

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The part by which the candidate is above the reference; `None` where that is nothing.
    pub share: Option<f64>,
    /// Between these it lies with 95 %.
    pub interval: Option<(f64, f64)>,
    /// How sure it is.
    pub verdict: Verdict,
}

impl Change {
    /// The change from one estimate to another, of `comparisons` that are made: of many, some differ much by chance.
    #[must_use]
    pub fn new(reference: &Estimate, candidate: &Estimate, comparisons: usize) -> Self {
        let difference = candidate.value - reference.value;
        let share = (reference.value != 0.0).then(|| difference / reference.value);
        if reference.value == candidate.value && reference.units == candidate.units {
            return Self {
                share: share.or((difference == 0.0).then_some(0.0)),
                interval: Some((0.0, 0.0)),
                verdict: Verdict::Same,
            };
        }
        let (Some(share), Some(before), Some(after)) =
            (share, reference.variance, candidate.variance)
        else {
            return Self {
                share,
                interval: None,
                verdict: Verdict::Unknown,
            };
        };
        let error = (before + after).sqrt();
        let freedom = reference.freedom.min(candidate.freedom);
        let is_sure = difference.abs() > error * quantile(freedom, comparisons);
        let verdict = match is_sure && share.abs() >= LEAST_CHANGE {
            false => Verdict::Same,
            true if share > 0.0 => Verdict::More,
            true => Verdict::Less,
        };
        let interval = drawn(&reference.units, &candidate.units).unwrap_or_else(|| {
            let ratio = candidate.value / reference.value;
            let error = (after + ratio * ratio * before).sqrt() / reference.value.abs();
            let reach = error * quantile(freedom, 1);
            (share - reach, share + reach)
        });
        Self {
            share: Some(share),
            interval: Some(interval),
            verdict,
        }
    }
}

/// By how many standard errors two means differ in one of 20 comparisons at most, if all of `comparisons` are of equal things: Student's distribution,
/// of a chance of 5 % divided by their number.
fn quantile(freedom: f64, comparisons: usize) -> f64 {
    /// Numbers of comparisons, and the quantile of the normal distribution that leaves out 5 % divided by that, half of it on each side.
    const NORMAL: [(usize, f64); 14] = [
        (1, 1.960),
        (2, 2.242),
        (5, 2.576),
        (10, 2.807),
        (20, 3.024),
        (50, 3.291),
        (100, 3.481),
        (200, 3.662),
        (500, 3.891),
        (1_000, 4.056),
        (2_000, 4.215),
        (5_000, 4.417),
        (20_000, 4.708),
        (usize::MAX, 5.327),
    ];
    let normal = NORMAL.iter().find(|(most, _)| comparisons <= *most);
    let z = normal.map_or(5.327, |(_, z)| *z);
    // The expansion for Student's distribution (Abramowitz and Stegun, 26.7.5).
    let v = freedom.max(1.0);
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * v)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v * v * v)
}

/// The interval that holds 95 % of the changes between units that are drawn again from those of each side (bootstrap). The draws are the same each time.
fn drawn(reference: &[Unit], candidate: &[Unit]) -> Option<(f64, f64)> {
    if reference.len() < UNITS_MIN || candidate.len() < UNITS_MIN {
        return None;
    }
    let mut random = Random(0x5DEE_CE66_D1CE_4E5B);
    let mut mean = |units: &[Unit]| {
        let (mut count, mut sum) = (0.0, 0.0);
        for _ in 0..units.len() {
            let unit = units[random.below(units.len())];
            count += unit.count;
            sum += unit.sum;
        }
        sum / count
    };
    let mut changes: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let before = mean(reference);
            mean(candidate) / before - 1.0
        })
        .filter(|change| change.is_finite())
        .collect();
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| {
        changes
            .get((share * changes.len() as f64) as usize)
            .copied()
    };
    at(0.025).zip(at(0.975))
}

/// Numbers that look like chance (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(mixed) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations around a mean, by a sum of uniform numbers.
    fn launches(random: &mut Random, mean: f64, spread: f64, count: usize) -> Estimate {
        let mut one = || {
            let uniform: f64 = (0..12)
                .map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20))
                .sum();
            mean * (1.0 + spread * (uniform - 6.0))
        };
        let units = (0..count).map(|_| Unit {
            count: 1.0,
            sum: one(),
        });
        Estimate::of_units(units.collect())
    }

    #[test]
    fn equal_programs_differ_in_one_of_twenty_runs_at_most_however_many_kernels_they_have() {
        let mut random = Random(7);
        for kernels in [1, 50] {
            let differ = (0..400)
                .filter(|_| {
                    (0..kernels).any(|_| {
                        let [one, other] = [(); 2].map(|()| launches(&mut random, 1e5, 0.2, 40));
                        Change::new(&one, &other, kernels).verdict != Verdict::Same
                    })
                })
                .count();
            assert!(differ <= 30, "{differ} of 400 with {kernels} kernels");
        }
    }

    #[test]
    fn a_kernel_that_is_slower_by_three_percent_is_found() {
        let mut random = Random(11);
        let mut covered = 0;
        for _ in 0..200 {
            let before = launches(&mut random, 1e5, 0.05, 64);
            let after = launches(&mut random, 1.03e5, 0.05, 64);
            let change = Change::new(&before, &after, 1);
            let (low, high) = change.interval.unwrap();
            covered += usize::from((low..=high).contains(&0.03));
        }
        assert!((180..=198).contains(&covered), "{covered} of 200");
        let found = (0..200)
            .filter(|_| {
                let before = launches(&mut random, 1e5, 0.03, 64);
                let after = launches(&mut random, 1.03e5, 0.03, 64);
                Change::new(&before, &after, 50).verdict == Verdict::More
            })
            .count();
        assert!(found >= 190, "{found} of 200");
    }

    #[test]
    fn what_is_equal_is_exactly_so_and_what_is_too_little_is_unknown() {
        let mut random = Random(3);
        let one = launches(&mut random, 1e5, 0.2, 64);
        let change = Change::new(&one, &one.clone(), 50);
        assert_eq!(
            (change.share, change.interval),
            (Some(0.0), Some((0.0, 0.0)))
        );
        let few = |sum| Estimate::of_units(vec![Unit { count: 1.0, sum }; 2]);
        assert_eq!(
            Change::new(&few(1.0), &few(2.0), 1).verdict,
            Verdict::Unknown
        );
        assert_eq!(Change::new(&few(2.0), &few(2.0), 1).verdict, Verdict::Same);
        let nothing = Change::new(&few(0.0), &few(2.0), 1);
        assert_eq!((nothing.share, nothing.verdict), (None, Verdict::Unknown));
    }

    #[test]
    fn few_values_need_a_larger_difference() {
        // Tables of Student's distribution: 97.5 % of 10 and of 4 degrees of freedom.
        assert!((quantile(10.0, 1) - 2.228).abs() < 0.01);
        assert!((quantile(4.0, 1) - 2.776).abs() < 0.02);
        assert!((quantile(1e9, 1) - 1.96).abs() < 1e-3);
        assert!(quantile(30.0, 50) > quantile(30.0, 1));
    }
}
