//! The arguments of events.

use crate::ring::Reservation;
use crate::words::bytes_of;

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
    /// How many operations a group of calls holds.
    Operations = 39 "operations",
    /// The color of those who stay together when a communicator is split.
    Color = 40 "color",
    /// The communicator that another was split from.
    Parent = 41 "parent",
    /// Number by which HIP knows a GPU in this process.
    Ordinal = 42 "hip_ordinal",
    /// A channel of RCCL's: what moves data side by side with others of its kind.
    Channel = 43 "channel",
    /// How many transfers through the network an operation is made of.
    Steps = 44 "steps",
    /// The time that a transfer waited for the GPU, in nanoseconds.
    GpuWaitNs = 45 "gpu_wait_ns",
    /// The time that a transfer waited for room at the peer, in nanoseconds.
    PeerWaitNs = 46 "peer_wait_ns",
    /// The time that a transfer was with the network, in nanoseconds.
    NetworkNs = 47 "network_ns",
    /// The time that what was received took to be visible to the GPU, in nanoseconds.
    FlushNs = 48 "flush_ns",
    /// Number by which a runtime tells threads apart; no id of the kernel's.
    ThreadHash = 49 "thread_hash",
    /// Ties a call to GPU operations, where it is not part of the event itself.
    Correlation = 50 "correlation",
    /// The address of a lock.
    Lock = 70 "lock",
    /// The kernel's id of the thread that holds a lock.
    HolderThread = 71 "holder_tid",
    /// Id of the call stack by which that thread took the lock: an event of kind stack.
    HolderStack = 72 "holder_stack",
    /// How often a lock was taken.
    Acquisitions = 73 "acquisitions",
    /// How often a lock was held by another thread when it was wanted.
    Contended = 74 "contended",
    /// The time that all threads have waited for a lock, in nanoseconds.
    WaitNs = 75 "wait_ns",
    /// The longest of these waits, in nanoseconds.
    LongestNs = 76 "longest_wait_ns",
    /// Values with names of the program's own, as `agent/src/sources/regions/values.rs` puts them together.
    Values = 77 "values",
    /// The value of a counter.
    CounterValue = 78 "value_of_counter",
    /// The domain in which the program names something, of ITT and NVTX.
    Domain = 79 "domain",
    /// Threads of a team, as they were asked for or as there are.
    Threads = 100 "threads",
    /// Iterations of a work-sharing construct, or whatever its kind counts.
    Iterations = 101 "iterations",
    /// The space of memory, as Kokkos calls it.
    Space = 102 "space",
    /// The label of what is read by a copy.
    SourceLabel = 103 "src_label",
    /// The label of what is written by a copy.
    DestinationLabel = 104 "dst_label",
    /// The space of memory from which a copy reads.
    SourceSpace = 105 "src_space",
    /// The space of memory into which a copy writes.
    DestinationSpace = 106 "dst_space",
    /// Instance of an execution space, as Kokkos numbers them.
    Instance = 107 "instance",
    /// Teams that an offloaded region asks for.
    Teams = 108 "teams",
    /// Tag of a message.
    Tag = 60 "tag",
    /// Size of an element in bytes.
    TypeBytes = 61 "type_bytes",
    /// Number of a message that is sent, among those of the same sender, receiver, tag and communicator.
    Message = 62 "message",
    /// What a call gives to other ranks, in bytes.
    Sent = 63 "sent_bytes",
    /// What a call gets from other ranks, in bytes.
    Received = 64 "received_bytes",
    /// Whether the call returns when its operation is done: 1.
    Blocking = 65 "blocking",
    /// The sender, of a call that sends to another rank.
    From = 66 "source",
    /// Tag of a message that is received, beside that of another.
    ReceivedTag = 67 "received_tag",
    /// The same number of a message that is received.
    ReceivedMessage = 68 "received_message",
    /// How many requests were completed.
    Completed = 69 "completed",
    /// Handle of a window of memory.
    Window = 58 "window",
    /// Handle of a file.
    File = 59 "file",
    /// The shapes of an operator's inputs, as text.
    Shapes = 56 "shapes",
    /// Handle of an endpoint.
    Endpoint = 57 "endpoint",
    /// The source line that a kernel came from.
    SourceLine = 109 "source",
    /// Handle of a team of OpenSHMEM's.
    Team = 110 "team",
    /// What hardware counters counted of a kernel: [`crate::kernel_counters::KernelCounts`].
    Counters = 111 "counters",
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
    /// A text that was recorded: its key.
    Known(u64),
    /// Three sizes.
    Size3([u32; 3]),
    /// A text that will not come again.
    Text(&'a [u8]),
}

