//! Records as the sampler reads them.

use super::Kind;
use super::counters;
use super::python::{take_bytes, take_text};
use crate::words::{ThreadName, bytes_of, name_of};

/// A record as the sampler reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    /// See [`super::put_thread_start`].
    ThreadStart {
        /// When.
        time_ns: u64,
        /// The kernel's thread id, as the process sees it.
        tid: u32,
        /// Which clock: see [`super::Clock`].
        clock: u64,
        /// The name at that time.
        name: ThreadName,
        /// Address of the start routine, or 0.
        routine: u64,
    },
    /// See [`super::put_thread_name`].
    ThreadName {
        /// The thread's name.
        name: ThreadName,
    },
    /// See [`super::put_thread_end`].
    ThreadEnd {
        /// When.
        time_ns: u64,
        /// CPU time that the thread used since it was sampled, in ns; of one that lived for less than a period: how long it lived.
        cpu_time_ns: u64,
        /// The name at that time.
        name: ThreadName,
    },
    /// See [`super::put_sample`].
    Sample {
        /// When.
        time_ns: u64,
        /// How many periods of CPU time the sample stands for.
        weight: u32,
        /// [`super::SAMPLE_TRUNCATED`] and its like.
        flags: u8,
        /// Outermost frames taken from the previous sample.
        shared: u16,
        /// The frames that differ, innermost first.
        frames: &'a [u64],
    },
    /// See [`super::put_module`]; the byte strings are the build-id and the path.
    Module {
        /// When it was first seen.
        time_ns: u64,
        /// First mapped address.
        start: u64,
        /// One past the last mapped address.
        end: u64,
        /// Mapped address minus address in the file.
        bias: u64,
        /// The GNU build-id, or empty.
        build_id: Vec<u8>,
        /// The path.
        path: Vec<u8>,
    },
    /// See [`super::put_note`].
    Note {
        /// When.
        time_ns: u64,
        /// What it is about.
        code: u64,
        /// The text.
        text: Vec<u8>,
    },
    /// See [`super::put_python_stack`].
    PythonStack {
        /// [`super::PYTHON_TRUNCATED`] and its like.
        flags: u8,
        /// Outermost frames taken from the Python stack before.
        shared: u16,
        /// The frames that differ, innermost first.
        frames: &'a [u64],
    },
    /// See [`super::put_python_code`].
    PythonCode {
        /// Its key.
        key: u64,
        /// The line at which it starts.
        first_line: u32,
        /// The form of the table of lines.
        form: u8,
        /// Its name.
        name: String,
        /// Its file.
        file: String,
        /// The table of lines.
        lines: Vec<u8>,
    },
    /// See [`super::put_python_thread`].
    PythonThread {
        /// The name.
        name: String,
    },
    /// See [`super::put_python_interpreter`].
    PythonInterpreter {
        /// When it was found.
        time_ns: u64,
        /// [`super::INTERPRETER_KNOWN`] and [`super::INTERPRETER_FREE_THREADED`], or neither.
        flags: u8,
        /// As `PY_VERSION_HEX`; 0 when it is not known.
        version: u32,
        /// An address in it.
        address: u64,
    },
    /// An event; only in rings for events.
    Event(crate::event::Event<'a>),
    /// See [`super::put_counters`].
    Counters {
        /// When.
        time_ns: u64,
        /// For how long the events were enabled.
        enabled_ns: u64,
        /// For how long they were counted.
        running_ns: u64,
        /// How often each has happened while it was counted.
        values: &'a [u64],
    },
}

/// The words did not make a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Iterates over drained words. After [`Malformed`] nothing follows: the rest cannot be framed.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u64],
}

impl<'a> Records<'a> {
    /// The records in `words`.
    #[must_use]
    pub fn new(words: &'a [u64]) -> Self {
        Records { rest: words }
    }

