//! One sample of a process: its stack is put together, counted and drawn.

use rsys_wire::record::{
    FRAME_SCANNED, PYTHON_BROKEN, PYTHON_TRUNCATED, SAMPLE_BROKEN, SAMPLE_PERF, SAMPLE_PYTHON,
    SAMPLE_TRUNCATED,
};

use super::Drawing;
use super::records::Ring;
use super::threads::{SliceWriter, ThreadTrack};
use crate::emit::learned::Learned;
use crate::emit::learned::frames::FrameId;
use crate::emit::learned::stacks::{PythonStack, ShownStack, Stack};
use crate::emit::profile::Whose;
use crate::emit::tools::Tools;
use crate::python::PythonView;
use crate::python::merge::Ends;

impl Drawing {
    /// Draws the sample whose stack `ring` holds, at a time, with a weight in periods and the flags
    /// of its record.
    pub(super) fn sample(
        &mut self,
        ring: &mut Ring,
        (time_ns, weight, flags): (u64, u32, u8),
        learned: &mut Learned,
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
        thread.weight = thread.weight.saturating_add(u64::from(weight));
        let python = (flags & SAMPLE_PYTHON != 0).then_some(ring.python.flags);
        self.count(weight, flags, &ring.stack);
        let mark = self.mark(flags, python, &ring.stack, time_ns, learned);
        self.last_time_ns = self.last_time_ns.max(time_ns);
        self.trace.open(&learned.identity, tools);
        let shown = &mut self.shown;
        shown.start(&learned.frames, mark.as_slice());
        let stacks = (&ring.stack, &ring.python);
        let unpaired = show(shown, stacks, (flags, python), learned, tools.run.python);
        if shown.frames.is_empty() {
            shown.push(&learned.frames, &[learned.marks.profiler]);
        }
        if let Some(flags) = python {
            self.tally.python.count(flags);
            self.tally.python.unpaired_frames += unpaired as u64;
        }
        let frames = &learned.frames;
        let weight_ns = u64::from(weight).saturating_mul(tools.run.weight_unit());
        let is_main_thread = thread.tid == learned.identity.pid;
        self.digest
            .sample(shown.functions.last().copied(), is_main_thread, weight_ns);
        let Some(output) = &mut self.trace.output else {
            self.tally.unwritten += 1;
            return;
        };
        let callstack = output.callstack(frames, &shown.frames);
        self.samples
            .push(output.sample(time_ns, thread.tid, callstack, weight_ns));
        if let Some(overview) = &mut self.overview {
            overview.cpu(thread.tid, (time_ns, weight_ns), &shown.frames, frames);
        }
        let (tid, name) = (thread.tid, thread.name.shown());
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
        let mut pen = SliceWriter {
            output,
            names: &mut self.slice_names,
            frames,
            slices: &mut self.tally.slices,
        };
        let ThreadTrack { sequence, builder } = track;
        // Of the time before the recording nothing is known, though the first sample may stand for some of it.
        let begin_ns = window_begin_ns.max(learned.identity.start_time_ns.min(time_ns));
        builder.begin_at(begin_ns, |event| pen.write(sequence, event));
        builder.sample(time_ns, weight, &shown.functions, |event| {
            pen.write(sequence, event)
        });
    }

    fn count(&mut self, weight: u32, flags: u8, stack: &Stack) {
        let tally = &mut self.tally;
        tally.samples += 1;
        tally.weight = tally.weight.saturating_add(u64::from(weight));
        tally.perf_samples += u64::from(flags & SAMPLE_PERF != 0);
        let words = stack.words().iter();
        let scanned = words.filter(|word| **word & FRAME_SCANNED != 0).count() as u64;
        tally.scanned_frames += scanned;
        tally.scanned_stacks += u64::from(scanned > 0);
    }

    /// The frame that says what is wrong with a stack, if anything is.
    fn mark(
        &mut self,
        flags: u8,
        python: Option<u8>,
        stack: &Stack,
        time_ns: u64,
        learned: &Learned,
    ) -> Option<FrameId> {
        let has = |native: u8, in_python: u8| {
            flags & native != 0 || python.is_some_and(|flags| flags & in_python != 0)
        };
        if has(SAMPLE_TRUNCATED, PYTHON_TRUNCATED) {
            self.tally.truncated_stacks += 1;
            return Some(learned.marks.truncated);
        }
        if has(SAMPLE_BROKEN, PYTHON_BROKEN) {
            self.tally.broken_stacks += 1;
            if let Some(&outermost) = stack.words().first() {
                self.stops.add(learned.frames.path_of(outermost, time_ns));
            }
            return Some(learned.marks.broken);
        }
        None
    }
}

/// Adds to `shown` what is to be seen of a native stack with these flags and of a Python stack,
/// which has flags if the sample has one. Returns how many Python frames found no native function
/// that runs them.
fn show(
    shown: &mut ShownStack,
    (native, python): (&Stack, &PythonStack),
    (flags, python_flags): (u8, Option<u8>),
    learned: &Learned,
    view: PythonView,
) -> usize {
    let frames = &learned.frames;
    match python_flags {
        Some(_) if view.only => shown.push_python(frames, python),
        Some(python_flags) => {
            let ends = Ends {
                native_root: flags & (SAMPLE_TRUNCATED | SAMPLE_BROKEN) == 0,
                python_root: python_flags & (PYTHON_TRUNCATED | PYTHON_BROKEN) == 0,
            };
            return shown.push_merged(frames, native, python, ends, view.interpreter);
        }
        None if view.only => shown.push(frames, &[learned.marks.no_python]),
        None => shown.push_native(native),
    }
    0
}
