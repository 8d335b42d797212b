//! How much of the CPU time is in the trace.

use rsys_wire::layout::Counter;

use super::agent::AgentCounts;
use super::tally::Tally;

/// How much of the CPU time that was used the samples stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Coverage {
    /// Of the process, whose end was seen: in percent.
    OfProcess(f64),
    /// Of those threads alone that ended while the process lived: in percent. It was killed later,
    /// or still runs.
    OfEndedThreads(f64),
    /// Not known.
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