    /// The records of some kinds in `words`. The others are passed over and not read: not even whether they are whole.
    pub fn of_kinds(
        words: &'a [u64],
        kinds: &'a [Kind],
    ) -> impl Iterator<Item = Result<Record<'a>, Malformed>> {
        let mut all = Records::new(words);
        std::iter::from_fn(move || {
            loop {
                let (header, rest) = all.rest.split_first()?;
                let words = (header >> 32) as usize;
                let is_wanted = kinds.iter().any(|kind| *kind as u8 == *header as u8);
                // Of what cannot be framed the caller hears.
                match rest.get(words.wrapping_sub(1)..) {
                    Some(rest) if !is_wanted => all.rest = rest,
                    _ => return all.next(),
                }
            }
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, _) = self.rest.split_first()?;
        let words = (first >> 32) as usize;
        match self.rest.split_at_checked(words) {
            Some((record, rest)) if words > 0 => {
                self.rest = rest;
                let parsed = parse(record).ok_or(Malformed);
                if parsed.is_err() {
                    self.rest = &[];
                }
                Some(parsed)
            }
            _ => {
                self.rest = &[];
                Some(Err(Malformed))
            }
        }
    }
}

fn parse(words: &[u64]) -> Option<Record<'_>> {
    let (header, body) = words.split_first()?;
    let flags = (header >> 8) as u8;
    let kind = *header as u8;
    if crate::event::is_event(kind) {
        return crate::event::parse(kind, flags, body).map(Record::Event);
    }
    match (kind, body) {
        (1, [time_ns, tid, clock, name @ .., routine]) if name.len() == 2 => {
            Some(Record::ThreadStart {
                time_ns: *time_ns,
                tid: u32::try_from(*tid).ok()?,
                clock: *clock,
                name: name_of(name)?,
                routine: *routine,
            })
        }
        (6, name) => Some(Record::ThreadName {
            name: name_of(name)?,
        }),
        (2, [time_ns, cpu_time_ns, name @ ..]) if name.len() == 2 => Some(Record::ThreadEnd {
            time_ns: *time_ns,
            cpu_time_ns: *cpu_time_ns,
            name: name_of(name)?,
        }),
        (3, [time_ns, counts, frames @ ..]) if (counts >> 48) as usize == frames.len() => {
            Some(Record::Sample {
                time_ns: *time_ns,
                weight: *counts as u32,
                flags,
                shared: (counts >> 32) as u16,
                frames,
            })
        }
        (4, [time_ns, start, end, bias, lengths, text @ ..]) => {
            let build_id_bytes = (*lengths as u32) as usize;
            let path_bytes = (lengths >> 32) as usize;
            let path = text.get(build_id_bytes.div_ceil(8)..)?;
            Some(Record::Module {
                time_ns: *time_ns,
                start: *start,
                end: *end,
                bias: *bias,
                build_id: bytes_of(text, build_id_bytes)?,
                path: bytes_of(path, path_bytes)?,
            })
        }
        (5, [time_ns, code, length, text @ ..]) => Some(Record::Note {
            time_ns: *time_ns,
            code: *code,
            text: bytes_of(text, usize::try_from(*length).ok()?)?,
        }),
        (16, [counts, frames @ ..]) if (counts >> 16) as usize == frames.len() => {
            Some(Record::PythonStack {
                flags,
                shared: *counts as u16,
                frames,
            })
        }
        (17, [key, first_line, name, file, lines, text @ ..]) => {
            let mut text = text;
            Some(Record::PythonCode {
                key: *key,
                first_line: *first_line as u32,
                form: flags,
                name: take_text(&mut text, *name)?,
                file: take_text(&mut text, *file)?,
                lines: take_bytes(&mut text, *lines)?,
            })
        }
        (18, [name, text @ ..]) => Some(Record::PythonThread {
            name: take_text(&mut &*text, *name)?,
        }),
        (48, body) => counters::parse(body),
        (19, [time_ns, version, address]) => Some(Record::PythonInterpreter {
            time_ns: *time_ns,
            flags,
            version: *version as u32,
            address: *address,
        }),
        _ => None,
    }
}
