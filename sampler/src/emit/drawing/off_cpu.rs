//! Times off the processor as slices: a track beside each thread's.

use std::collections::HashMap;
use std::sync::Arc;

use rsys_proto::TrackSequence;

use crate::emit::account::Tally;
use crate::emit::output::Output;
use crate::offcpu::OffCpuInterval;
use crate::run::{RunContext, SwitchRecords};
use crate::waits::record::WaitRecord;

/// How many windows of time one time off the processor may fill: who asks for windows of
/// nanoseconds does not get all of them.
const PARTS_MAX: usize = 1000;

/// What a slice says of a thread.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// It waits.
    Blocked,
    /// Another one was put in its place.
    Preempted,
    /// It waited, was woken, and got no processor.
    Woken,
}

/// The names of slices, in the order of [`Why`].
const NAMES: [&str; 3] = ["blocked", "preempted", "woken"];

/// A time that is to be drawn.
#[derive(Debug)]
struct Held {
    tid: u32,
    /// The thread's name, where it is known.
    name: Arc<str>,
    begin_ns: u64,
    end_ns: u64,
    why: Why,
}

/// The tracks of all threads of a process.
#[derive(Debug, Default)]
pub struct OffCpuTracks {
    threads: HashMap<u32, TrackSequence>,
    held: Vec<Held>,
}

/// At most this many intervals are held until a trace is opened; beyond it, the older half is
/// dropped.
const HELD_MAX: usize = 1 << 14;

impl OffCpuTracks {
    /// Counts what was seen, and keeps it for later: a process that has nothing else to say gets no
    /// trace.
    pub fn hold(&mut self, intervals: &[OffCpuInterval], run: &RunContext, tally: &mut Tally) {
        let draws_waits = run.draws_blocked();
        for interval in intervals {
            let length_ns = interval.end_ns.saturating_sub(interval.begin_ns);
            tally.off_cpu.intervals += 1;
            tally.off_cpu.wall_ns += length_ns;
            let is_drawn = interval.preempted || draws_waits;
            if is_drawn && length_ns >= run.shortest_off_cpu_ns {
                self.held.push(Held {
                    tid: interval.tid,
                    name: Arc::clone(&interval.name),
                    begin_ns: interval.begin_ns,
                    end_ns: interval.end_ns,
                    why: match interval.preempted {
                        true => Why::Preempted,
                        false => Why::Blocked,
                    },
                });
            }
        }
    }

    /// Keeps the times in which threads had been woken and had no processor, where those in which they were blocked have no tracks here.
    pub fn hold_woken(&mut self, records: &[WaitRecord], run: &RunContext) {
        if run.switches == SwitchRecords::Wanted {
            return;
        }
        for record in records {
            if let WaitRecord::Woken {
                tid,
                begin_ns,
                end_ns,
            } = *record
            {
                self.held.push(Held {
                    tid,
                    name: Arc::from(""),
                    begin_ns,
                    end_ns,
                    why: Why::Woken,
                });
            }
        }
    }

    /// Forgets what is too much to be held for a trace that there may never be.
    pub fn bound(&mut self) {
        if self.held.len() > HELD_MAX {
            self.held.drain(..self.held.len() - HELD_MAX / 2);
        }
    }

    /// Draws what was held, as far as its time is kept.
    pub fn draw(&mut self, output: &mut Output, run: &RunContext, tally: &mut Tally) {
        if self.held.is_empty() {
            return;
        }
        let names = NAMES.map(|name| output.buffer().intern(name));
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
                track.slice_begin(out, begin_ns, names[interval.why as usize]);
                track.slice_end(out, end_ns);
                tally.off_cpu.slices += 1;
            }
        }
    }
}
