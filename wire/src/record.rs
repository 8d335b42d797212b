//! The records of a ring.
//!
//! Every record starts with one header word: kind in bits 0–7, flags in bits 8–15, length in words
//! (the header included) in bits 32–63. All times are CLOCK_BOOTTIME nanoseconds.
//!
//! | kind | words after the header |
//! |---|---|
//! | thread start | time, thread id, clock, name × 2, start routine |
//! | thread end | time, CPU time of the thread in ns, name × 2 |
//! | sample | time, weight (0–31) + shared frames (32–47) + new frames (48–63), new frames |
//! | module | time, start, end, load bias, build-id bytes (0–31) + path bytes (32–63), both as bytes |
//! | note | time, code, text bytes, bytes |
//! | Python stack | shared frames (0–15) + new frames (16–31), new frames |
//! | Python code | key, first line (0–31), bytes of name, of file, of the table of lines, the three |
//! | Python thread | text, its bytes |
//! | Python interpreter | time, version, address in it |
//! | events | see [`crate::event`] |
//! | counters | time, time enabled, time counted, a value for each event |
//!
//! A sample's frames are listed from the innermost outwards. Its outermost `shared` frames equal
//! those of the previous sample that was committed to the same ring since the thread's start, so
//! only the frames that changed are sent.
//!
//! A sample with [`SAMPLE_PYTHON`] has Python frames as well: those of the last Python stack in its ring, which shares frames with
//! the one before it in the same way. The record of a code object is written before the first stack that refers to it. What it
//! refers to by a key and by address is described in `rsys-python`, whose words travel here unread.

mod counters;
mod python;

pub use self::counters::put_counters;
pub use self::python::{
    ForeignText, put_python_code, put_python_interpreter, put_python_stack, put_python_thread,
};
use self::python::{take_bytes, take_text};
use crate::ring::Producer;
pub use crate::words::ThreadName;
use crate::words::{bytes_of, name_of, name_words};

/// Set in a frame word when its address is a program counter that was interrupted there, not a
/// return address: symbols are looked up at the address itself.
pub const FRAME_EXACT: u64 = 1 << 63;
/// Set in a frame word that was found by scanning the stack, not by unwinding.
pub const FRAME_SCANNED: u64 = 1 << 62;
/// The address bits of a frame word.
pub const FRAME_ADDRESS: u64 = (1 << 56) - 1;

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A thread took the ring.
    ThreadStart = 1,
    /// The thread gave it back.
    ThreadEnd = 2,
    /// One stack.
    Sample = 3,
    /// A library or program that later samples point into.
    Module = 4,
    /// Something to tell the user.
    Note = 5,
    /// The thread of this ring has a name.
    ThreadName = 6,
    /// The Python frames of the samples that follow.
    PythonStack = 16,
    /// What is behind the key of a Python code object.
    PythonCode = 17,
    /// How Python calls the thread of this ring.
    PythonThread = 18,
    /// A Python interpreter was found in the process.
    PythonInterpreter = 19,
    /// How often the events of the thread have happened.
    Counters = 48,
}

/// The sample's stack was cut because it was deeper than the limit.
pub const SAMPLE_TRUNCATED: u8 = 1;
/// The sample's stack could not be walked to its root.
pub const SAMPLE_BROKEN: u8 = 2;
/// The sample came from perf, not from the timer.
pub const SAMPLE_PERF: u8 = 4;

/// The sample stands for what a thread did after its last tick; its stack is the one before.
pub const SAMPLE_TAIL: u8 = 8;
/// The sample has Python frames: those of the last [`Kind::PythonStack`] in its ring.
pub const SAMPLE_PYTHON: u8 = 16;

/// The Python stack was cut because it was deeper than the limit.
pub const PYTHON_TRUNCATED: u8 = 1;
/// The Python stack could not be read to its end.
pub const PYTHON_BROKEN: u8 = 2;
/// The thread runs in another interpreter than the main one.
pub const PYTHON_SUBINTERPRETER: u8 = 4;

/// The frames of the interpreter are understood.
pub const INTERPRETER_KNOWN: u8 = 1;

/// Words of a thread's or module's fixed part.
const START_WORDS: usize = 7;
const END_WORDS: usize = 5;
const NAME_WORDS: usize = 3;
const SAMPLE_WORDS: usize = 3;
const MODULE_WORDS: usize = 6;
const NOTE_WORDS: usize = 4;

const fn header(kind: Kind, flags: u8, words: usize) -> u64 {
    kind as u64 | (flags as u64) << 8 | (words as u64) << 32
}

/// Writes a thread's start. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_thread_start(
    ring: &Producer<'_>,
    time_ns: u64,
    tid: u32,
    clock: u64,
    name: &ThreadName,
    routine: u64,
) -> bool {
    let Some(mut record) = ring.begin(START_WORDS) else {
        return false;
    };
    let [first, second] = name_words(name);
    record.put(header(Kind::ThreadStart, 0, START_WORDS));
    for word in [time_ns, u64::from(tid), clock, first, second, routine] {
        record.put(word);
    }
    record.commit();
    true
}

/// Writes a thread's end. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_thread_end(
    ring: &Producer<'_>,
    time_ns: u64,
    cpu_time_ns: u64,
    name: &ThreadName,
) -> bool {
    let Some(mut record) = ring.begin(END_WORDS) else {
        return false;
    };
    let [first, second] = name_words(name);
    record.put(header(Kind::ThreadEnd, 0, END_WORDS));
    for word in [time_ns, cpu_time_ns, first, second] {
        record.put(word);
    }
    record.commit();
    true
}

