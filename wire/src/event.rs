//! Events: what is told about a program, not sampled of it. Calls, GPU operations, ranges that the program marks.
//!
//! They travel in rings of their own ([`crate::handshake::HelloKind::Events`]), because a sample's signal may interrupt a thread in
//! the midst of one. Kinds 32 to 47 of [`crate::record`] are theirs; the header's flags say more:
//!
//! | kind | flags | words after the header |
//! |---|---|---|
//! | thread | – | time, thread id, name × 2 |
//! | text | – | key, bytes, the text |
//! | begin, mark | category | time, name, correlation, arguments |
//! | end | category | time, correlation, arguments |
//! | async begin | category | time, id, name, arguments |
//! | async end | category | time, id |
//! | GPU operation | [`OpKind`] | start, end, correlation, device (0–31), queue, stream, name, arguments |
//! | stack | as of a sample | id, frames |
//! | label | [`Labelled`] | id, bytes, the text, arguments |
//! | fact | – | bytes of the key (0–31) and of the value (32–63), key, value |
//!
//! A *name* is the key of a text that was told in any ring of the process before, or 0 when an argument [`Key::Name`] has it.
//! An *argument* is one head word (key 0–15, form 16–23, bytes of a text 32–63) and its value.
//! A *correlation* ties a call to the GPU operations that it caused; 0 is none. Numbers are unique in a process.

use crate::record::{ThreadName, bytes_of, name_of, name_words};
use crate::ring::{Producer, Reservation};

/// What a call or a mark belongs to: the track that it is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Category {
    /// A call of the HIP runtime.
    Hip = 1,
    /// A call of the HSA runtime.
    Hsa = 2,
    /// A range or mark of the program, by roctx.
    Roctx = 3,
    /// A call of RCCL.
    Rccl = 4,
    /// Something that the profiler says about itself.
    Profiler = 5,
}

impl Category {
    fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            1 => Category::Hip,
            2 => Category::Hsa,
            3 => Category::Roctx,
            4 => Category::Rccl,
            5 => Category::Profiler,
            _ => return None,
        })
    }
}

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
}

impl Labelled {
    fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            1 => Labelled::Device,
            2 => Labelled::Queue,
            3 => Labelled::Stream,
            4 => Labelled::Thread,
            _ => return None,
        })
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $number:literal $name:literal,)*) => {
        /// What an argument is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Key { $($(#[$doc])* $key = $number,)* }

        impl Key {
            /// The key with this number.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Key::$key),)* _ => None }
            }

            /// What it is called in a trace.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Key::$key => $name,)* }
            }
        }
    };
}

keys! {
    /// The event's own name, where it does not come again.
    Name = 0 "name",
    /// Size of what is moved, filled or allocated, in bytes.
    Bytes = 1 "bytes",
    /// Handle of a stream.
    Stream = 2 "stream",
    /// Name of the kernel that a call launches.
    Kernel = 3 "kernel",
    /// Work-groups (HIP: blocks) in three dimensions.
    Grid = 4 "grid",
    /// Work-items of a work-group in three dimensions.
    Workgroup = 5 "workgroup",
    /// From where to where memory is copied.
    Direction = 6 "direction",
    /// Number of a GPU.
    Device = 7 "device",
    /// Where a copy reads.
    Source = 8 "src",
    /// Where a copy or a fill writes.
    Destination = 9 "dst",
    /// What a call returned, where that is an error.
    Result = 10 "result",
    /// Hash of a communicator's unique id, equal on all its ranks.
    Communicator = 11 "communicator",
    /// Number of an operation since its communicator was made.
    Sequence = 12 "sequence",
    /// Rank in a communicator.
    Rank = 13 "rank",
    /// Ranks of a communicator.
    Ranks = 14 "ranks",
    /// Number of elements.
    Count = 15 "count",
    /// Type of the elements.
    DataType = 16 "datatype",
    /// The other rank of a send or receive.
    Peer = 17 "peer",
    /// The root of a collective.
    Root = 18 "root",
    /// What a reduction computes.
    Operation = 19 "operation",
    /// Id of the call stack from which the call was made: an event of kind stack.
    LaunchStack = 20 "launch_stack",
    /// Shared (LDS) memory of a work-group in bytes.
    SharedMemory = 21 "lds_bytes",
    /// Scratch memory of a work-item in bytes.
    PrivateMemory = 22 "scratch_bytes",
    /// Handle of an event.
    Event = 23 "event",
    /// The address that an allocation returned or that is freed.
    Address = 24 "address",
    /// Handle of a graph that can be launched.
    Graph = 25 "graph",
    /// Number of something in a batch.
    Index = 26 "index",
    /// Value that is filled in.
    Value = 27 "value",
    /// Handle of a queue.
    Queue = 28 "queue",
    /// PCI address of a GPU.
    Pci = 29 "pci",
    /// Unique id of a GPU.
    Uuid = 30 "uuid",
    /// Instruction set of a GPU, as `gfx942`.
    Target = 31 "target",
    /// Name of a GPU as it is sold.
    Product = 32 "product",
    /// Number of the GPU among those of the machine, as its driver counts.
    Node = 33 "node",
    /// What is impossible about the operation's times.
    Clamped = 34 "clamped",
    /// Handle of a signal.
    Signal = 35 "signal",
    /// Flags of a call.
    Flags = 36 "flags",
    /// The numbers of GPUs on both ends of a copy, as text.
    Peers = 37 "peers",
    /// Anything that has no key of its own.
    Detail = 38 "detail",
}

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Unsigned integer.
    Uint(u64),
    /// Signed integer.
    Int(i64),
    /// Floating point number.
    Double(f64),
    /// Address or handle.
    Pointer(u64),
    /// A text that was told: its key.
    Known(u64),
    /// Three sizes.
    Size3([u32; 3]),
    /// A text that will not come again.
    Text(&'a [u8]),
}

