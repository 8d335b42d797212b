//! The records of one process become its trace.
//!
//! What records refer to is learnt at once; the records themselves are drawn when it is clear that
//! the process is worth a file ([`held`]), and when names are there that come late ([`awaited`]).
//! [`finish`] is the end.

mod awaited;
mod finish;
mod held;
#[cfg(test)]
mod tests;

use super::batch::{Batch, RingWords};
use super::drawing::{Drawing, are_kept};
use super::learned::Learned;
use super::tools::Tools;
use crate::counters::Reading;
use crate::identity::Identity;
use crate::offcpu::OffCpuInterval;
use crate::run::RunContext;
use crate::terminal::say;
use crate::waits::record::WaitRecord;
use awaited::AwaitedMap;
use held::Held;

/// A process and its trace.
#[derive(Debug)]
pub struct ProcessTrace {
    /// What its records refer to.
    learned: Learned,
    /// What is drawn of them.
    drawing: Drawing,
    /// The later part of the last batch.
    later: Vec<RingWords>,
    /// What waits until the process is worth a file.
    held: Held,
    /// What waits for names.
    awaited: AwaitedMap,
}

impl ProcessTrace {
    /// A process that has recorded nothing yet.
    #[must_use]
    pub fn new(identity: Identity, run: &RunContext) -> Self {
        let is_wanted = run.selects(identity.rank.as_ref());
        let awaited = AwaitedMap::of(&identity);
        let learned = Learned::new(identity);
        Self {
            drawing: Drawing::new(&learned, run, is_wanted),
            learned,
            later: Vec::new(),
            held: Held::new(is_wanted),
            awaited,
        }
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.learned.identity
    }

    /// Whether it has a trace.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.drawing.trace.output.is_some()
    }

    /// Takes over a batch. Its later part waits for the next one, which may bring the modules for
    /// it.
    pub fn take(&mut self, batch: Batch, tools: &mut Tools<'_>) {
        let all = || batch.words.iter().chain(&batch.later);
        for ring in all() {
            for note in self.learned.learn(ring, tools.resolver) {
                self.say(&note, tools.run);
            }
        }
        let pid = self.identity().pid;
        self.learned.numbers.announce(pid, all());
        let mut rings = std::mem::replace(&mut self.later, batch.later);
        rings.extend(batch.words);
        self.hold_or_draw(rings, tools);
    }

    /// Takes over what was seen of blocked threads.
    pub fn take_waits(&mut self, records: &[WaitRecord], tools: &mut Tools<'_>) {
        let patient = tools.patient_resolver();
        for note in self.learned.learn_waits(records, tools.resolver, patient) {
            self.say(&note, tools.run);
        }
        if self.hold_waits(records, tools.run) {
            return;
        }
        if are_kept(records, tools.run) && !self.drawing.trace.is_settled() {
            self.release(tools);
        }
        self.drawing.take_waits(records, &mut self.learned, tools);
    }

    /// Takes over readings of counters. They alone open no trace.
    pub fn take_counters(&mut self, readings: Vec<Reading>, tools: &Tools<'_>) {
        self.drawing.take_counters(readings, tools.run);
    }

    /// Takes over what was seen of context switches. It alone opens no trace.
    pub fn take_off_cpu(&mut self, intervals: Vec<OffCpuInterval>, tools: &Tools<'_>) {
        self.drawing.take_off_cpu(intervals, tools.run);
    }

    /// Records of context switches are missing, since a time (CLOCK_BOOTTIME).
    pub fn lacks_switches(&mut self, since_ns: u64) {
        self.drawing.lacks_switches(since_ns);
    }

    /// Looks at the threads: takes over new names, and closes the slices of those that do not run.
    pub fn look_at_threads(&mut self, now_ns: u64) {
        self.drawing.look_at_threads(now_ns, &self.learned);
    }

    /// Brings what is pending to the sink, if it is time to.
    pub fn flush(&mut self) {
        self.drawing.flush(false);
    }

    /// Whether something waits for a flush.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.drawing.is_pending()
    }

    fn say(&self, note: &str, run: &RunContext) {
        if run.verbosity >= 0 {
            let identity = self.identity();
            say(&format!(
                "pid {} ({}): {note}",
                identity.pid,
                identity.name()
            ));
        }
    }
}
