//! The records of one ring, one after the other.

use rsys_wire::event::Event;
use rsys_wire::record::{Record, Records};

use super::Drawing;
use super::events::{EventThread, EventWriter, is_worth_a_file};
use super::thread_counters::{Counts, EventTracks};
use super::threads::Thread;
use crate::emit::batch::RingWords;
use crate::emit::learned::Learned;
use crate::emit::learned::stacks::{PythonStack, Stack, thread_name};
use crate::emit::tools::Tools;
use crate::run::RunContext;

/// One ring as we know it: what a record of it refers to that came before in the same ring.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) stack: Stack,
    pub(super) python: PythonStack,
    pub(super) thread: Option<Thread>,
    event_thread: EventThread,
    /// Counts of the thread's events that wait for its track.
    pub(super) counts: Option<Counts>,
    /// The tracks of these events.
    pub(super) tracks: EventTracks,
}

impl Ring {
    fn clear(&mut self) {
        self.stack.clear();
        self.python.clear();
        self.counts = None;
        self.tracks = EventTracks::default();
    }

    /// There is no trace any more that the thread could be drawn in.
    pub(super) fn forget_track(&mut self) {
        if let Some(thread) = &mut self.thread {
            thread.track = None;
        }
    }
}

impl Drawing {
    /// Draws what is in the words of a ring.
    pub(super) fn ring(&mut self, words: &RingWords, learned: &mut Learned, tools: &mut Tools<'_>) {
        let mut ring = self.rings.remove(&words.ring).unwrap_or_default();
        if words.after_damage {
            self.tally.corrupt += 1;
            ring.clear();
        }
        for record in Records::new(&words.words) {
            match record {
                Ok(record) => self.record(&mut ring, record, learned, tools),
                Err(_) => {
                    self.tally.corrupt += 1;
                    ring.clear();
                }
            }
        }
        self.rings.insert(words.ring, ring);
    }

    fn record(
        &mut self,
        ring: &mut Ring,
        record: Record<'_>,
        learned: &mut Learned,
        tools: &mut Tools<'_>,
    ) {
        match record {
            Record::ThreadStart {
                time_ns,
                tid,
                clock: _,
                name,
                routine: _,
            } => {
                self.close_thread(ring, learned);
                ring.clear();
                let name = thread_name(&name);
                if let Some(output) = &mut self.trace.output {
                    output.thread_starts(tid, &name);
                }
                let number = learned.numbers.start(tid, time_ns);
                ring.thread = Some(Thread::new(tid, number, &name));
                self.tally.threads += 1;
            }
            Record::ThreadName { name } => {
                if let Some(thread) = &mut ring.thread {
                    let name = thread_name(&name);
                    thread.rename(self.trace.output.as_mut(), |names| names.by_kernel(&name));
                }
            }
            Record::ThreadEnd {
                time_ns: _,
                cpu_time_ns,
                name,
            } => {
                if let Some(thread) = &mut ring.thread {
                    let tally = &mut self.tally;
                    tally.ended_cpu_ns = tally.ended_cpu_ns.saturating_add(cpu_time_ns);
                    tally.ended_weight = tally.ended_weight.saturating_add(thread.weight);
                    let name = thread_name(&name);
                    thread.rename(self.trace.output.as_mut(), |names| names.by_kernel(&name));
                }
                self.close_thread(ring, learned);
                ring.clear();
            }
            Record::Sample {
                time_ns,
                weight,
                flags,
                shared,
                frames,
            } => {
                if ring.stack.update(&learned.frames, time_ns, shared, frames) {
                    self.sample(ring, (time_ns, weight, flags), learned, tools);
                } else {
                    self.tally.corrupt += 1;
                }
            }
            Record::PythonStack {
                flags,
                shared,
                frames,
            } => {
                let python = &mut ring.python;
                let is_whole = python.update(&mut learned.frames, flags, shared, frames);
                self.tally.corrupt += u64::from(!is_whole);
            }
            Record::PythonThread { name } => {
                if let Some(thread) = &mut ring.thread {
                    thread.rename(self.trace.output.as_mut(), |names| names.by_python(&name));
                }
            }
            Record::Counters {
                time_ns,
                enabled_ns,
                running_ns,
                values,
            } => {
                let counts = Counts::new(time_ns, enabled_ns, running_ns, values);
                self.counts(ring, counts, tools.run);
            }
            // Learnt before anything is drawn.
            Record::Module { .. }
            | Record::PythonCode { .. }
            | Record::PythonInterpreter { .. } => {}
            Record::Event(event) => self.event(&mut ring.event_thread, &event, learned, tools),
            Record::Note { text, .. } => {
                learned.note(String::from_utf8_lossy(&text).into_owned());
            }
        }
    }

    /// Takes over the counts of a thread's events. Its first ones come in front of its first
    /// sample, which makes its track.
    fn counts(&mut self, ring: &mut Ring, counts: Counts, run: &RunContext) {
        let track = ring.thread.as_ref().and_then(|one| one.track.as_ref());
        match (track, &mut self.trace.output) {
            (Some(track), Some(output)) => {
                let thread = track.sequence.track();
                counts.write(&mut ring.tracks, thread, output, run, &mut self.tally);
            }
            _ => ring.counts = Some(counts),
        }
    }

    fn event(
        &mut self,
        event_thread: &mut EventThread,
        event: &Event<'_>,
        learned: &mut Learned,
        tools: &mut Tools<'_>,
    ) {
        if is_worth_a_file(event) {
            self.trace.open(&learned.identity, tools);
        }
        let Some(output) = &mut self.trace.output else {
            return event_thread.follow(event);
        };
        let mut pen = EventWriter {
            output,
            known: &mut learned.events,
            frames: &mut learned.frames,
            tally: &mut self.tally.events,
            digest: &mut self.digest,
            overview: self.overview.as_deref_mut(),
            run: tools.run,
            last_time_ns: &mut self.last_time_ns,
        };
        self.events.draw(event_thread, event, &mut pen);
    }
}
