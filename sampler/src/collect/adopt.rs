//! Threads that no agent saw start: raw `clone`, or older than the agent.
//!
//! The kernel lists all threads of a process. One that runs and has no ring is asked to sample itself: a signal that the agent
//! handles is queued to it, with a value that tells it from the signals of timers.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rsys_wire::adopt::{ADOPT_COOKIE, SAMPLE_SIGNAL};

use crate::os;

/// How often a process's threads are listed.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A thread is asked so often; then it does not want to, for instance because it blocks all signals.
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

    /// Lists the threads of `pid` and asks those that work unseen.
    pub fn look(&mut self, pid: u32) {
        self.last_look = Some(Instant::now());
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        if !catches_sample_signal(pid) {
            // Without the agent's handler the signal would kill the process: it is executing a program, or runs one that has no agent.
            return;
        }
        let tids: HashSet<u32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|tid| !self.with_ring.contains(tid))
            .collect();
        self.others.retain(|tid, _| tids.contains(tid));
        for tid in tids {
            let Some((state, ticks)) =
                std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"))
                    .ok()
                    .as_deref()
                    .and_then(state_and_ticks)
            else {
                continue;
            };
            let (before, mut requests) = self.others.get(&tid).copied().unwrap_or_default();
            if state == 'R'
                && ticks > before
                && requests < REQUESTS_MAX
                && catches_sample_signal(pid)
            {
                // It may be gone, or belong to somebody else by now.
                os::queue_signal(pid, tid, SAMPLE_SIGNAL, ADOPT_COOKIE.cast_signed()).ok();
                requests += 1;
            }
            self.others.insert(tid, (ticks, requests));
        }
    }
}

/// Whether the process has a handler for the signal of the samples.
fn catches_sample_signal(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|status| caught_signals(&status))
        .is_some_and(|caught| caught & 1 << (SAMPLE_SIGNAL - 1) != 0)
}

/// The set of signals with handlers, from a `status` file.
fn caught_signals(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// State and CPU time, from a thread's `stat` line. Its name is in parentheses and may hold anything.
fn state_and_ticks(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    // utime and stime are fields 14 and 15 of the line, counted from 1; the state is field 3.
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((state, user.saturating_add(system)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_is() {
        let line = "77 (a) R (b) S 1 77 77 0 -1 4194304 100 0 0 0 12 5 0 0 20 0 1 0 100 1000 10";
        for (stat, expected) in [
            (line, Some(('S', 17))),
            ("77 (x) R 1 2 3", None),
            ("", None),
            ("77", None),
        ] {
            assert_eq!(state_and_ticks(stat), expected, "{stat}");
        }
    }

    #[test]
    fn handlers_are_seen() {
        assert_eq!(
            caught_signals("Name:\tx\nSigIgn:\t0\nSigCgt:\t0000000000008001\n"),
            Some(0x8001)
        );
        assert_eq!(caught_signals(""), None);
        assert!(!catches_sample_signal(std::process::id()));
    }

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
        adoption.look(std::process::id());
        assert!(!adoption.is_due());
        assert!(adoption.others.is_empty());
    }
}
