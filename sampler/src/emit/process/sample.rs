//! One sample of a process: its stack is put together, counted and written.

use rsys_wire::record::{
    FRAME_SCANNED, PYTHON_BROKEN, PYTHON_TRUNCATED, SAMPLE_BROKEN, SAMPLE_PERF, SAMPLE_PYTHON,
    SAMPLE_TRUNCATED,
};

use super::tracks::Pen;
use super::{ProcessTrace, Ring, ThreadTrack, Tools};
use crate::emit::profile::Whose;
use crate::python::merge::Ends;

impl ProcessTrace {
    pub(super) fn sample(
        &mut self,
        ring: &mut Ring,
        time_ns: u64,
        weight: u32,
        flags: u8,
        tools: &mut Tools<'_>,
    ) {
        let Some(thread) = &mut ring.thread else {
            self.tally.corrupt += 1;
            return;
        };
        let Some((window_begin_ns, _)) = tools.run.windows.samples.window_at(time_ns) else {
            self.tally.outside_window += 1;
            return;
        };
        if !tools.run.threads.samples.contains(thread.number) {
            self.tally.other_threads += 1;
            return;
        }
        self.tally.samples += 1;
        self.tally.weight = self.tally.weight.saturating_add(u64::from(weight));
        thread.weight = thread.weight.saturating_add(u64::from(weight));
        self.tally.perf_samples += u64::from(flags & SAMPLE_PERF != 0);
        let words = ring.stack.words();
        let scanned = words.iter().filter(|word| **word & FRAME_SCANNED != 0);
        let scanned = scanned.count() as u64;
        self.tally.scanned_frames += scanned;
        self.tally.scanned_stacks += u64::from(scanned > 0);
        let python = (flags & SAMPLE_PYTHON != 0).then_some(ring.python.flags);
        let truncated = flags & SAMPLE_TRUNCATED != 0
            || python.is_some_and(|flags| flags & PYTHON_TRUNCATED != 0);
        let broken =
            flags & SAMPLE_BROKEN != 0 || python.is_some_and(|flags| flags & PYTHON_BROKEN != 0);
        let mark = if truncated {
            self.tally.truncated_stacks += 1;
            Some(self.marks.truncated)
        } else if broken {
            self.tally.broken_stacks += 1;
            if let Some(&outermost) = words.first() {
                self.stops.add(self.frames.path_of(outermost, time_ns));
            }
            Some(self.marks.broken)
        } else {
            None
        };
        self.last_time_ns = self.last_time_ns.max(time_ns);
        if self.output.is_none() && self.trouble.is_none() && self.held.may_open() {
            self.open(tools);
        }
        let Some(output) = &mut self.output else {
            self.tally.unwritten += 1;
            return;
        };
        let shown = &mut self.shown;
        shown.start(&self.frames, mark.as_slice());
        match python {
            Some(python) => {
                self.tally.python.count(python);
                let ends = Ends {
                    native_root: flags & (SAMPLE_TRUNCATED | SAMPLE_BROKEN) == 0,
                    python_root: python & (PYTHON_TRUNCATED | PYTHON_BROKEN) == 0,
                };
                if self.python_view.only {
                    shown.push(&self.frames, ring.python.frames());
                } else {
                    let show_interpreter = self.python_view.interpreter;
                    let unpaired = shown.push_merged(
                        &self.frames,
                        &ring.stack,
                        &ring.python,
                        ends,
                        show_interpreter,
                    );
                    self.tally.python.unpaired_frames += unpaired as u64;
                }
            }
            None if self.python_view.only => shown.push(&self.frames, &[self.marks.no_python]),
            None => shown.push_native(&ring.stack),
        }
        let callstack = output.callstack(&self.frames, &shown.frames);
        let weight_ns = u64::from(weight).saturating_mul(tools.run.weight_unit());
        self.samples
            .push(output.sample(time_ns, thread.tid, callstack, weight_ns));
        let (tid, name) = (thread.tid, &thread.name);
        if let Some(profile) = &mut self.profile {
            let whose = Whose {
                number: thread.number,
                tid,
                name,
            };
            profile.run(whose, &shown.functions, weight_ns);
        }
        let track = thread
            .track
            .get_or_insert_with(|| ThreadTrack::new(output.thread(tid, name), self.timing));
        if let Some(counts) = ring.counts.take() {
            let thread = track.sequence.track();
            counts.write(&mut ring.tracks, thread, output, tools.run, &mut self.tally);
        }
        let mut pen = Pen {
            output,
            names: &mut self.slice_names,
            frames: &self.frames,
            slices: &mut self.tally.slices,
        };
        let ThreadTrack { sequence, builder } = track;
        builder.begin_at(window_begin_ns, |event| pen.write(sequence, event));
        builder.sample(time_ns, weight, &shown.functions, |event| {
            pen.write(sequence, event)
        });
    }
}
