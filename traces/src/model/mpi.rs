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

/// What a collective without a number is about, in which all ranks may wait for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// The communicator that the call names.
    Communicator,
    /// The same; the call makes a window.
    MakesWindow,
    /// The same; the call opens a file.
    OpensFile,
    /// A window, whose communicator the call does not name.
    Window,
    /// A file, likewise.
    File,
}

impl Joint {
    /// By the name of a function.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("MPI_")? {
            "Comm_dup"
            | "Comm_dup_with_info"
            | "Comm_split"
            | "Comm_split_type"
            | "Comm_create"
            | "Cart_create"
            | "Cart_sub"
            | "Graph_create"
            | "Dist_graph_create"
            | "Dist_graph_create_adjacent" => Self::Communicator,
            "Win_create" | "Win_create_dynamic" | "Win_allocate" | "Win_allocate_shared" => {
                Self::MakesWindow
            }
            "File_open" => Self::OpensFile,
            "Win_fence" | "Win_free" => Self::Window,
            "File_close" | "File_read_all" | "File_read_at_all" | "File_read_ordered"
            | "File_write_all" | "File_write_at_all" | "File_write_ordered" | "File_set_view"
            | "File_set_size" | "File_preallocate" | "File_sync" => Self::File,
            _ => return None,
        })
    }
}

/// Whether a function asks whether requests are done.
pub fn is_test(name: &str) -> bool {
    const TESTS: [&str; 4] = ["Test", "Testall", "Testany", "Testsome"];
    let plain = name.strip_prefix("MPI_");
    plain.is_some_and(|plain| TESTS.contains(&plain))
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
    /// It is a collective that has no number.
    pub joint: Option<Joint>,
    /// It asks whether requests are done.
    pub is_test: bool,
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
