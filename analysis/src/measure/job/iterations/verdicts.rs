//! Warm-up, outliers, and where the length of iterations changes.

use serde::{Deserialize, Serialize};

/// What is to be known of an iteration before it is compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// One like others.
    #[default]
    Steady,
    /// At the beginning, and longer than those that follow.
    WarmUp,
    /// Much longer or shorter than usual.
    Outlier,
    /// The trace ends before it did.
    Open,
}

impl Verdict {
    /// In words; empty for an iteration like others.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Steady => "",
            Self::WarmUp => "warm-up",
            Self::Outlier => "outlier",
            Self::Open => "open",
        }
    }

    /// The verdict of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let all = [Self::WarmUp, Self::Outlier, Self::Open];
        all.into_iter()
            .find(|one| one.text() == text)
            .unwrap_or_default()
    }
}

/// Iterations that differ from the median by less than this part are no outliers, however even the others are.
const LEAST_SHARE: f64 = 0.1;
/// And by so many median deviations, each taken as a standard deviation.
const DEVIATIONS: f64 = 5.0;
const DEVIATION: f64 = 1.4826;
/// With fewer iterations nothing is said.
const FEWEST: usize = 5;

/// The median; 0 of none.
pub(super) fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values
        .get((values.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(0)
}

/// What is to be known of each iteration, by its duration and by whether it is open.
pub(super) fn verdicts(iterations: &[(u64, bool)]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = iterations
        .iter()
        .map(|(_, is_open)| {
            if *is_open {
                Verdict::Open
            } else {
                Verdict::Steady
            }
        })
        .collect();
    let closed = iterations.iter().filter(|one| !one.1);
    let mut durations: Vec<u64> = closed.map(|one| one.0).collect();
    if durations.len() < FEWEST {
        return verdicts;
    }
    let usual_ns = median(&mut durations);
    let mut off: Vec<u64> = durations.iter().map(|one| one.abs_diff(usual_ns)).collect();
    let limit_ns = DEVIATIONS * DEVIATION * median(&mut off) as f64;
    let limit_ns = limit_ns.max(LEAST_SHARE * usual_ns as f64);
    let is_odd = |duration_ns: u64| duration_ns.abs_diff(usual_ns) as f64 > limit_ns;
    let mut is_beginning = true;
    for ((duration_ns, is_open), verdict) in iterations.iter().zip(&mut verdicts) {
        if *is_open {
            continue;
        }
        is_beginning &= is_odd(*duration_ns) && *duration_ns > usual_ns;
        *verdict = match (is_beginning, is_odd(*duration_ns)) {
            (true, _) => Verdict::WarmUp,
            (_, true) => Verdict::Outlier,
            _ => Verdict::Steady,
        };
    }
    verdicts
}

/// A change of the median is worth a word from this part on.
const CHANGE_SHARE: f64 = 0.02;
/// Parts of iterations shorter than this are none.
const PART_MIN: usize = 5;

/// From this iteration on the durations are others, and the medians before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The first iteration of the new length.
    pub from: usize,
    /// The median up to there, since the change before.
    pub before_ns: u64,
    /// The median from there on, up to the next change.
    pub after_ns: u64,
}

/// Where the length of iterations changes for long. Ranks of the values are compared, not the values: single ones, however long, change nothing. `durations`
/// are those of all closed iterations.
#[must_use]
pub fn changes(durations: &[u64]) -> Vec<Change> {
    let mut places = Vec::new();
    divide(durations, 0, &mut places);
    places.sort_unstable();
    loop {
        let medians = medians(durations, &places);
        let share = |place: usize| {
            let (before, after) = (medians[place], medians[place + 1]);
            before.abs_diff(after) as f64 / before.max(1) as f64
        };
        let least = (0..places.len()).min_by(|one, other| share(*one).total_cmp(&share(*other)));
        match least {
            // Of two parts that hardly differ, one is made.
            Some(least) if share(least) < CHANGE_SHARE => drop(places.remove(least)),
            _ => {
                let found = places.iter().zip(medians.windows(2));
                return found
                    .map(|(&from, pair)| Change {
                        from,
                        before_ns: pair[0],
                        after_ns: pair[1],
                    })
                    .collect();
            }
        }
    }
}

