//! The records of context switches, put together by process.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::intervals::{Interval, Intervals};
use super::rings::{OfThreads, OffCpu, Rings, ThreadRings, lock, processors};
use crate::os;
use crate::procfs;
use crate::session::ProcessKey;

/// At most this many threads are remembered, including those that ended.
const THREADS_MAX: usize = 1 << 14;

/// Maximum of context switches per second and processor, over [`RATE_WINDOW`], of records that are taken by default: each costs about 1.3
/// microseconds, and this rate 2.6 % of the machine.
const SWITCHES_PER_SECOND_MAX: f64 = 20_000.0;
/// A thread's leaving a processor and its coming back.
const RECORDS_PER_SWITCH: f64 = 2.0;
const RATE_WINDOW: Duration = Duration::from_millis(250);

/// A time off the processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuInterval {
    /// The thread, as the process sees it.
    pub tid: u32,
    /// Its name.
    pub name: Arc<str>,
    /// CLOCK_BOOTTIME.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME.
    pub end_ns: u64,
    /// Whether it could have gone on.
    pub preempted: bool,
}

/// What was seen of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffCpuIntervals {
    /// Times that have ended, in order of their ends.
    pub ended: Vec<OffCpuInterval>,
    /// Threads that have begun to wait and still do, and since when: each wait once.
    pub begun: Vec<(u32, u64)>,
}

/// How many records come per second.
#[derive(Debug)]
struct Rate {
    most_per_second: f64,
    since_ns: u64,
    count: u64,
}

impl Rate {
    fn new(now_ns: u64, processors: usize) -> Self {
        Self {
            most_per_second: SWITCHES_PER_SECOND_MAX * RECORDS_PER_SWITCH * processors as f64,
            since_ns: now_ns,
            count: 0,
        }
    }

    /// Counts records that were read at `now_ns`.
    fn is_too_high(&mut self, now_ns: u64, records: usize) -> bool {
        self.count += records as u64;
        let past = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        let most = self.most_per_second * past.max(RATE_WINDOW).as_secs_f64();
        let is_too_high = self.count as f64 > most;
        if past >= RATE_WINDOW {
            (self.since_ns, self.count) = (now_ns, 0);
        }
        is_too_high
    }
}

/// Watches over all processes.
#[derive(Debug)]
pub struct Watch {
    /// None after the rate was too high.
    rings: Option<Rings>,
    lost: u64,
    intervals: Intervals,
    threads: HashMap<u32, (u32, Arc<str>)>,
    /// None where the user asked for the records, whatever they cost.
    rate: Option<Rate>,
    settled_ns: u64,
    fullest: f64,
    incomplete_ns: Option<u64>,
}

