//! The Python frames of a sample: which interpreters there are, and what was recorded of them.
//!
//! `rsys-python` knows how to read them. An interpreter is found when its module is reported for the first time (see
//! [`crate::code::modules`]), whether it is the program, a library of it, or opened later; nothing of it is ever called.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rsys_python::code::{Code, KEY_BITS};
#[cfg(any(feature = "locks", test))]
use rsys_python::outside;
use rsys_python::stack::{self, End, Walked};
use rsys_python::text::Text;
use rsys_python::thread::{self, Key};
use rsys_python::{Found, Interpreter, thread_name};
#[cfg(any(feature = "locks", test))]
use rsys_unwind::Memory;
use rsys_wire::handshake::PythonChoice;
use rsys_wire::record::{
    self, ForeignText, INTERPRETER_FREE_THREADED, INTERPRETER_KNOWN, PYTHON_BROKEN,
    PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED, SAMPLE_PYTHON,
};
use rsys_wire::ring::Producer;

use crate::code::object::Object;
use crate::sampling::buffers::{self, StackBuffers};
use crate::state;
use crate::sys::guard::Guarded;

/// Interpreters in one process; more are left alone.
const INTERPRETERS_MAX: usize = 4;

/// An interpreter, published once and never taken back: nothing of it is called, and all reads are guarded, so it may well be gone.
#[derive(Debug)]
struct Place {
    /// 0: free, 1: being written, 2: there.
    state: AtomicU32,
    interpreter: UnsafeCell<MaybeUninit<Interpreter>>,
    key: Key,
}

// SAFETY: the cell is written by the one thread that moved `state` from 0 to 1, and read once it is 2.
unsafe impl Sync for Place {}

impl Place {
    const fn new() -> Self {
        Place {
            state: AtomicU32::new(0),
            interpreter: UnsafeCell::new(MaybeUninit::uninit()),
            key: Key::new(),
        }
    }

    #[inline]
    fn get(&self) -> Option<&Interpreter> {
        // SAFETY: `state` 2 was stored after the cell was written, and never changes again.
        (self.state.load(Ordering::Acquire) == 2)
            .then(|| unsafe { (*self.interpreter.get()).assume_init_ref() })
    }
}

static INTERPRETERS: [Place; INTERPRETERS_MAX] = [const { Place::new() }; INTERPRETERS_MAX];

/// Looks whether a module that is new is an interpreter, and reports it. Returns `false` when it has to be tried again.
///
/// # Signal safety
/// Guarded reads, atomics, stores into the ring.
#[inline(never)]
pub fn inspect(ring: &Producer<'_>, time_ns: u64, object: &Object) -> bool {
    if state::settings().python == PythonChoice::Off {
        return true;
    }
    let Some(found) = Interpreter::find(&Guarded, object.start, object.bias) else {
        return true;
    };
    let (is_known, free_threaded, version, address) = match found {
        Found::Known(interpreter) => (
            publish(&interpreter),
            interpreter.layout.free_threaded,
            interpreter.version,
            interpreter.runtime,
        ),
        Found::Unknown {
            version,
            free_threaded,
            address,
        } => (false, free_threaded, version, address),
    };
    let mut flags = if is_known { INTERPRETER_KNOWN } else { 0 };
    if free_threaded {
        flags |= INTERPRETER_FREE_THREADED;
    }
    record::put_python_interpreter(ring, time_ns, flags, version, address)
}

/// Makes an interpreter known to all threads; `false` when there are too many.
fn publish(interpreter: &Interpreter) -> bool {
    for place in &INTERPRETERS {
        if place
            .get()
            .is_some_and(|known| known.runtime == interpreter.runtime)
        {
            return true;
        }
        let claimed = place
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_ok() {
            // SAFETY: the exchange made the cell ours alone.
            unsafe { (*place.interpreter.get()).write(*interpreter) };
            place.state.store(2, Ordering::Release);
            return true;
        }
    }
    false
}

/// What a thread stores under a key.
#[inline]
fn specific(key: u32) -> u64 {
    // SAFETY: any number may be asked for; an unused one gives null.
    let value = unsafe { libc::pthread_getspecific(key) };
    value.addr() as u64
}

#[inline]
fn own_id() -> u64 {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() }
}

