//! Calls of MPI, with what says which calls of other ranks they wait for.

use super::{ProcessId, TextId, ThreadId};

/// One side of a message. Sender, receiver, tag, communicator and number name it, equally on both ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageEnd {
    /// The other rank in the communicator.
    pub peer: u64,
    /// The tag.
    pub tag: u64,
    /// Its number among the messages of this sender, receiver, tag and communicator, from 0.
    pub number: u64,
}

/// A call of MPI. It is among the slices of its thread as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MpiCall {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The request that it makes, or of a call that waits, the one that it waits for: a number of the process. 0: none, or several.
    pub request: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// Name of the function.
    pub name: TextId,
    /// Names the communicator, equally on all its ranks; empty if unknown.
    pub communicator: TextId,
    /// The caller's rank in the communicator.
    pub rank: Option<u64>,
    /// How many ranks the communicator has.
    pub ranks: Option<u64>,
    /// Of a collective: its number in the communicator.
    pub sequence: Option<u64>,
    /// Of a collective: the rank that gives to all others, or gets from them.
    pub root: Option<u64>,
    /// The message that it sends.
    pub sends: Option<MessageEnd>,
    /// The message that it receives.
    pub receives: Option<MessageEnd>,
}

/// A request that was done when a call returned that waits for several, or for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// BOOTTIME: within the call, at its end.
    pub time_ns: u64,
    /// [`MpiCall::request`].
    pub request: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread that made the call.
    pub thread: ThreadId,
}
