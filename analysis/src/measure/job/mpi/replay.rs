//! What if: the calls of all ranks once more, with other work between them.
//!
//! A call begins when the one before it on its thread has ended and the work between them is done. It ends when all that it depends on has begun, and the time
//! has passed that it took after that. So a rank that is faster helps as far as nothing else is waited for then.

use std::collections::BTreeMap;

use super::matching::{Kind, Matched, On};
use super::waits::Waits;
use crate::measure::job::ranks::lower_median;
use rsys_traces::model::ProcessId;

/// The calls of a job, to be gone through.
#[derive(Debug)]
pub(crate) struct Replay<'m> {
    matched: &'m Matched,
    waits: &'m Waits,
    /// When the last call of each collective began.
    last_begins: Vec<i64>,
    /// From host to host, the least time from the begin of a send to the end of its receive.
    least_ns: BTreeMap<(usize, usize), i64>,
    /// How long calls of each function take when all is there.
    usual_ns: Vec<i64>,
    /// Whether calls of which it is not known for what they waited are so few that it may be guessed.
    guesses: bool,
    /// The group that each call is of, plus one.
    groups: Vec<u32>,
    /// By call, in which stretch of the job the work in front of it is.
    stretches: Vec<u32>,
    /// By stretch and line: how long the line worked.
    work_ns: Vec<Vec<u64>>,
}

impl<'m> Replay<'m> {
    pub(super) fn new(matched: &'m Matched, waits: &'m Waits) -> Self {
        let mut groups = vec![0; matched.calls.len()];
        for (place, group) in (1..).zip(&matched.groups) {
            group
                .calls
                .iter()
                .for_each(|call| groups[*call as usize] = place);
        }
        let last_begins = matched.groups.iter().map(|group| {
            let calls = group.calls.iter();
            calls
                .map(|call| matched.calls[*call as usize].start)
                .max()
                .unwrap_or(0)
        });
        let unknown = matched.calls.iter().filter(|call| call.is_unknown).count();
        let few = (FEW_UNKNOWN * matched.calls.len() as f64) as usize;
        let mut replay = Self {
            matched,
            waits,
            last_begins: last_begins.collect(),
            least_ns: least_ns(matched),
            usual_ns: usual_ns(matched, waits),
            guesses: (1..=few).contains(&unknown),
            groups,
            stretches: Vec::new(),
            work_ns: Vec::new(),
        };
        replay.divide();
        replay
    }

    /// Divides the job by collectives that all ranks have: in each stretch, how long ranks worked can be compared.
    fn divide(&mut self) {
        let matched = self.matched;
        let lines = matched.lines.len();
        let mut counts: Vec<(u32, usize)> = Vec::new();
        let is_of_all = |group: &super::matching::Group| {
            let mut lines: Vec<u32> = group
                .calls
                .iter()
                .map(|call| matched.calls[*call as usize].line)
                .collect();
            lines.sort_unstable();
            lines.dedup();
            group.is_whole && lines.len() == group.calls.len()
        };
        let largest = matched.groups.iter().filter(|group| is_of_all(group));
        let largest = largest.map(|group| group.calls.len()).max().unwrap_or(0);
        let is_limit: Vec<bool> = matched
            .groups
            .iter()
            .map(|group| group.calls.len() == largest && is_of_all(group))
            .collect();
        for (group, _) in matched.groups.iter().zip(&is_limit).filter(|(_, is)| **is) {
            match counts
                .iter_mut()
                .find(|(communicator, _)| *communicator == group.communicator)
            {
                Some((_, count)) => *count += 1,
                None => counts.push((group.communicator, 1)),
            }
        }
        // Of equal ones the first.
        let most = counts
            .iter()
            .max_by_key(|(communicator, count)| (*count, std::cmp::Reverse(*communicator)));
        let most = most.map(|(communicator, _)| *communicator);
        self.stretches = Vec::with_capacity(matched.calls.len());
        for (place, line) in matched.lines.iter().enumerate() {
            let (mut stretch, mut before) = (0, None);
            for call in line.calls.clone() {
                let timed = &matched.calls[call];
                self.stretches.push(stretch);
                let work_ns =
                    before.map_or(0, |end: i64| (timed.start - end).max(0).unsigned_abs());
                if self.work_ns.len() <= stretch as usize {
                    self.work_ns.push(vec![0; lines]);
                }
                self.work_ns[stretch as usize][place] += work_ns;
                before = Some(timed.end);
                if let Some(group) = self.groups[call].checked_sub(1) {
                    let is_limit = is_limit[group as usize]
                        && Some(matched.groups[group as usize].communicator) == most;
                    stretch += u32::from(is_limit);
                }
            }
        }
    }

