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

/// A thread that is off the processor.
#[derive(Debug, Clone, Copy)]
struct Off {
    pid: u32,
    begin_ns: u64,
    preempted: bool,
    /// Whether [`Intervals::begun`] has returned it.
    is_told: bool,
}

/// The threads that are off the processor.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Records that may not be in order with those of other processors yet.
    waiting: Vec<Switch>,
    off: HashMap<u32, Off>,
}

impl Intervals {
    /// Takes in records that were read at `now_ns`, and says which times have ended, with their
    /// processes.
    pub fn add(&mut self, now_ns: u64, switches: &mut Vec<Switch>) -> Vec<(u32, Interval)> {
        self.waiting.append(switches);
        self.waiting.sort_by_key(|switch| switch.time_ns);
        let settled_ns = Self::settled_ns(now_ns);
        let settled = self
            .waiting
            .partition_point(|switch| switch.time_ns <= settled_ns);
        let settled: Vec<Switch> = self.waiting.drain(..settled).collect();
        settled
            .into_iter()
            .filter_map(|switch| self.follow(switch))
            .collect()
    }

    /// Keeps records until they are asked for.
    pub fn hold(&mut self, mut switches: Vec<Switch>) {
        self.waiting.append(&mut switches);
        self.waiting.sort_by_key(|switch| switch.time_ns);
    }

    /// Up to when [`Intervals::add`] knows everything of what was read at `now_ns`.
    pub fn settled_ns(now_ns: u64) -> u64 {
        now_ns.saturating_sub(SETTLED_NS)
    }

    /// The times of a process that is over, of which nothing more will come.
    pub fn end(&mut self, pid: u32) -> Vec<Interval> {
        let own = self.waiting.extract_if(.., |switch| switch.pid == pid);
        let own: Vec<Switch> = own.collect();
        let ended = own.into_iter().filter_map(|switch| self.follow(switch));
        let ended = ended.map(|(_, interval)| interval).collect();
        self.off.retain(|_, off| off.pid != pid);
        ended
    }

    /// Threads that have begun to wait and still do, with their processes and since when; each wait once.
    pub fn begun(&mut self) -> Vec<(u32, u32, u64)> {
        let off = self.off.iter_mut();
        off.filter(|(_, off)| !off.preempted && !off.is_told)
            .map(|(tid, off)| {
                off.is_told = true;
                (off.pid, *tid, off.begin_ns)
            })
            .collect()
    }

    /// Records were lost: where threads are is not known any more.
    pub fn forget(&mut self) {
        self.off.clear();
    }

    fn follow(&mut self, switch: Switch) -> Option<(u32, Interval)> {
        let Switch {
            pid, tid, time_ns, ..
        } = switch;
        if switch.change != Change::On {
            let off = Off {
                pid,
                begin_ns: time_ns,
                preempted: switch.change == Change::Preempted,
                is_told: false,
            };
            self.off.insert(tid, off);
            return None;
        }
        // Of the first one, only the end is known.
        let off = self.off.remove(&tid)?;
        let interval = Interval {
            tid,
            begin_ns: off.begin_ns,
            end_ns: time_ns,
            preempted: off.preempted,
        };
        Some((pid, interval))
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

    #[test]
    fn a_wait_that_goes_on_is_told_once_and_ends_with_its_process() {
        let switch = |pid, tid, time_ns, change| Switch {
            pid,
            tid,
            time_ns,
            change,
        };
        let mut intervals = Intervals::default();
        let mut switches = vec![
            switch(7, 8, 2, Change::Blocked),
            switch(7, 9, 3, Change::Preempted),
            switch(6, 5, 4, Change::Blocked),
        ];
        let now = 10 * SETTLED_NS;
        assert!(intervals.add(now, &mut switches).is_empty());
        let mut begun = intervals.begun();
        begun.sort_unstable();
        assert_eq!(begun, [(6, 5, 4), (7, 8, 2)]);
        assert!(intervals.begun().is_empty());
        // Too new to be settled, but of a process that is over.
        let mut switches = vec![switch(7, 8, now, Change::On), switch(6, 5, now, Change::On)];
        assert!(intervals.add(now, &mut switches).is_empty());
        let end = Interval {
            tid: 8,
            begin_ns: 2,
            end_ns: now,
            preempted: false,
        };
        assert_eq!(intervals.end(7), [end]);
        assert_eq!(intervals.end(7), []);
        assert_eq!(intervals.end(6).len(), 1);
    }
}
