//! What is held back of a process until it is worth a file.
//!
//! Shells and helpers that only start another program have a sample or two: a file for each would
//! bury those that somebody wants to read. Nothing is lost: what is held is replayed when the
//! process turns out to be worth a file, and counted when it does not.

use rsys_wire::record::{Record, Records};

use super::ProcessTrace;
use crate::emit::account::End;
use crate::emit::batch::RingWords;
use crate::emit::drawing::events::is_worth_a_file;
use crate::emit::tools::Tools;
use crate::run::RunContext;
use crate::waits::record::WaitRecord;

/// A child that waits more often than this is no helper.
const HELD_WAITS_MAX: usize = 1 << 12;

/// What a child waits for that only starts others, or takes what they print: children, and pipes.
const WAITS_OF_HELPERS: [&str; 5] = ["wait4", "waitid", "rt_sigsuspend", "pause", "read(pipe)"];

/// A process with more bytes of records than this is no helper, whatever they are.
const HELD_BYTES_MAX: usize = 1 << 20;

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    rings: Vec<RingWords>,
    bytes: usize,
    samples: u64,
    /// Waits of a child that has waited as helpers do, and for nothing else.
    waits: Vec<WaitRecord>,
    has_other_waits: bool,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not decided yet.
    #[default]
    Holding,
    /// It is.
    Released,
    /// It gets none: it ended before, or its rank is not selected.
    NoFile,
}

impl Held {
    /// Nothing yet. Whoever is not to be profiled gets no file.
    pub(super) fn new(is_wanted: bool) -> Self {
        let state = if is_wanted {
            State::Holding
        } else {
            State::NoFile
        };
        Self {
            state,
            ..Self::default()
        }
    }

    /// Takes in words, and says whether the process is worth a file now.
    fn add(&mut self, rings: Vec<RingWords>, run: &RunContext) -> bool {
        let mut worth = false;
        for ring in &rings {
            self.bytes += ring.words.len() * 8;
            for record in Records::new(&ring.words).flatten() {
                match record {
                    Record::Sample { time_ns, .. } => {
                        self.samples += u64::from(run.windows.samples.active(time_ns));
                    }
                    other => worth |= worth_a_file(&other),
                }
            }
        }
        self.rings.extend(rings);
        worth || self.samples >= run.min_samples || self.bytes > HELD_BYTES_MAX
    }
}

/// Whether one such record is reason enough for a file. (Samples are counted; waits come another
/// way.)
fn worth_a_file(record: &Record<'_>) -> bool {
    match record {
        Record::Sample { .. }
        | Record::ThreadStart { .. }
        | Record::ThreadEnd { .. }
        | Record::ThreadName { .. }
        | Record::Module { .. }
        | Record::PythonStack { .. }
        | Record::PythonThread { .. }
        | Record::PythonCode { .. }
        | Record::PythonInterpreter { .. }
        | Record::Counters { .. }
        | Record::Note { .. } => false,
        Record::Event(event) => is_worth_a_file(event),
    }
}

impl ProcessTrace {
    /// Holds words back as long as the process is not worth a file; draws them from then on.
    pub(super) fn hold_or_draw(&mut self, rings: Vec<RingWords>, tools: &mut Tools<'_>) {
        let Some(rings) = self.awaited.keep(rings) else {
            return;
        };
        if self.held.state != State::Holding {
            self.drawing.draw(rings.iter(), &mut self.learned, tools);
        } else if self.held.add(rings, tools.run) {
            self.release(tools);
        }
    }

    /// Holds back the waits of a child, as long as it waits as helpers do. Returns whether it does.
    pub(super) fn hold_waits(&mut self, records: &[WaitRecord], run: &RunContext) -> bool {
        let held = &mut self.held;
        let is_other = |record: &WaitRecord| match record {
            WaitRecord::Begin { wait, .. } => !WAITS_OF_HELPERS.contains(&&*wait.label),
            _ => false,
        };
        held.has_other_waits |= records.iter().any(is_other);
        let is_helper = !self.learned.identity.is_command
            && held.state == State::Holding
            && !held.has_other_waits
            && run.min_samples > 1
            && held.waits.len() + records.len() <= HELD_WAITS_MAX;
        if is_helper {
            held.waits.extend_from_slice(records);
        }
        is_helper
    }

    /// The process is worth a file: what was held goes into it.
    pub(super) fn release(&mut self, tools: &mut Tools<'_>) {
        if self.held.state == State::Holding {
            self.held.state = State::Released;
            self.replay(tools);
            let waits = std::mem::take(&mut self.held.waits);
            self.drawing.take_waits(&waits, &mut self.learned, tools);
        }
    }

    /// The process is over. Returns whether it had samples, too few of them for a file, or waited as helpers do.
    pub(super) fn end_of_holding(&mut self, end: End, tools: &mut Tools<'_>) -> bool {
        if self.held.state != State::Holding {
            return false;
        }
        // Whoever runs a command wants to see it.
        let is_nothing = self.held.samples == 0 && self.held.waits.is_empty();
        if matches!(end, End::Child(_)) || is_nothing {
            self.release(tools);
            return false;
        }
        self.held.state = State::NoFile;
        self.drawing.trace.forbid();
        self.replay(tools);
        true
    }

    /// The command itself has a trace, also if nothing was recorded: it says when the program ran,
    /// and why there is nothing to see.
    pub(in crate::emit) fn open_for_command(&mut self, end: End, tools: &mut Tools<'_>) {
        if matches!(end, End::Child(_)) && tools.run.trace {
            self.drawing.trace.open(&self.learned.identity, tools);
        }
    }

    fn replay(&mut self, tools: &mut Tools<'_>) {
        let rings = std::mem::take(&mut self.held.rings);
        self.drawing.draw(rings.iter(), &mut self.learned, tools);
    }
}