/// The interpreter that the calling thread is in, and the thread's state there. `cached` is the thread's own word.
///
/// # Signal safety
/// Guarded reads, `pthread_getspecific` (a read of the thread's own table; glibc documents it as async-signal-safe).
#[cfg(any(feature = "locks", test))]
fn current(cached: &mut u64) -> Option<(&'static Interpreter, u64)> {
    for place in &INTERPRETERS {
        let interpreter = place.get()?;
        let (key, own_id) = (&place.key, own_id());
        if let Some(thread) = thread::find(&Guarded, interpreter, key, own_id, specific, cached) {
            return Some((interpreter, thread));
        }
    }
    None
}

/// Walks the Python frames of the calling thread, whose stack pointer is `sp`, in all interpreters that it has entered. `code` gets the interpreter, the key and the
/// address of each code object.
///
/// # Signal safety
/// As [`thread::find`] and [`stack::walk`]; `pthread_getspecific` is a read of the thread's own table, which glibc documents as async-signal-safe.
#[inline(always)]
fn walk(
    cached: &mut u64,
    sp: u64,
    words: &mut [u64],
    mut code: impl FnMut(&Interpreter, u64, u64),
) -> Option<(&'static Interpreter, Walked)> {
    for place in &INTERPRETERS {
        let interpreter = place.get()?;
        let (key, own_id) = (&place.key, own_id());
        let found = thread::find(&Guarded, interpreter, key, own_id, specific, cached);
        let code = |key: u64, address: u64| code(interpreter, key, address);
        let walked = if thread::has_several(&Guarded, interpreter) {
            let own = (own_id, sp);
            let states = thread::find_all(&Guarded, interpreter, key, found, own, specific);
            stack::walk_all(&Guarded, interpreter, states.as_slice(), words, code)
        } else if let Some(thread) = found {
            stack::walk(&Guarded, interpreter, thread, words, code)
        } else {
            continue;
        };
        if found.is_some() || walked.count != 0 {
            return Some((interpreter, walked));
        }
    }
    None
}

fn flags_of(end: End, interpreter: u64) -> u8 {
    let flags = match end {
        End::Complete => 0,
        End::Truncated => PYTHON_TRUNCATED,
        End::Broken => PYTHON_BROKEN,
    };
    if interpreter == 0 {
        flags
    } else {
        flags | PYTHON_SUBINTERPRETER
    }
}

/// Puts the Python frames of the calling thread into `words`, innermost first. Returns how many there are, and the flags of the stack.
/// `record_new` has to [`record_code`] of those that are not known yet.
pub fn frames(
    cached: &mut u64,
    words: &mut [u64],
    record_new: impl Fn(&Interpreter, u64, u64),
) -> (usize, u8) {
    // This call is further in than any frame.
    let sp = (&raw const cached).addr() as u64;
    let walked = walk(cached, sp, words, |interpreter, key, address| {
        if !is_known(key) {
            record_new(interpreter, key, address);
        }
    });
    walked.map_or((0, 0), |(_, walked)| {
        (walked.count, flags_of(walked.end, walked.interpreter))
    })
}

/// The interpreter's lock (GIL), if this address lies in the one of the calling thread's interpreter: where it begins, and the kernel's id of
/// the thread that holds it, or 0 where that is not known. `cached` is the thread's own word.
#[cfg(any(feature = "locks", test))]
pub fn lock_at(address: u64, cached: &mut u64) -> Option<(u64, u32)> {
    if state::settings().python == PythonChoice::Off {
        return None;
    }
    let (interpreter, thread) = current(cached)?;
    let own = thread.wrapping_add(interpreter.layout.thread.interpreter);
    let own = Guarded.read_u64(own)?;
    let lock = outside::lock(&Guarded, interpreter, own)?;
    let holder = || outside::lock_holder(&Guarded, interpreter, &lock);
    lock.contains(&address)
        .then(|| (lock.start, holder().unwrap_or(0)))
}

/// A thread that `threading` started has its name from the start; what is in the midst of a change is looked at again.
const NAME_TRIES: u8 = 4;

/// What is known of the Python of one thread.
#[derive(Debug)]
pub struct ThreadFrames {
    stacks: StackBuffers,
    /// How often the thread's Python name is still looked for.
    name_tries: u8,
    /// What the last sample's flags say of Python.
    pub flags: u8,
    /// The thread state that was found in an interpreter's list, or 0.
    thread: u64,
}

impl ThreadFrames {
    /// Nothing is known yet.
    pub fn new(stacks: StackBuffers) -> Self {
        ThreadFrames {
            stacks,
            name_tries: 0,
            flags: 0,
            thread: 0,
        }
    }

    /// Forgets all, for another thread.
    pub fn reset(&mut self) {
        self.stacks.reset();
        self.name_tries = NAME_TRIES;
        self.flags = 0;
        self.thread = 0;
    }

