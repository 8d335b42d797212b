//! Waits as long as they were.
//!
//! A look says what a thread waits for, but neither when that began nor when it ended. The kernel's
//! records of context switches say both, but not for what. So a wait is a time between two
//! switches, and has the name of a look that fell into it. One that no look hit has the name of a
//! wait of the same thread that took about as long at about the same time: among waits of one length,
//! each had the same chance to be seen. Where there are no such records, waits are as long as the looks say.
//!
//! A thread that is woken waits for a processor, and the switch itself takes some ten microseconds
//! before it is recorded. How much both took from one look that found the thread blocked to the
//! next, the kernel's counters say exactly: the waits between end so much earlier.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::record::{PastWait, Used, Wait, WaitRecord};
use super::seen::SeenWaits;
use returns::{Between, Lengths, Return};

mod returns;

/// A wait that goes on for longer is shown before it ends.
const SHOWN_AFTER_NS: u64 = 100_000_000;
/// Maximum time that waits without a look are kept until others of their length are seen behind them,
const NAMED_AFTER_NS: u64 = 2_000_000_000;
/// and the maximum number of them in a thread.
const UNNAMED_MAX: usize = 1 << 12;
/// Waits shorter than what is drawn are added up over this time.
const TOGETHER_NS: u64 = 10_000_000;
/// Shorter times between a thread's wake-up and its processor are not told.
const WOKEN_SHORTEST_NS: u64 = 100_000;
/// Maximum time that times off the processor are kept until a look corrects them.
const CORRECTED_AFTER_NS: u64 = 1_000_000_000;

/// A time in which a thread was off the processor: CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffTime {
    /// The thread, as the process sees it.
    pub tid: u32,
    /// When it left the processor.
    pub begin_ns: u64,
    /// When it came back.
    pub end_ns: u64,
    /// Whether it could have gone on.
    pub preempted: bool,
}

impl OffTime {
    fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// A look that found a thread blocked.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    time_ns: u64,
    used: Used,
}

/// What is known of the waits of a process.
#[derive(Debug)]
pub struct ExactWaits {
    threads: HashMap<u32, Thread>,
    /// Shorter waits that no look hit are told together.
    shortest_ns: u64,
    basis: Basis,
    /// All looks up to here are known.
    looked_ns: u64,
}

/// By what the length of waits is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Not known yet whether the kernel records this process.
    Open,
    /// By switches.
    Switches,
    /// By looks.
    Looks,
}

#[derive(Debug, Default)]
struct Thread {
    /// Looks that belong to no time off the processor yet, in order.
    looks: VecDeque<WaitRecord>,
    /// Those of them that found it blocked.
    anchors: VecDeque<Anchor>,
    /// The last one before all times off the processor that are left.
    anchor: Option<Anchor>,
    /// How waits ended last.
    back: Return,
    lengths: Lengths,
    /// Times off the processor that are over, in order.
    ended: VecDeque<OffTime>,
    /// Since when it is blocked.
    since_ns: Option<u64>,
    /// The wait that is shown though it goes on, and when it was seen last.
    shown: Option<(Arc<Wait>, u64)>,
    /// What it was seen to wait for last.
    last: Option<Arc<Wait>>,
    unnamed: VecDeque<OffTime>,
    /// How many of them have found no name, and the version of what was seen then.
    tried: (usize, u64),
    seen: SeenWaits,
    /// It is gone, and all looks before this time were made before that.
    gone_ns: Option<u64>,
}

impl ExactWaits {
    /// Waits whose lengths come from switches, if those are recorded, which is known of each process by what comes.
    #[must_use]
    pub fn new(has_switches: bool, shortest_ns: u64) -> Self {
        Self {
            threads: HashMap::new(),
            shortest_ns,
            basis: match has_switches {
                true => Basis::Open,
                false => Basis::Looks,
            },
            looked_ns: 0,
        }
    }

