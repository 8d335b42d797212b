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

/// A wait as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What the thread waits for, for instance `read(pipe)`.
    pub label: Arc<str>,
    /// Frame words as in the records of samples, innermost first.
    pub words: Box<[u64]>,
    /// Whether they are all of the stack.
    pub completeness: Completeness,
}

/// Something that was seen, in the order in which it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitRecord {
    /// A module, before the first wait whose stack leads into it.
    Module(WaitModule),
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
        /// BOOTTIME.
        time_ns: u64,
        /// What and where.
        wait: Wait,
        /// Whether it follows the wait before so closely that the thread hardly ran between.
        adjoins: bool,
    },
    /// The wait goes on.
    Continue {
        /// The thread.
        tid: u32,
        /// BOOTTIME.
        time_ns: u64,
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
