//! The idle times of one GPU, and whose they are.

use super::calls::Wait;
use super::phases::{Phase, Phases};
use crate::measure::idle_cause::IdleCause;
use rsys_traces::model::Effect;

/// A call that returns within this time after the GPU ran dry has waited for that. Threads that have to wait for a processor return late.
const RETURN_NS: u64 = 20_000_000;
/// GPU and host may tell times that are so far apart.
const CLOCKS_NS: u64 = 5_000;

/// Idle time that one call has caused.
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

/// A time in which a GPU was busy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    /// Begin and end.
    pub(super) time_ns: (u64, u64),
    /// Whether it goes on with the graph of the time before.
    pub(super) goes_on_with_graph: bool,
}

/// What has happened since a GPU was emptied.
#[derive(Debug, Clone, Copy)]
struct Emptied<'w> {
    at_ns: u64,
    /// How long it has worked.
    worked_ns: u64,
    /// The calls that have ended since then, and those that follow.
    waits: &'w [Wait],
}

impl Emptied<'_> {
    /// How long a thread was blocked until a time, in such calls up to one of them. It could have been ahead by no more.
    fn blocked_ns(&self, last: &Wait, until_ns: u64) -> u64 {
        let behind = self.waits.partition_point(|one| one.end_ns <= last.end_ns);
        let own = self.waits[..behind].iter().rev();
        let own = own.filter(|one| one.thread == last.thread);
        let (mut blocked_ns, mut from_ns) = (0, until_ns);
        // Calls may lie within others.
        for one in own {
            let start_ns = one.start_ns.max(self.at_ns);
            blocked_ns += one.end_ns.min(from_ns).saturating_sub(start_ns);
            from_ns = from_ns.min(start_ns);
        }
        blocked_ns
    }
}

/// All idle times of a GPU.
#[derive(Debug, Default)]
pub(super) struct GpuPauses<'w> {
    pub(super) idle_ns: u64,
    /// Neither a call's, nor in a phase.
    pub(super) other_ns: u64,
    pub(super) phases: Vec<Phase>,
    owned: Vec<(&'w Wait, IdleCause, Owned)>,
}

impl<'w> GpuPauses<'w> {
    /// From the times in which the GPU was busy, in order, and the calls of its process, by their ends.
    pub(super) fn of(busy: impl Iterator<Item = Busy>, waits: &'w [Wait]) -> Self {
        let mut gaps = Self::default();
        let mut phases = Phases::default();
        let mut rest = waits;
        let mut before: Option<(u64, u64)> = None;
        let mut emptied = Emptied {
            at_ns: 0,
            worked_ns: 0,
            waits,
        };
        for next in busy {
            let (start_ns, end_ns) = next.time_ns;
            if let Some(before) = before {
                let gap = (before.1, start_ns);
                while let Some((first, others)) = rest.split_first()
                    && first.end_ns + CLOCKS_NS <= gap.0
                {
                    rest = others;
                }
                gaps.idle_ns += gap.1 - gap.0;
                // What is between the kernels of a graph no call of the host has to do with.
                let left_ns = match next.goes_on_with_graph {
                    true => 0,
                    false => gaps.divide(gap, rest, &mut emptied),
                };
                gaps.other_ns += phases.add(before, gap, left_ns);
            }
            emptied.worked_ns += end_ns - start_ns;
            before = Some((start_ns, end_ns));
        }
        let (found, left_ns) = phases.finish();
        gaps.phases = found;
        gaps.other_ns += left_ns;
        gaps
    }

    /// Gives calls what is theirs of an idle time, and returns what is left.
    fn divide(&mut self, gap: (u64, u64), waits: &'w [Wait], emptied: &mut Emptied<'w>) -> u64 {
        let mut left_ns = gap.1 - gap.0;
        let mut emptied_by = None;
        let within = waits
            .iter()
            .take_while(|wait| wait.end_ns <= gap.1 + CLOCKS_NS);
        for wait in within {
            let has_waited = wait.start_ns < gap.0 && wait.end_ns <= gap.0 + RETURN_NS;
            if has_waited && emptied_by.is_none() {
                emptied_by = Some((wait, wait));
            } else if let Some((inner, outer)) = &mut emptied_by
                && has_waited
                && wait.does != Effect::Memory
                && wait.thread == inner.thread
                && wait.start_ns <= inner.start_ns
            {
                *outer = wait;
            } else if wait.does == Effect::Memory {
                let (from_ns, to_ns) = (wait.start_ns.max(gap.0), wait.end_ns.min(gap.1));
                let owned_ns = to_ns.saturating_sub(from_ns).min(left_ns);
                left_ns -= owned_ns;
                self.own(wait, from_ns, owned_ns);
            }
        }
        if let Some((wait, outer)) = emptied_by {
            // Until the call returns the host can do nothing else.
            let mut owned_ns = (outer.end_ns.clamp(gap.0, gap.1) - gap.0).min(left_ns);
            left_ns -= owned_ns;
            let could_run_ns = emptied.worked_ns.min(emptied.blocked_ns(outer, gap.0));
            let ahead_ns = left_ns.min(could_run_ns);
            // Where most would be left without the wait, what the host did is the cause.
            if 2 * ahead_ns >= left_ns {
                left_ns -= ahead_ns;
                owned_ns += ahead_ns;
            }
            self.own(wait, gap.0, owned_ns);
            *emptied = Emptied {
                at_ns: gap.0,
                worked_ns: 0,
                waits,
            };
        }
        left_ns
    }

