//! What is counted of a process, and how it ended.

use std::cmp::Reverse;
use std::collections::HashMap;

use rsys_wire::layout::Counter;
use rsys_wire::record::{PYTHON_BROKEN, PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED};
use rsys_wire::ring::{DROP_CAUSES, DROP_NAMES};

use super::events::EventTally;
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
    /// Stacks in which a frame was found by searching the stack.
    pub scanned_stacks: u64,
    /// Such frames.
    pub scanned_frames: u64,
    /// Samples that perf took.
    pub perf_samples: u64,
    /// Samples outside of the time that the user asked for.
    pub outside_window: u64,
    /// Samples of threads that the user did not ask for.
    pub other_threads: u64,
    /// Records that made no sense.
    pub corrupt: u64,
    /// Samples that could not be written to the file.
    pub unwritten: u64,
    /// Values of counters in the trace.
    pub counter_values: u64,
    /// Readings of threads' events during which these took turns on the processor's counters.
    pub scaled_counters: u64,
    /// What was seen of context switches.
    pub off_cpu: OffCpuTally,
    /// CPU time of threads that ended.
    pub ended_cpu_ns: u64,
    /// Periods that the samples of those threads stand for.
    pub ended_weight: u64,
    /// Python stacks.
    pub python: PythonTally,
    /// What was seen of blocked threads.
    pub waits: WaitTally,
    /// Calls, marks and GPU operations.
    pub events: EventTally,
}

/// What was seen of context switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffCpuTally {
    /// Times off the processor.
    pub intervals: u64,
    /// Their length together.
    pub wall_ns: u64,
    /// Those that are drawn.
    pub slices: u64,
}

/// What was seen of Python stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonTally {
    /// Samples with Python frames.
    pub samples: u64,
    /// Of these, those that were deeper than the limit.
    pub truncated: u64,
    /// Of these, those that could not be read to the end.
    pub broken: u64,
    /// Of these, those in another interpreter than the main one.
    pub subinterpreter: u64,
    /// Frames for which the native stack shows no function that runs them.
    pub unpaired_frames: u64,
}

impl PythonTally {
    /// Counts a sample whose Python stack has these flags.
    pub fn count(&mut self, flags: u8) {
        self.samples += 1;
        self.truncated += u64::from(flags & PYTHON_TRUNCATED != 0);
        self.broken += u64::from(flags & PYTHON_BROKEN != 0);
        self.subinterpreter += u64::from(flags & PYTHON_SUBINTERPRETER != 0);
    }
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
    /// How many of the stacks reach from the root to the leaf, in percent.
    #[must_use]
    pub fn complete_percent(&self) -> Option<f64> {
        let incomplete = self.truncated_stacks.saturating_add(self.broken_stacks);
        let complete = self.samples.saturating_sub(incomplete);
        (self.samples > 0).then(|| 100.0 * complete as f64 / self.samples as f64)
    }
}

/// How much of the CPU time that was used the samples stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Coverage {
    /// Of the process, whose end was seen: in percent.
    OfProcess(f64),
    /// Of those threads alone that ended while the process lived: in percent. It was killed later, or still runs.
    OfEndedThreads(f64),
    /// Nobody knows.
    Unknown,
}

impl Coverage {
    /// Compares what the samples stand for with what the agent said at the end.
    #[must_use]
    pub fn new(tally: &Tally, counts: &AgentCounts, period_ns: u64) -> Self {
        let percent =
            |weight: u64, cpu_ns: u64| 100.0 * weight as f64 * period_ns as f64 / cpu_ns as f64;
        match counts.counter(Counter::CpuTime) {
            _ if tally.outside_window + tally.other_threads > 0 => Coverage::Unknown,
            0 if tally.ended_cpu_ns == 0 => Coverage::Unknown,
            0 => Coverage::OfEndedThreads(percent(tally.ended_weight, tally.ended_cpu_ns)),
            cpu_ns => Coverage::OfProcess(percent(tally.weight, cpu_ns)),
        }
    }
}

/// In which files broken stacks stopped, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stops(HashMap<String, u64>);

impl Stops {
    /// How many files are named.
    const NAMED: usize = 3;

    /// Counts a stack that stopped in the code of a file.
    pub fn add(&mut self, path: &str) {
        match self.0.get_mut(path) {
            Some(count) => *count += 1,
            None => _ = self.0.insert(path.to_owned(), 1),
        }
    }

    /// The files in which most stacks stopped: `12 in libfoo.so, 3 in [unknown]`. Empty when none did.
    #[must_use]
    pub fn most(&self) -> String {
        let mut counts: Vec<(&str, u64)> = self
            .0
            .iter()
            .map(|(path, &count)| (path.rsplit('/').next().unwrap_or(path), count))
            .collect();
        counts.sort_unstable_by_key(|&(name, count)| (Reverse(count), name));
        let named: Vec<String> = counts
            .iter()
            .take(Self::NAMED)
            .map(|(name, count)| format!("{count} in {name}"))
            .collect();
        named.join(", ")
    }
}