    /// Takes in looks; all those before `looked_ns` are known by now. What need not wait is handed out.
    pub fn look(&mut self, records: Vec<WaitRecord>, looked_ns: u64, out: &mut Vec<WaitRecord>) {
        self.looked_ns = looked_ns;
        for record in records {
            match &record {
                _ if self.basis == Basis::Looks => {
                    out.extend(is_of_program(&record).then_some(record))
                }
                WaitRecord::Begin {
                    tid,
                    seen_ns: time_ns,
                    used,
                    ..
                }
                | WaitRecord::Continue { tid, time_ns, used } => {
                    let thread = self.threads.entry(*tid).or_default();
                    thread.anchors.push_back(Anchor {
                        time_ns: *time_ns,
                        used: *used,
                    });
                    thread.looks.push_back(record);
                }
                WaitRecord::End { tid, .. } => {
                    self.threads
                        .entry(*tid)
                        .or_default()
                        .looks
                        .push_back(record);
                }
                // What it did before comes first.
                WaitRecord::Gone { tid } => match self.threads.get_mut(tid) {
                    Some(thread) => thread.gone_ns = Some(looked_ns),
                    None => out.push(record),
                },
                _ => out.push(record),
            }
        }
    }

    /// Takes in times off the processor, in order of their ends, and waits that have begun: threads and since when.
    pub fn switch(&mut self, ended: impl Iterator<Item = OffTime>, begun: &[(u32, u64)]) {
        if self.basis == Basis::Looks {
            return;
        }
        for blocked in ended {
            self.basis = Basis::Switches;
            let thread = self.threads.entry(blocked.tid).or_default();
            thread.ended.push_back(blocked);
        }
        for &(tid, since_ns) in begun {
            self.basis = Basis::Switches;
            self.threads.entry(tid).or_default().since_ns = Some(since_ns);
        }
    }

    /// Tells what is certain, when all switches before `settled_ns` are known.
    pub fn settle(&mut self, settled_ns: u64, out: &mut Vec<WaitRecord>) {
        let until_ns = settled_ns.min(self.looked_ns);
        if self.basis == Basis::Open && self.was_blocked_before(until_ns) {
            // Its threads are blocked, and did not leave a processor: it did not inherit our events.
            return self.by_looks(out);
        }
        if self.basis != Basis::Switches {
            return;
        }
        self.threads.retain(|&tid, thread| {
            let is_gone = thread.gone_ns.is_some_and(|gone_ns| gone_ns <= until_ns);
            thread.settle((tid, until_ns), self.shortest_ns, is_gone, out);
            if is_gone {
                out.push(WaitRecord::Gone { tid });
            }
            // Nobody says when a thread ends that was never looked at.
            !is_gone && !thread.is_empty()
        });
    }

    /// From now on the lengths of waits are those of the looks.
    pub fn by_looks(&mut self, out: &mut Vec<WaitRecord>) {
        if self.basis == Basis::Looks {
            return;
        }
        let was_exact = self.basis == Basis::Switches;
        self.basis = Basis::Looks;
        for (tid, mut thread) in self.threads.drain() {
            if was_exact {
                thread.settle((tid, u64::MAX), self.shortest_ns, true, out);
            } else {
                out.extend(thread.looks.into_iter().filter(is_of_program));
            }
            out.extend(thread.gone_ns.map(|_| WaitRecord::Gone { tid }));
        }
    }

    /// The process is over: tells everything that is left.
    pub fn finish(&mut self, out: &mut Vec<WaitRecord>) {
        self.by_looks(out);
    }

    fn was_blocked_before(&self, until_ns: u64) -> bool {
        let mut looks = self.threads.values().filter_map(|one| one.looks.front());
        looks.any(|look| matches!(look, WaitRecord::Begin { seen_ns, .. } if *seen_ns < until_ns))
    }
}

impl Thread {
    /// Whether there is nothing to keep of it.
    fn is_empty(&self) -> bool {
        self.looks.is_empty()
            && self.ended.is_empty()
            && self.unnamed.is_empty()
            && self.since_ns.is_none()
            && self.seen.version() == 0
    }

    fn settle(
        &mut self,
        (tid, until_ns): (u32, u64),
        shortest_ns: u64,
        is_last: bool,
        out: &mut Vec<WaitRecord>,
    ) {
        while let Some(anchor) = self.anchors.pop_front_if(|one| one.time_ns <= until_ns) {
            self.reach(anchor, out);
        }
        let waiting_ns = match is_last {
            true => 0,
            false => CORRECTED_AFTER_NS,
        };
        let is_old = |one: &mut OffTime| one.end_ns <= until_ns.saturating_sub(waiting_ns);
        while let Some(off) = self.ended.pop_front_if(is_old) {
            self.anchor = None;
            let back = self.lengths.usual(off.length_ns(), self.back);
            self.end(off, back, out);
        }
        if let Some(since_ns) = self.since_ns {
            let is_long = until_ns.saturating_sub(since_ns) > SHOWN_AFTER_NS;
            if is_long || self.shown.is_some() || is_last {
                self.go_on(tid, (since_ns, until_ns), out);
            }
        }
        if is_last && let Some((_, seen_ns)) = self.shown.take() {
            out.push(WaitRecord::End {
                tid,
                time_ns: seen_ns,
            });
        }
        self.name((until_ns, is_last), shortest_ns, out);
    }

