//! Threads that no agent saw start: raw `clone`, or older than the agent.
//!
//! The kernel lists all threads of a process. One that runs and has no ring is asked to sample
//! itself: a signal that the agent handles is queued to it, with a value that tells it from the
//! signals of timers.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rsys_wire::adopt::{ADOPT_COOKIE, SAMPLE_SIGNAL};

use crate::os;
use crate::procfs;
use crate::session::MappedSegment;

/// How often a process's threads are listed.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A thread is asked this many times; one that does not answer may block all signals.
const REQUESTS_MAX: u32 = 3;

/// What we know of the threads of a process.
#[derive(Debug, Default)]
pub struct Adoption {
    with_ring: HashSet<u32>,
    /// CPU time in ticks at the last look, and how often the thread was asked.
    others: HashMap<u32, (u64, u32)>,
    last_look: Option<Instant>,
}

impl Adoption {
    /// A thread got a ring.
    pub fn started(&mut self, tid: u32) {
        self.with_ring.insert(tid);
    }

    /// A thread gave its ring back, or another takes its ring.
    pub fn ended(&mut self, tid: u32) {
        self.with_ring.remove(&tid);
    }

    /// Whether the threads should be listed again.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.last_look
            .is_none_or(|look| look.elapsed() >= LOOK_EVERY)
    }

    /// Lists the threads of `pid`, and has `ask` ask those that work unseen.
    pub fn look(&mut self, pid: u32, mut ask: impl FnMut(u32)) {
        let is_first = self.last_look.replace(Instant::now()).is_none();
        // Most processes have one thread, which has a ring or is about to get it: to count costs a tenth of listing. Nobody says when a thread that
        // no agent saw start ends, so that more cannot be told from counts.
        let is_known = is_first || self.with_ring.contains(&pid);
        if is_known && procfs::thread_count(pid) == Some(1) {
            self.others.clear();
            return;
        }
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        if !procfs::catches_samples(pid) {
            // Without the agent's handler the signal would kill the process: it is executing a
            // program.
            return;
        }
        let tids: HashSet<u32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|tid| !self.with_ring.contains(tid))
            .collect();
        self.others.retain(|tid, _| tids.contains(tid));
        for tid in tids {
            let Some((state, ticks)) = procfs::state_and_ticks(&format!("{pid}/task/{tid}")) else {
                continue;
            };
            let (before, mut requests) = self.others.get(&tid).copied().unwrap_or_default();
            if state == 'R' && ticks > before && requests < REQUESTS_MAX {
                ask(tid);
                requests += 1;
            }
            self.others.insert(tid, (ticks, requests));
        }
    }
}

/// Asks a thread of `pid` to sample itself, if it still runs the program whose agent mapped `segment`.
pub fn ask(pid: u32, tid: u32, segment: &MappedSegment) {
    segment.while_not_executing(|| {
        // Both are asked: a program without an agent may have a handler of its own for this
        // signal, as Go's have. It may be gone, or belong to somebody else by now.
        if procfs::maps_memory(pid, segment.inode()) && procfs::catches_samples(pid) {
            os::queue_signal(pid, tid, SAMPLE_SIGNAL, ADOPT_COOKIE.cast_signed()).ok();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_threads_are_listed() {
        let mut adoption = Adoption::default();
        assert!(adoption.is_due());
        for entry in std::fs::read_dir("/proc/self/task").unwrap() {
            adoption.started(
                entry
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .parse()
                    .unwrap(),
            );
        }
        adoption.look(std::process::id(), |tid| unreachable!("{tid} has a ring"));
        assert!(!adoption.is_due());
        assert!(adoption.others.is_empty());
    }
}