/// An argument of an event.
pub type Arg<'a> = (Key, Value<'a>);

impl Value<'_> {
    fn words(&self) -> usize {
        match self {
            Value::Size3(_) => 2,
            Value::Text(text) => text.len().div_ceil(8),
            _ => 1,
        }
    }

    fn put(&self, key: Key, record: &mut Reservation<'_>) {
        let (form, bytes) = match self {
            Value::Uint(_) => (1, 0),
            Value::Int(_) => (2, 0),
            Value::Double(_) => (3, 0),
            Value::Pointer(_) => (4, 0),
            Value::Known(_) => (5, 0),
            Value::Size3(_) => (6, 0),
            Value::Text(text) => (7, text.len() as u64),
        };
        record.put(key as u64 | form << 16 | bytes << 32);
        match *self {
            Value::Uint(value) | Value::Pointer(value) | Value::Known(value) => record.put(value),
            Value::Int(value) => record.put(value.cast_unsigned()),
            Value::Double(value) => record.put(value.to_bits()),
            Value::Size3([x, y, z]) => {
                record.put(u64::from(x) | u64::from(y) << 32);
                record.put(u64::from(z));
            }
            Value::Text(text) => record.put_bytes(text),
        }
    }
}

/// The arguments of an event that was read, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Args<'a> {
    words: &'a [u64],
}

/// The value of an argument that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// As [`Value::Uint`].
    Uint(u64),
    /// As [`Value::Int`].
    Int(i64),
    /// As [`Value::Double`].
    Double(f64),
    /// As [`Value::Pointer`].
    Pointer(u64),
    /// As [`Value::Known`].
    Known(u64),
    /// As [`Value::Size3`].
    Size3([u32; 3]),
    /// As [`Value::Text`].
    Text(Vec<u8>),
}

impl Args<'_> {
    /// The value under a key, if there is one.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Read> {
        self.into_iter()
            .find_map(|(found, value)| (found == key).then_some(value))
    }

    /// A number under a key, if there is one.
    #[must_use]
    pub fn number(&self, key: Key) -> Option<u64> {
        match self.get(key)? {
            Read::Uint(value) | Read::Pointer(value) | Read::Known(value) => Some(value),
            Read::Int(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = (Key, Read);
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        ArgsIter { rest: self.words }
    }
}

/// Iterates over arguments; what is not understood ends it.
#[derive(Debug, Clone)]
pub struct ArgsIter<'a> {
    rest: &'a [u64],
}

