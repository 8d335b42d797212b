//! What interceptions told of a process, on its way into the trace.

use rsys_wire::event::Event;

use super::{NOTES_MAX, ProcessTrace, Tools};
use crate::emit::drawing::events::{EventPen, Teller, is_worth_a_file};
use crate::os;
use crate::terminal::say;

impl ProcessTrace {
    /// Takes what other events refer to.
    pub(super) fn learn(&mut self, ring: u32, event: &Event<'_>) {
        let Some(note) = self.events.learn(ring, event, os::boot_time_ns()) else {
            return;
        };
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            if self.verbosity >= 0 {
                say(&format!(
                    "pid {} ({}): {note}",
                    self.identity.pid,
                    self.identity.name()
                ));
            }
            self.notes.push(note);
        }
    }

    /// Draws an event.
    pub(super) fn event(&mut self, teller: &mut Teller, event: &Event<'_>, tools: &mut Tools<'_>) {
        if is_worth_a_file(event) && self.output.is_none() && self.trouble.is_none() {
            self.open(tools);
        }
        match &mut self.output {
            Some(output) => {
                let mut pen = EventPen {
                    output,
                    frames: &mut self.frames,
                    tally: &mut self.tally.events,
                    run: tools.run,
                    last_time_ns: &mut self.last_time_ns,
                };
                self.events.draw(teller, event, &mut pen);
            }
            None => teller.follow(event),
        }
    }

    /// Closes what is open.
    pub(super) fn finish_events(&mut self, tools: &Tools<'_>) {
        if let Some(output) = &mut self.output {
            let end_ns = self.last_time_ns;
            let mut pen = EventPen {
                output,
                frames: &mut self.frames,
                tally: &mut self.tally.events,
                run: tools.run,
                last_time_ns: &mut self.last_time_ns,
            };
            self.events.finish(end_ns, &mut pen);
        }
    }
}
