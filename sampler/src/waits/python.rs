//! The Python frames of blocked threads, read from outside as `rsys-python` reads them inside.
//!
//! Only a thread whose native stack leads through an interpreter is asked for Python. Its frames stand still while it sleeps, which
//! whoever looks makes sure of afterwards; the lists of threads, which others change meanwhile, are believed of nothing that the
//! thread's own state does not confirm. Of a thread that waits for the interpreter's lock, the one that holds it is read as well. That one runs: its
//! frames are a picture taken on the way, and count if they lead to the thread's begin and it has held the lock all the while.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rsys_python::code::Code;
use rsys_python::stack::{self, End};
use rsys_python::text::Text;
use rsys_python::{Found, Interpreter, outside};
use rsys_wire::record::{PYTHON_BROKEN, PYTHON_SUBINTERPRETER, PYTHON_TRUNCATED, text_of};

use super::blocks::Blocks;
use super::image::Image;
use super::record::{InterpreterLock, PythonWait, WaitCode, WaitInterpreter, WaitRecord};
use super::states::{OwnState, States};
use super::syscalls;
use super::thread::Blocked;

/// What a thread waits for that waits until it may run Python.
pub const INTERPRETER_LOCK: &str = "the interpreter's lock (GIL)";

/// As much of texts as the agent records, so that both say the same of a code object.
const NAME_BYTES: u64 = 1024;
const FILE_BYTES: u64 = 2048;
const LINES_BYTES: u64 = 16 * 1024;
/// Keys of code objects that are kept in mind; beyond it, all are recorded again.
const CODES_MAX: usize = 1 << 20;
/// Blocks of a thread's memory that are kept in mind.
const BLOCKS_KEPT: usize = 128;

/// What is known of the Python of a process.
#[derive(Debug)]
pub struct Python {
    memory: Blocks,
    /// What the modules are that stacks led into, by their start, for one generation of the image's.
    modules: HashMap<u64, Option<usize>>,
    generation: u32,
    interpreters: Vec<Known>,
    /// Code objects that were recorded.
    recorded: HashSet<u64>,
    /// Room for the frames of one thread.
    frames: Vec<u64>,
    /// Its threads, as it knows them.
    threads: HashSet<u32>,
    /// Who held a lock at the last look at a thread that waits for it, in this round of looks.
    holder: Option<Holder>,
}

/// Who held a lock, which many may wait for.
#[derive(Debug)]
struct Holder {
    lock: Range<u64>,
    /// Its state.
    state: u64,
    tid: u32,
    frames: Option<PythonWait>,
    /// The code objects of these frames that had not been recorded.
    codes: Vec<WaitCode>,
}

/// An interpreter.
#[derive(Debug)]
struct Known {
    /// `None` for one that is not understood.
    interpreter: Option<Interpreter>,
    record: WaitInterpreter,
    is_recorded: bool,
    states: States,
}

/// What is known of the Python of one thread.
#[derive(Debug, Default)]
pub struct PythonThread {
    own: OwnState,
    /// What the look before has read.
    blocks: Vec<u64>,
}

/// What a look at a thread has found.
#[derive(Debug, Default)]
pub struct PythonLook {
    /// Its frames, if it has any.
    pub wait: Option<PythonWait>,
    /// The interpreter's lock, if it waits for that.
    pub lock: Option<InterpreterLock>,
    interpreter: Option<usize>,
    codes: Vec<WaitCode>,
}

impl PythonLook {
    /// Whether the thread is in an interpreter, if perhaps in no Python function.
    #[must_use]
    pub fn is_in_interpreter(&self) -> bool {
        self.interpreter.is_some()
    }
}

impl Python {
    /// That of process `pid`. At most `depth_max` frames of a thread are read.
    #[must_use]
    pub fn new(pid: u32, depth_max: usize) -> Self {
        Self {
            memory: Blocks::new(pid),
            modules: HashMap::new(),
            generation: 0,
            interpreters: Vec::new(),
            recorded: HashSet::new(),
            frames: vec![0; depth_max],
            threads: HashSet::new(),
            holder: None,
        }
    }

    /// The threads that the process has now, as it knows them.
    pub fn set_threads(&mut self, threads: impl Iterator<Item = u32>) {
        self.threads.clear();
        self.threads.extend(threads);
    }