impl Iterator for ArgsIter<'_> {
    type Item = (Key, Read);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first()?;
        let key = Key::from_number(*head as u16)?;
        let bytes = (head >> 32) as usize;
        let words = match (head >> 16) as u8 {
            1..=5 => 1,
            6 => 2,
            7 => bytes.div_ceil(8),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(words)?;
        self.rest = rest;
        let value = match ((head >> 16) as u8, value) {
            (1, [value]) => Read::Uint(*value),
            (2, [value]) => Read::Int(value.cast_signed()),
            (3, [value]) => Read::Double(f64::from_bits(*value)),
            (4, [value]) => Read::Pointer(*value),
            (5, [value]) => Read::Known(*value),
            (6, [xy, z]) => Read::Size3([*xy as u32, (xy >> 32) as u32, *z as u32]),
            (7, words) => Read::Text(bytes_of(words, bytes)?),
            _ => return None,
        };
        Some((key, value))
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
        /// What is known when it begins.
        args: Args<'a>,
    },
    /// The innermost call or range of the category ends.
    End {
        /// When.
        time_ns: u64,
        /// What it belongs to.
        category: Category,
        /// As it was when it began, or 0.
        correlation: u64,
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
    Stack {
        /// By this number, unique in the process.
        id: u64,
        /// [`crate::record::SAMPLE_TRUNCATED`] and its like.
        flags: u8,
        /// As a sample's, innermost first.
        frames: &'a [u64],
    },
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

/// The longest text or list of frames that is written, in words: a record must fit the smallest ring twice over.
pub const TEXT_WORDS_MAX: usize = 1024;

fn head(kind: u8, flags: u8, words: usize) -> u64 {
    u64::from(kind) | u64::from(flags) << 8 | (words as u64) << 32
}

fn arg_words(args: &[Arg<'_>]) -> usize {
    args.iter().fold(0, |sum: usize, (_, value)| {
        sum.wrapping_add(1).wrapping_add(value.words())
    })
}

/// Writes one record: fixed words and arguments. Returns whether there was room.
#[inline]
fn put(ring: &Producer<'_>, kind: u8, flags: u8, fixed: &[u64], args: &[Arg<'_>]) -> bool {
    let words = 1_usize
        .wrapping_add(fixed.len())
        .wrapping_add(arg_words(args));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(kind, flags, words));
    for word in fixed {
        record.put(*word);
    }
    for (key, value) in args {
        value.put(*key, &mut record);
    }
    record.commit();
    true
}

fn cut(text: &[u8]) -> &[u8] {
    text.get(..TEXT_WORDS_MAX.wrapping_mul(8)).unwrap_or(text)
}

/// Writes whose events follow. Returns whether there was room; so do all functions below, which store into the ring and do nothing else.
#[must_use]
pub fn put_thread(ring: &Producer<'_>, time_ns: u64, tid: u32, name: &ThreadName) -> bool {
    let [first, second] = name_words(name);
    put(
        ring,
        THREAD,
        0,
        &[time_ns, u64::from(tid), first, second],
        &[],
    )
}

/// Writes a text. Longer ones than [`TEXT_WORDS_MAX`] are cut.
#[must_use]
pub fn put_text(ring: &Producer<'_>, key: u64, text: &[u8]) -> bool {
    let text = cut(text);
    let words = 3_usize.wrapping_add(text.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(TEXT, 0, words));
    record.put(key);
    record.put(text.len() as u64);
    record.put_bytes(text);
    record.commit();
    true
}

