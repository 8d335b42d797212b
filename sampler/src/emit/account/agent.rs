//! What the agent counted of its process.

use rsys_wire::layout::Counter;
use rsys_wire::ring::{DROP_CAUSES, DROP_NAMES};

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
pub const COUNTER_NAMES: [(Counter, &str); 30] = [
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
    (Counter::ThreadsTraced, "threads_traced"),
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

    /// Adds to one of the process-wide counters.
    pub fn add(&mut self, counter: Counter, by: u64) {
        let mut named = COUNTER_NAMES.iter().zip(&mut self.counters);
        if let Some((_, value)) = named.find(|((named, _), _)| *named == counter) {
            *value = value.saturating_add(by);
        }
    }

    /// Counts GPU operations as lost that the process saw begin and had no word of when it ended:
    /// one that was killed could not do so itself. Returns how many.
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
        self.add(Counter::GpuLostAtEnd, lost);
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
