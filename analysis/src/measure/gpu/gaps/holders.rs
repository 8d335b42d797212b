//! Waits for locks, and who held them meanwhile.
//!
//! Of a wait that was recorded (`-I mutex-locks`) begin, end and the holder's thread are exact; of one for the interpreter's lock that was seen from outside
//! (`--realtime`) they are as they were when it was sampled. Where the holder's line was not recorded, it is that of its thread's sample at that time.

use super::explain::{Gpu, most_of};
use super::host::{Host, Thread};
use super::lock_waits::{STILL_NS, Waited};
use super::places::place;
use crate::program::code_place::waiting_text;
use rsys_traces::model::{Model, ProcessId};

impl Host {
    /// The place of a thread of a process in a time, by its samples: where it ran, else where it waited.
    fn place_of(
        &self,
        (process, tid): (ProcessId, u32),
        (start_ns, end_ns): (u64, u64),
        model: &Model,
    ) -> Option<String> {
        let thread = self.thread(*self.tids.get(&(process, tid))?)?;
        // A sample stands for the time in front of it.
        let samples = || {
            let later = thread.samples_in(start_ns, u64::MAX);
            later.take_while(|sample| sample.time_ns.saturating_sub(sample.weight_ns) < end_ns)
        };
        let runs = samples().find(|sample| !sample.waits);
        // While others have the processor a thread gets no samples, and stays where the next one finds it.
        let later = || {
            let mut later = thread.samples_in(start_ns, end_ns.saturating_add(STILL_NS));
            later.find(|sample| !sample.waits)
        };
        let sample = runs.or_else(|| samples().next()).or_else(later)?;
        Some(place(model, sample.stack)).filter(|place| !place.is_empty())
    }
}

impl Gpu<'_> {
    /// Waits of a thread for locks within an interval: length, begin and place of each, and whether it was recorded, so that this is all of it.
    pub(super) fn waits_for_locks(
        &self,
        (start_ns, end_ns): (u64, u64),
        of_thread: &Thread,
    ) -> Vec<((u64, u64, String), bool)> {
        let (mut found, mut now_ns) = (Vec::new(), start_ns);
        for wait in of_thread.lock_waits.overlapping(start_ns, end_ns) {
            let (from_ns, to_ns) = (wait.start_ns.max(now_ns), wait.end_ns.min(end_ns));
            if from_ns < to_ns {
                let place = self.place_of_wait(&wait, of_thread);
                found.push(((to_ns - from_ns, from_ns, place), !wait.is_sampled));
                now_ns = to_ns;
            }
        }
        found
    }

    /// Where a thread waits for the lock, and who holds it, in words.
    fn place_of_wait(&self, wait: &Waited, of_thread: &Thread) -> String {
        let time = (wait.start_ns, wait.end_ns);
        let of_call = of_thread.call_stack(wait.start_ns);
        let seen = || {
            let samples = of_thread.samples_in(wait.start_ns, wait.end_ns.saturating_add(1));
            most_of(samples.filter(|sample| sample.waits), time).map(|sample| sample.stack)
        };
        let text = of_call
            .or_else(seen)
            .map_or_else(String::new, |stack| place(self.model, stack));
        let function = wait.function.map(|function| self.model.text(function));
        if wait.holder_tid == 0 {
            return waiting_text(text, function, "");
        }
        let recorded = self.model.text(wait.holder);
        let holder = match recorded {
            "" => self
                .host
                .place_of((self.of.process, wait.holder_tid), time, self.model),
            recorded => Some(recorded.to_owned()),
        };
        let holder = holder.map_or_else(String::new, |place| format!(" in {place}"));
        let holder = format!("by thread {}{holder}", wait.holder_tid);
        waiting_text(text, function, &holder)
    }
}
