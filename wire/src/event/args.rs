//! The arguments of events.

use crate::record::bytes_of;
use crate::ring::Reservation;

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
    pub(super) fn words(&self) -> usize {
        match self {
            Value::Size3(_) => 2,
            Value::Text(text) => text.len().div_ceil(8),
            _ => 1,
        }
    }

    pub(super) fn put(&self, key: Key, record: &mut Reservation<'_>) {
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
