//! What was read of a process from outside, on its way into the trace.

use super::{ProcessTrace, Ring, Tools};
use crate::counters::Reading;
use crate::emit::drawing::thread_counters::Counts;
use crate::run::RunContext;

impl ProcessTrace {
    /// Takes over readings of counters. They alone open no trace.
    pub fn take_counters(&mut self, readings: Vec<Reading>, tools: &Tools<'_>) {
        self.counters.hold(readings);
        self.write_counters(tools);
        self.flush(false);
    }

    /// Takes over the counts of a thread's events. Its first ones come in front of its first sample, which makes its track.
    pub(super) fn counts(&mut self, ring: &mut Ring, counts: Counts, run: &RunContext) {
        let track = ring.thread.as_ref().and_then(|one| one.track.as_ref());
        match (track, &mut self.output) {
            (Some(track), Some(output)) => {
                counts.write(
                    &mut ring.tracks,
                    track.sequence.track(),
                    output,
                    run,
                    &mut self.tally,
                );
            }
            _ => ring.counts = Some(counts),
        }
    }

    pub(super) fn write_counters(&mut self, tools: &Tools<'_>) {
        if let Some(output) = &mut self.output {
            self.tally.counter_values += self.counters.write(output, tools.run);
        }
    }

    /// Whether it has a trace.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.output.is_some()
    }
}