    /// By stretch and line, how long each piece of work between two calls is at most, where some processes are like the others, or all alike: where work comes in
    /// pieces, the longest ones are what a rank does longer than others.
    fn limits(&self, is_changed: Option<&dyn Fn(ProcessId) -> bool>) -> Vec<Vec<u64>> {
        let lines = &self.matched.lines;
        let changed = lines
            .iter()
            .map(|line| is_changed.is_some_and(|is_changed| is_changed(line.process)));
        let changed: Vec<bool> = changed.collect();
        let all = changed.iter().all(|one| *one);
        let usual_ns = self.work_ns.iter().map(|work_ns| {
            let others = work_ns.iter().zip(&changed);
            let others = others.filter(|(_, changed)| all || !**changed);
            let mut others: Vec<u64> = others.map(|(ns, _)| *ns).collect();
            lower_median(&mut others).unwrap_or(0)
        });
        let usual_ns: Vec<u64> = usual_ns.collect();
        let mut limits = vec![vec![u64::MAX; lines.len()]; self.work_ns.len()];
        for (place, line) in lines
            .iter()
            .enumerate()
            .filter(|(place, _)| changed[*place])
        {
            let mut at = line.calls.start;
            while at < line.calls.end {
                let stretch = self.stretches[at];
                let end = (at..line.calls.end).find(|call| self.stretches[*call] != stretch);
                let end = end.unwrap_or(line.calls.end);
                let stretch = stretch as usize;
                if self.work_ns[stretch][place] > usual_ns[stretch] {
                    let mut pieces: Vec<u64> =
                        (at..end).map(|call| self.work_in_front(call)).collect();
                    limits[stretch][place] = limit(&mut pieces, usual_ns[stretch]);
                }
                at = end;
            }
        }
        limits
    }

    /// How long the thread of a call worked in front of it, since the call before.
    fn work_in_front(&self, call: usize) -> u64 {
        let matched = self.matched;
        let line = &matched.lines[matched.calls[call].line as usize];
        match call == line.calls.start {
            true => 0,
            false => (matched.calls[call].start - matched.calls[call - 1].end)
                .max(0)
                .unsigned_abs(),
        }
    }

    /// By line, how much longer it worked than the median of the ranks, in all stretches together. Of one stretch, where ranks are compared from their first call
    /// to their last, one piece of work does not count: what a rank did in front of its first call is not seen of any.
    pub(super) fn late_ns(&self) -> Vec<u64> {
        let mut late_ns = vec![0_u64; self.matched.lines.len()];
        for work_ns in &self.work_ns {
            let usual_ns = lower_median(&mut work_ns.clone()).unwrap_or(0);
            for (sum_ns, own_ns) in late_ns.iter_mut().zip(work_ns) {
                *sum_ns += own_ns.saturating_sub(usual_ns);
            }
        }
        if self.work_ns.len() < SEVERAL {
            for (late_ns, line) in late_ns.iter_mut().zip(&self.matched.lines) {
                let pieces = line.calls.clone().map(|call| self.work_in_front(call));
                *late_ns = late_ns.saturating_sub(usual_piece(pieces.collect()));
            }
        }
        late_ns
    }

    /// How long the job takes from its first call to the end of the last one, where the processes for which `is_changed` holds work no longer than the others;
    /// where it holds for all, than the median.
    pub(crate) fn run(&self, is_changed: Option<&dyn Fn(ProcessId) -> bool>) -> Option<u64> {
        let matched = self.matched;
        let limits = self.limits(is_changed);
        let mut run = Run {
            replay: self,
            limits: &limits,
            starts: vec![None; matched.calls.len()],
            ends: vec![0; matched.calls.len()],
            groups: matched
                .groups
                .iter()
                .map(|group| (group.calls.len(), i64::MIN))
                .collect(),
            next: matched.lines.iter().map(|line| line.calls.start).collect(),
            waiting: vec![Vec::new(); matched.lines.len()],
            waiting_for_all: vec![Vec::new(); matched.groups.len()],
            ready: (0..matched.lines.len()).rev().collect(),
            // As it was, calls take what they took.
            guesses: self.guesses && is_changed.is_some(),
        };
        run.all();
        let first = matched.lines.iter().filter(|line| !line.calls.is_empty());
        let first = first
            .filter_map(|line| run.starts[line.calls.start])
            .min()?;
        let last = run.ends.iter().copied().max()?;
        u64::try_from(last - first).ok().filter(|span| *span > 0)
    }
}

