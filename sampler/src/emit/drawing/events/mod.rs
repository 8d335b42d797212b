//! Calls, GPU operations and marks on their way into the trace.
//!
//! What others refer to (texts, stacks, which call has a correlation) was learnt from a whole batch
//! before anything is drawn ([`EventTables`]): it may stand in the ring of another thread.

mod args;
mod calls;
mod gpu;
mod lanes;
mod locks;
mod messages;
mod profiled;
mod proxies;
mod traffic;

use rsys_wire::event::{Category, Event, Labelled};

use self::calls::Calls;
use self::gpu::Gpu;
use self::profiled::Profiled;
use self::proxies::Proxies;
use crate::emit::account::EventTally;
use crate::emit::digest::Digest;
use crate::emit::learned::events::EventTables;
use crate::emit::learned::frames::Frames;
use crate::emit::learned::stacks::thread_name;
use crate::emit::output::Output;
use crate::emit::overview::Overview;
use crate::run::RunContext;

/// The recorded calls and operations of a process.
#[derive(Debug, Default)]
pub struct Events {
    calls: Calls,
    gpu: Gpu,
    proxies: Proxies,
    profiled: Profiled,
}

/// Whose events a ring holds.
#[derive(Debug, Default)]
pub struct EventThread {
    tid: u32,
    name: String,
}

impl EventThread {
    /// Takes over whose events follow, if an event says so.
    pub fn follow(&mut self, event: &Event<'_>) {
        if let Event::Thread { tid, name, .. } = event {
            *self = EventThread {
                tid: *tid,
                name: thread_name(name),
            };
        }
    }
}

/// What events are drawn with.
#[derive(Debug)]
pub struct EventWriter<'a> {
    /// The trace.
    pub output: &'a mut Output,
    /// What the events refer to.
    pub known: &'a mut EventTables,
    /// What stands behind addresses.
    pub frames: &'a mut Frames,
    /// What is counted.
    pub tally: &'a mut EventTally,
    /// What the closing table says.
    pub digest: &'a mut Digest,
    /// The small trace of the whole run, if there is to be one.
    pub overview: Option<&'a mut Overview>,
    /// Which times are kept.
    pub run: &'a RunContext,
    /// The latest time that was seen.
    pub last_time_ns: &'a mut u64,
}

impl EventWriter<'_> {
    /// The part of a time that lies in the windows that are kept. What lies outside is counted.
    fn kept_part(&mut self, [begin_ns, end_ns]: [u64; 2]) -> Option<(u64, u64)> {
        let end_ns = end_ns.max(begin_ns);
        *self.last_time_ns = end_ns.max(*self.last_time_ns);
        let part = self.run.windows.events.first_part(begin_ns, end_ns);
        self.tally.outside_window += u64::from(part.is_none());
        part
    }
}

/// Whether an event shows something that is worth a trace.
#[must_use]
pub fn is_worth_a_file(event: &Event<'_>) -> bool {
    !matches!(
        event,
        Event::Thread { .. }
            | Event::Text { .. }
            | Event::Place { .. }
            | Event::Stack(_)
            | Event::Label { .. }
            | Event::Fact { .. }
    )
}

impl Events {
    /// Draws an event.
    pub fn draw(&mut self, thread: &mut EventThread, event: &Event<'_>, pen: &mut EventWriter<'_>) {
        match event {
            Event::Thread { .. } => thread.follow(event),
            Event::Begin { .. }
            | Event::End { .. }
            | Event::Mark { .. }
            | Event::AsyncBegin { .. }
            | Event::AsyncEnd { .. } => self.calls.draw(thread, event, pen),
            Event::Gpu { op, args } => self.gpu.draw(op, *args, pen),
            Event::Span {
                begin_ns,
                end_ns,
                category,
                name,
                args,
            } => {
                let when_ns = [*begin_ns, *end_ns];
                let what = (*category, *name);
                match category {
                    Category::RcclProxy => self.proxies.draw(when_ns, what, *args, pen),
                    _ => self.profiled.draw(when_ns, what, *args, pen),
                }
            }
            Event::Label {
                what: Labelled::Thread,
                id,
                text,
                ..
            } => {
                let (tid, name) = (*id as u32, String::from_utf8_lossy(text));
                pen.output.name_thread(tid, |names| names.by_program(&name));
                // What has a name is shown, though it may do nothing else.
                pen.output.thread_uuid(tid, "");
            }
            Event::Label { what, id, .. } => self.gpu.rename(*what, *id, pen.known),
            Event::Text { .. } | Event::Place { .. } | Event::Stack(_) | Event::Fact { .. } => {}
        }
    }

    /// Ends a batch: what was gathered is written.
    pub fn flush(&mut self, output: &mut Output) {
        self.calls.flush(output);
        self.gpu.flush(output);
    }

    /// Closes what is open. The trace ends at `end_ns`.
    pub fn finish(&mut self, end_ns: u64, pen: &mut EventWriter<'_>) {
        self.calls.finish(end_ns, pen);
        self.gpu.finish(pen);
        self.gpu.flush(pen.output);
    }
}
