//! How records become tracks.
//!
//! [`Drawing`] is what is drawn of one process with what was [`learned`](super::learned):
//! [`records`] goes through the words of its rings. [`samples`] puts the timeline of [`threads`]
//! together from [`slices`]; [`events`] draws calls and GPU operations. What comes from outside of
//! the process has tracks of its own ([`outside`]): [`mod@waits`], times [`off_cpu`] and
//! [`counters`]; the events that threads count are [`thread_counters`]. [`trace`] is opened with
//! the first thing that is worth it.

pub mod counters;
pub mod events;
pub mod off_cpu;
mod outside;
mod records;
mod samples;
pub mod slices;
pub mod thread_counters;
mod threads;
pub mod trace;
pub mod waits;

use std::collections::HashMap;

use rsys_proto::Sample;

use self::counters::CounterTracks;
use self::events::{EventWriter, Events};
use self::off_cpu::OffCpuTracks;
pub use self::outside::are_kept;
use self::records::Ring;
use self::slices::Timing;
use self::threads::SliceNames;
use self::trace::Trace;
use self::waits::WaitTracks;
use super::account::{Stops, Tally};
use super::batch::RingWords;
use super::digest::Digest;
use super::learned::Learned;
use super::learned::stacks::ShownStack;
use super::output::Output;
use super::output::metadata::Data;
use super::overview::{Overview, Pen};
use super::profile::Profile;
use super::tools::Tools;
use crate::run::RunContext;
use crate::terminal::say;

/// What is drawn of one process.
#[derive(Debug)]
pub struct Drawing {
    /// Where it is drawn.
    pub trace: Trace,
    /// What was drawn, and what was left out.
    pub tally: Tally,
    /// Where broken stacks stopped.
    pub stops: Stops,
    /// What the closing table says.
    pub digest: Digest,
    /// The small trace of the whole run, if the run is to be in several files.
    pub overview: Option<Box<Overview>>,
    /// The latest time that was seen.
    pub last_time_ns: u64,
    /// The summary beside the trace, if one was asked for.
    pub profile: Option<Profile>,
    rings: HashMap<u32, Ring>,
    timing: Timing,
    slice_names: SliceNames,
    shown: ShownStack,
    samples: Vec<Sample>,
    events: Events,
    waits: WaitTracks,
    counters: CounterTracks,
    off_cpu: OffCpuTracks,
}

impl Drawing {
    /// Nothing is drawn yet; nor will it be in a trace, unless `is_wanted`.
    #[must_use]
    pub fn new(learned: &Learned, run: &RunContext, is_wanted: bool) -> Self {
        Self {
            trace: Trace::new(is_wanted),
            tally: Tally::default(),
            stops: Stops::default(),
            digest: Digest::new(run.digest),
            overview: (is_wanted && !run.split.is_none()).then(|| {
                Box::new(Overview::new(
                    learned.identity.start_time_ns,
                    run.period_ns(),
                ))
            }),
            last_time_ns: learned.identity.start_time_ns,
            profile: run.profile.map(Profile::new),
            rings: HashMap::new(),
            timing: Timing {
                period_ns: run.period_ns(),
                tick_ns: learned.identity.tick_ns,
            },
            slice_names: SliceNames::default(),
            shown: ShownStack::default(),
            samples: Vec::new(),
            events: Events::default(),
            waits: WaitTracks::default(),
            counters: CounterTracks::default(),
            off_cpu: OffCpuTracks::default(),
        }
    }

    /// Draws what is in the words of rings.
    pub fn draw<'a>(
        &mut self,
        rings: impl Iterator<Item = &'a RingWords> + Clone,
        learned: &mut Learned,
        tools: &mut Tools<'_>,
    ) {
        learned.resolve(rings.clone(), tools.patient_resolver(), tools.run.python);
        for ring in rings {
            self.ring(ring, learned, tools);
            // Many full rings are more than memory should hold at once, and take seconds.
            self.flush(false);
            tools.beat();
        }
        if let Some(output) = &mut self.trace.output {
            output.samples(&mut self.samples);
            self.events.flush(output);
        }
        self.trace
            .split(&learned.identity, self.last_time_ns, tools);
        self.flush(false);
    }

    /// Closes what is open, and draws what waited for a trace.
    pub fn close(&mut self, learned: &mut Learned, run: &RunContext) {
        for (_, mut ring) in std::mem::take(&mut self.rings) {
            self.close_thread(&mut ring, learned);
        }
        if let Some(output) = &mut self.trace.output {
            let end_ns = self.last_time_ns;
            let mut pen = EventWriter {
                output,
                known: &mut learned.events,
                frames: &mut learned.frames,
                tally: &mut self.tally.events,
                digest: &mut self.digest,
                overview: self.overview.as_deref_mut(),
                run,
                last_time_ns: &mut self.last_time_ns,
            };
            self.events.finish(end_ns, &mut pen);
        }
        self.draw_counters(run);
        self.draw_off_cpu(run);
    }

    /// The process was too short for files of its own.
    pub fn keep_short(&mut self) {
        self.trace.share();
        self.overview = None;
        self.profile = None;
    }

    /// Ends the trace with its metadata.
    pub fn end(&mut self, time_ns: u64, data: &Data) {
        if let Some(output) = &mut self.trace.output {
            output.end(time_ns, data);
        }
        self.flush(true);
        self.trace.close();
        self.trace.look_for_file();
    }

    /// Writes the small trace of the whole run, if there are several files of it. They end at `time_ns`.
    pub fn write_overview(&mut self, time_ns: u64, learned: &Learned, tools: &mut Tools<'_>) {
        let (Some(overview), Some(whole)) = (self.overview.take(), &self.trace.output) else {
            return;
        };
        if self.trace.parts.is_empty() {
            return;
        }
        let identity = &learned.identity;
        let opened = tools
            .sinks
            .open_further(self.trace.id.overview(), identity, tools.run);
        let written = opened.and_then(|opened| {
            let mut output = Output::begin(opened.sink, identity, tools.run);
            output.adopt_names(whole);
            let data = overview.data();
            overview.draw(&mut Pen {
                output: &mut output,
                frames: &learned.frames,
                known: &learned.events,
            });
            output.end(time_ns, &data);
            match output.take_error() {
                Some(error) => Err(error),
                None => output.close().map(|()| opened.path),
            }
        });
        match written {
            Ok(path) => self.trace.overview = path,
            Err(error) => say(&format!(
                "warning: the overview of pid {} cannot be written: {error}",
                identity.pid
            )),
        }
    }

    /// Brings what is pending to the sink, if it is time to, or at once.
    pub fn flush(&mut self, now: bool) {
        if self.trace.flush(now) {
            for ring in self.rings.values_mut() {
                ring.forget_track();
            }
        }
    }

    /// Whether something waits for a flush.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.trace.output.as_ref().is_some_and(Output::is_pending)
    }
}
