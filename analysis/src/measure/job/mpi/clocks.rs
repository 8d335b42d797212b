//! What messages say of the clocks of hosts that no collective of all ranks relates to others.
//!
//! A receive ends after its send has begun, so that a message bounds the difference of two clocks on one side. A receive that was waited in for long ends as soon as
//! its message is there: then the bound is near.

use std::collections::BTreeMap;

use super::matching::{Kind, Matched, On};
use crate::perfetto::clocks::interpolate;

/// Clocks may drift: they are compared in so many stretches of time at most, of so many messages at least.
const STRETCHES: usize = 16;
const OF_STRETCH: usize = 64;
/// A receive that takes longer waits for its message.
const WAITED_NS: i64 = 200_000;
/// About so long a message takes, and so uncertain a clock is that is known by messages of one direction.
const MESSAGE_NS: i64 = 20_000;
const UNCERTAIN_NS: u64 = 50_000;

/// What is added to the times of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) host: usize,
    /// Moments of the common axis, and what is added there.
    pub(crate) points: Vec<(i64, i64)>,
    /// By how much a time may be wrong then, either way.
    pub(crate) uncertainty_ns: u64,
}

/// The least difference between the end of a receive and the begin of its send: of all, and of those that were waited in.
#[derive(Debug, Clone, Copy)]
struct Least {
    any: i64,
    waited: Option<i64>,
}

/// By how much the times of a host are to be moved to be those of another, and how uncertain that is.
type Offset = (i64, u64);

/// Messages from one host to another.
#[derive(Debug, Default)]
struct Messages {
    /// By stretch.
    least: BTreeMap<usize, Least>,
}

impl Messages {
    fn add(&mut self, stretch: usize, difference: i64, was_waited_in: bool) {
        let least = self.least.entry(stretch).or_insert(Least {
            any: difference,
            waited: None,
        });
        least.any = least.any.min(difference);
        if was_waited_in {
            least.waited = Some(least.waited.map_or(difference, |known| known.min(difference)));
        }
    }
}

/// By how much the times of the receivers are moved, by messages to them and from them.
fn offset(there: Option<Least>, back: Option<Least>) -> Option<Offset> {
    let low = there.map(|least| -least.any);
    let high = back.map(|least| least.any);
    let near = |least: Option<Least>| least.and_then(|least| least.waited);
    match (near(there), near(back)) {
        (Some(there), None) => Some((MESSAGE_NS - there, UNCERTAIN_NS)),
        (None, Some(back)) => Some((back - MESSAGE_NS, UNCERTAIN_NS)),
        (there, back) => {
            let low = there.map_or(low, |there| Some(-there))?;
            let high = back.or(high)?;
            Some((i64::midpoint(low, high), low.abs_diff(high) / 2))
        }
    }
}

/// Corrects hosts by their messages with others, whose clocks are known.
pub(super) fn corrections(matched: &Matched, is_known: &[bool]) -> Vec<Correction> {
    let times = || matched.calls.iter().map(|call| call.start);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Vec::new();
    };
    let mut found: Vec<((usize, usize), i64, i64, bool)> = Vec::new();
    for call in &matched.calls {
        let receives = matched.depends(call).iter().filter(|(kind, _)| {
            matches!(kind, Kind::LateSender | Kind::LateRoot | Kind::Scan)
        });
        // Of several it is not known which was waited for.
        let is_one = receives.clone().count() == 1;
        for &(_, on) in receives {
            let On::Call(other) = on else { continue };
            let other = &matched.calls[other as usize];
            let hosts = (matched.line(other).host, matched.line(call).host);
            let is_long = call.end - call.start >= WAITED_NS;
            let was_waited_in = is_one && is_long;
            if hosts.0 != hosts.1 {
                found.push((hosts, other.start, call.end - other.start, was_waited_in));
            }
        }
    }
    let stretches = (found.len() / OF_STRETCH).clamp(1, STRETCHES);
    let length = (last - first) / stretches as i64 + 1;
    let mut pairs: BTreeMap<(usize, usize), Messages> = BTreeMap::new();
    for (hosts, moment, difference, was_waited_in) in found {
        let stretch = ((moment - first) / length) as usize;
        let messages = pairs.entry(hosts).or_default();
        messages.add(stretch, difference, was_waited_in);
    }
    let moment = |stretch: usize| first + length * stretch as i64 + length / 2;
    // From host to host, the least uncertain first.
    let mut known: BTreeMap<usize, Correction> = BTreeMap::new();
    for (host, _) in is_known.iter().enumerate().filter(|(_, is)| **is) {
        known.insert(host, Correction {
            host,
            points: Vec::new(),
            uncertainty_ns: 0,
        });
    }
    loop {
        let edges = pairs.keys().flat_map(|&(one, other)| [(one, other), (other, one)]);
        let edges = edges.filter(|(from, to)| known.contains_key(from) && !known.contains_key(to));
        let next = edges.filter_map(|(from, to)| {
            let least = |pair: (usize, usize), stretch: usize| {
                pairs.get(&pair)?.least.get(&stretch).copied()
            };
            let base = &known[&from];
            let (mut points, mut uncertainty_ns) = (Vec::new(), 0);
            for stretch in 0..stretches {
                let pair = (least((from, to), stretch), least((to, from), stretch));
                let Some((add, off_ns)) = offset(pair.0, pair.1) else {
                    continue;
                };
                let at = moment(stretch);
                points.push((at, add + interpolate(&base.points, at).unwrap_or(0)));
                uncertainty_ns = off_ns.max(uncertainty_ns);
            }
            (!points.is_empty()).then(|| Correction {
                host: to,
                points,
                uncertainty_ns: uncertainty_ns.saturating_add(base.uncertainty_ns),
            })
        });
        let Some(next) = next.min_by_key(|one| (one.uncertainty_ns, one.host)) else {
            break;
        };
        known.insert(next.host, next);
    }
    let found = known.into_values();
    found.filter(|one| !is_known[one.host]).collect()
}
