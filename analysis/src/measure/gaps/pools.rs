//! Times of threads between their calls, which are divided by samples.

use std::collections::BTreeMap;

use super::causes::Example;
use super::host::Look;
use crate::model::{StackId, TextId, ThreadId};

/// Times of a thread between its calls, which are divided together.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) time_ns: u64,
    pub(super) count: u64,
    /// The longest, whatever was seen in it.
    pub(super) longest: Option<Example>,
    pub(super) looks: Vec<(Look, Span)>,
}

/// One of these times: begin and length.
pub(super) type Span = (u64, u64);

/// A call, and the stack that it was made from, if that was recorded.
pub(super) type CallAt = (TextId, Option<StackId>);

/// Whose time between calls it is, and what is known around it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Around {
    pub(super) thread: ThreadId,
    /// Where the thread waited around that time, or an empty text.
    pub(super) waits: String,
    /// The call with which it went on.
    pub(super) next: Option<CallAt>,
}

/// What samples of a pool say of one place.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) weight_ns: u64,
    pub(super) spans: BTreeMap<Span, u64>,
}