/// Writes the beginning of a call or range; see [`Event::Begin`].
#[inline]
#[must_use]
pub fn put_begin(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    name: u64,
    correlation: u64,
    args: &[Arg<'_>],
) -> bool {
    put(
        ring,
        BEGIN,
        category as u8,
        &[time_ns, name, correlation],
        args,
    )
}

/// Writes the end of a call or range; see [`Event::End`].
#[inline]
#[must_use]
pub fn put_end(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    correlation: u64,
    args: &[Arg<'_>],
) -> bool {
    put(ring, END, category as u8, &[time_ns, correlation], args)
}

/// Writes a point in time; see [`Event::Mark`].
#[must_use]
pub fn put_mark(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    name: u64,
    correlation: u64,
    args: &[Arg<'_>],
) -> bool {
    put(
        ring,
        MARK,
        category as u8,
        &[time_ns, name, correlation],
        args,
    )
}

/// Writes the beginning of a range that any thread may end.
#[must_use]
pub fn put_async_begin(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    id: u64,
    name: u64,
    args: &[Arg<'_>],
) -> bool {
    put(
        ring,
        ASYNC_BEGIN,
        category as u8,
        &[time_ns, id, name],
        args,
    )
}

/// Writes the end of such a range.
#[must_use]
pub fn put_async_end(ring: &Producer<'_>, time_ns: u64, category: Category, id: u64) -> bool {
    put(ring, ASYNC_END, category as u8, &[time_ns, id], &[])
}

/// Writes what a GPU did.
#[inline]
#[must_use]
pub fn put_gpu(ring: &Producer<'_>, op: &GpuOp, args: &[Arg<'_>]) -> bool {
    put(
        ring,
        GPU,
        op.kind as u8,
        &[
            op.start_ns,
            op.end_ns,
            op.correlation,
            u64::from(op.device),
            op.queue,
            op.stream,
            op.name,
        ],
        args,
    )
}

/// Writes a call stack, innermost frame first.
#[must_use]
pub fn put_stack(ring: &Producer<'_>, id: u64, flags: u8, frames: &[u64]) -> bool {
    let words = 2_usize.wrapping_add(frames.len());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(STACK, flags, words));
    record.put(id);
    for frame in frames {
        record.put(*frame);
    }
    record.commit();
    true
}

/// Writes the name of something.
#[must_use]
pub fn put_label(
    ring: &Producer<'_>,
    what: Labelled,
    id: u64,
    text: &[u8],
    args: &[Arg<'_>],
) -> bool {
    let text = cut(text);
    let words = 3_usize
        .wrapping_add(text.len().div_ceil(8))
        .wrapping_add(arg_words(args));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(LABEL, what as u8, words));
    record.put(id);
    record.put(text.len() as u64);
    record.put_bytes(text);
    for (key, value) in args {
        value.put(*key, &mut record);
    }
    record.commit();
    true
}

/// Writes something to know about the process.
#[must_use]
pub fn put_fact(ring: &Producer<'_>, key: &[u8], value: &[u8]) -> bool {
    let (key, value) = (cut(key), cut(value));
    let words = 2_usize
        .wrapping_add(key.len().div_ceil(8))
        .wrapping_add(value.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(FACT, 0, words));
    record.put(key.len() as u64 | (value.len() as u64) << 32);
    record.put_bytes(key);
    record.put_bytes(value);
    record.commit();
    true
}

/// Whether a kind of record is an event's.
pub(crate) fn is_event(kind: u8) -> bool {
    (THREAD..48).contains(&kind)
}

/// Reads the body of an event's record.
pub(crate) fn parse(kind: u8, flags: u8, body: &[u64]) -> Option<Event<'_>> {
    let category = || Category::from_flags(flags);
    Some(match (kind, body) {
        (THREAD, [time_ns, tid, name @ ..]) if name.len() == 2 => Event::Thread {
            time_ns: *time_ns,
            tid: u32::try_from(*tid).ok()?,
            name: name_of(name)?,
        },
        (TEXT, [key, bytes, text @ ..]) => Event::Text {
            key: *key,
            text: bytes_of(text, usize::try_from(*bytes).ok()?)?,
        },
        (BEGIN, [time_ns, name, correlation, words @ ..]) => Event::Begin {
            time_ns: *time_ns,
            category: category()?,
            name: *name,
            correlation: *correlation,
            args: Args { words },
        },
        (END, [time_ns, correlation, words @ ..]) => Event::End {
            time_ns: *time_ns,
            category: category()?,
            correlation: *correlation,
            args: Args { words },
        },
        (MARK, [time_ns, name, correlation, words @ ..]) => Event::Mark {
            time_ns: *time_ns,
            category: category()?,
            name: *name,
            correlation: *correlation,
            args: Args { words },
        },
        (ASYNC_BEGIN, [time_ns, id, name, words @ ..]) => Event::AsyncBegin {
            time_ns: *time_ns,
            category: category()?,
            id: *id,
            name: *name,
            args: Args { words },
        },
        (ASYNC_END, [time_ns, id]) => Event::AsyncEnd {
            time_ns: *time_ns,
            category: category()?,
            id: *id,
        },
        (
            GPU,
            [
                start_ns,
                end_ns,
                correlation,
                device,
                queue,
                stream,
                name,
                words @ ..,
            ],
        ) => Event::Gpu {
            op: GpuOp {
                kind: OpKind::from_flags(flags)?,
                start_ns: *start_ns,
                end_ns: *end_ns,
                correlation: *correlation,
                device: u32::try_from(*device).ok()?,
                queue: *queue,
                stream: *stream,
                name: *name,
            },
            args: Args { words },
        },
        (STACK, [id, frames @ ..]) => Event::Stack {
            id: *id,
            flags,
            frames,
        },
        (LABEL, [id, bytes, rest @ ..]) => {
            let bytes = usize::try_from(*bytes).ok()?;
            let words = rest.get(bytes.div_ceil(8)..)?;
            Event::Label {
                what: Labelled::from_flags(flags)?,
                id: *id,
                text: bytes_of(rest, bytes)?,
                args: Args { words },
            }
        }
        (FACT, [lengths, text @ ..]) => {
            let key_bytes = (*lengths as u32) as usize;
            let value_bytes = (lengths >> 32) as usize;
            Event::Fact {
                key: bytes_of(text, key_bytes)?,
                value: bytes_of(text.get(key_bytes.div_ceil(8)..)?, value_bytes)?,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Records};
    use crate::ring::{Consumer, RingHeader};
    use crate::sync::AtomicU64;

    /// What comes out of a ring after `write`.
    fn through_a_ring(write: impl FnOnce(&Producer<'_>) -> bool, check: impl Fn(Event<'_>)) {
        let header = RingHeader::new();
        let words: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
        let ring = Producer::new(&header, &words).unwrap();
        assert!(write(&ring));
        let mut out = Vec::new();
        Consumer::new(&header, &words).unwrap().drain(&mut out);
        let mut records = Records::new(&out);
        match records.next() {
            Some(Ok(Record::Event(event))) => check(event),
            other => panic!("{other:?}"),
        }
        assert!(records.next().is_none());
    }

    #[test]
    fn arguments_of_all_forms_come_back() {
        let args = [
            (Key::Bytes, Value::Uint(7)),
            (Key::Result, Value::Int(-3)),
            (Key::Value, Value::Double(0.5)),
            (Key::Stream, Value::Pointer(0xdead)),
            (Key::Kernel, Value::Known(9)),
            (Key::Grid, Value::Size3([1, 2, u32::MAX])),
            (Key::Name, Value::Text(b"nine bytes")),
        ];
        through_a_ring(
            |ring| put_begin(ring, 5, Category::Rccl, 0, 77, &args),
            |event| {
                let Event::Begin {
                    time_ns: 5,
                    category: Category::Rccl,
                    name: 0,
                    correlation: 77,
                    args,
                } = event
                else {
                    panic!("{event:?}");
                };
                let read: Vec<_> = args.into_iter().collect();
                assert_eq!(
                    read,
                    [
                        (Key::Bytes, Read::Uint(7)),
                        (Key::Result, Read::Int(-3)),
                        (Key::Value, Read::Double(0.5)),
                        (Key::Stream, Read::Pointer(0xdead)),
                        (Key::Kernel, Read::Known(9)),
                        (Key::Grid, Read::Size3([1, 2, u32::MAX])),
                        (Key::Name, Read::Text(b"nine bytes".to_vec())),
                    ]
                );
                assert_eq!(args.number(Key::Stream), Some(0xdead));
            },
        );
    }

    #[test]
    fn operations_labels_and_facts_come_back() {
        let op = GpuOp {
            kind: OpKind::Copy,
            start_ns: 1,
            end_ns: 2,
            correlation: 3,
            device: 4,
            queue: 5,
            stream: 6,
            name: 7,
        };
        through_a_ring(
            |ring| put_gpu(ring, &op, &[(Key::Bytes, Value::Uint(8))]),
            |event| match event {
                Event::Gpu { op: read, args } => {
                    assert_eq!((read, args.number(Key::Bytes)), (op, Some(8)));
                }
                other => panic!("{other:?}"),
            },
        );
        through_a_ring(
            |ring| {
                put_label(
                    ring,
                    Labelled::Device,
                    1,
                    b"MI300X at hand",
                    &[(Key::Node, Value::Uint(2))],
                )
            },
            |event| match event {
                Event::Label {
                    what: Labelled::Device,
                    id: 1,
                    text,
                    args,
                } => assert_eq!(
                    (text.as_slice(), args.number(Key::Node)),
                    (b"MI300X at hand".as_slice(), Some(2))
                ),
                other => panic!("{other:?}"),
            },
        );
        through_a_ring(
            |ring| put_fact(ring, b"a long enough key", b"v"),
            |event| {
                let (key, value) = (b"a long enough key".to_vec(), b"v".to_vec());
                assert_eq!(event, Event::Fact { key, value });
            },
        );
    }

    #[test]
    fn long_texts_are_cut_and_hostile_lengths_refused() {
        let long = vec![b'x'; 20_000];
        let header = RingHeader::new();
        let words: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
        let ring = Producer::new(&header, &words).unwrap();
        assert!(!put_text(&ring, 1, &long), "does not fit this ring");
        let hostile = [u64::from(LABEL) | 1 << 8 | 4 << 32, 1, u64::MAX, 0];
        assert!(Records::new(&hostile).next().unwrap().is_err());
    }
}
