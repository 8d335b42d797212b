//! All that is learnt of one process.

use rsys_wire::event::Event;
use rsys_wire::record::{INTERPRETER_FREE_THREADED, INTERPRETER_KNOWN, Kind, Record, Records};

use super::events::{EventTables, StackMarks};
use super::frames::Frames;
use super::thread_numbers::ThreadNumbers;
use crate::emit::batch::RingWords;
use crate::identity::Identity;
use crate::python::codes::Code;
use crate::python::{PythonView, version_name};
use crate::resolve::Resolver;
use crate::waits::record::{PastWait, WaitCode, WaitRecord};

/// At most this many notes of a process are kept.
const NOTES_MAX: usize = 20;

/// All that is learnt of one process. Nothing of it is dropped while the process lives.
#[derive(Debug)]
pub struct Learned {
    /// Who it is.
    pub identity: Identity,
    /// What stands behind addresses.
    pub frames: Frames,
    /// Frames that say what is wrong with a stack.
    pub marks: StackMarks,
    /// What events refer to.
    pub events: EventTables,
    /// The order in which threads started.
    pub numbers: ThreadNumbers,
    /// Versions of the Python interpreters.
    pub interpreters: Vec<String>,
    /// What was recorded of the process as a whole: keys and values, in order.
    pub facts: Vec<(String, String)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Learned {
    /// A process of which only the identity is known.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        let mut frames = Frames::new(&identity);
        Self {
            marks: StackMarks {
                truncated: frames.pseudo_frame("[truncated]"),
                broken: frames.pseudo_frame("[broken]"),
                no_python: frames.pseudo_frame("[no Python]"),
                profiler: frames.pseudo_frame("[rsys]"),
            },
            frames,
            events: EventTables::default(),
            numbers: ThreadNumbers::new(identity.pid),
            interpreters: Vec::new(),
            facts: Vec::new(),
            notes: identity.notes.clone(),
            identity,
        }
    }

    /// Takes what other records refer to, wherever it stands: another ring may refer to it. Returns
    /// notes for the user that are new.
    pub fn learn(&mut self, ring: &RingWords, resolver: &Resolver) -> Vec<String> {
        let mut notes = Vec::new();
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
                    let name = version_name(version, flags & INTERPRETER_FREE_THREADED != 0);
                    let known = (flags & INTERPRETER_KNOWN != 0).then_some((address, time_ns));
                    notes.extend(self.learn_interpreter(name, known));
                }
                Ok(Record::Event(event)) => notes.extend(self.learn_event(ring.ring, &event)),
                _ => {}
            }
        }
        notes
    }

    /// Takes the modules and the Python that waits lead into, and finds the names of all their frames. Returns notes that are new.
    pub fn learn_waits(
        &mut self,
        records: &[WaitRecord],
        resolver: &Resolver,
        patient: Option<&Resolver>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for record in records {
            match record {
                WaitRecord::Module(module) => self.frames.add_module(
                    resolver,
                    module.time_ns,
                    (module.start, module.end),
                    module.bias,
                    module.build_id.clone(),
                    module.path.as_bytes(),
                ),
                WaitRecord::Interpreter(found) => {
                    let name = version_name(found.version, found.free_threaded);
                    let known = found.is_known.then_some((found.address, found.time_ns));
                    notes.extend(self.learn_interpreter(name, known));
                }
                WaitRecord::Code(code) => {
                    let WaitCode {
                        name, file, lines, ..
                    } = code;
                    let known = Code::new(name, file, code.first_line, code.form, lines);
                    self.frames.add_code(code.key, known);
                }
                WaitRecord::Begin {
                    seen_ns: time_ns,
                    wait,
                    ..
                }
                | WaitRecord::Past(PastWait {
                    end_ns: time_ns,
                    wait,
                    is_seen: true,
                    ..
                }) => {
                    for &word in &wait.words {
                        self.frames.want(word, *time_ns);
                    }
                }
                _ => {}
            }
        }
        self.frames.resolve_wanted(patient);
        notes
    }

    /// Finds the names of all frames that `rings` lead into. Without a resolver, addresses stand
    /// for names that are new.
    pub fn resolve<'a>(
        &mut self,
        rings: impl Iterator<Item = &'a RingWords>,
        resolver: Option<&Resolver>,
        view: PythonView,
    ) {
        for ring in rings {
            for record in Records::of_kinds(&ring.words, &[Kind::Sample]) {
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
        self.frames.resolve_wanted(resolver);
        self.events.settle(&mut self.frames, self.marks, view);
    }

    /// Keeps a note, if there are not too many.
    pub fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }

    /// Takes an interpreter by its name; of one whose frames can be read, an address in it and when it was found. Returns a note that is new.
    fn learn_interpreter(&mut self, name: String, known: Option<(u64, u64)>) -> Option<String> {
        if let Some((address, time_ns)) = known {
            self.frames.add_interpreter(address, time_ns);
        }
        if self.interpreters.contains(&name) {
            return None;
        }
        let note = format!("{name} is not understood: its frames appear as native functions");
        self.interpreters.push(name);
        known.is_none().then(|| {
            self.notes.push(note.clone());
            note
        })
    }

    /// Takes what other events refer to. Returns a note that is new.
    fn learn_event(&mut self, ring: u32, event: &Event<'_>) -> Option<String> {
        let Event::Fact { key, value } = event else {
            self.events.learn(ring, event);
            return None;
        };
        let key = String::from_utf8_lossy(key).into_owned();
        let value = String::from_utf8_lossy(value).into_owned();
        if key == "note" {
            let is_new = self.notes.len() < NOTES_MAX && !self.notes.contains(&value);
            return is_new.then(|| {
                self.notes.push(value.clone());
                value
            });
        }
        match self.facts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.facts.push((key, value)),
        }
        None
    }
}
