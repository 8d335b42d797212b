//! The events that each thread counts, as tracks below its own.

use rsys_proto::TrackSequence;

use crate::counters::{Counter, Unit};
use crate::emit::account::Tally;
use crate::emit::output::{Output, counter_value};
use crate::run::RunContext;

/// How often a thread's events have happened at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    time_ns: u64,
    /// What share of the time they were counted.
    share: f64,
    /// Nothing when they were never counted.
    values: Vec<f64>,
}

impl Counts {
    /// From a record: what was counted for a part of the time only is what it would have been for
    /// all of it.
    #[must_use]
    pub fn new(time_ns: u64, enabled_ns: u64, running_ns: u64, values: &[u64]) -> Self {
        let share = match enabled_ns {
            0 => 1.0,
            enabled => (running_ns as f64 / enabled as f64).min(1.0),
        };
        let scaled = |value: &u64| {
            if share < 1.0 {
                (*value as f64 / share).round()
            } else {
                *value as f64
            }
        };
        let values = if share > 0.0 { values } else { &[] };
        Self {
            time_ns,
            share,
            values: values.iter().map(scaled).collect(),
        }
    }

    /// Writes the values below the track of their thread.
    pub fn write(
        &self,
        tracks: &mut EventTracks,
        thread: u64,
        output: &mut Output,
        run: &RunContext,
        tally: &mut Tally,
    ) {
        if !run.windows.samples.active(self.time_ns) {
            return;
        }
        if tracks.events.is_empty() {
            tracks.events = run
                .counted
                .iter()
                .map(|name| {
                    let name = format!("Thread {name} (S)");
                    let text = "How often this has happened since the thread's start";
                    let counter = Counter::new(name, Unit::Count, None, text);
                    output.counter_track_below(thread, &counter)
                })
                .collect();
        }
        for (track, value) in tracks.events.iter_mut().zip(&self.values) {
            track.counter(output.buffer(), self.time_ns, counter_value(*value));
            tally.counter_values += 1;
        }
        if self.share < 1.0 || tracks.share.is_some() {
            let share = tracks.share.get_or_insert_with(|| {
                let text =
                    "The events took turns on the processor's counters: their values are estimates";
                let unit = Unit::Named("%");
                let counter = Counter::new("Thread events counted (S)", unit, None, text);
                output.counter_track_below(thread, &counter)
            });
            let percent = (self.share * 1000.0).round() / 10.0;
            share.counter(output.buffer(), self.time_ns, counter_value(percent));
            tally.counter_values += 1;
            tally.scaled_counters += u64::from(self.share < 1.0);
        }
    }
}

/// The tracks of one thread's events.
#[derive(Debug, Default)]
pub struct EventTracks {
    events: Vec<TrackSequence>,
    share: Option<TrackSequence>,
}

#[cfg(test)]
mod tests {
    use rsys_wire::counting::Reading;

    use super::*;

    /// A group that Linux 6.18 counted for half of the time (`recorded_reads` in
    /// wire/src/counting.rs has its bytes). The thread had 6000 page faults and 117131 µs of CPU
    /// time, as getrusage reported.
    #[test]
    fn a_recorded_group_stands_for_what_getrusage_told() {
        let words = [3, 117_095_437, 58_809_761, 3000, 58_810_012, 28];
        let reading = Reading::parse(&words, words.len(), 3).expect("a group");
        let counts = Counts::new(5, reading.enabled_ns, reading.running_ns, reading.values);
        assert!((counts.share - 0.502).abs() < 0.001, "{counts:?}");
        for (value, truth) in counts.values.iter().zip([6000.0, 117_131e3]) {
            assert!((value / truth - 1.0).abs() < 0.01, "{value} for {truth}");
        }
    }

    /// A group of cycles, instructions and branch misses, as a processor with too few counters gave
    /// it.
    #[test]
    fn counts_of_a_part_stand_for_the_whole() {
        let counts = Counts::new(5, 2_000_000, 500_000, &[1_000_001, 250_000, 3]);
        assert_eq!(counts.values, [4_000_004.0, 1_000_000.0, 12.0]);
        assert_eq!((counts.time_ns, counts.share), (5, 0.25));
        let whole = Counts::new(5, 2_000_000, 2_000_000, &[7]);
        assert_eq!(
            (whole.values.as_slice(), whole.share),
            ([7.0].as_slice(), 1.0)
        );
        let never = Counts::new(5, 2_000_000, 0, &[0]);
        assert!(never.values.is_empty() && never.share == 0.0);
        assert_eq!(Counts::new(5, 0, 0, &[0]).values, [0.0]);
    }
}