/// An argument of an event.
pub type Arg<'a> = (Key, Value<'a>);

/// What a head word says of its value.
mod form {
    pub const UINT: u64 = 1;
    pub const INT: u64 = 2;
    pub const DOUBLE: u64 = 3;
    pub const POINTER: u64 = 4;
    pub const KNOWN: u64 = 5;
    pub const SIZE3: u64 = 6;
    pub const TEXT: u64 = 7;
    /// Added to the others where the value is in the head word itself.
    pub const SMALL: u64 = 8;
    /// Sizes in one word: the first in 32 bits, the others in 16 each.
    pub const SMALL_SIZE3: u64 = SMALL + SIZE3;
}

/// A value as it travels: head word, value, how many words of the latter.
type Encoded = (u64, [u64; 2], usize);

#[inline(always)]
fn number(key: Key, form: u64, value: u64) -> Encoded {
    let head = key as u64 | form << 16;
    if value >> 32 == 0 {
        (head | form::SMALL << 16 | value << 32, [0; 2], 0)
    } else {
        (head, [value, 0], 1)
    }
}

impl Value<'_> {
    /// Everything but texts.
    #[inline(always)]
    fn encode(&self, key: Key) -> Encoded {
        match *self {
            Value::Uint(value) => number(key, form::UINT, value),
            Value::Pointer(value) => number(key, form::POINTER, value),
            Value::Known(value) => number(key, form::KNOWN, value),
            Value::Int(value) => (key as u64 | form::INT << 16, [value.cast_unsigned(), 0], 1),
            Value::Double(value) => (key as u64 | form::DOUBLE << 16, [value.to_bits(), 0], 1),
            Value::Size3([x, y, z]) if (y | z) >> 16 == 0 => (
                key as u64 | form::SMALL_SIZE3 << 16,
                [u64::from(x) | u64::from(y) << 32 | u64::from(z) << 48, 0],
                1,
            ),
            Value::Size3([x, y, z]) => (
                key as u64 | form::SIZE3 << 16,
                [u64::from(x) | u64::from(y) << 32, u64::from(z)],
                2,
            ),
            Value::Text(text) => (
                key as u64 | form::TEXT << 16 | (text.len() as u64) << 32,
                [0; 2],
                0,
            ),
        }
    }

    pub(super) fn words(&self, key: Key) -> usize {
        match self {
            Value::Text(text) => text.len().div_ceil(8).wrapping_add(1),
            other => other.encode(key).2.wrapping_add(1),
        }
    }

    pub(super) fn put(&self, key: Key, record: &mut Reservation<'_>) {
        let (head, value, words) = self.encode(key);
        record.put(head);
        record.put_all(value.get(..words).unwrap_or(&[]));
        if let Value::Text(text) = self {
            record.put_bytes(text);
        }
    }
}

/// Arguments on their way into a record.
pub trait Encode {
    /// How many words they take.
    fn words(&self) -> usize;

    /// Writes these words.
    fn put(&self, record: &mut Reservation<'_>);
}

impl Encode for [Arg<'_>] {
    #[inline]
    fn words(&self) -> usize {
        self.iter().fold(0, |sum: usize, (key, value)| {
            sum.wrapping_add(value.words(*key))
        })
    }

    #[inline]
    fn put(&self, record: &mut Reservation<'_>) {
        for (key, value) in self {
            value.put(*key, record);
        }
    }
}

impl Encode for ArgWords {
    #[inline]
    fn words(&self) -> usize {
        self.used
    }