    /// A look found it blocked: what it had used until then is known, and with that how waits ended since the look before.
    fn reach(&mut self, anchor: Anchor, out: &mut Vec<WaitRecord>) {
        let Anchor { time_ns, used } = anchor;
        let over = self.ended.partition_point(|one| one.end_ns <= time_ns);
        let current_ns = self
            .ended
            .get(over)
            .map(|one| one.begin_ns)
            .or(self.since_ns);
        // A look may also be a little too late.
        let Some(current_ns) = current_ns.filter(|begin_ns| *begin_ns <= time_ns) else {
            return;
        };
        let mut returns = Vec::new().into_iter();
        if let Some(before) = self.anchor.replace(anchor) {
            let since_ns = |one: &OffTime| one.end_ns - one.begin_ns.max(before.time_ns);
            let (mut preempted_ns, mut times) = (0, Vec::new());
            for one in self.ended.range(..over) {
                match one.preempted {
                    true => preempted_ns += since_ns(one),
                    false => times.push(Between {
                        off_ns: one.end_ns - one.begin_ns,
                        since_ns: since_ns(one),
                    }),
                }
            }
            let blocked_ns = times.iter().map(|one| one.since_ns).sum::<u64>() + time_ns
                - current_ns.max(before.time_ns);
            let cpu_ns = used.cpu_ns.saturating_sub(before.used.cpu_ns);
            let delay_ns = used.delay_ns.saturating_sub(before.used.delay_ns);
            let truly_ns = (time_ns - before.time_ns).saturating_sub(cpu_ns + delay_ns);
            let together = Return {
                ns: blocked_ns.saturating_sub(truly_ns),
                delay_ns: delay_ns.saturating_sub(preempted_ns),
            };
            // Of others without a look the mean is known.
            let count = times.len() as u64;
            if let (Some(ns), Some(delay_ns)) = (
                together.ns.checked_div(count),
                together.delay_ns.checked_div(count),
            ) {
                self.back = Return { ns, delay_ns };
            }
            let each = self.lengths.distribute(&times, together);
            self.lengths.learn(&times, &each);
            returns = each.into_iter();
        }
        for off in self.ended.drain(..over).collect::<Vec<_>>() {
            let back = match off.preempted {
                true => Return::default(),
                false => returns
                    .next()
                    .unwrap_or_else(|| self.lengths.usual(off.length_ns(), self.back)),
            };
            self.end(off, back, out);
        }
    }

    /// A time off the processor is over.
    fn end(&mut self, off: OffTime, back: Return, out: &mut Vec<WaitRecord>) {
        let OffTime {
            tid,
            begin_ns,
            end_ns: on_ns,
            preempted,
        } = off;
        if preempted {
            return;
        }
        let end_ns = on_ns.saturating_sub(back.ns).max(begin_ns);
        let woken_ns = on_ns.saturating_sub(back.delay_ns).max(end_ns);
        if on_ns - woken_ns >= WOKEN_SHORTEST_NS {
            out.push(WaitRecord::Woken {
                tid,
                begin_ns: woken_ns,
                end_ns: on_ns,
            });
        }
        let blocked = OffTime { end_ns, ..off };
        if self.since_ns.is_some_and(|since_ns| since_ns <= begin_ns) {
            self.since_ns = None;
        }
        let seen = self.seen_in(begin_ns, on_ns);
        if let Some((wait, seen_ns)) = self.shown.take() {
            // Records that were lost may have held the end.
            let time_ns = match seen_ns >= begin_ns {
                true => end_ns,
                false => seen_ns,
            };
            out.push(WaitRecord::End { tid, time_ns });
            if seen_ns >= begin_ns {
                return self.seen.add((begin_ns, end_ns), wait);
            }
        }
        match seen {
            Some(wait) if wait.is_own => self.seen.add((begin_ns, end_ns), wait),
            Some(wait) => {
                self.seen.add((begin_ns, end_ns), Arc::clone(&wait));
                out.push(WaitRecord::Past(PastWait {
                    tid,
                    begin_ns,
                    end_ns,
                    waited_ns: end_ns - begin_ns,
                    wait,
                    is_seen: true,
                }));
            }
            None => self.unnamed.push_back(blocked),
        }
    }

