//! Kernels that recur: where a program marks nothing, its iterations are seen in the order of its kernels.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// So many operations are examined, from the middle of the run.
const LOOKED_AT: usize = 20_000;
/// Names that are tried, the rarest first.
const TRIED: usize = 20;
/// This part of the operations has to recur.
const LEAST: f64 = 0.9;
/// An iteration recurs so often at least.
const RECURS_MIN: usize = 3;

/// Shorter waits are what lies between any two kernels.
const WAIT_NS: u64 = 10_000;

/// The operation that iterations begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) name: u64,
    /// When it began in each of them.
    pub(super) starts_ns: Vec<u64>,
}

/// One operation, or several of one name in a row: the name and how many, begin, and end.
type Run = ((u64, usize), u64, u64);

/// What iterations begin with, if the operations of a GPU recur: `operations` are name, begin and end of each, in order.
pub(super) fn beginning(operations: &[(u64, u64, u64)]) -> Option<Beginning> {
    let runs = |count: fn(usize) -> usize| -> Vec<Run> {
        let runs = operations.chunk_by(|one, next| one.0 == next.0);
        runs.map(|run| {
            let end_ns = run.iter().map(|one| one.2).max().unwrap_or(0);
            ((run[0].0, count(run.len())), run[0].1, end_ns)
        })
        .collect()
    };
    let found = |runs: &[Run], shortest: usize| {
        let first = recurring(runs, shortest)?;
        let starts = runs.iter().filter(|run| run.0 == first);
        Some(Beginning {
            name: first.0,
            starts_ns: starts.map(|run| run.1).collect(),
        })
    };
    let each = operations
        .iter()
        .map(|&(name, start_ns, end_ns)| ((name, 1), start_ns, end_ns));
    // A period of one kernel has no first one, and two names always alternate.
    found(&each.collect::<Vec<_>>(), 2)
        .or_else(|| found(&runs(|count| count), 2))
        .or_else(|| found(&runs(|_| 1), 3))
}

/// Of those that are there once in each iteration, the one that the GPU is idle longest in front of; without waits, the one with the longest operation in front
/// of it. A shorter period than the shortest is none.
fn recurring(operations: &[Run], shortest: usize) -> Option<(u64, usize)> {
    let from = operations.len().saturating_sub(LOOKED_AT) / 2;
    let middle = &operations[from..operations.len().min(from + LOOKED_AT)];
    let mut places: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    for (place, (name, ..)) in middle.iter().enumerate() {
        places.entry(*name).or_default().push(place);
    }
    let recurring = places
        .iter()
        .filter(|(_, places)| places.len() >= RECURS_MIN);
    let mut rarest: Vec<(&(u64, usize), &Vec<usize>)> = recurring.collect();
    rarest.sort_by_key(|(name, places)| (places.len(), places[0], **name));
    let period = rarest.iter().take(TRIED).find_map(|(_, places)| {
        let mut apart: Vec<usize> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        apart.sort_unstable();
        let period = apart[apart.len() / 2];
        (period >= shortest && recurs(middle, period)).then_some(period)
    })?;
    let expected = middle.len() / period;
    let once = rarest
        .iter()
        .filter(|(_, places)| places.len().abs_diff(expected) <= 1 + expected / 20);
    // Where operations run beside each other, the last may have ended before one of the others.
    let ends = middle.iter().scan(0, |end_ns, one| {
        *end_ns = one.2.max(*end_ns);
        Some(*end_ns)
    });
    let ends: Vec<u64> = ends.collect();
    let mean_ns = |places: &[usize], since_ns: &dyn Fn(usize) -> u64| {
        let times = places.iter().filter(|place| **place > 0);
        let waits = times.map(|&place| middle[place].1.saturating_sub(since_ns(place - 1)));
        waits.sum::<u64>() / places.len() as u64
    };
    let times_ns = |places: &[usize]| {
        let idle_ns = mean_ns(places, &|before| ends[before]);
        let apart_ns = mean_ns(places, &|before| middle[before].1);
        (if idle_ns < WAIT_NS { 0 } else { idle_ns }, apart_ns)
    };
    once.max_by_key(|(_, places)| (times_ns(places), Reverse(places[0])))
        .map(|(name, _)| **name)
}