    #[inline]
    fn put(&self, record: &mut Reservation<'_>) {
        record.put_all(self.words.get(..self.used).unwrap_or(&[]));
    }
}

/// Most words of [`ArgWords`].
const ARG_WORDS_MAX: usize = 32;

/// Arguments that are put together as they travel, before there is room for them. What does not fit is left out.
#[derive(Debug)]
pub struct ArgWords {
    words: [u64; ARG_WORDS_MAX],
    used: usize,
}

impl ArgWords {
    /// None.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        ArgWords {
            words: [0; ARG_WORDS_MAX],
            used: 0,
        }
    }

    /// Adds an argument. Texts are left out.
    #[inline(always)]
    pub fn push(&mut self, key: Key, value: Value<'_>) {
        if matches!(value, Value::Text(_)) {
            return;
        }
        let (head, [first, second], words) = value.encode(key);
        if let Some([a, b, c, ..]) = self.words.get_mut(self.used..) {
            (*a, *b, *c) = (head, first, second);
            self.used = self.used.wrapping_add(1).wrapping_add(words);
        }
    }

    /// Adds several.
    #[inline]
    pub fn extend(&mut self, args: &[Arg<'_>]) {
        for (key, value) in args {
            self.push(*key, *value);
        }
    }
}

/// Arguments with a text behind them, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct WithText<'a> {
    /// All but the text.
    pub args: &'a ArgWords,
    /// The text and what it is.
    pub text: Option<(Key, &'a [u8])>,
}

impl Encode for WithText<'_> {
    #[inline]
    fn words(&self) -> usize {
        let text = self.text.map(|(key, text)| Value::Text(text).words(key));
        self.args.words().wrapping_add(text.unwrap_or(0))
    }

    #[inline]
    fn put(&self, record: &mut Reservation<'_>) {
        self.args.put(record);
        if let Some((key, text)) = self.text {
            Value::Text(text).put(key, record);
        }
    }
}

impl Default for ArgWords {
    fn default() -> Self {
        Self::new()
    }
}

/// The arguments of an event that was read, as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Args<'a> {
    pub(super) words: &'a [u64],
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
        let mut rest = self.words;
        while let Some((head, values)) = rest.split_first() {
            if *head as u16 == key as u16 {
                return ArgsIter { rest }.next().map(|(_, value)| value);
            }
            // Most events are asked for what they do not have: only heads are looked at.
            rest = values.get(value_words(*head)..)?;
        }
        None
    }

    /// Whether there is a value under one of these keys.
    #[must_use]
    pub fn has_any(&self, keys: &[Key]) -> bool {
        let mut rest = self.words;
        while let Some((head, values)) = rest.split_first() {
            if keys.iter().any(|key| *key as u16 == *head as u16) {
                return true;
            }
            rest = values.get(value_words(*head)..).unwrap_or(&[]);
        }
        false
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

/// Words of the value behind a head word.
#[inline]
fn value_words(head: u64) -> usize {
    match head >> 16 & 0xff {
        form::UINT..=form::KNOWN | form::SMALL_SIZE3 => 1,
        form::SIZE3 => 2,
        form::TEXT => ((head >> 32) as usize).div_ceil(8),
        _ => 0,
    }
}

/// Iterates over arguments; what is not understood ends it.
#[derive(Debug, Clone)]
pub struct ArgsIter<'a> {
    rest: &'a [u64],
}

impl Iterator for ArgsIter<'_> {
    type Item = (Key, Read);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first()?;
        let key = Key::from_number(*head as u16)?;
        let (form, small) = (head >> 16 & 0xff, head >> 32);
        let bytes = small as usize;
        let (value, rest) = rest.split_at_checked(value_words(*head))?;
        self.rest = rest;
        const SMALL_UINT: u64 = form::SMALL + form::UINT;
        const SMALL_POINTER: u64 = form::SMALL + form::POINTER;
        const SMALL_KNOWN: u64 = form::SMALL + form::KNOWN;
        let value = match (form, value) {
            (form::UINT, [value]) => Read::Uint(*value),
            (form::INT, [value]) => Read::Int(value.cast_signed()),
            (form::DOUBLE, [value]) => Read::Double(f64::from_bits(*value)),
            (form::POINTER, [value]) => Read::Pointer(*value),
            (form::KNOWN, [value]) => Read::Known(*value),
            (form::SIZE3, [xy, z]) => Read::Size3([*xy as u32, (xy >> 32) as u32, *z as u32]),
            (form::SMALL_SIZE3, [all]) => Read::Size3([
                *all as u32,
                u32::from((all >> 32) as u16),
                u32::from((all >> 48) as u16),
            ]),
            (form::TEXT, words) => Read::Text(bytes_of(words, bytes)?),
            (SMALL_UINT, _) => Read::Uint(small),
            (SMALL_POINTER, _) => Read::Pointer(small),
            (SMALL_KNOWN, _) => Read::Known(small),
            _ => return None,
        };
        Some((key, value))
    }
}
