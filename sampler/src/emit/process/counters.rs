//! What was read of a process from outside, on its way into the trace.

use super::{ProcessTrace, Tools};
use crate::monitors::counter::Reading;

impl ProcessTrace {
    /// Takes over readings of counters. They alone open no trace.
    pub fn take_counters(&mut self, readings: Vec<Reading>, tools: &Tools<'_>) {
        self.counters.hold(readings);
        self.write_counters(tools);
        self.flush(false);
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