    /// A round of looks at all threads begins.
    pub fn begin_round(&mut self) {
        self.holder = None;
    }

    /// Reads the frames of thread `tid`, as its process knows it, which is blocked and whose native stack is `words`. `None` when its
    /// state cannot be found in time: another look will.
    pub fn look(
        &mut self,
        image: &Image,
        words: &[u64],
        tid: u32,
        blocked: &Blocked,
        thread: &mut PythonThread,
    ) -> Option<PythonLook> {
        let Some(index) = self.interpreter_of(image, words) else {
            return Some(PythonLook::default());
        };
        let mut look = PythonLook {
            interpreter: Some(index),
            ..PythonLook::default()
        };
        let Known {
            interpreter: Some(interpreter),
            states,
            ..
        } = &mut self.interpreters[index]
        else {
            return Some(look);
        };
        let memory = &self.memory;
        memory.begin(&thread.blocks);
        if !states.find(memory, interpreter, (tid, blocked.sp), &mut thread.own) {
            return None;
        }
        let word = blocked.call.as_ref().and_then(syscalls::awaited_word);
        let lock = word.and_then(|word| states.lock_of(memory, interpreter, word));
        let holder = |lock: &Range<u64>| outside::lock_holder_state(memory, interpreter, lock);
        let held = lock.as_ref().and_then(holder);
        let (frames, recorded) = (&mut self.frames, &self.recorded);
        if thread.own.address != 0 {
            look.wait = walk(
                (memory, interpreter),
                &thread.own.all,
                frames,
                recorded,
                &mut look.codes,
            );
        }
        memory.keep(&mut thread.blocks, BLOCKS_KEPT);
        look.lock = lock.map(|lock| {
            let mut told = InterpreterLock {
                address: lock.start,
                holder_tid: 0,
                holder: None,
            };
            let Some(state) = held else { return told };
            let is_same = |known: &Holder| known.state == state && known.lock == lock;
            if !self.holder.as_ref().is_some_and(is_same) {
                let mut codes = Vec::new();
                let found = walk(
                    (memory, interpreter),
                    &[state],
                    frames,
                    recorded,
                    &mut codes,
                );
                // A child that C code forked has its parent's id noted.
                let ids = [outside::noted_tid, outside::library_tid];
                let mut ids = ids
                    .iter()
                    .filter_map(|id| id(memory, interpreter, state))
                    .filter(|id| self.threads.contains(id));
                let whole = found.filter(|frames| frames.flags & PYTHON_BROKEN == 0);
                memory.begin(&[]);
                let is_held = holder(&lock) == held;
                self.holder = Some(Holder {
                    state,
                    tid: ids.next().unwrap_or(0),
                    frames: whole.filter(|_| is_held),
                    codes,
                    lock,
                });
            }
            if let Some(known) = self.holder.as_ref()
                && known.tid != 0
                && known.tid != tid
            {
                told.holder_tid = known.tid;
                told.holder.clone_from(&known.frames);
                for code in &known.codes {
                    if look.codes.iter().all(|other| other.key != code.key) {
                        look.codes.push(code.clone());
                    }
                }
            }
            told
        });
        Some(look)
    }

    /// Has the next looks read the lists of threads at once: they are made once, and cannot wait for another look.
    pub fn read_lists_anew(&mut self) {
        for known in &mut self.interpreters {
            known.states.read_anew();
        }
    }

    /// Whether a thread holds the lock of an interpreter that it has entered, at the moment of this look at it.
    #[must_use]
    pub fn holds_lock(&self, look: &PythonLook, thread: &PythonThread) -> bool {
        let known = look.interpreter.map(|index| &self.interpreters[index]);
        let Some(Known {
            interpreter: Some(interpreter),
            states,
            ..
        }) = known
        else {
            return false;
        };
        let is_own = |state: u64| state != 0 && thread.own.all.contains(&state);
        let mut locks = states.locks(&self.memory, interpreter);
        locks.any(|lock| {
            outside::lock_holder_state(&self.memory, interpreter, &lock).is_some_and(is_own)
        })
    }

