//! The records of one process become its trace.

mod awaited;
mod counters;
mod events;
mod finish;
mod held;
mod off_cpu;
mod sample;
mod tracks;
mod waits;

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rsys_proto::Sample;
use rsys_wire::record::{INTERPRETER_KNOWN, Record, Records};

use super::account::{Stops, Tally};
use super::batch::{Batch, RingWords};
use super::drawing::counters::CounterTracks;
use super::drawing::events::{Events, StackMarks, Teller};
use super::drawing::off_cpu::OffCpuTracks;
use super::drawing::slices::Timing;
use super::drawing::thread_counters::{Counts, EventTracks};
use super::drawing::threads::{SliceNames, Thread, ThreadTrack};
use super::drawing::waits::WaitTracks;
use super::learned::frames::{FrameId, Frames};
use super::learned::stacks::{PythonStack, ShownStack, Stack, thread_name};
use super::learned::thread_numbers::ThreadNumbers;
use super::output::Output;
use super::profile::Profile;
use crate::identity::Identity;
use crate::python::codes::Code;
use crate::python::{PythonView, version_name};
use crate::resolve::Resolver;
use crate::run::RunContext;
use crate::run::file_names::FileNames;
use crate::run::layout::FileId;
use crate::terminal::say;
use awaited::AwaitedMap;
use held::Held;
use tracks::{rename, rename_by_kernel};

/// So many notes of a process are kept.
const NOTES_MAX: usize = 20;

/// One ring as we know it.
#[derive(Debug, Default)]
struct Ring {
    stack: Stack,
    python: PythonStack,
    thread: Option<Thread>,
    teller: Teller,
    /// Counts of the thread's events that wait for its track.
    counts: Option<Counts>,
    /// The tracks of these events.
    tracks: EventTracks,
}

/// Frames that say what is wrong with a stack.
#[derive(Debug, Clone, Copy)]
struct Marks {
    truncated: FrameId,
    broken: FrameId,
    no_python: FrameId,
}

impl Ring {
    fn clear(&mut self) {
        self.stack.clear();
        self.python.clear();
        self.counts = None;
        self.tracks = EventTracks::default();
    }
}

/// What the trace of a process is made with.
#[derive(Debug)]
pub struct Tools<'a> {
    /// What all traces have in common.
    pub run: &'a RunContext,
    /// Finds names.
    pub resolver: &'a Resolver,
    /// Names files.
    pub names: &'a mut FileNames,
    /// Changed while work is done.
    pub work: &'a AtomicU64,
    /// Whether new names must not be looked for any more.
    pub hurry: &'a AtomicBool,
}

/// A process and its trace.
#[derive(Debug)]
pub struct ProcessTrace {
    identity: Identity,
    timing: Timing,
    frames: Frames,
    rings: HashMap<u32, Ring>,
    /// The later part of the last batch.
    later: Vec<RingWords>,
    /// What waits until the process is worth a file.
    held: Held,
    awaited: AwaitedMap,
    slice_names: SliceNames,
    marks: Marks,
    python_view: PythonView,
    verbosity: i8,
    shown: ShownStack,
    samples: Vec<Sample>,
    waits: WaitTracks,
    events: Events,
    counters: CounterTracks,
    off_cpu: OffCpuTracks,
    output: Option<Output>,
    /// Why there is no file, or no more.
    trouble: Option<String>,
    path: Option<PathBuf>,
    last_time_ns: u64,
    tally: Tally,
    stops: Stops,
    notes: Vec<String>,
    /// Versions of the Python interpreters.
    interpreters: Vec<String>,
    numbers: ThreadNumbers,
    profile: Option<Profile>,
    /// What its files are called.
    id: FileId,
}