/// The medians of the parts between places.
fn medians(durations: &[u64], places: &[usize]) -> Vec<u64> {
    let starts = std::iter::once(0).chain(places.iter().copied());
    let ends = places.iter().copied().chain([durations.len()]);
    let parts = starts.zip(ends);
    parts
        .map(|(start, end)| median(&mut durations[start..end].to_vec()))
        .collect()
}

/// The logarithm to base 2, within 0.09: straight between powers of two. (That of the C library would ask for a younger one.)
fn doublings(count: usize) -> f64 {
    let whole = count.max(1).ilog2();
    f64::from(whole) + count.max(1) as f64 / (1_u64 << whole) as f64 - 1.0
}

/// Finds the place where a list divides best, and goes on with both sides.
fn divide(durations: &[u64], offset: usize, places: &mut Vec<usize>) {
    let count = durations.len();
    if count < 2 * PART_MIN {
        return;
    }
    // Ranks from -1 to 1, of equal values the same.
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = |value: u64| {
        let below = sorted.partition_point(|one| *one < value);
        let up_to = sorted.partition_point(|one| *one <= value);
        (below + up_to) as f64 / count as f64 - 1.0
    };
    let ranks: Vec<f64> = durations.iter().map(|value| rank(*value)).collect();
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let (mut sum, mut best) = (0.0, (0.0, 0));
    for (place, rank) in ranks.iter().enumerate() {
        if place >= PART_MIN && place + PART_MIN <= count {
            let part = place as f64 / count as f64;
            // A sum of `place` ranks out of all has this variance if their order is chance.
            let score = sum * sum / (squares * part * (1.0 - part)).max(f64::MIN_POSITIVE);
            if score > best.0 {
                best = (score, place);
            }
        }
        sum += rank;
    }
    // The largest of many squares of normal numbers: one in a hundred lists without a change is above this.
    let limit = 11.0 + 2.0 * std::f64::consts::LN_2 * doublings(count);
    let (score, place) = best;
    if score < limit {
        return;
    }
    let (before, after) = durations.split_at(place);
    places.push(offset + place);
    divide(before, offset, places);
    divide(after, offset + place, places);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like chance, around a middle.
    fn noise(seed: u64, place: u64, middle: u64, spread: u64) -> u64 {
        let mixed = (seed << 32 ^ place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        middle - spread + (mixed >> 33) % (2 * spread + 1)
    }

    #[test]
    fn the_first_long_ones_are_warm_up_and_later_ones_outliers() {
        let mut list: Vec<(u64, bool)> =
            (0..50).map(|at| (noise(1, at, 1000, 20), false)).collect();
        (list[0].0, list[1].0, list[20].0, list[30].0) = (9000, 1500, 4000, 200);
        list[49].1 = true;
        let found = verdicts(&list);
        let of = |verdict| {
            let places = found
                .iter()
                .enumerate()
                .filter(move |one| *one.1 == verdict);
            places.map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!(of(Verdict::WarmUp), [0, 1]);
        assert_eq!(of(Verdict::Outlier), [20, 30]);
        assert_eq!(of(Verdict::Open), [49]);
        assert_eq!(of(Verdict::Steady).len(), 45);
    }

    #[test]
    fn a_lasting_change_is_found_where_it_is() {
        let slow = |at: u64| if (200..300).contains(&at) { 1050 } else { 1000 };
        let mut durations: Vec<u64> = (0..500).map(|at| noise(2, at, slow(at), 20)).collect();
        durations[100] = 90_000;
        let found = changes(&durations);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].from.abs_diff(200) <= 2 && found[1].from.abs_diff(300) <= 2,
            "{found:?}"
        );
        assert!(found[0].after_ns.abs_diff(1050) < 10, "{found:?}");
    }

    #[test]
    fn chance_changes_nothing() {
        let seeds = (0..200).filter(|&seed| {
            let durations: Vec<u64> = (0..200).map(|at| noise(seed, at, 1000, 100)).collect();
            !changes(&durations).is_empty()
        });
        let seeds: Vec<u64> = seeds.collect();
        assert!(seeds.len() <= 4, "{seeds:?}");
        assert!(changes(&[7; 100]).is_empty());
    }
}
