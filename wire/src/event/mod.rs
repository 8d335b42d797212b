//! Events: what is recorded about a program, not sampled. Calls, GPU operations, ranges that the program marks.
//!
//! They travel in rings of their own ([`crate::handshake::HelloKind::Events`]), because a sample's signal may interrupt a thread in
//! the midst of one. Kinds 32 to 47 of [`crate::record`] are theirs; the header's flags say more:
//!
//! | kind | flags | words after the header |
//! |---|---|---|
//! | thread | – | time, thread id, name × 2 |
//! | text | – | key, bytes, the text |
//! | begin | category, [`AWAITED`] | time, name, correlation, arguments |
//! | mark | category | time, name, correlation, arguments |
//! | end | category | time, arguments |
//! | span | category | begin, end, name, arguments |
//! | async begin | category | time, id, name, arguments |
//! | async end | category | time, id |
//! | GPU operation | [`OpKind`] | start, end, correlation, device (0–31), queue, stream, name, arguments |
//! | stack | as of a sample | id, frames |
//! | label | [`Labelled`] | id, bytes, the text, arguments |
//! | fact | – | bytes of the key (0–31) and of the value (32–63), key, value |
//! | place | – | key, address, bytes, the text |
//!
//! A *name* is the key of a text that was recorded in any ring of the process before, or 0 when an argument [`Key::Name`] has it.
//! An *argument* is one head word (key 0–15, form 16–23, bytes of a text 32–63) and its value; a small value is in the head word (32–63).
//! A *correlation* ties a call to the GPU operations that it caused; 0 is none. Numbers are unique in a process.

mod args;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::words::ThreadName;

pub use crate::sources::Category;

pub use self::args::{Arg, ArgWords, Args, ArgsIter, Encode, Key, Read, Value, WithText};
pub(crate) use self::read::{is_event, parse};
pub use self::write::{
    TEXT_WORDS_MAX, put_async_begin, put_async_end, put_begin, put_end, put_fact, put_gpu,
    put_label, put_mark, put_place, put_slice, put_span, put_stack, put_text, put_thread,
};

/// What a GPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// It ran a kernel.
    Kernel = 1,
    /// It copied memory.
    Copy = 2,
    /// It filled memory.
    Fill = 3,
    /// It waited at a barrier.
    Barrier = 4,
    /// It was given scratch memory.
    Scratch = 5,
    /// Anything else.
    Other = 6,
}

impl OpKind {
    fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            1 => OpKind::Kernel,
            2 => OpKind::Copy,
            3 => OpKind::Fill,
            4 => OpKind::Barrier,
            5 => OpKind::Scratch,
            6 => OpKind::Other,
            _ => return None,
        })
    }
}

/// What a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Labelled {
    /// A GPU; the id is the number by which its operations call it.
    Device = 1,
    /// A queue of a GPU.
    Queue = 2,
    /// A stream.
    Stream = 3,
    /// A thread, by its kernel id.
    Thread = 4,
    /// A GPU, by the name that the program gives it; the id is that of `Device`.
    NamedDevice = 5,
    /// The same; the id is HIP's number of it in this process ([`Key::Ordinal`]).
    NamedOrdinal = 6,
}

impl Labelled {
    fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            1 => Labelled::Device,
            2 => Labelled::Queue,
            3 => Labelled::Stream,
            4 => Labelled::Thread,
            5 => Labelled::NamedDevice,
            6 => Labelled::NamedOrdinal,
            _ => return None,
        })
    }
}

/// Something that a GPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOp {
    /// What.
    pub kind: OpKind,
    /// When it began, CLOCK_BOOTTIME ns.
    pub start_ns: u64,
    /// When it ended, CLOCK_BOOTTIME ns.
    pub end_ns: u64,
    /// The call that caused it, or 0.
    pub correlation: u64,
    /// Number of the GPU, as [`Labelled::Device`] has it.
    pub device: u32,
    /// Id of the queue, or 0.
    pub queue: u64,
    /// Handle of the stream, or 0 when that is known from the call, or not at all.
    pub stream: u64,
    /// Key of the text that is its name, or 0.
    pub name: u64,
}

/// An event that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// Whose events follow in this ring.
    Thread {
        /// When.
        time_ns: u64,
        /// The kernel's id of the thread, as the process sees it.
        tid: u32,
        /// Its name.
        name: ThreadName,
    },
    /// A text that other events refer to.
    Text {
        /// By this number.
        key: u64,
        /// What it says.
        text: Vec<u8>,
    },
    /// A text that names a place in the code: other events refer to it as to a text, and it is shown with the function and line.
    Place {
        /// By this number.
        key: u64,
        /// The return address of the call that is named.
        address: u64,
        /// What happens there.
        text: Vec<u8>,
    },
    /// A call or range begins, nested in those that have begun before in the same category and thread.
    Begin {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// Key of its name, or 0.
        name: u64,
        /// Ties it to GPU operations, or 0.
        correlation: u64,
        /// Whether such operations are recorded later.
        awaited: bool,
        /// What is known when it begins.
        args: Args<'a>,
    },
    /// The innermost call or range of the category ends.
    End {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// What is known when it ends.
        args: Args<'a>,
    },
    /// A point in time.
    Mark {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// Key of its name, or 0.
        name: u64,
        /// Ties it to GPU operations, or 0.
        correlation: u64,
        /// What is known of it.
        args: Args<'a>,
    },
    /// Something that is over already and that no thread did: it is drawn where its arguments say.
    Span {
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
        /// What it belongs to.
        category: Category,
        /// Key of its name, or 0.
        name: u64,
        /// What is known of it.
        args: Args<'a>,
    },
    /// A range begins that any thread may end.
    AsyncBegin {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// Its number.
        id: u64,
        /// Key of its name, or 0.
        name: u64,
        /// What is known of it.
        args: Args<'a>,
    },
    /// Such a range ends.
    AsyncEnd {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// Its number.
        id: u64,
    },
    /// A GPU did something.
    Gpu {
        /// What, when and where.
        op: GpuOp,
        /// What else is known of it.
        args: Args<'a>,
    },
    /// A call stack that other events refer to.
    Stack(Stack<'a>),
    /// The name of a device, queue, stream or thread.
    Label {
        /// What is named.
        what: Labelled,
        /// Its number or handle.
        id: u64,
        /// Its name.
        text: Vec<u8>,
        /// What else is known of it.
        args: Args<'a>,
    },
    /// Something to know about the process: a version, a choice and why it was made.
    Fact {
        /// What it is about.
        key: Vec<u8>,
        /// What it says.
        value: Vec<u8>,
    },
}

/// A call stack that other events refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// By this number, unique in the process.
    pub id: u64,
    /// [`crate::record::SAMPLE_TRUNCATED`] and its like.
    pub flags: u8,
    /// As a sample's, innermost first.
    pub frames: &'a [u64],
    /// [`crate::record::PYTHON_TRUNCATED`] and its like.
    pub python_flags: u8,
    /// The Python frames as a sample's, innermost first; none where the thread runs no Python.
    pub python: &'a [u64],
}

/// Of the beginning of a call: its operations are recorded later.
pub const AWAITED: u8 = 1 << 7;

const THREAD: u8 = 32;
const TEXT: u8 = 33;
const BEGIN: u8 = 34;
const END: u8 = 35;
const MARK: u8 = 36;
const ASYNC_BEGIN: u8 = 37;
const ASYNC_END: u8 = 38;
const GPU: u8 = 39;
const STACK: u8 = 40;
const LABEL: u8 = 41;
const FACT: u8 = 42;
const SPAN: u8 = 43;
const PLACE: u8 = 46;
