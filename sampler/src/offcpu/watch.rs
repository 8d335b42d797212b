//! The records of context switches, put together by process.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::intervals::Intervals;
use super::rings::OffCpu;
use crate::os;
use crate::session::ProcessKey;

/// At most this many threads are remembered, including those that ended.
const THREADS_MAX: usize = 1 << 14;

/// A time off the processor that is to be drawn.
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
    /// Those that are long enough, in order of their ends.
    pub drawn: Vec<OffCpuInterval>,
    /// Number of all.
    pub count: u64,
    /// Length of all.
    pub total_ns: u64,
}

/// Watches over all processes.
#[derive(Debug)]
pub struct Watch {
    rings: OffCpu,
    intervals: Intervals,
    shortest_ns: u64,
    threads: HashMap<u32, (u32, Arc<str>)>,
}

impl Watch {
    /// Opens the events on the calling thread: its children from now on inherit them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(shortest: Duration) -> io::Result<Self> {
        Ok(Self {
            rings: OffCpu::open()?,
            intervals: Intervals::default(),
            shortest_ns: u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX),
            threads: HashMap::new(),
        })
    }

    /// What was seen since the last call of the processes that `key_of` knows, by their ids as we
    /// see them.
    pub fn collect(
        &mut self,
        key_of: impl Fn(u32) -> Option<ProcessKey>,
    ) -> HashMap<ProcessKey, OffCpuIntervals> {
        let now_ns = os::boot_time_ns();
        let mut switches = Vec::new();
        self.rings.drain(&mut switches);
        let mut seen: HashMap<ProcessKey, OffCpuIntervals> = HashMap::new();
        for (pid, interval) in self.intervals.add(now_ns, &mut switches) {
            let Some(key) = key_of(pid) else { continue };
            let intervals = seen.entry(key).or_default();
            let length_ns = interval.end_ns.saturating_sub(interval.begin_ns);
            intervals.count += 1;
            intervals.total_ns += length_ns;
            if length_ns < self.shortest_ns {
                continue;
            }
            let (tid, name) = self.thread(pid, interval.tid);
            intervals.drawn.push(OffCpuInterval {
                tid,
                name,
                begin_ns: interval.begin_ns,
                end_ns: interval.end_ns,
                preempted: interval.preempted,
            });
        }
        seen
    }

    /// Records that the kernel had no room for, of all processes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.lost()
    }

    /// The id of a thread as its process sees it, and its name.
    fn thread(&mut self, pid: u32, tid: u32) -> (u32, Arc<str>) {
        if self.threads.len() > THREADS_MAX {
            self.threads.clear();
        }
        let (own, name) = self.threads.entry(tid).or_insert_with(|| {
            let path = format!("/proc/{pid}/task/{tid}/status");
            let status = std::fs::read_to_string(path).unwrap_or_default();
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
