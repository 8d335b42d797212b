//! Windows of time that are counted in the CPU time of a process, as `--trace-clock-id cputime`
//! asks for.
//!
//! What the samples stand for is the CPU time of the process. So its windows begin and end at
//! samples: as fine as the samples are. The agent goes on sampling outside of them, for otherwise
//! nobody would count.

use rsys_wire::record::{Record, Records};

use super::batch::Batch;
use crate::run::RunContext;
use crate::windows::Schedule;

/// The windows of one process.
#[derive(Debug)]
pub struct CpuWindows {
    /// What all traces have in common, with windows of this process: up to now, in CLOCK_BOOTTIME.
    run: RunContext,
    /// The same windows in CPU time: of samples, waits, events.
    wanted: [Schedule; 3],
    open: [bool; 3],
    cpu_ns: u64,
}

impl CpuWindows {
    /// The windows of a process that begins, if they are counted in CPU time.
    #[must_use]
    pub fn new(run: &RunContext) -> Option<Self> {
        if !run.windows.by_cpu_time {
            return None;
        }
        let mut run = run.clone();
        let windows = &mut run.windows;
        let wanted = [
            &mut windows.samples,
            &mut windows.waits,
            &mut windows.events,
        ]
        .map(|schedule| std::mem::replace(schedule, Schedule::never()));
        let mut own = Self {
            run,
            wanted,
            open: [false; 3],
            cpu_ns: 0,
        };
        own.set(0);
        Some(own)
    }

    /// What the process is written with.
    #[must_use]
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// Takes in the samples of a batch, before it is written.
    pub fn advance(&mut self, batch: &Batch) {
        let mut samples: Vec<(u64, u32)> = Vec::new();
        for ring in batch.words.iter().chain(&batch.later) {
            for record in Records::new(&ring.words).flatten() {
                if let Record::Sample {
                    time_ns, weight, ..
                } = record
                {
                    samples.push((time_ns, weight));
                }
            }
        }
        self.count(samples);
    }

    /// Counts samples of all threads: when, and how many periods.
    fn count(&mut self, mut samples: Vec<(u64, u32)>) {
        samples.sort_unstable();
        for (time_ns, weight) in samples {
            // The sample belongs to where its time began.
            self.set(time_ns);
            let cpu_ns = u64::from(weight).saturating_mul(self.run.period_ns());
            self.cpu_ns = self.cpu_ns.saturating_add(cpu_ns);
        }
    }

    /// Begins and ends windows at this time.
    fn set(&mut self, time_ns: u64) {
        let windows = &mut self.run.windows;
        let own = [
            &mut windows.samples,
            &mut windows.waits,
            &mut windows.events,
        ];
        for ((own, wanted), open) in own.into_iter().zip(&self.wanted).zip(&mut self.open) {
            let active = wanted.active(self.cpu_ns);
            match (*open, active) {
                (false, true) => own.open(time_ns),
                (true, false) => own.close(time_ns),
                _ => {}
            }
            *open = active;
        }
    }
}
