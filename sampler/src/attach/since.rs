//! Since when a thread waits.
//!
//! The kernel tells nobody when a system call began. One that is interrupted, returns EINTR and has a time limit (epoll_wait(2)) can only be begun
//! anew with the time that it has left by somebody who has seen it begin. So such threads are watched until a wait begins: the kernel counts how
//! often a thread was put on a processor, and a number that has changed since the look before says that the wait is a new one. (A wait that is
//! woken and finds no event goes on, and is taken for a new one. It may then last longer than its limit, never shorter.)

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::os;
use crate::waits::thread::{Blocked, State, ThreadFiles};

/// A wait is known that began between two looks with no more time between them.
const EXACT_NS: u64 = 1_000_000;
/// Time between two looks. The kernel has no event for this.
const PAUSE: Duration = Duration::from_micros(200);
/// More threads are not watched at once: looks at them would be too far apart.
const WATCHED_MAX: usize = 4;

/// The last look at a thread.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Before what was seen: CLOCK_MONOTONIC.
    looked_ns: u64,
    /// How often it had been put on a processor; `None` while it ran.
    turns: Option<u64>,
    /// Not before the wait began, and hardly after.
    begun_ns: Option<u64>,
}

/// What is known of the waits of threads.
#[derive(Debug, Default)]
pub struct Since {
    threads: HashMap<u32, Seen>,
}

impl Since {
    /// When the wait began in which a thread is that has been put on a processor `turns` times: CLOCK_MONOTONIC, if that is known.
    #[must_use]
    pub fn begun_ns(&self, tid: u32, turns: u64) -> Option<u64> {
        let seen = self.threads.get(&tid)?;
        seen.begun_ns.filter(|_| seen.turns == Some(turns))
    }

    /// Watches the first few of these threads for a time.
    pub fn watch(&mut self, tasks: &File, tids: &[u32], time: Duration) {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            for tid in tids.iter().take(WATCHED_MAX) {
                self.look(tasks, *tid);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn look(&mut self, tasks: &File, tid: u32) {
        let before_ns = os::monotonic_ns();
        let Ok(files) = ThreadFiles::new(tasks.as_fd(), tid, false) else {
            return;
        };
        let is_blocked = matches!(
            files.state(tasks.as_fd()),
            Ok(State::Blocked(Blocked { call: Some(_), .. }))
        );
        let turns = files.turns(tasks.as_fd()).map_or(0, |turns| turns.count);
        let turns = Some(turns).filter(|turns| is_blocked && *turns > 0);
        self.saw(tid, turns, (before_ns, os::monotonic_ns()));
    }

    fn saw(&mut self, tid: u32, turns: Option<u64>, (before_ns, after_ns): (u64, u64)) {
        let last = self.threads.get(&tid).copied();
        let is_new = |last: &Seen| last.turns != turns;
        let begun_ns = match last {
            _ if turns.is_none() => None,
            Some(last) if is_new(&last) => {
                let is_exact = after_ns.saturating_sub(last.looked_ns) <= EXACT_NS;
                is_exact.then_some(after_ns)
            }
            Some(last) => last.begun_ns,
            None => None,
        };
        let seen = Seen {
            looked_ns: before_ns,
            turns,
            begun_ns,
        };
        self.threads.insert(tid, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_known_that_was_seen_to_begin() {
        let us = |us: u64| (1000 * us, 1000 * us + 20_000);
        let mut since = Since::default();
        since.saw(7, Some(3), us(0));
        assert_eq!(since.begun_ns(7, 3), None, "nobody saw it begin");
        since.saw(7, Some(4), us(300));
        assert_eq!(since.begun_ns(7, 4), Some(320_000));
        since.saw(7, Some(4), us(9000));
        assert_eq!(since.begun_ns(7, 4), Some(320_000), "it goes on");
        assert_eq!(since.begun_ns(7, 5), None, "that is another one");
        since.saw(7, Some(5), us(11_000));
        assert_eq!(since.begun_ns(7, 5), None, "looks were too far apart");
        since.saw(7, None, us(11_500));
        since.saw(7, Some(5), us(11_900));
        assert_eq!(since.begun_ns(7, 5), Some(11_920_000), "it ran in between");
    }
}
