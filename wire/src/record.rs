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
mod read;

pub use self::counters::put_counters;
pub use self::python::{
    ForeignText, put_python_code, put_python_interpreter, put_python_stack, put_python_thread,
    text_of,
};
pub use self::read::{Malformed, Record, Records};
use crate::ring::Producer;
pub use crate::words::ThreadName;
use crate::words::name_words;

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
    /// A message for the user.
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
/// Flag of a Python interpreter: it runs threads without the lock (GIL).
pub const INTERPRETER_FREE_THREADED: u8 = 2;

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
    /// perf `cpu-clock` alone.
    Perf = 5,
}