    /// Reads the Python frames of this thread, whose stack pointer is `sp`, and writes those that differ from the Python stack before. Notes in
    /// `flags` what to add to the flags of the sample.
    ///
    /// # Signal safety
    /// As [`walk`], and stores into the ring and into the buffers.
    #[inline(never)]
    pub fn read(&mut self, ring: &Producer<'static>, sp: u64) {
        self.flags = self.read_frames(ring, sp);
    }

    #[inline]
    fn read_frames(&mut self, ring: &Producer<'static>, sp: u64) -> u8 {
        // SAFETY: the thread's own buffers, in its own sample.
        let (current, previous) = unsafe { self.stacks.slices() };
        let walked = walk(
            &mut self.thread,
            sp,
            current,
            |interpreter, key, address| {
                if !is_known(key) {
                    record_code(ring, interpreter, key, address);
                }
            },
        );
        let Some((interpreter, walked)) = walked else {
            return 0;
        };
        if walked.count == 0 {
            return 0;
        }
        if self.name_tries > 0 && walked.end == End::Complete {
            self.name_thread(ring, interpreter, walked.outermost);
        }
        let frames = current.get(..walked.count).unwrap_or(&[]);
        let shared = buffers::shared(frames, previous);
        if shared < frames.len() || shared < previous.len() {
            let new = frames
                .get(..frames.len().wrapping_sub(shared))
                .unwrap_or(frames);
            let flags = flags_of(walked.end, walked.interpreter);
            if !record::put_python_stack(ring, flags, shared as u16, new) {
                return 0;
            }
            self.stacks.swap(frames.len());
        }
        SAMPLE_PYTHON
    }

    #[cold]
    #[inline(never)]
    fn name_thread(&mut self, ring: &Producer<'static>, interpreter: &Interpreter, outermost: u64) {
        self.name_tries = self.name_tries.wrapping_sub(1);
        if let Some(name) = thread_name::find(&Guarded, interpreter, outermost) {
            let text = foreign(name.cut(NAME_BYTES));
            if record::put_python_thread(ring, &text) {
                self.name_tries = 0;
            }
        }
    }
}

const NAME_BYTES: u64 = 1024;
const FILE_BYTES: u64 = 2048;
/// The lines of what is behind are not known: of functions with some thousands of lines.
const LINES_BYTES: u64 = 16 * 1024;

fn foreign(text: Text) -> ForeignText<impl Fn(u64) -> u64> {
    ForeignText {
        bytes: text.bytes as u32,
        width: text.width,
        word: move |offset| text.word(&Guarded, offset),
    }
}

/// Entries of the table of recorded code objects, in sets.
const SETS: usize = 4096;
const WAYS: usize = 8;
/// The key below, the generation above; a full set forgets one, which is recorded again when it is seen again.
static RECORDED: [[AtomicU64; WAYS]; SETS] = [const { [const { AtomicU64::new(0) }; WAYS] }; SETS];
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Lets everything be recorded again: a fork child has a trace of its own.
pub fn forget_recorded() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[inline]
fn entry(key: u64) -> u64 {
    key | u64::from(GENERATION.load(Ordering::Relaxed)) << KEY_BITS
}

#[inline]
fn set(key: u64) -> &'static [AtomicU64] {
    RECORDED.get(key as usize % SETS).map_or(&[], |set| set)
}

#[inline]
fn is_known(key: u64) -> bool {
    let entry = entry(key);
    set(key)
        .iter()
        .any(|known| known.load(Ordering::Relaxed) == entry)
}

/// Records a code object. Returns `false` when there was no room.
#[cold]
#[inline(never)]
pub fn record_code(ring: &Producer<'_>, interpreter: &Interpreter, key: u64, address: u64) -> bool {
    let code = Code::at(&Guarded, interpreter, address);
    let written = record::put_python_code(
        ring,
        key,
        code.first_line,
        code.line_table_form as u8,
        &foreign(code.name.cut(NAME_BYTES)),
        &foreign(code.filename.cut(FILE_BYTES)),
        &foreign(code.line_table.cut(LINES_BYTES)),
    );
    if !written {
        return false;
    }
    let entry = entry(key);
    let generation = entry >> KEY_BITS;
    let set = set(key);
    let place = set
        .iter()
        .find(|known| known.load(Ordering::Relaxed) >> KEY_BITS != generation)
        .or_else(|| set.get((key >> 32) as usize % WAYS));
    if let Some(place) = place {
        place.store(entry, Ordering::Relaxed);
    }
    true
}
