//! What was seen of a process's blocked threads, on its way into the trace.

use std::sync::atomic::Ordering;

use super::{ProcessTrace, Tools};
use crate::emit::drawing::waits::WaitPen;
use crate::waits::record::WaitRecord;

impl ProcessTrace {
    /// Takes over what was seen of blocked threads.
    pub fn take_waits(&mut self, records: &[WaitRecord], tools: &mut Tools<'_>) {
        let schedule = &tools.run.windows.waits;
        let mut kept = false;
        for record in records {
            match record {
                WaitRecord::Module(module) => self.frames.add_module(
                    tools.resolver,
                    module.time_ns,
                    (module.start, module.end),
                    module.bias,
                    module.build_id.clone(),
                    module.path.as_bytes(),
                ),
                WaitRecord::Begin { time_ns, wait, .. } => {
                    kept |= schedule.active(*time_ns);
                    for &word in &wait.words {
                        self.frames.want(word, *time_ns);
                    }
                }
                WaitRecord::Continue { time_ns, .. } | WaitRecord::End { time_ns, .. } => {
                    kept |= schedule.active(*time_ns);
                    self.last_time_ns = self.last_time_ns.max(*time_ns);
                }
                _ => {}
            }
        }
        self.frames
            .resolve_wanted((!tools.hurry.load(Ordering::Relaxed)).then_some(tools.resolver));
        if kept && self.output.is_none() && self.trouble.is_none() {
            self.release(tools);
        }
        if kept && self.output.is_none() && self.trouble.is_none() && self.held.may_open() {
            self.open(tools);
        }
        if let Some(output) = &mut self.output {
            let mut pen = WaitPen {
                output,
                frames: &mut self.frames,
                names: &mut self.slice_names,
                tally: &mut self.tally.waits,
                schedule,
                threads: &tools.run.threads.waits,
                numbers: &self.numbers,
                profile: self.profile.as_mut(),
            };
            self.waits.take(records, &mut pen);
        } else {
            self.waits.skip(records);
        }
        self.flush(false);
    }
}