    fn own(&mut self, wait: &'w Wait, start_ns: u64, idle_ns: u64) {
        if idle_ns > 0 {
            let mut owned = Owned::default();
            owned.add_one(start_ns, idle_ns);
            self.owned.push((wait, wait.cause(), owned));
        }
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (&'w Wait, IdleCause, Owned)> {
        self.owned.iter().copied()
    }

    pub(super) fn phases_idle_ns(&self) -> u64 {
        self.phases.iter().map(|phase| phase.idle_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_traces::model::{ProcessId, TextId, ThreadId};

    fn wait(does: Effect, start_ns: u64, end_ns: u64) -> Wait {
        Wait {
            does,
            process: ProcessId::default(),
            thread: ThreadId::default(),
            name: TextId::EMPTY,
            start_ns,
            end_ns,
            bytes: 0,
            copied: None,
        }
    }

    fn busy(times_ns: &[(u64, u64)]) -> impl Iterator<Item = Busy> {
        times_ns.iter().map(|&time_ns| Busy {
            time_ns,
            goes_on_with_graph: false,
        })
    }

    fn owned(gaps: &GpuPauses<'_>) -> Vec<(IdleCause, u64)> {
        let owned = gaps.owned();
        owned
            .map(|(_, owner, owned)| (owner, owned.idle_ns))
            .collect()
    }

    #[test]
    fn a_wait_has_no_more_than_what_could_have_run_meanwhile() {
        const US: u64 = 1_000;
        // Busy for 600 µs, idle for 900 µs behind a synchronisation; busy for 500 µs, idle for 300 µs of which hipFree took 200; busy for 100 µs,
        // idle for 900 µs.
        let times = [
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
        let gaps = GpuPauses::of(busy(&times), &waits);
        // Blocked for 570 µs of the first; of the last the host has the most, and the call its return.
        let expected = [
            (IdleCause::Synchronisation, 570 * US),
            (IdleCause::MemoryCall, 200 * US),
            (IdleCause::Synchronisation, 100 * US),
            (IdleCause::Synchronisation, 10 * US),
        ];
        assert_eq!(owned(&gaps), expected);
        assert_eq!((gaps.idle_ns, gaps.other_ns), (2_100 * US, 1_220 * US));
    }

    #[test]
    fn a_wait_has_no_more_than_it_held_the_host() {
        const US: u64 = 1_000;
        let times = [(0, 5_000 * US), (10_000 * US, 15_000 * US)];
        let of = |waits: &[Wait]| owned(&GpuPauses::of(busy(&times), waits));
        // The host comes when the GPU is all but done.
        let late = wait(Effect::Synchronises, 4_990 * US, 5_010 * US);
        assert_eq!(of(&[late]), [(IdleCause::Synchronisation, 10 * US)]);
        // It waits in turns, the last call within another one.
        let turns = [
            wait(Effect::Copies, 1_000 * US, 2_000 * US),
            wait(Effect::Synchronises, 2_500 * US, 4_500 * US),
            wait(Effect::Synchronises, 4_600 * US, 5_000 * US),
            wait(Effect::Synchronises, 4_550 * US, 5_010 * US),
        ];
        assert_eq!(of(&turns), [(IdleCause::Synchronisation, 3_460 * US)]);
        // A release that lasts for long past the end of the work has that time.
        let long = wait(Effect::Memory, 4_990 * US, 8_000 * US);
        assert_eq!(of(&[long]), [(IdleCause::MemoryCall, 3_000 * US)]);
    }

    #[test]
    fn pauses_within_a_graph_are_nobodys() {
        let times = (0..100_u64).map(|number| Busy {
            time_ns: (number * 12_000, number * 12_000 + 4_000),
            goes_on_with_graph: number > 0,
        });
        let gaps = GpuPauses::of(times, &[]);
        assert_eq!((gaps.idle_ns, gaps.other_ns), (99 * 8_000, 0));
        assert!(gaps.phases.is_empty());
    }

    #[test]
    fn a_call_that_returns_late_has_not_waited_for_the_gpu() {
        let times = [(0, 1_000), (90_000_000, 90_001_000)];
        let waits = [wait(Effect::Synchronises, 500, 80_000_000)];
        let gaps = GpuPauses::of(busy(&times), &waits);
        assert_eq!(gaps.owned().count(), 0);
        assert_eq!(gaps.other_ns, gaps.idle_ns);
    }
}
