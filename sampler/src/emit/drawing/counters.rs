//! Readings of counters become tracks.

use std::collections::HashMap;

use rsys_proto::{CounterValue, TrackSequence};

use crate::counters::Reading;
use crate::emit::output::Output;
use crate::run::RunContext;

/// At most this many readings are held until a trace is opened; beyond it, the older half is
/// dropped.
const HELD_MAX: usize = 1 << 16;

/// The counter tracks of a trace.
#[derive(Debug, Default)]
pub struct CounterTracks {
    tracks: HashMap<u32, TrackSequence>,
    held: Vec<Reading>,
}

impl CounterTracks {
    /// Keeps readings for later: there is no trace yet, and a process that has nothing else to say
    /// gets none.
    pub fn hold(&mut self, readings: impl IntoIterator<Item = Reading>) {
        hold(&mut self.held, readings);
    }

    /// Writes what was held. Says how many values that were.
    pub fn write(&mut self, output: &mut Output, run: &RunContext) -> u64 {
        let mut written = 0;
        for reading in self.held.drain(..) {
            if !run.windows.monitors.active(reading.time_ns) {
                continue;
            }
            let track = self
                .tracks
                .entry(reading.counter.id)
                .or_insert_with(|| output.counter_track(&reading.counter));
            let value = counter_value(reading.value);
            track.counter(output.buffer(), reading.time_ns, value);
            written += 1;
        }
        written
    }
}

/// Whole numbers are written as such: they are shorter.
#[must_use]
pub fn counter_value(value: f64) -> CounterValue {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT {
        CounterValue::Int(value as i64)
    } else {
        CounterValue::Double(value)
    }
}

/// Adds readings to `held`, of which at most [`HELD_MAX`] are kept.
pub fn hold(held: &mut Vec<Reading>, readings: impl IntoIterator<Item = Reading>) {
    held.extend(readings);
    if held.len() > HELD_MAX {
        held.drain(..held.len() - HELD_MAX / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(counter_value(5.0), CounterValue::Int(5));
        assert_eq!(counter_value(0.5), CounterValue::Double(0.5));
        assert_eq!(counter_value(1e300), CounterValue::Double(1e300));
    }
}
