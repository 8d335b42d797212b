//! The tracks of a process's threads: their slices, their names, their ends.

use rsys_proto::{Event, EventKind, Name, StringId, TrackSequence};

use super::Drawing;
use super::records::Ring;
use super::slices::{Part, SliceBuilder, SliceEvent, Timing};
use crate::emit::learned::Learned;
use crate::emit::learned::frames::{Frames, FunctionId};
use crate::emit::output::Output;
use crate::emit::profile::Whose;
use crate::emit::thread_name::ThreadName;
use crate::procfs;

/// A thread that has a ring.
#[derive(Debug)]
pub struct Thread {
    /// Its id, as the process sees it.
    pub tid: u32,
    /// How many threads of the process started before it.
    pub number: u32,
    /// Its names.
    pub name: ThreadName,
    /// Its track, once it has a sample.
    pub track: Option<ThreadTrack>,
    /// Periods of CPU time that its samples stand for.
    pub weight: u64,
}

impl Thread {
    /// A thread that begins with its creator's name.
    pub fn new(tid: u32, number: u32, name: &str) -> Self {
        Self {
            tid,
            number,
            name: ThreadName::inherited(name),
            track: None,
            weight: 0,
        }
    }

    /// Takes over a name.
    pub fn rename(
        &mut self,
        output: Option<&mut Output>,
        take_over: impl Fn(&mut ThreadName) -> bool,
    ) {
        take_over(&mut self.name);
        if let Some(output) = output {
            output.name_thread(self.tid, take_over);
        }
    }
}

/// The track of a thread.
#[derive(Debug)]
pub struct ThreadTrack {
    /// Its events.
    pub sequence: TrackSequence,
    /// What paints its slices.
    pub builder: SliceBuilder<FunctionId>,
}

impl ThreadTrack {
    /// A track without events.
    #[must_use]
    pub fn new(sequence: TrackSequence, timing: Timing) -> Self {
        Self {
            sequence,
            builder: SliceBuilder::new(timing),
        }
    }
}

/// The names of functions as slices, found once.
#[derive(Debug, Default)]
pub struct SliceNames {
    names: Vec<Option<StringId>>,
}

impl SliceNames {
    /// The name of a function.
    pub fn get(&mut self, function: FunctionId, intern: impl FnOnce() -> StringId) -> StringId {
        let index = function.0 as usize;
        if index >= self.names.len() {
            self.names.resize(index + 1, None);
        }
        *self.names[index].get_or_insert_with(intern)
    }
}

impl Drawing {
    /// Closes the slices of a ring's thread, which has ended.
    pub(super) fn close_thread(&mut self, ring: &mut Ring, learned: &Learned) {
        let Some(mut thread) = ring.thread.take() else {
            return;
        };
        if let Some(profile) = &mut self.profile {
            profile.rename(Whose {
                number: thread.number,
                tid: thread.tid,
                name: thread.name.shown(),
            });
        }
        let Some(output) = &mut self.trace.output else {
            return;
        };
        output.thread_ends(thread.tid);
        if let Some(ThreadTrack { sequence, builder }) = &mut thread.track {
            let mut pen = SliceWriter {
                output,
                names: &mut self.slice_names,
                frames: &learned.frames,
                slices: &mut self.tally.slices,
            };
            builder.close(|event| pen.write(sequence, event));
        }
    }

    /// Looks at the threads: takes over new names, and closes the slices of those that do not run.
    pub fn look_at_threads(&mut self, now_ns: u64, learned: &Learned) {
        let Some(output) = &mut self.trace.output else {
            return;
        };
        let pid = learned.identity.host_pid;
        let names_can_be_read = pid == learned.identity.pid;
        for ring in self.rings.values_mut() {
            let Some(thread) = &mut ring.thread else {
                continue;
            };
            if thread.track.is_none() {
                continue;
            }
            if names_can_be_read
                && let Ok(name) = procfs::text(format!("/proc/{pid}/task/{}/comm", thread.tid))
            {
                let name = name.trim_end_matches('\n');
                thread.rename(Some(output), |names| names.by_kernel(name));
            }
            if let Some(ThreadTrack { sequence, builder }) = &mut thread.track {
                let mut pen = SliceWriter {
                    output,
                    names: &mut self.slice_names,
                    frames: &learned.frames,
                    slices: &mut self.tally.slices,
                };
                builder.idle(now_ns, |event| pen.write(sequence, event));
            }
        }
        self.flush(false);
    }
}

/// Writes slices.
pub(super) struct SliceWriter<'a> {
    pub(super) output: &'a mut Output,
    pub(super) names: &'a mut SliceNames,
    pub(super) frames: &'a Frames,
    pub(super) slices: &'a mut u64,
}

impl SliceWriter<'_> {
    pub(super) fn write(&mut self, sequence: &mut TrackSequence, event: SliceEvent<FunctionId>) {
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
