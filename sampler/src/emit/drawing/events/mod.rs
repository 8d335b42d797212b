//! Calls, GPU operations and marks on their way into the trace.
//!
//! What others refer to (texts, stacks, which call has a correlation) is taken from a whole batch before anything is drawn
//! ([`Events::learn`]): it may stand in the ring of another thread.

mod args;
mod calls;
mod gpu;
mod lanes;

use rsys_wire::event::{Event, Labelled};

use self::calls::Calls;
use self::gpu::Gpu;
use crate::emit::account::EventTally;
use crate::emit::learned::events::Known;
pub use crate::emit::learned::events::StackMarks;
use crate::emit::learned::frames::Frames;
use crate::emit::learned::stacks::thread_name;
use crate::emit::output::Output;
use crate::python::PythonView;
use crate::run::RunContext;

/// What was told of a process.
#[derive(Debug, Default)]
pub struct Events {
    known: Known,
    calls: Calls,
    gpu: Gpu,
    /// What was told of the process itself: keys and values, in order.
    pub facts: Vec<(String, String)>,
}

/// Whose events a ring holds.
#[derive(Debug, Default)]
pub struct Teller {
    tid: u32,
    name: String,
}

impl Teller {
    /// Takes over whose events follow, if an event says so.
    pub fn follow(&mut self, event: &Event<'_>) {
        if let Event::Thread { tid, name, .. } = event {
            *self = Teller {
                tid: *tid,
                name: thread_name(name),
            };
        }
    }
}

/// What events are drawn with.
#[derive(Debug)]
pub struct EventPen<'a> {
    /// The trace.
    pub output: &'a mut Output,
    /// What stands behind addresses.
    pub frames: &'a mut Frames,
    /// What is counted.
    pub tally: &'a mut EventTally,
    /// Which times are kept.
    pub run: &'a RunContext,
    /// The latest time that was seen.
    pub last_time_ns: &'a mut u64,
}

/// Whether an event shows something that is worth a trace.
#[must_use]
pub fn is_worth_a_file(event: &Event<'_>) -> bool {
    !matches!(
        event,
        Event::Thread { .. }
            | Event::Text { .. }
            | Event::Stack(_)
            | Event::Label { .. }
            | Event::Fact { .. }
    )
}

impl Events {
    /// Takes what other events may refer to. Every event of a batch comes here before any is drawn. Returns what a fact says to the
    /// user, if it does.
    pub fn learn(&mut self, ring: u32, event: &Event<'_>, now_ns: u64) -> Option<String> {
        match event {
            Event::Fact { key, value } => {
                let key = String::from_utf8_lossy(key).into_owned();
                let value = String::from_utf8_lossy(value).into_owned();
                if key == "note" {
                    return Some(value);
                }
                match self.facts.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => self.facts.push((key, value)),
                }
            }
            event => self.known.learn(ring, event, now_ns),
        }
        None
    }

    /// Says which addresses of new stacks have to be resolved.
    pub fn want(&self, frames: &mut Frames) {
        self.known.want(frames);
    }

    /// Takes over the frames of new stacks, once they are resolved.
    pub fn settle(&mut self, frames: &mut Frames, marks: StackMarks, view: PythonView) {
        self.known.settle(frames, marks, view);
    }

    /// Draws an event.
    pub fn draw(&mut self, teller: &mut Teller, event: &Event<'_>, pen: &mut EventPen<'_>) {
        match event {
            Event::Thread { .. } => teller.follow(event),
            Event::Begin { .. }
            | Event::End { .. }
            | Event::Mark { .. }
            | Event::AsyncBegin { .. }
            | Event::AsyncEnd { .. } => self.calls.draw(teller, event, &self.known, pen),
            Event::Gpu { op, args } => self.gpu.draw(op, *args, &mut self.known, pen),
            Event::Label {
                what: Labelled::Thread,
                id,
                text,
                ..
            } => {
                let (tid, name) = (*id as u32, String::from_utf8_lossy(text));
                let uuid = pen.output.thread_uuid(tid, &name);
                pen.output.rename_thread(uuid, tid, &name);
            }
            Event::Label { what, id, .. } => self.gpu.rename(*what, *id, &self.known),
            Event::Text { .. } | Event::Stack(_) | Event::Fact { .. } => {}
        }
    }

    /// Ends a batch: what was gathered is written.
    pub fn flush(&mut self, output: &mut Output) {
        self.gpu.flush(output);
    }

    /// Closes what is open. The trace ends at `end_ns`.
    pub fn finish(&mut self, end_ns: u64, pen: &mut EventPen<'_>) {
        self.calls.finish(end_ns, &self.known, pen);
        self.gpu.flush(pen.output);
    }
}