/// Writes the name that a thread has from now on. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_thread_name(ring: &Producer<'_>, name: &ThreadName) -> bool {
    let Some(mut record) = ring.begin(NAME_WORDS) else {
        return false;
    };
    record.put(header(Kind::ThreadName, 0, NAME_WORDS));
    for word in name_words(name) {
        record.put(word);
    }
    record.commit();
    true
}

/// Writes a sample. `frames` are those that differ from the previous sample, innermost first, and
/// `shared` the number of outermost frames that do not. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[inline]
#[must_use]
pub fn put_sample(
    ring: &Producer<'_>,
    time_ns: u64,
    weight: u32,
    flags: u8,
    shared: u16,
    frames: &[u64],
) -> bool {
    let words = SAMPLE_WORDS.wrapping_add(frames.len());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::Sample, flags, words));
    record.put(time_ns);
    record.put(u64::from(weight) | u64::from(shared) << 32 | (frames.len() as u64) << 48);
    for frame in frames {
        record.put(*frame);
    }
    record.commit();
    true
}

/// What a module record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module<'a> {
    /// When it was first seen.
    pub time_ns: u64,
    /// First mapped address.
    pub start: u64,
    /// One past the last mapped address.
    pub end: u64,
    /// Mapped address minus address in the file's own address space.
    pub bias: u64,
    /// The GNU build-id, or empty.
    pub build_id: &'a [u8],
    /// The path that the loader knows it by; empty for the executable.
    pub path: &'a [u8],
}

/// Writes a module. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_module(ring: &Producer<'_>, module: &Module<'_>) -> bool {
    let text_words = module
        .build_id
        .len()
        .div_ceil(8)
        .wrapping_add(module.path.len().div_ceil(8));
    let words = MODULE_WORDS.wrapping_add(text_words);
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::Module, 0, words));
    for word in [module.time_ns, module.start, module.end, module.bias] {
        record.put(word);
    }
    record.put(module.build_id.len() as u64 | (module.path.len() as u64) << 32);
    record.put_bytes(module.build_id);
    record.put_bytes(module.path);
    record.commit();
    true
}

/// Writes a note. Returns whether there was room.
///
/// # Signal safety
/// Stores into the ring only.
#[must_use]
pub fn put_note(ring: &Producer<'_>, time_ns: u64, code: u64, text: &[u8]) -> bool {
    let words = NOTE_WORDS.wrapping_add(text.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(header(Kind::Note, 0, words));
    record.put(time_ns);
    record.put(code);
    record.put(text.len() as u64);
    record.put_bytes(text);
    record.commit();
    true
}

/// A record as the sampler reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    /// See [`put_thread_start`].
    ThreadStart {
        /// When.
        time_ns: u64,
        /// The kernel's thread id, as the process sees it.
        tid: u32,
        /// Which clock: see [`Clock`].
        clock: u64,
        /// The name at that time.
        name: ThreadName,
        /// Address of the start routine, or 0.
        routine: u64,
    },
    /// See [`put_thread_name`].
    ThreadName {
        /// The thread's name.
        name: ThreadName,
    },
    /// See [`put_thread_end`].
    ThreadEnd {
        /// When.
        time_ns: u64,
        /// CPU time that the thread used since it was sampled, in ns; of one that lived for less than a period: how long it lived.
        cpu_time_ns: u64,
        /// The name at that time.
        name: ThreadName,
    },
    /// See [`put_sample`].
    Sample {
        /// When.
        time_ns: u64,
        /// How many periods of CPU time the sample stands for.
        weight: u32,
        /// [`SAMPLE_TRUNCATED`] and its like.
        flags: u8,
        /// Outermost frames taken from the previous sample.
        shared: u16,
        /// The frames that differ, innermost first.
        frames: &'a [u64],
    },
    /// See [`put_module`]; the byte strings are the build-id and the path.
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
    /// See [`put_note`].
    Note {
        /// When.
        time_ns: u64,
        /// What it is about.
        code: u64,
        /// The text.
        text: Vec<u8>,
    },
    /// See [`put_python_stack`].
    PythonStack {
        /// [`PYTHON_TRUNCATED`] and its like.
        flags: u8,
        /// Outermost frames taken from the Python stack before.
        shared: u16,
        /// The frames that differ, innermost first.
        frames: &'a [u64],
    },
    /// See [`put_python_code`].
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
    /// See [`put_python_thread`].
    PythonThread {
        /// The name.
        name: String,
    },
    /// See [`put_python_interpreter`].
    PythonInterpreter {
        /// When it was found.
        time_ns: u64,
        /// [`INTERPRETER_KNOWN`] or nothing.
        flags: u8,
        /// As `PY_VERSION_HEX`; 0 when it could not be told.
        version: u32,
        /// An address in it.
        address: u64,
    },
    /// Something that was told; only in rings for events.
    Event(crate::event::Event<'a>),
    /// See [`put_counters`].
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

/// Which clock drives a thread's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Clock {
    /// The thread's POSIX CPU timer.
    Timer = 1,
    /// perf `cpu-clock` and the timer.
    PerfAndTimer = 2,
    /// None: no timer could be made.
    None = 3,
    /// An event, instead of CPU time.
    Overflow = 4,
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
