//! The tracks of a process's threads: their slices, their names, their ends.

use rsys_proto::{Event, EventKind, Name};

use super::super::output::Output;
use super::super::profile::Whose;
use super::{ProcessTrace, Ring};
use crate::emit::drawing::slices::{Part, SliceEvent};
use crate::emit::drawing::threads::{SliceNames, Thread, ThreadTrack};
use crate::emit::learned::frames::{Frames, FunctionId};

impl ProcessTrace {
    pub(super) fn close_thread(&mut self, ring: &mut Ring) {
        let Some(mut thread) = ring.thread.take() else {
            return;
        };
        if let Some(profile) = &mut self.profile {
            profile.rename(Whose {
                number: thread.number,
                tid: thread.tid,
                name: &thread.name,
            });
        }
        if let Some(output) = &mut self.output {
            output.thread_ends(thread.tid);
        }
        if let (Some(output), Some(track)) = (&mut self.output, &mut thread.track) {
            let mut pen = Pen {
                output,
                names: &mut self.slice_names,
                frames: &self.frames,
                slices: &mut self.tally.slices,
            };
            let ThreadTrack { sequence, builder } = track;
            builder.close(|event| pen.write(sequence, event));
        }
    }

    /// Looks at the threads: new names are told, and what is idle is closed.
    pub fn look_at_threads(&mut self, now_ns: u64) {
        let Some(output) = &mut self.output else {
            return;
        };
        let pid = self.identity.host_pid;
        let names_can_be_read = pid == self.identity.pid;
        for ring in self.rings.values_mut() {
            let Some(thread) = &mut ring.thread else {
                continue;
            };
            if thread.track.is_none() {
                continue;
            }
            if names_can_be_read
                && let Ok(name) =
                    std::fs::read_to_string(format!("/proc/{pid}/task/{}/comm", thread.tid))
            {
                rename_by_kernel(Some(output), thread, name.trim_end_matches('\n'));
            }
            if let Some(ThreadTrack { sequence, builder }) = &mut thread.track {
                let mut pen = Pen {
                    output,
                    names: &mut self.slice_names,
                    frames: &self.frames,
                    slices: &mut self.tally.slices,
                };
                builder.idle(now_ns, |event| pen.write(sequence, event));
            }
        }
        self.flush(false);
    }
}

/// Writes slices.
pub(super) struct Pen<'a> {
    pub(super) output: &'a mut Output,
    pub(super) names: &'a mut SliceNames,
    pub(super) frames: &'a Frames,
    pub(super) slices: &'a mut u64,
}

impl Pen<'_> {
    pub(super) fn write(
        &mut self,
        sequence: &mut rsys_proto::TrackSequence,
        event: SliceEvent<FunctionId>,
    ) {
        let category = self.output.sample_category();
        let out = self.output.buffer();
        *self.slices += u64::from(matches!(event, SliceEvent::Begin(..)));
        let (time_ns, name) = match event {
            SliceEvent::Begin(time_ns, Part::Function(function)) => {
                let name = self.names.get(function, || {
                    out.intern(&self.frames.function(function).name)
                });
                (time_ns, name)
            }
            SliceEvent::Begin(time_ns, Part::Folded(count)) => {
                (time_ns, out.intern(&format!("[… {count} frames]")))
            }
            SliceEvent::End(time_ns) => return sequence.slice_end(out, time_ns),
        };
        if category.is_none() {
            return sequence.slice_begin(out, time_ns, name);
        }
        let slice = Event {
            name: Name::Interned(name),
            category,
            ..Event::default()
        };
        sequence.event(out, time_ns, EventKind::SliceBegin, &slice);
    }
}

/// The kernel keeps names of threads up to this length, in bytes.
const KERNEL_NAME_MAX: usize = 15;

/// Takes over the kernel's name when it is another one than before.
pub(super) fn rename_by_kernel(output: Option<&mut Output>, thread: &mut Thread, name: &str) {
    if name == thread.kernel_name {
        return;
    }
    let first = thread.kernel_name.is_empty();
    name.clone_into(&mut thread.kernel_name);
    // A young thread's name is not known yet, while Python's may be: the whole of what the kernel cuts.
    let is_cut = name.len() == KERNEL_NAME_MAX && thread.name.starts_with(name);
    if (!first || thread.name.is_empty()) && !is_cut {
        rename(output, thread, name.to_owned());
    }
}

pub(super) fn rename(output: Option<&mut Output>, thread: &mut Thread, name: String) {
    if name.is_empty() || name == thread.name {
        return;
    }
    thread.name = name;
    if let (Some(output), Some(track)) = (output, &thread.track) {
        output.rename(&track.sequence, thread.tid, &thread.name);
    }
}