/// Where more than this part of the calls wait for something that is not known, nothing is guessed about these.
const FEW_UNKNOWN: f64 = 0.1;

/// Fewer stretches than this say little of what a rank does in front of its first call and behind its last.
const SEVERAL: usize = 4;

/// How long each of some pieces is at most if all are as long as this together.
fn limit(pieces: &mut [u64], sum_ns: u64) -> u64 {
    pieces.sort_unstable();
    let mut left_ns = sum_ns;
    for (place, piece) in pieces.iter().enumerate() {
        let count = (pieces.len() - place) as u64;
        if piece.saturating_mul(count) >= left_ns {
            return left_ns / count;
        }
        left_ns -= piece;
    }
    u64::MAX
}

/// The piece in which the middle of all work is, the pieces in order of their length.
fn usual_piece(mut pieces: Vec<u64>) -> u64 {
    pieces.sort_unstable();
    let half_ns = pieces.iter().sum::<u64>() / 2;
    let mut sum_ns = 0;
    let found = pieces.into_iter().find(|piece| {
        sum_ns += piece;
        sum_ns > half_ns
    });
    found.unwrap_or(0)
}

/// No message takes longer because of others: where each was there before its receive began, the least time says little.
const MESSAGE_NS: i64 = 20_000;

fn least_ns(matched: &Matched) -> BTreeMap<(usize, usize), i64> {
    let mut least: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for call in &matched.calls {
        for &(kind, on) in matched.depends(call) {
            let On::RankCall(other) = on else { continue };
            if matches!(kind, Kind::LateReceiver | Kind::Relay) {
                continue;
            }
            let other = &matched.calls[other as usize];
            let hosts = (matched.line(other).host, matched.line(call).host);
            let took_ns = (call.end - other.start).min(MESSAGE_NS);
            let known = least.entry(hosts).or_insert(took_ns);
            *known = took_ns.min(*known);
        }
    }
    least
}

fn usual_ns(matched: &Matched, waits: &Waits) -> Vec<i64> {
    let mut of_functions: Vec<Vec<i64>> = vec![Vec::new(); matched.names.len()];
    for (place, call) in matched
        .calls
        .iter()
        .enumerate()
        .filter(|(_, call)| !call.is_unknown)
    {
        let until = waits.of(place).map_or(call.start, |wait| wait.until);
        of_functions[call.name as usize].push(call.end - until);
    }
    // Of functions of which nothing is known, the shortest call: that waited least.
    let mut shortest = vec![i64::MAX; matched.names.len()];
    for call in &matched.calls {
        let known = &mut shortest[call.name as usize];
        *known = (call.end - call.start).min(*known);
    }
    let usual = of_functions.iter_mut().zip(shortest);
    usual
        .map(|(all, shortest)| lower_median(all).unwrap_or(shortest))
        .collect()
}

/// One time through the calls.
struct Run<'r> {
    replay: &'r Replay<'r>,
    limits: &'r [Vec<u64>],
    starts: Vec<Option<i64>>,
    ends: Vec<i64>,
    /// Of each collective: how many of its calls have not begun, and when the last of the others has.
    groups: Vec<(usize, i64)>,
    /// By line: the call that is next.
    next: Vec<usize>,
    /// By line: the lines that wait for something of it; by collective, those that wait for all of it.
    waiting: Vec<Vec<usize>>,
    waiting_for_all: Vec<Vec<usize>>,
    ready: Vec<usize>,
    /// Calls of which it is not known for what they waited wait no longer than others.
    guesses: bool,
}

