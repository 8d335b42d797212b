//! Readings of counters become tracks.

use std::collections::HashMap;

use rsys_proto::TrackSequence;

use crate::counters::Reading;
use crate::emit::output::{Output, counter_value};
use crate::emit::overview::Overview;
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
    pub fn write(
        &mut self,
        output: &mut Output,
        run: &RunContext,
        mut overview: Option<&mut Overview>,
    ) -> u64 {
        let mut written = 0;
        for reading in self.held.drain(..) {
            if !run.windows.monitors.active(reading.time_ns) {
                continue;
            }
            let track = self
                .tracks
                .entry(reading.counter.id)
                .or_insert_with(|| output.counter_track(&reading.counter));
            if let Some(overview) = &mut overview {
                overview.reading(&reading);
            }
            let value = counter_value(reading.value);
            track.counter(output.buffer(), reading.time_ns, value);
            written += 1;
        }
        written
    }
}

/// Adds readings to `held`, of which at most [`HELD_MAX`] are kept.
pub fn hold(held: &mut Vec<Reading>, readings: impl IntoIterator<Item = Reading>) {
    held.extend(readings);
    if held.len() > HELD_MAX {
        held.drain(..held.len() - HELD_MAX / 2);
    }
}
