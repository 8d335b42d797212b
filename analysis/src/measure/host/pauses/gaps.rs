//! The idle times of one GPU, and whose they are.

use super::calls::Wait;
use super::phases::{Phase, Phases};
use crate::model::Effect;

/// A call that returns within this time after the GPU ran dry has waited for that. Threads that have to wait for a processor return late.
const RETURN_NS: u64 = 20_000_000;
/// GPU and host may tell times that are so far apart.
const CLOCKS_NS: u64 = 5_000;

/// Whose idle time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A call that waits for work.
    Synchronisation,
    /// A copy that its call waits for.
    Copy,
    /// An asynchronous copy whose call waited.
    BlockedCopy,
    /// A call that makes memory or gives it back.
    Memory,
}

impl Owner {
    /// Its name in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Synchronisation => "synchronisation",
            Self::Copy => "blocking_copy",
            Self::BlockedCopy => "blocked_async_copy",
            Self::Memory => "memory_call",
        }
    }

    fn of(wait: &Wait) -> Self {
        match wait.does {
            Effect::Synchronises => Self::Synchronisation,
            Effect::Copies => Self::Copy,
            Effect::CopiesAside => Self::BlockedCopy,
            Effect::Memory | Effect::None | Effect::LaunchesGraph => Self::Memory,
        }
    }
}

/// Idle time that one owner has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owned {
    pub(super) idle_ns: u64,
    pub(super) count: u64,
    /// Length and begin of the longest.
    pub(super) longest: (u64, u64),
}

impl Owned {
    pub(super) fn add_one(&mut self, start_ns: u64, idle_ns: u64) {
        self.add(Self {
            idle_ns,
            count: 1,
            longest: (idle_ns, start_ns),
        });
    }

    pub(super) fn add(&mut self, other: Self) {
        self.idle_ns += other.idle_ns;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

/// All idle times of a GPU.
#[derive(Debug, Default)]
pub(super) struct Gaps<'w> {
    pub(super) idle_ns: u64,
    /// Neither a call's, nor in a phase.
    pub(super) other_ns: u64,
    pub(super) phases: Vec<Phase>,
    owned: Vec<(&'w Wait, Owner, Owned)>,
}

impl<'w> Gaps<'w> {
    /// From the times in which the GPU was busy, in order, and the calls of its process, by their ends.
    pub(super) fn of(busy: impl Iterator<Item = (u64, u64)>, waits: &'w [Wait]) -> Self {
        let mut gaps = Self::default();
        let mut phases = Phases::default();
        let mut rest = waits;
        let mut before: Option<(u64, u64)> = None;
        // How long the GPU has worked since it was emptied.
        let mut worked_ns = 0;
        for (start_ns, end_ns) in busy {
            if let Some(before) = before {
                let gap = (before.1, start_ns);
                while let Some((first, others)) = rest.split_first()
                    && first.end_ns + CLOCKS_NS <= gap.0
                {
                    rest = others;
                }
                let idle_ns = gap.1 - gap.0;
                let (left_ns, is_emptied) = gaps.divide(gap, rest, worked_ns);
                gaps.idle_ns += idle_ns;
                gaps.other_ns += phases.add(before, gap, left_ns);
                if is_emptied {
                    worked_ns = 0;
                }
            }
            worked_ns += end_ns - start_ns;
            before = Some((start_ns, end_ns));
        }
        let (found, left_ns) = phases.finish();
        gaps.phases = found;
        gaps.other_ns += left_ns;
        gaps
    }

    /// Gives calls what is theirs of an idle time. What is left, and whether a call had waited until the GPU was empty.
    fn divide(&mut self, gap: (u64, u64), waits: &'w [Wait], worked_ns: u64) -> (u64, bool) {
        let mut left_ns = gap.1 - gap.0;
        let mut emptied_by = None;
        let within = waits
            .iter()
            .take_while(|wait| wait.end_ns <= gap.1 + CLOCKS_NS);
        for wait in within {
            let has_waited = wait.start_ns < gap.0 && wait.end_ns <= gap.0 + RETURN_NS;
            if has_waited && emptied_by.is_none() {
                emptied_by = Some(wait);
            } else if wait.does == Effect::Memory {
                let (from_ns, to_ns) = (wait.start_ns.max(gap.0), wait.end_ns.min(gap.1));
                let owned_ns = to_ns.saturating_sub(from_ns).min(left_ns);
                left_ns -= owned_ns;
                self.own(wait, from_ns, owned_ns);
            }
        }
        if let Some(wait) = emptied_by {
            let owned_ns = left_ns.min(worked_ns);
            // Where most would be left without the wait, what the host did is the cause.
            if 2 * owned_ns >= left_ns {
                left_ns -= owned_ns;
                self.own(wait, gap.0, owned_ns);
            }
        }
        (left_ns, emptied_by.is_some())
    }

    fn own(&mut self, wait: &'w Wait, start_ns: u64, idle_ns: u64) {
        if idle_ns > 0 {
            let mut owned = Owned::default();
            owned.add_one(start_ns, idle_ns);
            self.owned.push((wait, Owner::of(wait), owned));
        }
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (&'w Wait, Owner, Owned)> {
        self.owned.iter().copied()
    }

    pub(super) fn phases_idle_ns(&self) -> u64 {
        self.phases.iter().map(|phase| phase.idle_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ProcessId, TextId, ThreadId};

    fn wait(does: Effect, start_ns: u64, end_ns: u64) -> Wait {
        Wait {
            does,
            process: ProcessId::default(),
            thread: ThreadId::default(),
            name: TextId::EMPTY,
            start_ns,
            end_ns,
            bytes: 0,
        }
    }

    #[test]
    fn a_wait_has_no_more_than_what_could_have_run_meanwhile() {
        const US: u64 = 1_000;
        // Busy for 600 µs, idle for 900 µs behind a synchronisation; busy for 500 µs, idle for 300 µs of which hipFree took 200; busy for 100 µs,
        // idle for 900 µs.
        let busy = [
            (0, 600 * US),
            (1_500 * US, 2_000 * US),
            (2_300 * US, 2_400 * US),
            (3_300 * US, 3_400 * US),
        ];
        let waits = [
            wait(Effect::Synchronises, 50 * US, 620 * US),
            wait(Effect::Synchronises, 1_600 * US, 2_010 * US),
            wait(Effect::Memory, 2_020 * US, 2_220 * US),
            wait(Effect::Synchronises, 2_310 * US, 2_410 * US),
        ];
        let gaps = Gaps::of(busy.into_iter(), &waits);
        let found: Vec<(Owner, u64)> = gaps
            .owned()
            .map(|(_, owner, owned)| (owner, owned.idle_ns))
            .collect();
        let expected = [
            (Owner::Synchronisation, 600 * US),
            (Owner::Memory, 200 * US),
            (Owner::Synchronisation, 100 * US),
        ];
        assert_eq!(found, expected);
        assert_eq!((gaps.idle_ns, gaps.other_ns), (2_100 * US, 1_200 * US));
    }

    #[test]
    fn a_call_that_returns_late_has_not_waited_for_the_gpu() {
        let busy = [(0, 1_000), (90_000_000, 90_001_000)];
        let waits = [wait(Effect::Synchronises, 500, 80_000_000)];
        let gaps = Gaps::of(busy.into_iter(), &waits);
        assert_eq!(gaps.owned().count(), 0);
        assert_eq!(gaps.other_ns, gaps.idle_ns);
    }
}
