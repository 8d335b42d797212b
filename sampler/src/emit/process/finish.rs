//! The end of a process's trace.

use rsys_wire::layout::Counter;

use super::super::profile::{About, Written};
use super::{ProcessTrace, Tools};
use crate::emit::account::{AgentCounts, Coverage, End};
use crate::emit::outcome::ProcessSummary;
use crate::emit::output::metadata::AtEnd;
use crate::os;
use crate::terminal::say;

impl ProcessTrace {
    /// Ends the trace.
    pub fn finish(
        mut self,
        end: End,
        mut counts: AgentCounts,
        tools: &mut Tools<'_>,
    ) -> ProcessSummary {
        self.tally.outside_window += counts.counter(Counter::NotWanted);
        let lost = counts.lose_what_gpus_had();
        if lost > 0 {
            self.notes.push(format!(
                "the process ended while {lost} GPU operations were under way or not yet told of: they are not in the trace"
            ));
        }
        let mut rings = self.awaited.end();
        rings.append(&mut self.later);
        self.frames.read_map_again();
        self.hold_or_handle(rings, tools);
        let short = self.end_of_holding(end, tools);
        self.open_for_command(end, tools);
        for (_, mut ring) in std::mem::take(&mut self.rings) {
            self.close_thread(&mut ring);
        }
        self.finish_events(tools);
        self.write_counters(tools);
        self.draw_absences(tools);
        let data = AtEnd {
            tally: &self.tally,
            stops: &self.stops,
            counts: &counts,
            end,
            modules: self.frames.modules() as u64,
            unresolved: self.frames.unresolved(),
            period_ns: self.timing.period_ns,
            notes: &self.notes,
            python: &self.interpreters,
            codes: self.frames.codes(),
            unknown_codes: self.frames.unknown_codes(),
            realtime: tools.run.realtime_hz.is_some(),
            facts: &self.events.facts,
            off_cpu: tools.run.off_cpu,
            by_time: tools.run.overflow.is_none(),
        }
        .data();
        let time_ns = match end {
            End::StillRunning => self.last_time_ns,
            _ => os::boot_time_ns().max(self.last_time_ns),
        };
        if let Some(output) = &mut self.output {
            output.end(time_ns, &data);
        }
        self.flush(true);
        if let Some(path) = self.path.take_if(|path| !path.exists()) {
            let text = format!(
                "{}: the trace was removed while it was written",
                path.display()
            );
            say(&format!("error: {text}"));
            self.trouble = Some(text);
        }
        let profile = self.write_profile(tools);
        ProcessSummary {
            path: self.path,
            profile,
            trouble: self.trouble,
            short,
            rank: self.identity.rank.as_ref().map(|rank| rank.rank),
            pid: self.identity.pid,
            name: self.identity.name().to_owned(),
            clock: self.identity.clock.clone(),
            notes: self.notes,
            coverage: match tools.run.overflow {
                None => Coverage::new(&self.tally, &counts, self.timing.period_ns),
                Some(_) => Coverage::Unknown,
            },
            interpreters: self.interpreters,
            tally: self.tally,
            stops: self.stops,
            counts,
            end,
        }
    }

    /// Writes the summary, if one was asked for and there is anything in it.
    fn write_profile(&mut self, tools: &Tools<'_>) -> Written {
        let profile = self.profile.take();
        let Some(profile) = profile.filter(|one| !one.is_empty()) else {
            return Written::default();
        };
        let identity = &self.identity;
        let about = About {
            pid: identity.pid,
            name: identity.name().to_owned(),
            command_line: identity.command_line.clone(),
            rank: identity.rank.as_ref().map(|rank| rank.rank),
            host: tools.run.host.clone(),
            frequency_hz: tools.run.frequency_hz,
        };
        let layout = tools.run.layout_of(identity);
        profile.write(&about, &self.frames, &layout, &self.id)
    }
}
