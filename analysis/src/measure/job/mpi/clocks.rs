//! What messages say of the clocks of hosts that no collective of all ranks relates to others.
//!
//! A receive ends after its send has begun, so that a message bounds the difference of two clocks on one side. A receive that was waited in for long ends as soon as
//! its message is there: then the bound is near.

use std::collections::BTreeMap;

use super::matching::{Kind, Matched, On, Timed};
use rsys_traces::perfetto::clocks::interpolate;

/// Clocks drift by some microseconds in this time: they are compared in stretches that are as long, and at most as many as that.
const STRETCH_NS: i64 = 500_000_000;
const STRETCHES: i64 = 64;
/// A receive that takes longer waits for its message.
const WAITED_NS: i64 = 200_000;
/// The usual time of a message.
const MESSAGE_NS: i64 = 20_000;
/// The uncertainty of a clock that is known by messages of one direction.
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
            least.waited = Some(
                least
                    .waited
                    .map_or(difference, |known| known.min(difference)),
            );
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

/// What messages say of clocks.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Of hosts that were not known.
    pub(super) corrections: BTreeMap<usize, Correction>,
    /// How far the clocks of two hosts that exchange messages may be apart, the smaller number first.
    pub(super) apart_ns: BTreeMap<(usize, usize), u64>,
}

impl Found {
    /// A time of a host on the corrected axis.
    fn corrected(&self, host: usize, time: i64) -> i64 {
        let correction = self.corrections.get(&host);
        let add = correction.and_then(|one| interpolate(&one.points, time));
        time + add.unwrap_or(0)
    }
}

/// Corrects hosts by their messages with others, whose clocks are known.
pub(super) fn find(matched: &Matched, is_known: &[bool]) -> Found {
    let mut found = Found::default();
    if is_known.iter().all(|is| *is) {
        return found;
    }
    // When clocks are known roughly, of several messages the last one is known as well.
    for _ in 0..ROUNDS {
        found = round(matched, is_known, &found);
    }
    found
}

const ROUNDS: usize = 3;

/// Of the messages that a call receives from other hosts: the hosts, when each was sent, the time from there to the end of the call, and whether it was waited for.
fn messages(
    matched: &Matched,
    known: &Found,
    mut take: impl FnMut((usize, usize), i64, i64, bool),
) {
    for call in &matched.calls {
        let host = matched.line(call).host;
        let received = || {
            let depends = matched.depends(call).iter();
            depends.filter_map(|&(kind, on)| match (kind, on) {
                (Kind::LateSender | Kind::LateRoot | Kind::Scan, On::RankCall(other)) => {
                    Some(&matched.calls[other as usize])
                }
                _ => None,
            })
        };
        let sent = |other: &Timed| known.corrected(matched.line(other).host, other.start);
        let last = received().map(sent).max();
        let is_long = call.end - call.start >= WAITED_NS;
        let is_only = received().count() == 1;
        for other in received().filter(|other| matched.line(other).host != host) {
            let hosts = (matched.line(other).host, host);
            let next =
                received().filter(|one| one.start_ns != other.start_ns || one.line != other.line);
            let next = next.map(sent).max();
            let apart_ns = known.apart_ns.get(&in_order(hosts)).copied();
            let is_last = last == Some(sent(other))
                && next.zip(apart_ns).is_some_and(|(next, apart_ns)| {
                    sent(other) - next > 2 * apart_ns.cast_signed()
                });
            let was_waited_in = is_long && (is_only || is_last);
            take(hosts, other.start, call.end - other.start, was_waited_in);
        }
    }
}

fn in_order((one, other): (usize, usize)) -> (usize, usize) {
    (one.min(other), one.max(other))
}

fn round(matched: &Matched, is_known: &[bool], before: &Found) -> Found {
    let times = || matched.calls.iter().map(|call| call.start);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Found::default();
    };
    let stretches = ((last - first) / STRETCH_NS).clamp(1, STRETCHES);
    let length = (last - first) / stretches + 1;
    let mut pairs: BTreeMap<(usize, usize), Messages> = BTreeMap::new();
    messages(matched, before, |hosts, sent, difference, was_waited_in| {
        let stretch = ((sent - first) / length) as usize;
        let messages = pairs.entry(hosts).or_default();
        messages.add(stretch, difference, was_waited_in);
    });
    let moment = |stretch: usize| first + length * stretch as i64 + length / 2;
    // By how much the times of the second host are moved to be those of the first, by stretch.
    let offsets = |from: usize, to: usize| -> Vec<(i64, Offset)> {
        let least =
            |pair: (usize, usize), stretch: usize| pairs.get(&pair)?.least.get(&stretch).copied();
        let all = (0..stretches as usize).filter_map(|stretch| {
            let (there, back) = (least((from, to), stretch), least((to, from), stretch));
            Some((moment(stretch), offset(there, back)?))
        });
        all.collect()
    };
    let mut found = Found::default();
    for &pair in pairs.keys() {
        let off_ns = offsets(pair.0, pair.1)
            .into_iter()
            .map(|(_, (_, off_ns))| off_ns)
            .max();
        if let Some(off_ns) = off_ns {
            found.apart_ns.insert(in_order(pair), off_ns);
        }
    }
    // From host to host, the least uncertain first.
    let mut reached: BTreeMap<usize, u64> = BTreeMap::new();
    let known = is_known.iter().enumerate().filter(|(_, is)| **is);
    reached.extend(known.map(|(host, _)| (host, 0)));
    loop {
        let edges = found.apart_ns.iter();
        let edges = edges.flat_map(|(&(one, other), &ns)| [(one, other, ns), (other, one, ns)]);
        let next = edges.filter_map(|(from, to, off_ns)| {
            let base_ns = reached.get(&from).filter(|_| !reached.contains_key(&to))?;
            Some((base_ns.saturating_add(off_ns), to, from))
        });
        let Some((uncertainty_ns, host, from)) = next.min() else {
            return found;
        };
        let offsets = offsets(from, host).into_iter();
        let points = offsets.map(|(at, (add, _))| {
            let base = found.corrections.get(&from);
            let base = base.and_then(|base| interpolate(&base.points, at));
            (at, add + base.unwrap_or(0))
        });
        let correction = Correction {
            host,
            points: points.collect(),
            uncertainty_ns,
        };
        reached.insert(host, uncertainty_ns);
        found.corrections.insert(host, correction);
    }
}
