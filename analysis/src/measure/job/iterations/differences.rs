//! What was different in the slowest iterations of a rank: kernels, communication, copies, and causes of idleness, against the mean of its other iterations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::assign::Operation;
use super::sums::{COMPUTE, Field, Sums};
use super::verdicts::Verdict;
use crate::measure::gpu::gaps::PartCause;
use rsys_traces::model::{Model, TextId};

/// So many iterations of a rank are examined, of the longest and of those with the most time besides communication.
const LOOKED_AT: usize = 8;
/// So much of each is named.
const NAMED: usize = 4;
/// What is less than this part of the largest difference, or of what the iteration is longer, says nothing.
const TELLING: u64 = 20;
/// Nor does what is shown as 0.000 ms.
const SHOWN_NS: u64 = 500;

/// Something of which an iteration had more than others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `computation`, `communication`, `copies`, or a cause of idleness in words.
    pub what: String,
    /// The kernel, or the place on the host; empty if there is none.
    pub place: String,
    /// How much longer it took than on average.
    pub more_ns: u64,
}

/// What was measured of an iteration, for comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared<'a> {
    pub(super) duration_ns: u64,
    pub(super) sums: &'a Sums,
    pub(super) verdict: Verdict,
    /// Why the GPU was idle from its begin to its end: that is what made it longer, whichever iteration the next operation is of.
    pub(super) idle: &'a [PartCause],
}

/// What may differ: in words, and the place.
type Key = (String, String);

/// What was different in the slowest iterations. `operations` are those of the GPU, each with its iteration.
pub(super) fn differences(
    iterations: &[Compared<'_>],
    operations: &[(usize, Operation)],
    model: &Model,
) -> BTreeMap<usize, Vec<Difference>> {
    let closed =
        || (0..iterations.len()).filter(|&place| iterations[place].verdict != Verdict::Open);
    let longest = |length: &dyn Fn(&Compared<'_>) -> u64| {
        let mut places: Vec<usize> = closed().collect();
        places.sort_by_key(|&place| (Reverse(length(&iterations[place])), place));
        places.truncate(LOOKED_AT);
        places
    };
    let by_duration = longest(&|one| one.duration_ns);
    let own = longest(&|one| {
        one.duration_ns
            .saturating_sub(one.sums.get(Field::ExposedComm))
    });
    let looked_at: BTreeSet<usize> = by_duration.into_iter().chain(own).collect();
    // Those like others are what is usual; where there are none, all of them.
    let is_steady = |place: &usize| iterations[*place].verdict == Verdict::Steady;
    let mut usual: BTreeSet<usize> = closed().filter(is_steady).collect();
    if usual.is_empty() {
        usual = closed().collect();
    }
    let mut sums: HashMap<Key, u64> = HashMap::new();
    let mut of_iteration: BTreeMap<usize, HashMap<Key, u64>> = looked_at
        .iter()
        .map(|&place| (place, HashMap::new()))
        .collect();
    let mut add = |place: usize, key: Key, ns: u64| {
        if let Some(own) = of_iteration.get_mut(&place) {
            *own.entry(key.clone()).or_default() += ns;
        }
        if usual.contains(&place) {
            *sums.entry(key).or_default() += ns;
        }
    };
    let mut kernels: HashMap<(usize, u64), u64> = HashMap::new();
    for (place, one) in operations.iter().filter(|(_, one)| one.bits & COMPUTE != 0) {
        *kernels.entry((*place, one.name)).or_default() += one.end_ns - one.start_ns;
    }
    for ((place, name), ns) in kernels {
        let name = model.text(TextId::at(name as usize)).to_owned();
        add(place, ("computation".to_owned(), name), ns);
    }
    for (place, one) in iterations.iter().enumerate() {
        for (what, field) in [
            ("communication", Field::ExposedComm),
            ("copies", Field::ExposedMemcpy),
        ] {
            add(place, (what.to_owned(), String::new()), one.sums.get(field));
        }
        for part in one.idle {
            add(
                place,
                (format!("idle: {}", part.cause.text()), part.place.clone()),
                part.ns,
            );
        }
    }
    let count = usual.len().max(1) as u64;
    let usual_ns = usual.iter().map(|&place| iterations[place].duration_ns);
    let usual_ns = usual_ns.sum::<u64>() / count;
    of_iteration
        .into_iter()
        .map(|(place, own)| {
            let mut more: Vec<Difference> = own
                .into_iter()
                .map(|(key, ns)| Difference {
                    more_ns: ns.saturating_sub(sums.get(&key).map_or(0, |sum| sum / count)),
                    what: key.0,
                    place: key.1,
                })
                .filter(|one| one.more_ns > 0)
                .collect();
            more.sort_by(|one, other| {
                let by_time = other.more_ns.cmp(&one.more_ns);
                by_time.then_with(|| (&one.what, &one.place).cmp(&(&other.what, &other.place)))
            });
            let longer_ns = iterations[place].duration_ns.saturating_sub(usual_ns);
            let most_ns = more.first().map_or(0, |first| first.more_ns);
            let least_ns = (most_ns.max(longer_ns) / TELLING).max(SHOWN_NS);
            more.retain(|one| one.more_ns >= least_ns);
            more.truncate(NAMED);
            (place, more)
        })
        .collect()
}