impl Run<'_> {
    fn all(&mut self) {
        loop {
            while let Some(line) = self.ready.pop() {
                self.line(line, false);
            }
            // Where clocks or records contradict each other, the call that began first does not wait.
            let matched = self.replay.matched;
            let lines = matched.lines.iter().enumerate();
            let stuck = lines.filter(|(place, line)| self.next[*place] < line.calls.end);
            let stuck =
                stuck.min_by_key(|(place, _)| (matched.calls[self.next[*place]].start, *place));
            let Some((line, _)) = stuck else {
                return;
            };
            self.line(line, true);
        }
    }

    /// Goes on with a line until it waits for something that has not begun. `is_forced`: its next call does not wait.
    fn line(&mut self, place: usize, mut is_forced: bool) {
        let matched = self.replay.matched;
        let line = &matched.lines[place];
        while self.next[place] < line.calls.end {
            let at = self.next[place];
            let start = match self.starts[at] {
                Some(start) => start,
                None => {
                    let start = self.start(place, at);
                    self.starts[at] = Some(start);
                    if let Some(group) = self.replay.groups[at].checked_sub(1) {
                        let place_of_group = group as usize;
                        let group = &mut self.groups[place_of_group];
                        *group = (group.0 - 1, group.1.max(start));
                        if group.0 == 0 {
                            self.ready.append(&mut self.waiting_for_all[place_of_group]);
                        }
                    }
                    let waiting = std::mem::take(&mut self.waiting[place]);
                    self.ready.extend(waiting);
                    start
                }
            };
            let Some(end) = self.end(place, at, start, is_forced) else {
                return;
            };
            is_forced = false;
            self.ends[at] = end;
            self.next[place] += 1;
        }
    }

    /// When a call ends that begins at a time; `None` where it waits for something that has not begun.
    fn end(&mut self, place: usize, at: usize, start: i64, is_forced: bool) -> Option<i64> {
        let (replay, matched) = (self.replay, self.replay.matched);
        let call = &matched.calls[at];
        let wait = replay.waits.of(at);
        let (mut end, mut last) = (i64::MIN, None);
        for &(kind, on) in matched.depends(call) {
            // A sender that has not waited for its receiver needs not, nor a rank for one that passes on.
            let has_waited = wait.is_some_and(|wait| wait.kind == kind);
            if matches!(kind, Kind::LateReceiver | Kind::Relay) && !has_waited {
                continue;
            }
            let on = match (kind, wait) {
                (Kind::Relay, Some(wait)) => On::RankCall(wait.other),
                _ => on,
            };
            let (new, old, least_ns) = match on {
                On::RankCall(other) => {
                    let hosts = (matched.calls[other as usize], call);
                    let hosts = (matched.line(&hosts.0).host, matched.line(hosts.1).host);
                    (
                        self.starts[other as usize],
                        matched.calls[other as usize].start,
                        replay.least_ns.get(&hosts).copied().unwrap_or(0),
                    )
                }
                On::Relays(_) => continue,
                On::Group(group) => {
                    let (missing, last) = self.groups[group as usize];
                    let old = replay.last_begins[group as usize];
                    ((missing == 0).then_some(last), old, 0)
                }
            };
            match new {
                Some(new) => {
                    end = end.max(new + least_ns.min(call.end - old));
                    if last.is_none_or(|(known, _)| old > known) {
                        last = Some((old, new));
                    }
                }
                None if is_forced => {}
                None => {
                    self.wait_for(place, on);
                    return None;
                }
            }
        }
        // How long it takes when all is there. Clocks of hosts differ: what ends before the other side has begun is as early again.
        let mut rest_ns = call.end - call.start;
        if let Some((old, new)) = last.filter(|(old, _)| *old > call.start) {
            end = end.max(new + (call.end - old));
            rest_ns = (call.end - old).max(0);
        } else if call.is_unknown && self.guesses {
            rest_ns = rest_ns.min(replay.usual_ns[call.name as usize]);
        }
        Some(end.max(start + rest_ns))
    }

    /// When a call begins.
    fn start(&self, place: usize, at: usize) -> i64 {
        let matched = self.replay.matched;
        let call = &matched.calls[at];
        if at == matched.lines[place].calls.start {
            return call.start;
        }
        let limit_ns = self.limits[self.replay.stretches[at] as usize][place];
        let work_ns = self.replay.work_in_front(at).min(limit_ns);
        self.ends[at - 1] + work_ns.cast_signed()
    }

    /// Has a line go on when that has gone on which it waits for.
    fn wait_for(&mut self, place: usize, on: On) {
        match on {
            On::RankCall(other) => {
                let line = self.replay.matched.calls[other as usize].line;
                self.waiting[line as usize].push(place);
            }
            On::Group(group) => self.waiting_for_all[group as usize].push(place),
            On::Relays(_) => {}
        }
    }
}
