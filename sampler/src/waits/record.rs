//! Records of the looks at blocked threads, for the writer.

use std::sync::Arc;

/// How the walk of a waiting thread's stack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// At the thread's start.
    Complete,
    /// The stack is deeper than what is kept.
    Truncated,
    /// A caller could not be found.
    Broken,
}

/// A module of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitModule {
    /// BOOTTIME at which it was there.
    pub time_ns: u64,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Address minus address in the file.
    pub bias: u64,
    /// Its build-id, empty when it has none.
    pub build_id: Vec<u8>,
    /// Its path.
    pub path: String,
}

/// An interpreter of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitInterpreter {
    /// BOOTTIME at which it was found.
    pub time_ns: u64,
    /// Whether its frames can be read.
    pub is_known: bool,
    /// Whether it runs threads without the lock.
    pub free_threaded: bool,
    /// As `PY_VERSION_HEX`; 0 when it is not known.
    pub version: u32,
    /// An address in it.
    pub address: u64,
}

/// A code object of Python, as in the agent's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCode {
    /// Its key in the words of frames.
    pub key: u64,
    /// The line at which it starts.
    pub first_line: u32,
    /// The form of the table of lines.
    pub form: u8,
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// The table of lines.
    pub lines: Vec<u8>,
}

/// The Python frames of a waiting thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonWait {
    /// Their words, innermost first.
    pub words: Box<[u64]>,
    /// As in the agent's records of Python stacks.
    pub flags: u8,
}

/// The lock of an interpreter that a thread waits for, as it was at the look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterpreterLock {
    /// Its address.
    pub address: u64,
    /// The thread that held it, as the process knows it; 0 where the lock was free.
    pub holder_tid: u32,
    /// The Python frames of that thread, if it held the lock as long as they were read.
    pub holder: Option<PythonWait>,
}

/// A wait as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What the thread waits for, for instance `read(pipe)`.
    pub label: Arc<str>,
    /// Frame words as in the records of samples, innermost first.
    pub words: Box<[u64]>,
    /// Whether they are all of the stack.
    pub completeness: Completeness,
    /// Its Python frames, if it has any.
    pub python: Option<PythonWait>,
    /// The interpreter's lock, if it waits for that.
    pub lock: Option<InterpreterLock>,
    /// Whether it is the profiler that waits, in a thread of the program.
    pub is_own: bool,
}

/// What the kernel has counted of a thread. While the thread is blocked, it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time that it waited for a processor.
    pub delay_ns: u64,
}

/// A wait that is over, or several short ones of a thread that follow each other and were not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastWait {
    /// The thread.
    pub tid: u32,
    /// When it began: BOOTTIME.
    pub begin_ns: u64,
    /// When it ended: BOOTTIME.
    pub end_ns: u64,
    /// How long the thread was blocked between these times: all of it, but for several waits.
    pub waited_ns: u64,
    /// What and where.
    pub wait: Arc<Wait>,
    /// Whether a look fell into it. Else `wait` is that of another wait of the thread which took about as long.
    pub is_seen: bool,
}

/// Something that was seen, in the order in which it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitRecord {
    /// A module, before the first wait whose stack leads into it.
    Module(WaitModule),
    /// An interpreter, after its module.
    Interpreter(WaitInterpreter),
    /// A code object, before the first wait in it.
    Code(WaitCode),
    /// The name of a thread, before its first wait and when it changes. Ids are those that the
    /// process sees.
    Thread {
        /// The thread.
        tid: u32,
        /// Its name.
        name: String,
    },
    /// A thread was found waiting.
    Begin {
        /// The thread.
        tid: u32,
        /// When the wait began: BOOTTIME.
        time_ns: u64,
        /// When it was seen.
        seen_ns: u64,
        /// What the thread had used by then.
        used: Used,
        /// What and where.
        wait: Arc<Wait>,
    },
    /// A wait of which everything is known: it is over.
    Past(PastWait),
    /// The wait goes on.
    Continue {
        /// The thread.
        tid: u32,
        /// BOOTTIME.
        time_ns: u64,
        /// What the thread had used by then.
        used: Used,
    },
    /// A thread that waited could have gone on, and had no processor.
    Woken {
        /// The thread.
        tid: u32,
        /// BOOTTIME.
        begin_ns: u64,
        /// When it got one: BOOTTIME.
        end_ns: u64,
    },
    /// The wait is over.
    End {
        /// The thread.
        tid: u32,
        /// BOOTTIME.
        time_ns: u64,
    },
    /// The thread is gone.
    Gone {
        /// The thread.
        tid: u32,
    },
    /// What could not be seen, once the process is over.
    Missed(Missed),
}

/// What could not be seen of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Missed {
    /// Looks during which the thread woke up.
    pub raced: u64,
    /// Threads that the system does not let us look at.
    pub unreadable_threads: u64,
}