/// Whether most operations are there again so many operations later.
fn recurs(operations: &[Run], period: usize) -> bool {
    let pairs = operations.iter().zip(operations.iter().skip(period));
    let count = operations.len().saturating_sub(period);
    let equal = pairs.filter(|(one, later)| one.0 == later.0).count();
    count >= period * (RECURS_MIN - 1) && equal as f64 >= LEAST * count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins_with(operations: &[(u64, u64, u64)]) -> Option<u64> {
        beginning(operations).map(|found| found.name)
    }

    /// Operations of a GPU: each takes 10 µs, and those of this name are 100 µs apart from the one before.
    fn run(names: impl Iterator<Item = u64>, begins: u64) -> Vec<(u64, u64, u64)> {
        let mut now_ns = 0;
        names
            .map(|name| {
                now_ns += if name == begins { 100_000 } else { 10_000 };
                (name, now_ns, now_ns + 10_000)
            })
            .collect()
    }

    #[test]
    fn an_iteration_begins_after_the_longest_wait() {
        let names = (0..500_u64).map(|place| [1, 2, 2, 3, 2, 4][(place % 6) as usize]);
        assert_eq!(begins_with(&run(names.clone(), 3)), Some(3));
        assert_eq!(begins_with(&run(names, 1)), Some(1));
    }

    #[test]
    fn a_long_kernel_is_no_wait() {
        // 110 µs without work in front of the first of three, of which it takes longest; and nearly none, where the longest decides.
        for (wait_ns, expected) in [(110_000, 1), (5_300, 2)] {
            let mut now_ns = 0;
            let operations: Vec<(u64, u64, u64)> = (0..300_u64)
                .map(|place| {
                    let name = place % 3 + 1;
                    now_ns += if name == 1 { wait_ns } else { 5_000 };
                    let start_ns = now_ns;
                    now_ns += [500_000, 300_000, 90_000][(name - 1) as usize];
                    (name, start_ns, now_ns)
                })
                .collect();
            assert_eq!(begins_with(&operations), Some(expected));
        }
    }

    #[test]
    fn what_recurs_within_an_iteration_is_none() {
        // Eight layers, and what is there once; now and then something else is missing.
        let names = (0..100_u64).flat_map(|iteration| {
            let layers = (0..8).flat_map(|_| [2, 3]);
            let last = (!iteration.is_multiple_of(20)).then_some(4);
            std::iter::once(1).chain(layers).chain(last)
        });
        assert_eq!(begins_with(&run(names, 1)), Some(1));
    }

    #[test]
    fn chance_and_single_kernels_have_no_period() {
        let mixed = (0..3_000_u64).map(|place| place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60);
        assert_eq!(begins_with(&run(mixed, 99)), None);
        assert_eq!(begins_with(&run((0..100).map(|_| 1), 99)), None);
        assert_eq!(begins_with(&[]), None);
    }

    #[test]
    fn kernels_in_a_row_are_one_place() {
        let of = |runs: &[(u64, u64)], rounds: usize| -> Vec<u64> {
            let round = || {
                runs.iter()
                    .flat_map(|&(name, count)| (0..count).map(move |_| name))
            };
            (0..rounds).flat_map(|_| round()).collect()
        };
        for (runs, begins, rounds) in [
            // Three micro-batches and an optimizer, one batch, and two networks in turn.
            (
                &[(1, 4), (2, 8), (1, 4), (2, 8), (1, 4), (2, 8), (3, 3)][..],
                3,
                6,
            ),
            (&[(1, 10), (3, 3)], 3, 6),
            (&[(1, 5), (2, 1), (1, 10), (2, 1)], 1, 8),
        ] {
            let found = beginning(&run(of(runs, rounds).into_iter(), 99)).unwrap();
            assert_eq!(
                (found.name, found.starts_ns.len()),
                (begins, rounds),
                "{runs:?}"
            );
        }
        // As many in a row as it happens to be: two take turns in any order, three say something.
        let counts = |place: u64| 2 + place.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 7;
        let turns = |names: u64| {
            let runs: Vec<(u64, u64)> = (0..90).map(|at| (at % names, counts(at))).collect();
            beginning(&run(of(&runs, 1).into_iter(), 99)).map(|found| found.starts_ns.len())
        };
        assert_eq!((turns(2), turns(3)), (None, Some(30)));
    }
}
