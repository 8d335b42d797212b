//! What is counted of a process, and how it ended.

use rsys_wire::layout::Counter;
use rsys_wire::ring::{DROP_CAUSES, DROP_NAMES};

use crate::launch::exit::Ending;

/// What was seen in the records of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Samples in the trace.
    pub samples: u64,
    /// Periods of CPU time that they stand for.
    pub weight: u64,
    /// Slices on the tracks of threads.
    pub slices: u64,
    /// Threads that got a ring.
    pub threads: u64,
    /// Stacks that were deeper than the limit.
    pub truncated_stacks: u64,
    /// Stacks that could not be walked to their root.
    pub broken_stacks: u64,
    /// Frames found by scanning.
    pub scanned_frames: u64,
    /// Samples that perf took.
    pub perf_samples: u64,
    /// Samples outside of the time that the user asked for.
    pub outside_window: u64,
    /// Records that made no sense.
    pub corrupt: u64,
    /// Samples that could not be written to the file.
    pub unwritten: u64,
    /// CPU time of threads that ended.
    pub ended_cpu_ns: u64,
    /// Periods that the samples of those threads stand for.
    pub ended_weight: u64,
    /// What was seen of blocked threads.
    pub waits: WaitTally,
}

/// What was seen of the blocked threads of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitTally {
    /// Waits that were seen.
    pub waits: u64,
    /// Those whose stacks were walked to their root.
    pub complete: u64,
    /// Those whose stacks were deeper than the limit.
    pub truncated: u64,
    /// Those whose stacks could not be walked to their root.
    pub broken: u64,
    /// Those with frames that were found by scanning.
    pub scanned: u64,
    /// And such frames.
    pub scanned_frames: u64,
    /// Looks during which the thread woke up, so that nothing can be said of them.
    pub raced: u64,
    /// Threads that we may not look at.
    pub unreadable_threads: u64,
    /// Samples in the trace.
    pub samples: u64,
    /// Wall time that they stand for.
    pub wall_ns: u64,
    /// Slices on the tracks of waits.
    pub slices: u64,
}

impl Tally {
    /// How much of the CPU time of ended threads their samples stand for, in percent.
    #[must_use]
    pub fn coverage_percent(&self, period_ns: u64) -> Option<f64> {
        let seen = self.ended_weight as f64 * period_ns as f64;
        (self.ended_cpu_ns > 0).then(|| 100.0 * seen / self.ended_cpu_ns as f64)
    }
}

/// What the agent counted, read from shared memory at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCounts {
    /// Records dropped, by cause.
    pub dropped_by_cause: [u64; DROP_CAUSES],
    /// Periods that dropped samples stood for.
    pub dropped_weight: u64,
    /// The process-wide counters, in the order of [`COUNTER_NAMES`].
    pub counters: [u64; COUNTER_NAMES.len()],
}

/// The process-wide counters and their names in the trace.
pub const COUNTER_NAMES: [(Counter, &str); 10] = [
    (Counter::ThreadsSampled, "threads_sampled"),
    (Counter::ThreadsWithoutRing, "threads_without_ring"),
    (Counter::ThreadsWithoutTimer, "threads_without_timer"),
    (Counter::ThreadsAdopted, "threads_adopted"),
    (Counter::MendedFaults, "mended_faults"),
    (Counter::ThreadsWithoutPerf, "threads_without_perf"),
    (Counter::LastError, "last_errno"),
    (Counter::Seccomp, "seccomp"),
    (Counter::Dormant, "dormant"),
    (Counter::Unattributed, "unattributed"),
];

impl AgentCounts {
    /// All records that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_by_cause
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The causes that occurred, with their counts.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DROP_NAMES
            .iter()
            .copied()
            .chain(std::iter::repeat("other"))
            .zip(self.dropped_by_cause)
            .filter(|(_, count)| *count > 0)
    }
}

/// How a program ended, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its process ended, and how is known to its parent alone.
    Process,
    /// It was our child.
    Child(Ending),
    /// Its process went on with another program.
    Replaced,
    /// It still runs; its trace ends before it.
    StillRunning,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Process => write!(f, "ended"),
            End::Child(ending) => write!(f, "{ending}"),
            End::Replaced => write!(f, "replaced by exec"),
            End::StillRunning => write!(f, "still running"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_compares_with_the_time_of_ended_threads() {
        let mut tally = Tally::default();
        assert_eq!(tally.coverage_percent(100), None);
        tally.ended_cpu_ns = 1000;
        tally.ended_weight = 9;
        assert_eq!(tally.coverage_percent(100), Some(90.0));
    }

    #[test]
    fn causes_have_names() {
        let mut counts = AgentCounts::default();
        counts.dropped_by_cause[0] = 2;
        counts.dropped_by_cause[7] = 1;
        assert_eq!(
            counts.causes().collect::<Vec<_>>(),
            [("ring full", 2), ("other", 1)]
        );
        assert_eq!(counts.dropped(), 3);
    }
}