    /// Records what a look has found for the first time.
    pub fn record(&mut self, look: &mut PythonLook, time_ns: u64, out: &mut Vec<WaitRecord>) {
        let known = look.interpreter.map(|index| &mut self.interpreters[index]);
        if let Some(known) = known.filter(|known| !known.is_recorded) {
            known.is_recorded = true;
            known.record.time_ns = time_ns;
            out.push(WaitRecord::Interpreter(known.record));
        }
        if self.recorded.len() > CODES_MAX {
            self.recorded.clear();
        }
        for code in look.codes.drain(..) {
            if self.recorded.insert(code.key) {
                out.push(WaitRecord::Code(code));
            }
        }
    }

    /// The interpreter that a native stack leads through.
    fn interpreter_of(&mut self, image: &Image, words: &[u64]) -> Option<usize> {
        if self.generation != image.modules_generation() {
            self.generation = image.modules_generation();
            self.modules.clear();
        }
        let mut last = 0;
        words.iter().find_map(|word| {
            let (start, bias) = image.module_of(*word)?;
            if std::mem::replace(&mut last, start) == start {
                return None;
            }
            if let Some(found) = self.modules.get(&start) {
                return *found;
            }
            let found = self.inspect(start, bias);
            self.modules.insert(start, found);
            found
        })
    }

    /// Looks whether a module is an interpreter.
    fn inspect(&mut self, start: u64, bias: u64) -> Option<usize> {
        self.memory.begin(&[]);
        let found = Interpreter::find(&self.memory, start, bias)?;
        let (interpreter, free_threaded, version, address) = match found {
            Found::Known(known) => {
                let free_threaded = known.layout.free_threaded;
                (Some(known), free_threaded, known.version, known.runtime)
            }
            Found::Unknown {
                version,
                free_threaded,
                address,
            } => (None, free_threaded, version, address),
        };
        let is_same =
            |known: &Known| known.interpreter == interpreter && known.record.address == address;
        if let Some(index) = self.interpreters.iter().position(is_same) {
            return Some(index);
        }
        let record = WaitInterpreter {
            time_ns: 0,
            is_known: interpreter.is_some(),
            free_threaded,
            version,
            address,
        };
        self.interpreters.push(Known {
            interpreter,
            record,
            is_recorded: false,
            states: States::default(),
        });
        Some(self.interpreters.len() - 1)
    }
}

/// The frames of a thread that has these states, and the code objects of them that are neither recorded nor among `codes`, which are added to these.
fn walk(
    (memory, interpreter): (&Blocks, &Interpreter),
    states: &[u64],
    frames: &mut [u64],
    recorded: &HashSet<u64>,
    codes: &mut Vec<WaitCode>,
) -> Option<PythonWait> {
    let code = |key, address| {
        if !recorded.contains(&key) && codes.iter().all(|code| code.key != key) {
            codes.push(describe(memory, interpreter, key, address));
        }
    };
    let walked = match states {
        [state] => stack::walk(memory, interpreter, *state, frames, code),
        _ => stack::walk_all(memory, interpreter, states, frames, code),
    };
    let frames = frames.get(..walked.count).unwrap_or_default();
    (!frames.is_empty()).then(|| PythonWait {
        words: frames.into(),
        flags: flags_of(walked.end, walked.interpreter),
    })
}

fn flags_of(end: End, interpreter: u64) -> u8 {
    let end = match end {
        End::Complete => 0,
        End::Truncated => PYTHON_TRUNCATED,
        End::Broken => PYTHON_BROKEN,
    };
    match interpreter {
        0 => end,
        _ => end | PYTHON_SUBINTERPRETER,
    }
}

fn describe(memory: &Blocks, interpreter: &Interpreter, key: u64, address: u64) -> WaitCode {
    let code = Code::at(memory, interpreter, address);
    let text = |text: Text, most: u64| {
        let text = text.cut(most);
        text_of(&bytes_of(memory, text), text.width)
    };
    WaitCode {
        key,
        first_line: code.first_line,
        form: code.line_table_form as u8,
        name: text(code.name, NAME_BYTES),
        file: text(code.filename, FILE_BYTES),
        lines: bytes_of(memory, code.line_table.cut(LINES_BYTES)),
    }
}

fn bytes_of(memory: &Blocks, text: Text) -> Vec<u8> {
    let words = (0..text.bytes).step_by(8);
    let mut bytes: Vec<u8> = words
        .flat_map(|at| text.word(memory, at).to_le_bytes())
        .collect();
    bytes.truncate(text.bytes as usize);
    bytes
}
