//! Locks: what was counted of each, and the waits for them.

use super::{ProcessId, TextId, ThreadId};

/// What rsys-sample says of a thread that waits until it may run Python, in place of a system call.
pub const INTERPRETER_LOCK: &str = "the interpreter's lock (GIL)";

/// How places in answers go on where the thread waits until it may run Python.
pub const WAITING_FOR_INTERPRETER: &str = "waiting for the interpreter's lock (GIL)";

/// How places in answers go on where the thread waits in a function of the C library for another lock, in front of its name.
pub const WAITING_FOR_LOCK: &str = "waiting in ";

/// What was counted of a lock, or of several that share a line, until the end of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCounts {
    /// The process.
    pub process: ProcessId,
    /// What kind of lock it is: `mutex`, `rwlock`, `spinlock`, `semaphore`, `condition`, `barrier`, `thread end`, `Python GIL`.
    pub kind: TextId,
    /// Its address in the process; 0 for the rest of a kind.
    pub address: u64,
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often a thread had to wait.
    pub contended: u64,
    /// Nanoseconds of all waits, drawn or not.
    pub wait_ns: u64,
    /// Nanoseconds of the longest one.
    pub longest_ns: u64,
    /// Function and line that waited most; empty if unknown.
    pub waiter: TextId,
    /// Function and line that held it while others waited most; empty if unknown.
    pub holder: TextId,
}

/// A wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockWait {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread that waited.
    pub thread: ThreadId,
    /// The function that it waited in, for instance `pthread_mutex_lock`; `Python GIL` for the lock of an interpreter.
    pub function: TextId,
    /// Address of the lock; for `pthread_join` the thread.
    pub address: u64,
    /// The kernel's id of the thread that held it when the wait began; 0 if unknown.
    pub holder_tid: u32,
    /// Function and line by which that thread took it, or that it was in; empty if unknown.
    pub holder: TextId,
    /// Whether it is a wait for the lock of a Python interpreter.
    pub is_interpreter: bool,
    /// Whether it was seen from outside, now and then, instead of recorded.
    pub is_sampled: bool,
}
