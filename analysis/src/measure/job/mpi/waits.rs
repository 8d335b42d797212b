//! Who waited for whom, and whose work was behind it.
//!
//! A call waits from its begin until the last call that it depends on has begun on its rank: a late sender, a late receiver, the last rank at a barrier. These
//! are the wait states of Scalasca (Geimer et al., "A scalable tool architecture for diagnosing wait states in massively parallel applications", 2009). What the rank
//! did meanwhile for which was waited is followed back (Böhme et al., "Identifying the root causes of wait states in large-scale parallel applications",
//! 2010): where it worked on its own, that is the cause; where it waited itself, the cause is that of its wait. So each nanosecond of a wait has one cause at
//! most, and times in which data moved have none.

use super::matching::{Kind, Matched, On, Timed};

/// Parts of causes that are kept; of waits beyond, all that is known is the rank that was waited for.
const PARTS: usize = 1 << 22;

/// A wait of a call for another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) call: u32,
    pub(super) start: i64,
    /// When the other call began, or this one ended.
    pub(super) until: i64,
    /// The call that was waited for.
    pub(super) other: u32,
    pub(super) kind: Kind,
    /// The first of its parts, and how many.
    parts: (u32, u32),
}

impl Wait {
    pub(super) fn duration_ns(&self) -> u64 {
        (self.until - self.start).unsigned_abs()
    }
}

/// A part of a wait in which the thread of a line worked on its own: on the common axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnWork {
    pub(super) line: u32,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The waits of all calls.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// By the times at which they end.
    pub(super) list: Vec<Wait>,
    /// By call: its wait plus one, or 0.
    of_calls: Vec<u32>,
    parts: Vec<OwnWork>,
}

impl Waits {
    /// Finds the waits. `uncertainty_ns` says how far the clocks of two hosts may be apart, where that is bounded.
    pub(super) fn new(
        matched: &Matched,
        uncertainty_ns: impl Fn(usize, usize) -> Option<u64>,
    ) -> Self {
        let mut list: Vec<Wait> = Vec::new();
        for (place, call) in (0..).zip(&matched.calls) {
            let depends = matched.depends(call).iter();
            let begins = depends.filter_map(|&(kind, on)| {
                let other = match on {
                    On::RankCall(other) => other,
                    On::Group(group) => {
                        let calls = matched.groups[group as usize].calls.iter();
                        *calls.rev().find(|call| **call != place)?
                    }
                    On::Relays(group) => relay(matched, (place, call), group)?,
                };
                let start = matched.calls[other as usize].start;
                // A sender that was gone before the receiver came has not waited for it.
                let is_gone = kind == Kind::LateReceiver && start > call.end;
                (!is_gone).then_some((start, other, kind))
            });
            let Some((start, other, kind)) = begins.max_by_key(|&(start, other, kind)| {
                (start, std::cmp::Reverse(kind), std::cmp::Reverse(other))
            }) else {
                continue;
            };
            let until = start.min(call.end);
            let hosts = [call, &matched.calls[other as usize]].map(|call| matched.line(call).host);
            let apart_ns = uncertainty_ns(hosts[0], hosts[1]);
            let is_certain = apart_ns.is_some_and(|ns| until - call.start > ns.cast_signed());
            if is_certain {
                list.push(Wait {
                    call: place,
                    start: call.start,
                    until,
                    other,
                    kind,
                    parts: (0, 0),
                });
            }
        }
        list.sort_by_key(|wait| (wait.until, wait.call));
        let mut waits = Self {
            of_calls: vec![0; matched.calls.len()],
            list: Vec::new(),
            parts: Vec::new(),
        };
        // What was waited for ended its own waits before, so that their causes are known.
        for mut wait in list {
            let first = waits.parts.len();
            if first < PARTS {
                waits.follow(matched, &wait);
            }
            wait.parts = (first as u32, (waits.parts.len() - first) as u32);
            waits.of_calls[wait.call as usize] = waits.list.len() as u32 + 1;
            waits.list.push(wait);
        }
        waits
    }

    /// The causes of a wait, in the order of time.
    pub(super) fn parts(&self, wait: &Wait) -> &[OwnWork] {
        let (first, count) = wait.parts;
        &self.parts[first as usize..(first + count) as usize]
    }

    /// The wait of a call.
    pub(super) fn of(&self, call: usize) -> Option<&Wait> {
        let place = self.of_calls[call].checked_sub(1)?;
        self.list.get(place as usize)
    }

    /// What the rank did that was waited for.
    fn follow(&mut self, matched: &Matched, wait: &Wait) {
        let other = &matched.calls[wait.other as usize];
        let line = other.line;
        let first_call = matched.lines[line as usize].calls.start;
        // In front of its first call nothing is known of a rank: ranks start when they are started.
        let mut at = wait.start.max(matched.calls[first_call].end);
        let found = matched.after(line, wait.start);
        let found = found.take_while(|(_, call)| call.start < wait.until);
        for (place, call) in found {
            self.work(line, at, call.start.min(wait.until));
            if let Some(before) = self.of(place) {
                let span = (at.max(before.start), wait.until.min(before.until));
                let (first, count) = before.parts;
                for part in first..first + count {
                    let OwnWork { line, start, end } = self.parts[part as usize];
                    self.work(line, start.max(span.0), end.min(span.1));
                }
            }
            at = at.max(call.end);
        }
        self.work(line, at, wait.until);
    }

    /// A thread worked on its own.
    fn work(&mut self, line: u32, start: i64, end: i64) {
        if start < end {
            self.parts.push(OwnWork { line, start, end });
        }
    }
}

/// Shorter calls of collectives in which ranks pass something on are not waits for one of those.
const RELAYED_NS: i64 = 100_000;
/// The time to pass something on: this, or a tenth of the call.
const PASSED_ON_NS: i64 = 50_000;

/// The rank that a call of a collective has waited for though that is not the root: a call that ends as soon as another rank has begun its own has waited for
/// that one. Which ranks pass something on to which, the library decides.
fn relay(matched: &Matched, (place, call): (u32, &Timed), group: u32) -> Option<u32> {
    let duration = call.end - call.start;
    let soon = PASSED_ON_NS.max(duration / 10);
    let begins = |other: u32| matched.calls[other as usize].start;
    let is_by_root = matched.depends(call).iter().any(|&(_, on)| match on {
        On::RankCall(root) => (0..=soon).contains(&(call.end - begins(root))),
        On::Group(_) | On::Relays(_) => false,
    });
    if duration < RELAYED_NS || is_by_root {
        return None;
    }
    let calls = &matched.groups[group as usize].calls;
    let before = calls.partition_point(|other| begins(*other) <= call.end);
    let last = calls[..before].iter().rev().find(|other| **other != place);
    last.copied()
        .filter(|last| call.end - begins(*last) <= soon)
}