impl ProcessTrace {
    /// A process that has not told anything yet.
    #[must_use]
    pub fn new(identity: Identity, run: &RunContext) -> Self {
        let root = identity.foreign_root();
        let mut frames = Frames::new(identity.pid, identity.host_pid, &identity.executable, root);
        let marks = Marks {
            truncated: frames.pseudo_frame("[truncated]"),
            broken: frames.pseudo_frame("[broken]"),
            no_python: frames.pseudo_frame("[no Python]"),
        };
        Self {
            timing: Timing {
                period_ns: run.period_ns(),
                tick_ns: identity.tick_ns,
            },
            frames,
            rings: HashMap::new(),
            later: Vec::new(),
            held: Held::new(run.selects(identity.rank.as_ref())),
            awaited: AwaitedMap::of(&identity),
            slice_names: SliceNames::default(),
            marks,
            python_view: run.python,
            verbosity: run.verbosity,
            shown: ShownStack::default(),
            samples: Vec::new(),
            waits: WaitTracks::default(),
            events: Events::default(),
            counters: CounterTracks::default(),
            off_cpu: OffCpuTracks::default(),
            output: None,
            trouble: None,
            path: None,
            last_time_ns: identity.start_time_ns,
            tally: Tally::default(),
            stops: Stops::default(),
            notes: identity.notes.clone(),
            interpreters: Vec::new(),
            numbers: ThreadNumbers::new(identity.pid),
            profile: run.profile.map(Profile::new),
            id: FileId::default(),
            identity,
        }
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes over a batch. Its later part waits for the next one, which may bring the modules for it.
    pub fn take(&mut self, batch: Batch, tools: &mut Tools<'_>) {
        for ring in batch.words.iter().chain(&batch.later) {
            self.add_modules(ring, tools.resolver);
        }
        self.numbers
            .announce(self.identity.pid, batch.words.iter().chain(&batch.later));
        let mut rings = std::mem::replace(&mut self.later, batch.later);
        rings.extend(batch.words);
        self.hold_or_handle(rings, tools);
    }

    /// Takes what describes others, wherever it stands: another ring may refer to it.
    fn add_modules(&mut self, ring: &RingWords, resolver: &Resolver) {
        for record in Records::new(&ring.words) {
            match record {
                Ok(Record::Module {
                    time_ns,
                    start,
                    end,
                    bias,
                    build_id,
                    path,
                }) => {
                    self.frames
                        .add_module(resolver, time_ns, (start, end), bias, build_id, &path);
                }
                Ok(Record::PythonCode {
                    key,
                    first_line,
                    form,
                    name,
                    file,
                    lines,
                }) => {
                    let code = Code::new(&name, &file, first_line, form, &lines);
                    self.frames.add_code(key, code);
                }
                Ok(Record::PythonInterpreter {
                    time_ns,
                    flags,
                    version,
                    address,
                }) => {
                    self.add_interpreter(time_ns, flags & INTERPRETER_KNOWN != 0, version, address)
                }
                Ok(Record::Event(event)) => self.learn(ring.ring, &event),
                _ => {}
            }
        }
    }

    fn add_interpreter(&mut self, time_ns: u64, known: bool, version: u32, address: u64) {
        let name = version_name(version);
        if known {
            self.frames.add_interpreter(address, time_ns);
        } else {
            let note = format!("{name} is not understood: its frames appear as native functions");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        if !self.interpreters.contains(&name) {
            self.interpreters.push(name);
        }
    }

    fn handle<'a>(
        &mut self,
        rings: impl Iterator<Item = &'a RingWords> + Clone,
        tools: &mut Tools<'_>,
    ) {
        for ring in rings.clone() {
            for record in Records::new(&ring.words) {
                if let Ok(Record::Sample {
                    time_ns, frames, ..
                }) = record
                {
                    for &word in frames {
                        self.frames.want(word, time_ns);
                    }
                }
            }
        }
        self.events.want(&mut self.frames);
        self.frames
            .resolve_wanted((!tools.hurry.load(Ordering::Relaxed)).then_some(tools.resolver));
        let marks = StackMarks {
            truncated: self.marks.truncated,
            broken: self.marks.broken,
            no_python: self.marks.no_python,
        };
        self.events
            .settle(&mut self.frames, marks, self.python_view);
        for ring in rings {
            let mut state = self.rings.remove(&ring.ring).unwrap_or_default();
            if ring.after_damage {
                self.tally.corrupt += 1;
                state.clear();
            }
            for record in Records::new(&ring.words) {
                match record {
                    Ok(record) => self.record(&mut state, record, tools),
                    Err(_) => {
                        self.tally.corrupt += 1;
                        state.clear();
                    }
                }
            }
            self.rings.insert(ring.ring, state);
            // Many full rings are more than memory should hold at once, and take seconds.
            self.flush(false);
            tools.work.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(output) = &mut self.output {
            output.samples(&mut self.samples);
            self.events.flush(output);
        }
        self.flush(false);
    }

    fn record(&mut self, ring: &mut Ring, record: Record<'_>, tools: &mut Tools<'_>) {
        match record {
            Record::ThreadStart {
                time_ns,
                tid,
                clock: _,
                name,
                routine: _,
            } => {
                self.close_thread(ring);
                ring.clear();
                let name = thread_name(&name);
                ring.stack.clear();
                if let Some(output) = &mut self.output {
                    output.thread_starts(tid);
                }
                ring.thread = Some(Thread {
                    tid,
                    number: self.numbers.start(tid, time_ns),
                    name: name.clone(),
                    kernel_name: name,
                    track: None,
                    weight: 0,
                });
                self.tally.threads += 1;
            }
            Record::ThreadName { name } => {
                if let Some(thread) = &mut ring.thread {
                    rename_by_kernel(self.output.as_mut(), thread, &thread_name(&name));
                }
            }
            Record::ThreadEnd {
                time_ns: _,
                cpu_time_ns,
                name,
            } => {
                if let Some(thread) = &mut ring.thread {
                    self.tally.ended_cpu_ns = self.tally.ended_cpu_ns.saturating_add(cpu_time_ns);
                    self.tally.ended_weight = self.tally.ended_weight.saturating_add(thread.weight);
                    rename_by_kernel(self.output.as_mut(), thread, &thread_name(&name));
                }
                self.close_thread(ring);
                ring.clear();
            }
            Record::Sample {
                time_ns,
                weight,
                flags,
                shared,
                frames,
            } => {
                if ring.stack.update(&self.frames, time_ns, shared, frames) {
                    self.sample(ring, time_ns, weight, flags, tools);
                } else {
                    self.tally.corrupt += 1;
                }
            }
            Record::PythonStack {
                flags,
                shared,
                frames,
            } => {
                let known = ring.python.update(&mut self.frames, flags, shared, frames);
                self.tally.corrupt += u64::from(!known);
            }
            Record::PythonThread { name } => {
                if let Some(thread) = &mut ring.thread {
                    rename(self.output.as_mut(), thread, name);
                }
            }
            Record::Counters {
                time_ns,
                enabled_ns,
                running_ns,
                values,
            } => self.counts(
                ring,
                Counts::new(time_ns, enabled_ns, running_ns, values),
                tools.run,
            ),
            // Taken before all others.
            Record::Module { .. }
            | Record::PythonCode { .. }
            | Record::PythonInterpreter { .. } => {}
            Record::Event(event) => self.event(&mut ring.teller, &event, tools),
            Record::Note { text, .. } => {
                if self.notes.len() < NOTES_MAX {
                    self.notes.push(String::from_utf8_lossy(&text).into_owned());
                }
            }
        }
    }

    fn open(&mut self, tools: &mut Tools<'_>) {
        let files = tools.run.files_of(&self.identity);
        let claimant = tools.run.claimant(&self.identity);
        // Without a trace all goes its way, for the summary; what is written goes nowhere.
        let created = if tools.run.trace {
            tools.names.create(&files, &claimant)
        } else {
            let nowhere = PathBuf::from("/dev/null");
            let file = OpenOptions::new().write(true).open(&nowhere);
            let id = tools.names.choose(&files, &claimant);
            file.map(|file| (id, file, nowhere))
        };
        match created {
            Ok((id, file, path)) => {
                self.id = id;
                self.path = tools.run.trace.then(|| path.clone());
                self.output = Some(Output::begin(file, path, &self.identity, tools.run));
            }
            Err(error) => {
                let id = FileId::new(&self.identity.pid.to_string(), 0);
                let path = tools.run.layout_of(&self.identity).path(&id);
                let text = format!(
                    "{}: the trace of pid {} cannot be created: {error}",
                    path.display(),
                    self.identity.pid
                );
                say(&format!("error: {text}"));
                self.trouble = Some(text);
            }
        }
    }

    /// Brings what waits to the file, if it is time to.
    pub fn flush(&mut self, now: bool) {
        let Some(output) = &mut self.output else {
            return;
        };
        output.flush(now);
        if let Some(error) = output.take_error() {
            let text = format!(
                "{}: cannot be written further: {error}",
                output.path().display()
            );
            say(&format!(
                "error: {text}; the trace holds what was written, the program runs on"
            ));
            self.trouble = Some(text);
            self.output = None;
            for ring in self.rings.values_mut() {
                if let Some(thread) = &mut ring.thread {
                    thread.track = None;
                }
            }
        }
    }

    /// Whether something waits for a flush.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.output.as_ref().is_some_and(Output::is_pending)
    }
}
