//! Context switches become times off the processor.

use std::collections::HashMap;

use super::rings::{Change, Switch};

/// Records of this age are in their rings, whichever processor wrote them.
const SETTLED_NS: u64 = 1_000_000;

/// A time in which a thread was off the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The thread, as we see it.
    pub tid: u32,
    /// When it left the processor: CLOCK_BOOTTIME.
    pub begin_ns: u64,
    /// When it came back.
    pub end_ns: u64,
    /// Whether it could have gone on.
    pub preempted: bool,
}

/// The threads that are off the processor.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Records that may not be in order with those of other processors yet.
    waiting: Vec<Switch>,
    off: HashMap<u32, (u64, bool)>,
}

impl Intervals {
    /// Takes in records that were read at `now_ns`, and says which times have ended, with their
    /// processes.
    pub fn add(&mut self, now_ns: u64, switches: &mut Vec<Switch>) -> Vec<(u32, Interval)> {
        self.waiting.append(switches);
        self.waiting.sort_by_key(|switch| switch.time_ns);
        let settled_ns = now_ns.saturating_sub(SETTLED_NS);
        let settled = self
            .waiting
            .partition_point(|switch| switch.time_ns <= settled_ns);
        let mut ended = Vec::new();
        for switch in self.waiting.drain(..settled) {
            let Switch {
                pid, tid, time_ns, ..
            } = switch;
            match switch.change {
                Change::Blocked => _ = self.off.insert(tid, (time_ns, false)),
                Change::Preempted => _ = self.off.insert(tid, (time_ns, true)),
                Change::On => {
                    // Of the first one, only the end is known.
                    if let Some((begin_ns, preempted)) = self.off.remove(&tid) {
                        let interval = Interval {
                            tid,
                            begin_ns,
                            end_ns: time_ns,
                            preempted,
                        };
                        ended.push((pid, interval));
                    }
                }
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_one_after_the_other() {
        let switch = |tid, time_ns, change| Switch {
            pid: 7,
            tid,
            time_ns,
            change,
        };
        let mut intervals = Intervals::default();
        let now = 10 * SETTLED_NS;
        // The thread came back on a processor whose ring was read before the one on which it left.
        let mut first = vec![
            switch(8, 2, Change::On),
            switch(9, now - 5, Change::On),
            switch(8, 5, Change::Preempted),
            switch(8, 9, Change::On),
        ];
        let interval = |tid, begin_ns, end_ns, preempted| Interval {
            tid,
            begin_ns,
            end_ns,
            preempted,
        };
        assert_eq!(
            intervals.add(now, &mut first),
            [(7, interval(8, 5, 9, true))]
        );
        let mut second = vec![switch(9, now - 50, Change::Blocked)];
        assert_eq!(
            intervals.add(2 * now, &mut second),
            [(7, interval(9, now - 50, now - 5, false))]
        );
    }
}