    /// What was seen between two times; looks before are forgotten.
    fn seen_in(&mut self, begin_ns: u64, end_ns: u64) -> Option<Arc<Wait>> {
        let mut seen = None;
        while let Some(look) = self.looks.pop_front_if(|look| time_of(look) <= end_ns) {
            let is_within = time_of(&look) >= begin_ns;
            match look {
                WaitRecord::Begin { wait, .. } => {
                    self.last = Some(Arc::clone(&wait));
                    seen = is_within.then_some(wait).or(seen);
                }
                WaitRecord::Continue { .. } if is_within => seen = seen.or(self.last.clone()),
                _ => {}
            }
        }
        seen
    }

    /// It is blocked since a time.
    fn go_on(&mut self, tid: u32, (since_ns, until_ns): (u64, u64), out: &mut Vec<WaitRecord>) {
        while let Some(look) = self.looks.pop_front_if(|look| time_of(look) <= until_ns) {
            let time_ns = time_of(&look);
            let is_within = time_ns >= since_ns;
            match look {
                WaitRecord::Begin { wait, used, .. } => {
                    self.last = Some(Arc::clone(&wait));
                    if is_within && self.shown.is_none() && !wait.is_own {
                        out.push(WaitRecord::Begin {
                            tid,
                            time_ns: since_ns,
                            seen_ns: time_ns,
                            used,
                            wait: Arc::clone(&wait),
                        });
                        out.push(WaitRecord::Continue { tid, time_ns, used });
                        self.shown = Some((wait, time_ns));
                    }
                }
                WaitRecord::Continue { .. } if is_within => {
                    if let Some((_, seen_ns)) = &mut self.shown {
                        *seen_ns = time_ns;
                        out.push(look);
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives waits that no look hit the names of others.
    fn name(
        &mut self,
        (until_ns, is_last): (u64, bool),
        shortest_ns: u64,
        out: &mut Vec<WaitRecord>,
    ) {
        let mut together: Option<PastWait> = None;
        let old_ns = until_ns.saturating_sub(NAMED_AFTER_NS);
        let is_old = |one: &OffTime| is_last || one.end_ns < old_ns;
        let old = self.unnamed.partition_point(is_old);
        let must = old.max(self.unnamed.len().saturating_sub(UNNAMED_MAX));
        // Those that were tried before find a name only when another wait was seen.
        let version = self.seen.version();
        let tried = match std::mem::replace(&mut self.tried.1, version) == version {
            true => self.tried.0,
            false => 0,
        };
        let mut all = std::mem::take(&mut self.unnamed);
        let new = all.split_off(tried.max(must).min(all.len()));
        let kept = all.split_off(must);
        self.unnamed = kept;
        let all = all.into_iter().map(|one| (one, true));
        for (blocked, must) in all.chain(new.into_iter().map(|one| (one, false))) {
            let length_ns = blocked.end_ns - blocked.begin_ns;
            let span = (blocked.begin_ns, blocked.end_ns);
            let Some(wait) = self.seen.like(span, must) else {
                self.unnamed.push_back(blocked);
                continue;
            };
            if wait.is_own {
                continue;
            }
            let past = PastWait {
                tid: blocked.tid,
                begin_ns: blocked.begin_ns,
                end_ns: blocked.end_ns,
                waited_ns: length_ns,
                wait,
                is_seen: false,
            };
            if length_ns >= shortest_ns {
                out.push(WaitRecord::Past(past));
                continue;
            }
            match &mut together {
                Some(before)
                    if Arc::ptr_eq(&before.wait, &past.wait)
                        && past.end_ns - before.begin_ns < TOGETHER_NS =>
                {
                    before.end_ns = past.end_ns;
                    before.waited_ns += past.waited_ns;
                }
                _ => out.extend(together.replace(past).map(WaitRecord::Past)),
            }
        }
        out.extend(together.map(WaitRecord::Past));
        self.tried.0 = self.unnamed.len();
    }
}

/// Whether it is not the profiler that waits.
fn is_of_program(look: &WaitRecord) -> bool {
    !matches!(look, WaitRecord::Begin { wait, .. } if wait.is_own)
}

/// When something was seen.
fn time_of(look: &WaitRecord) -> u64 {
    match look {
        WaitRecord::Begin { seen_ns, .. } => *seen_ns,
        WaitRecord::Continue { time_ns, .. } | WaitRecord::End { time_ns, .. } => *time_ns,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