impl Watch {
    /// Opens the events on the calling thread: its children from now on inherit them. Where they are `wanted`, no rate is too high.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(wanted: bool) -> io::Result<Self> {
        Ok(Self::of(Rings::Processors(OffCpu::open(wanted)?), wanted))
    }

    /// Opens no event yet, but one for each thread that is found. Where they are `wanted`, no rate is too high.
    #[must_use]
    pub fn of_threads(wanted: bool) -> Self {
        Self::of(Rings::Threads(OfThreads::shared()), wanted)
    }

    fn of(rings: Rings, wanted: bool) -> Self {
        Self {
            rings: Some(rings),
            lost: 0,
            intervals: Intervals::default(),
            threads: HashMap::new(),
            rate: (!wanted).then(|| Rate::new(os::boot_time_ns(), processors())),
            settled_ns: 0,
            fullest: 0.0,
            incomplete_ns: None,
        }
    }

    /// The rings of single threads, where each needs one of its own.
    #[must_use]
    pub fn thread_rings(&self) -> Option<&ThreadRings> {
        match &self.rings {
            Some(Rings::Threads(rings)) => Some(rings),
            _ => None,
        }
    }

    /// What was seen since the last call of the processes that `key_of` knows, by their ids as we
    /// see them.
    pub fn collect(
        &mut self,
        key_of: impl Fn(u32) -> Option<ProcessKey>,
    ) -> HashMap<ProcessKey, OffCpuIntervals> {
        let mut seen: HashMap<ProcessKey, OffCpuIntervals> = HashMap::new();
        for (pid, interval) in self.read() {
            if let Some(key) = key_of(pid) {
                let interval = self.interval(pid, interval);
                seen.entry(key).or_default().ended.push(interval);
            }
        }
        for (pid, tid, begin_ns) in self.intervals.begun() {
            if let Some(key) = key_of(pid) {
                let (tid, _) = self.thread(pid, tid);
                seen.entry(key).or_default().begun.push((tid, begin_ns));
            }
        }
        seen
    }

    /// What was seen since the last call of process `pid`, which is over.
    pub fn end(&mut self, pid: u32) -> Vec<OffCpuInterval> {
        if let Some(rings) = self.thread_rings() {
            let last = lock(rings).end(pid);
            self.intervals.hold(last);
        }
        let ended = self.intervals.end(pid);
        let intervals = ended.into_iter().map(|one| self.interval(pid, one));
        intervals.collect()
    }

    /// Up to when all is known, of what was collected last: CLOCK_BOOTTIME.
    #[must_use]
    pub fn settled_ns(&self) -> u64 {
        self.settled_ns
    }

    /// How full the fullest ring was when it was emptied last: 0 to 1.
    #[must_use]
    pub fn fullest(&self) -> f64 {
        self.fullest
    }

    /// Whether no records are taken any more, because there were too many.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.rings.is_none()
    }

    /// Since when records are missing, because some were lost or none are taken any more: CLOCK_BOOTTIME.
    #[must_use]
    pub fn incomplete_ns(&self) -> Option<u64> {
        self.incomplete_ns
    }

    /// Records that the kernel had no room for, of all processes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Empties the rings; returns the times that have ended, with their processes.
    fn read(&mut self) -> Vec<(u32, Interval)> {
        let now_ns = os::boot_time_ns();
        let mut switches = Vec::new();
        let Some(rings) = &mut self.rings else {
            return Vec::new();
        };
        self.fullest = rings.drain(&mut switches);
        let rate = self.rate.as_mut();
        let is_too_much = rate.is_some_and(|rate| rate.is_too_high(now_ns, switches.len()));
        let ended = self.intervals.add(now_ns, &mut switches);
        self.settled_ns = Intervals::settled_ns(now_ns);
        if rings.lost() > self.lost {
            self.lost = rings.lost();
            self.intervals.forget();
            self.incomplete_ns.get_or_insert(now_ns);
        }
        if is_too_much || rings.is_incomplete() {
            self.incomplete_ns.get_or_insert(now_ns);
            // Closing them ends those of the target, too.
            self.rings = None;
            self.intervals.forget();
        }
        ended
    }

    fn interval(&mut self, pid: u32, interval: Interval) -> OffCpuInterval {
        let (tid, name) = self.thread(pid, interval.tid);
        OffCpuInterval {
            tid,
            name,
            begin_ns: interval.begin_ns,
            end_ns: interval.end_ns,
            preempted: interval.preempted,
        }
    }

    /// The id of a thread as its process sees it, and its name.
    fn thread(&mut self, pid: u32, tid: u32) -> (u32, Arc<str>) {
        if self.threads.len() > THREADS_MAX {
            self.threads.clear();
        }
        let (own, name) = self.threads.entry(tid).or_insert_with(|| {
            let path = format!("/proc/{pid}/task/{tid}/status");
            let status = procfs::text(path).unwrap_or_default();
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.map(str::trim).unwrap_or_default()
            };
            let inner = field("NSpid:").split_ascii_whitespace().last();
            let own = inner.and_then(|id| id.parse().ok()).unwrap_or(tid);
            (own, Arc::from(field("Name:")))
        });
        (*own, Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rate_is_judged_over_a_quarter_of_a_second() {
        // At most 40,000 records a second: 10,000 in a window.
        let rate = || Rate::new(0, 1);
        assert!(!rate().is_too_high(MS, 10_000), "a burst");
        assert!(rate().is_too_high(MS, 10_001), "what a window may hold");
        let mut steady = rate();
        for pass in 1..1000 {
            assert!(!steady.is_too_high(pass * 5 * MS, 199), "{pass}");
        }
        let mut busy = rate();
        let stopped = (1..1000).find(|pass| busy.is_too_high(pass * 5 * MS, 300));
        assert_eq!(stopped, Some(34), "before the first window ends");
    }
}
