//! Calls that move data between ranks.

use super::{ProcessId, TextId, ThreadId};

/// A call of RCCL that moves data between the ranks of a communicator. It is among the slices of its thread as well; operations of a group have
/// the link of the call that ends the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectiveCall {
    /// BOOTTIME of its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// [`super::HostSlice::link`] of its slice, and of that of the end of its group.
    pub link: u64,
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// Name of the function.
    pub name: TextId,
    /// Names the communicator, equally on all its ranks; empty if unknown.
    pub communicator: TextId,
    /// The type of the elements, as the trace writes it.
    pub data_type: TextId,
    /// Its number in the communicator since that was made; of messages, among those of the same direction between the same two ranks.
    pub sequence: Option<u64>,
    /// Bytes that the call names: what this rank gives, or gets of a reduce-scatter and of a receive.
    pub bytes: u64,
    /// The caller's rank in the communicator.
    pub rank: Option<u64>,
    /// How many ranks the communicator has.
    pub ranks: Option<u64>,
    /// The rank that a message is for, or comes from.
    pub peer: Option<u64>,
    /// The call returns when the operation is done.
    pub is_blocking: bool,
}

/// How names of communicators end of which nothing but the order of their collectives is known.
const BY_ORDER: &str = " (by order)";

impl CollectiveCall {
    /// The name of a communicator that has none: what is known of it, and that its collectives are numbered as they come.
    #[must_use]
    pub fn by_order(known: &str) -> String {
        format!("{known}{BY_ORDER}")
    }

    /// Whether the collectives of a communicator are numbered as they come.
    #[must_use]
    pub fn is_by_order(communicator: &str) -> bool {
        communicator.ends_with(BY_ORDER)
    }
}
