//! What is held back of a process until it is worth a file.
//!
//! Shells and helpers that only start another program have a sample or two: a file for each would
//! bury those that somebody wants to read. Nothing is lost: what is held is replayed when the
//! process turns out to be worth a file; when it does not, its samples go into a file for all such processes. Left out are waits of helpers
//! for their children: these would hide all other waits.

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

/// Other waits of a helper take less than this: the loader reads libraries, pages are fetched. It is what three samples stand for.
const OTHER_WAITS_NS: u64 = 10_000_000;

/// A process with more bytes of records than this is no helper, whatever they are.
const HELD_BYTES_MAX: usize = 1 << 20;

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    rings: Vec<RingWords>,
    bytes: usize,
    samples: u64,
    /// Waits of a child that has waited as helpers do, and hardly for anything else.
    waits: Vec<WaitRecord>,
    other_waits: OtherWaits,
    state: State,
}

/// What a child waited for that helpers do not wait for.
#[derive(Debug, Default)]
struct OtherWaits {
    /// Threads in such waits, and up to when those are counted.
    open: Vec<(u32, u64)>,
    total_ns: u64,
}

impl OtherWaits {
    fn take(&mut self, record: &WaitRecord) {
        let (tid, now_ns) = match record {
            WaitRecord::Past(past) => {
                if !WAITS_OF_HELPERS.contains(&&*past.wait.label) {
                    self.total_ns += past.waited_ns;
                }
                return;
            }
            WaitRecord::Begin { tid, time_ns, .. }
            | WaitRecord::Continue { tid, time_ns, .. }
            | WaitRecord::End { tid, time_ns } => (*tid, *time_ns),
            _ => return,
        };
        if let Some(at) = self.open.iter().position(|one| one.0 == tid) {
            let (_, counted_ns) = self.open.swap_remove(at);
            self.total_ns += now_ns.saturating_sub(counted_ns);
            if matches!(record, WaitRecord::Continue { .. }) {
                self.open.push((tid, now_ns));
            }
        }
        if let WaitRecord::Begin { wait, .. } = record
            && !WAITS_OF_HELPERS.contains(&&*wait.label)
        {
            self.open.push((tid, now_ns));
        }
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not decided yet.
    #[default]
    Holding,
    /// It is.
    Released,
    /// It gets none of its own: it ended before, or its rank is not selected.
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
        for record in records {
            held.other_waits.take(record);
        }
        let is_helper = !self.learned.identity.is_command
            && held.state == State::Holding
            && held.other_waits.total_ns < OTHER_WAITS_NS
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
        if self.is_asked_for(end, tools.run) || is_nothing {
            self.release(tools);
            return false;
        }
        self.held.state = State::NoFile;
        self.drawing.keep_short();
        self.replay(tools);
        true
    }

    /// The command itself has a trace, also if nothing was recorded: it says when the program ran,
    /// and why there is nothing to see.
    pub(in crate::emit) fn open_for_command(&mut self, end: End, tools: &mut Tools<'_>) {
        if self.is_asked_for(end, tools.run) && tools.run.trace {
            self.drawing.trace.open(&self.learned.identity, tools);
        }
    }

    /// Whether it is the command, with the last program that it executed, or the process that was attached to.
    fn is_asked_for(&self, end: End, run: &RunContext) -> bool {
        let is_attached = run.attached_at.is_some() && self.learned.identity.is_command;
        matches!(end, End::Child(_)) || is_attached
    }

    fn replay(&mut self, tools: &mut Tools<'_>) {
        let rings = std::mem::take(&mut self.held.rings);
        self.drawing.draw(rings.iter(), &mut self.learned, tools);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::record::{Completeness, Used, Wait};
    use std::sync::Arc;

    #[test]
    fn only_waits_of_helpers_take_no_time() {
        let begin = |tid, time_ns, label: &str| WaitRecord::Begin {
            tid,
            time_ns,
            seen_ns: time_ns,
            used: Used::default(),
            wait: Arc::new(Wait {
                label: label.into(),
                words: Box::default(),
                completeness: Completeness::Complete,
                python: None,
                lock: None,
                is_own: false,
            }),
        };
        let mut waits = OtherWaits::default();
        for (record, expected_ns) in [
            (begin(1, 100, "wait4"), 0),
            (
                WaitRecord::Continue {
                    tid: 1,
                    time_ns: 900,
                    used: Used::default(),
                },
                0,
            ),
            (begin(2, 1_000, "[page fault]"), 0),
            (
                WaitRecord::Continue {
                    tid: 2,
                    time_ns: 1_030,
                    used: Used::default(),
                },
                30,
            ),
            (
                WaitRecord::End {
                    tid: 1,
                    time_ns: 1_040,
                },
                30,
            ),
            (
                WaitRecord::End {
                    tid: 2,
                    time_ns: 1_050,
                },
                50,
            ),
            (begin(2, 2_000, "futex"), 50),
            // It was over before the next was seen.
            (begin(2, 2_007, "wait4"), 57),
            (
                WaitRecord::End {
                    tid: 2,
                    time_ns: 9_000,
                },
                57,
            ),
        ] {
            waits.take(&record);
            assert_eq!(waits.total_ns, expected_ns, "{record:?}");
        }
    }
}