/// What the agent counted, read from shared memory at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCounts {
    /// Records dropped, by cause.
    pub dropped_by_cause: [u64; DROP_CAUSES],
    /// Periods that dropped samples stood for.
    pub dropped_weight: u64,
    /// Events that were dropped.
    pub dropped_events: u64,
    /// The process-wide counters, in the order of [`COUNTER_NAMES`].
    pub counters: [u64; COUNTER_NAMES.len()],
}

/// The process-wide counters and their names in the trace.
pub const COUNTER_NAMES: [(Counter, &str); 29] = [
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
    (Counter::CpuTime, "cpu_time_ns"),
    (Counter::GpuSeen, "gpu_seen"),
    (Counter::GpuRecorded, "gpu_recorded"),
    (Counter::GpuLostAtEnd, "gpu_dropped_at_end"),
    (Counter::GpuNotKernel, "gpu_dropped_not_kernel"),
    (Counter::GpuBatch, "gpu_dropped_batch"),
    (Counter::GpuNoQueue, "gpu_dropped_no_queue"),
    (Counter::GpuPool, "gpu_dropped_pool"),
    (Counter::GpuTimeFailed, "gpu_dropped_time_failed"),
    (Counter::GpuTimeInvalid, "gpu_dropped_time_invalid"),
    (Counter::GpuClamped, "gpu_clamped"),
    (Counter::Calls, "calls"),
    (Counter::UnmatchedPops, "roctx_unmatched_pops"),
    (Counter::Paused, "paused_periods"),
    (Counter::ThreadsWithoutCounters, "threads_without_counters"),
    (Counter::NotWanted, "outside_window_not_taken"),
    (Counter::EventsWithoutRing, "events_without_ring"),
    (Counter::ThreadsDispatched, "threads_dispatched"),
    (Counter::GpuNotAskedFor, "gpu_not_asked_for"),
];

impl AgentCounts {
    /// All records that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_by_cause
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// One of the process-wide counters.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        let mut named = COUNTER_NAMES.iter().zip(self.counters);
        named
            .find(|((named, _), _)| *named == counter)
            .map_or(0, |(_, value)| value)
    }

    /// Counts GPU operations as lost that the process saw begin and had no word of when it ended: one that was killed could not do so itself.
    /// Returns how many.
    pub fn lose_what_gpus_had(&mut self) -> u64 {
        const OUTCOMES: [Counter; 8] = [
            Counter::GpuRecorded,
            Counter::GpuLostAtEnd,
            Counter::GpuNotKernel,
            Counter::GpuBatch,
            Counter::GpuNoQueue,
            Counter::GpuPool,
            Counter::GpuTimeFailed,
            Counter::GpuTimeInvalid,
        ];
        let known = OUTCOMES.iter().fold(0_u64, |sum, outcome| {
            sum.saturating_add(self.counter(*outcome))
        });
        let lost = self.counter(Counter::GpuSeen).saturating_sub(known);
        let named = COUNTER_NAMES.iter().zip(&mut self.counters);
        for ((counter, _), value) in named {
            if *counter == Counter::GpuLostAtEnd {
                *value = value.saturating_add(lost);
            }
        }
        lost
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
    fn coverage_is_of_what_is_known() {
        let (mut tally, mut counts) = (Tally::default(), AgentCounts::default());
        let coverage = |tally: &Tally, counts: &AgentCounts| Coverage::new(tally, counts, 100);
        assert_eq!(coverage(&tally, &counts), Coverage::Unknown);
        tally.ended_cpu_ns = 1000;
        tally.ended_weight = 9;
        tally.weight = 15;
        assert_eq!(coverage(&tally, &counts), Coverage::OfEndedThreads(90.0));
        let is_cpu_time = |(counter, _): &(Counter, &str)| *counter == Counter::CpuTime;
        let place = COUNTER_NAMES.iter().position(is_cpu_time).unwrap();
        counts.counters[place] = 2000;
        assert_eq!(coverage(&tally, &counts), Coverage::OfProcess(75.0));
        tally.outside_window = 1;
        assert_eq!(coverage(&tally, &counts), Coverage::Unknown);
    }

    #[test]
    fn a_stack_is_complete_when_it_is_neither_cut_nor_broken() {
        let mut tally = Tally::default();
        assert_eq!(tally.complete_percent(), None);
        tally.samples = 200;
        tally.truncated_stacks = 3;
        tally.broken_stacks = 1;
        tally.scanned_stacks = 50;
        assert_eq!(tally.complete_percent(), Some(98.0));
    }

    #[test]
    fn the_files_with_most_stops_are_named() {
        let mut stops = Stops::default();
        assert_eq!(stops.most(), "");
        for path in ["/l/b.so", "/l/a.so", "[unknown]", "/l/b.so", "/l/c.so"] {
            stops.add(path);
        }
        assert_eq!(stops.most(), "2 in b.so, 1 in [unknown], 1 in a.so");
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
