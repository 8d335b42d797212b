//! Times off the processor as slices: a track beside each thread's.

use std::collections::HashMap;

use rsys_proto::TrackSequence;

use crate::emit::account::Tally;
use crate::emit::output::Output;
use crate::offcpu::{OffCpuInterval, OffCpuIntervals};
use crate::run::RunContext;

/// How many windows of time one time off the processor may fill: who asks for windows of
/// nanoseconds does not get all of them.
const PARTS_MAX: usize = 1000;

/// What a slice says of a thread that waits, and of one that could have gone on.
const BLOCKED: &str = "blocked";
const PREEMPTED: &str = "preempted";

/// The tracks of all threads of a process.
#[derive(Debug, Default)]
pub struct OffCpuTracks {
    threads: HashMap<u32, TrackSequence>,
    held: Vec<OffCpuInterval>,
}

/// At most this many intervals are held until a trace is opened; beyond it, the older half is
/// dropped.
const HELD_MAX: usize = 1 << 14;

impl OffCpuTracks {
    /// Counts what was seen, and keeps it for later: a process that has nothing else to say gets no
    /// trace.
    pub fn hold(&mut self, intervals: OffCpuIntervals, tally: &mut Tally) {
        tally.off_cpu.intervals += intervals.count;
        tally.off_cpu.wall_ns += intervals.total_ns;
        self.held.extend(intervals.drawn);
        if self.held.len() > HELD_MAX {
            self.held.drain(..self.held.len() - HELD_MAX / 2);
        }
    }

    /// Draws what was held, as far as its time is kept.
    pub fn draw(&mut self, output: &mut Output, run: &RunContext, tally: &mut Tally) {
        if self.held.is_empty() {
            return;
        }
        let names = [BLOCKED, PREEMPTED].map(|name| output.buffer().intern(name));
        for interval in self.held.drain(..) {
            let schedule = &run.windows.waits;
            for (begin_ns, end_ns) in schedule
                .parts(interval.begin_ns, interval.end_ns)
                .filter(|(begin_ns, end_ns)| begin_ns < end_ns)
                .take(PARTS_MAX)
            {
                let track = self
                    .threads
                    .entry(interval.tid)
                    .or_insert_with(|| output.off_cpu_track(interval.tid, &interval.name));
                let out = output.buffer();
                track.slice_begin(out, begin_ns, names[usize::from(interval.preempted)]);
                track.slice_end(out, end_ns);
                tally.off_cpu.slices += 1;
            }
        }
    }
}
