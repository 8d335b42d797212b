//! What was seen of a process from outside, on its way into the trace. It waits until there is one;
//! of it all, waits alone open one.

use super::Drawing;
use super::waits::WaitWriter;
use crate::counters::Reading;
use crate::emit::learned::Learned;
use crate::emit::tools::Tools;
use crate::offcpu::OffCpuInterval;
use crate::run::RunContext;
use crate::waits::record::{PastWait, WaitRecord};

impl Drawing {
    /// Takes over readings of counters.
    pub fn take_counters(&mut self, readings: Vec<Reading>, run: &RunContext) {
        self.counters.hold(readings);
        self.draw_counters(run);
        self.flush(false);
    }

    /// Takes over what was seen of context switches.
    pub fn take_off_cpu(&mut self, intervals: Vec<OffCpuInterval>, run: &RunContext) {
        self.off_cpu.hold(&intervals, run, &mut self.tally);
        self.draw_off_cpu(run);
        self.flush(false);
    }

    /// Records of context switches are missing, since a time (CLOCK_BOOTTIME).
    pub fn lacks_switches(&mut self, since_ns: u64) {
        self.tally.off_cpu.incomplete_ns = since_ns;
    }

    /// Takes over what was seen of blocked threads, whose frames are known.
    pub fn take_waits(
        &mut self,
        records: &[WaitRecord],
        learned: &mut Learned,
        tools: &mut Tools<'_>,
    ) {
        let schedule = &tools.run.windows.waits;
        for record in records {
            if let WaitRecord::Continue { time_ns, .. }
            | WaitRecord::End { time_ns, .. }
            | WaitRecord::Past(PastWait {
                end_ns: time_ns, ..
            }) = record
            {
                self.last_time_ns = self.last_time_ns.max(*time_ns);
            }
        }
        self.off_cpu.hold_woken(records, tools.run);
        if are_kept(records, tools.run) {
            self.trace.open(&learned.identity, tools);
        }
        if let Some(output) = &mut self.trace.output {
            let mut pen = WaitWriter {
                output,
                frames: &mut learned.frames,
                names: &mut self.slice_names,
                tally: &mut self.tally.waits,
                schedule,
                threads: &tools.run.threads.waits,
                numbers: &learned.numbers,
                python: tools.run.python,
                marks: learned.marks,
                digest: &mut self.digest,
                main_tid: learned.identity.pid,
                profile: self.profile.as_mut(),
                overview: self.overview.as_deref_mut(),
            };
            self.waits.take(records, &mut pen);
        } else {
            self.waits.skip(records);
        }
        self.draw_off_cpu(tools.run);
        self.flush(false);
    }

    pub(super) fn draw_counters(&mut self, run: &RunContext) {
        if let Some(output) = &mut self.trace.output {
            self.tally.counter_values +=
                self.counters
                    .write(output, run, self.overview.as_deref_mut());
        }
    }

    pub(super) fn draw_off_cpu(&mut self, run: &RunContext) {
        if let Some(output) = &mut self.trace.output {
            self.off_cpu.draw(output, run, &mut self.tally);
        } else {
            self.off_cpu.bound();
        }
    }
}

/// Whether any of these waits lies in a time that is kept.
#[must_use]
pub fn are_kept(records: &[WaitRecord], run: &RunContext) -> bool {
    records.iter().any(|record| match record {
        WaitRecord::Begin { time_ns, .. }
        | WaitRecord::Continue { time_ns, .. }
        | WaitRecord::End { time_ns, .. } => run.windows.waits.active(*time_ns),
        WaitRecord::Past(past) => {
            let mut parts = run.windows.waits.parts(past.begin_ns, past.end_ns);
            parts.next().is_some()
        }
        _ => false,
    })
}
