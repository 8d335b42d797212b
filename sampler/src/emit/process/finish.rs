//! The end of a process's trace.

use rsys_wire::layout::Counter;

use super::ProcessTrace;
use crate::emit::account::{AgentCounts, Coverage, End};
use crate::emit::outcome::ProcessSummary;
use crate::emit::output::metadata::{AtEnd, Datum};
use crate::emit::profile::{About, Written};
use crate::emit::tools::Tools;
use crate::os;
use crate::run::{RunContext, SwitchRecords};

impl ProcessTrace {
    /// Ends the trace.
    pub fn finish(
        mut self,
        end: End,
        mut counts: AgentCounts,
        tools: &mut Tools<'_>,
    ) -> ProcessSummary {
        self.drawing.tally.outside_window += counts.counter(Counter::NotWanted);
        let lost = counts.lose_what_gpus_had();
        if lost > 0 {
            self.learned.notes.push(format!(
                "the process ended while {lost} GPU operations were under way or not yet reported: they are not in the trace"
            ));
        }
        let mut rings = self.awaited.end();
        rings.append(&mut self.later);
        self.learned.frames.read_map_again();
        self.hold_or_draw(rings, tools);
        let short = self.end_of_holding(end, tools);
        self.open_for_command(end, tools);
        self.drawing.close(&mut self.learned, tools.run);
        let (learned, drawing) = (&self.learned, &mut self.drawing);
        let mut data = AtEnd {
            tally: &drawing.tally,
            stops: &drawing.stops,
            counts: &counts,
            end,
            modules: learned.frames.modules() as u64,
            unresolved: learned.frames.unresolved(),
            period_ns: tools.run.period_ns(),
            notes: &learned.notes,
            python: &learned.interpreters,
            codes: learned.frames.codes(),
            unknown_codes: learned.frames.unknown_codes(),
            realtime: tools.run.realtime_hz.is_some(),
            facts: &learned.facts,
            off_cpu: tools.run.switches != SwitchRecords::Off,
            off_cpu_with_delays: tools.run.draws_blocked(),
            by_time: tools.run.overflow.is_none(),
        }
        .data();
        if short {
            data.push(("short_process".to_owned(), Datum::Count(1)));
        }
        let time_ns = match end {
            End::StillRunning => drawing.last_time_ns,
            _ => os::boot_time_ns().max(drawing.last_time_ns),
        };
        let wall_ns = time_ns.saturating_sub(learned.identity.start_time_ns);
        drawing.write_overview(time_ns, learned, tools);
        drawing.end(time_ns, &data);
        let profile = self.write_profile(tools.run);
        let (learned, drawing) = (self.learned, self.drawing);
        let digest = drawing
            .digest
            .finish(&learned.frames, &learned.events, wall_ns);
        ProcessSummary {
            path: drawing.trace.path,
            parts: drawing.trace.parts,
            overview: drawing.trace.overview,
            shared: drawing.trace.shared,
            profile,
            trouble: drawing.trace.trouble,
            short,
            rank: learned.identity.rank.as_ref().map(|rank| rank.rank),
            pid: learned.identity.pid,
            name: learned.identity.name().to_owned(),
            clock: learned.identity.clock.clone(),
            notes: learned.notes,
            coverage: match tools.run.overflow {
                None => Coverage::new(&drawing.tally, &counts, tools.run.period_ns()),
                Some(_) => Coverage::Unknown,
            },
            interpreters: learned.interpreters,
            digest,
            tally: drawing.tally,
            stops: drawing.stops,
            counts,
            end,
        }
    }

    /// Writes the summary, if one was asked for and there is anything in it.
    fn write_profile(&mut self, run: &RunContext) -> Written {
        let profile = self.drawing.profile.take();
        let Some(profile) = profile.filter(|one| !one.is_empty()) else {
            return Written::default();
        };
        let identity = &self.learned.identity;
        let about = About {
            pid: identity.pid,
            name: identity.name().to_owned(),
            command_line: identity.command_line.clone(),
            rank: identity.rank.as_ref().map(|rank| rank.rank),
            host: run.host.clone(),
            frequency_hz: run.frequency_hz,
        };
        let layout = run.layout_of(identity);
        let id = &self.drawing.trace.id;
        profile.write(&about, &self.learned.frames, &layout, id)
    }
}
