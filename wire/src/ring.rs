//! A single-producer, single-consumer ring of 64-bit words in shared memory.
//!
//! The producer is a signal handler: it takes no lock, makes no system call and never waits. It
//! writes a record's words and then moves `head`; a record that was not finished when its thread
//! was killed was never visible. The consumer keeps its own `tail` and publishes it, so a corrupt
//! or hostile header can cost data, never the consumer's life.
//!
//! Counters run freely (they count words since the segment was made); the position in the ring is
//! the counter modulo its capacity, which is a power of two.

use crate::layout::Counter;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Why a record is missing. The order is part of the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum DropCause {
    /// The sampler did not drain the ring in time.
    RingFull = 0,
    /// The signal arrived while the agent was at work in the same thread.
    Busy = 1,
    /// The thread had no ring: no memory or descriptor could be had for one.
    NoRing = 2,
    /// The signal belonged to a thread that had already given its ring back.
    Stale = 3,
    /// The handler ran on an alternate signal stack of the program's that has no room for a sample.
    SmallStack = 4,
}

/// How many drop causes a ring has room for.
pub const DROP_CAUSES: usize = 8;

/// Names of the drop causes, for messages and metadata.
pub const DROP_NAMES: [&str; 5] = [
    "ring full",
    "agent busy",
    "no ring",
    "thread gone",
    "small signal stack",
];

/// What each ring counts for itself, because it comes with every call or operation: a counter of the whole process would go back and forth between
/// the processors of the threads that launch and of those that are told what has ended. The order is part of the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum RingCount {
    /// [`Counter::Calls`].
    Calls = 0,
    /// [`Counter::GpuSeen`].
    GpuSeen = 1,
    /// [`Counter::GpuRecorded`].
    GpuRecorded = 2,
}

/// How many of them a ring has room for.
pub const RING_COUNTS: usize = 4;

impl RingCount {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Calls, Self::GpuSeen, Self::GpuRecorded];

    /// The counter of the process that this is a part of.
    #[must_use]
    pub const fn of_process(self) -> Counter {
        match self {
            Self::Calls => Counter::Calls,
            Self::GpuSeen => Counter::GpuSeen,
            Self::GpuRecorded => Counter::GpuRecorded,
        }
    }
}

/// Who uses a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// No thread; it may be claimed.
    Free = 0,
    /// A thread writes into it.
    Active = 1,
}

/// The header of one ring. Producer and consumer have cache lines of their own.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RingHeader {
    /// [`RingState`] as a number; changed by the agent alone.
    pub state: AtomicU32,
    /// How often the ring was claimed.
    pub claims: AtomicU32,
    /// Words written since the segment was made.
    pub head: AtomicU64,
    /// Records that were dropped, by [`DropCause`].
    pub dropped: [AtomicU64; DROP_CAUSES],
    /// Sum of the weights of dropped samples.
    pub dropped_weight: AtomicU64,
    /// What the threads that had the ring have counted, by [`RingCount`].
    pub counts: [AtomicU64; RING_COUNTS],
    reserved: u64,
    /// Words consumed; written by the sampler alone.
    pub tail: AtomicU64,
    reserved_too: [u64; 7],
}

#[cfg(not(feature = "model"))]
const _: () = assert!(size_of::<RingHeader>() == 192);
#[cfg(not(feature = "model"))]
const _: () = assert!(std::mem::offset_of!(RingHeader, tail) == 128);

impl RingHeader {
    /// A header of an empty ring. Shared memory that is all zero is the same.
    #[must_use]
    pub fn new() -> Self {
        RingHeader {
            state: AtomicU32::new(0),
            claims: AtomicU32::new(0),
            head: AtomicU64::new(0),
            dropped: [(); DROP_CAUSES].map(|()| AtomicU64::new(0)),
            dropped_weight: AtomicU64::new(0),
            counts: [(); RING_COUNTS].map(|()| AtomicU64::new(0)),
            reserved: 0,
            tail: AtomicU64::new(0),
            reserved_too: [0; 7],
        }
    }

    /// Counts one dropped record of the given weight.
    ///
    /// # Signal safety
    /// Two relaxed atomic additions.
    #[inline]
    pub fn count_drop(&self, cause: DropCause, weight: u64) {
        match self.dropped.get(cause as usize) {
            Some(counter) => counter.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
        self.dropped_weight.fetch_add(weight, Ordering::Relaxed);
    }

    /// Counts one. Only for the thread that has the ring.
    ///
    /// # Signal safety
    /// A relaxed load and a relaxed store.
    #[inline]
    pub fn count(&self, what: RingCount) {
        if let Some(count) = self.counts.get(what as usize) {
            let next = count.load(Ordering::Relaxed).wrapping_add(1);
            count.store(next, Ordering::Relaxed);
        }
    }

    /// Takes the ring for a thread if no other has it and at least half of its words are unused.
    ///
    /// A ring whose last thread ended may still hold records: they stay in front of the new ones.
    #[must_use]
    pub fn claim(&self, capacity_words: u64) -> bool {
        let used = self
            .head
            .load(Ordering::Relaxed)
            .wrapping_sub(self.tail.load(Ordering::Relaxed));
        if self.state.load(Ordering::Relaxed) != RingState::Free as u32 || used > capacity_words / 2
        {
            return false;
        }
        let claimed = self.state.compare_exchange(
            RingState::Free as u32,
            RingState::Active as u32,
            // Sees every word that the thread before wrote, so that `head` is exact.
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claimed.is_ok() {
            self.claims.fetch_add(1, Ordering::Relaxed);
        }
        claimed.is_ok()
    }

    /// Gives the ring back. The caller must not write afterwards.
    pub fn release(&self) {
        self.state.store(RingState::Free as u32, Ordering::Release);
    }
}

impl Default for RingHeader {
    fn default() -> Self {
        Self::new()
    }
}

/// The writing end. There may be one at a time per ring; [`RingHeader::claim`] sees to that.
#[derive(Debug, Clone, Copy)]
pub struct Producer<'a> {
    header: &'a RingHeader,
    words: &'a [AtomicU64],
}

impl<'a> Producer<'a> {
    /// The writing end of a ring.
    ///
    /// Returns `None` unless the number of words is a power of two.
    #[must_use]
    pub fn new(header: &'a RingHeader, words: &'a [AtomicU64]) -> Option<Self> {
        words
            .len()
            .is_power_of_two()
            .then_some(Producer { header, words })
    }

    /// The ring's header, for its counters.
    #[must_use]
    pub fn header(&self) -> &'a RingHeader {
        self.header
    }

    /// The word so far behind the next record, as long as the ring has it: for who wants to fetch its cache line before it is written.
    #[inline]
    #[must_use]
    pub fn ahead(&self, words: u64) -> Option<&'a AtomicU64> {
        let place = self.header.head.load(Ordering::Relaxed).wrapping_add(words);
        let mask = (self.words.len() as u64).wrapping_sub(1);
        self.words.get((place & mask) as usize)
    }

    /// Begins a record of `words` words, or returns `None` when there is no room for it.
    ///
    /// # Signal safety
    /// Two atomic loads. Must not be nested within another record of the same ring.
    #[inline]
    #[must_use]
    pub fn begin(&self, words: usize) -> Option<Reservation<'a>> {
        let head = self.header.head.load(Ordering::Relaxed);
        // Acquire: the consumer has finished reading the words that it gave back.
        let tail = self.header.tail.load(Ordering::Acquire);
        let used = head.wrapping_sub(tail);
        let capacity = self.words.len() as u64;
        if used.wrapping_add(words as u64) > capacity {
            return None;
        }
        let end = head.wrapping_add(words as u64);
        Some(Reservation {
            producer: *self,
            next: head,
            end,
        })
    }
}

/// A record that is being written. Nothing of it is visible until [`Reservation::commit`].
#[derive(Debug)]
pub struct Reservation<'a> {
    producer: Producer<'a>,
    next: u64,
    end: u64,
}

impl Reservation<'_> {
    /// Writes the next word. Words beyond the reserved number are ignored.
    ///
    /// # Signal safety
    /// One relaxed store.
    #[inline]
    pub fn put(&mut self, word: u64) {
        if self.next == self.end {
            return;
        }
        let index = (self.next & (self.producer.words.len() as u64).wrapping_sub(1)) as usize;
        if let Some(slot) = self.producer.words.get(index) {
            slot.store(word, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Writes several words. Words beyond the reserved number are ignored.
    ///
    /// # Signal safety
    /// Relaxed stores only.
    #[inline]
    pub fn put_all(&mut self, words: &[u64]) {
        let mask = (self.producer.words.len() as u64).wrapping_sub(1);
        let start = (self.next & mask) as usize;
        let reserved = self.end.wrapping_sub(self.next);
        let room = self.producer.words.get(start..).unwrap_or(&[]);
        if words.len() as u64 <= reserved
            && let Some(room) = room.get(..words.len())
        {
            for (slot, word) in room.iter().zip(words) {
                slot.store(*word, Ordering::Relaxed);
            }
            self.next = self.next.wrapping_add(words.len() as u64);
            return;
        }
        // Around the ring's end.
        for word in words {
            self.put(*word);
        }
    }

    /// Writes bytes, eight to a word, the last word filled with zeros.
    ///
    /// # Signal safety
    /// Relaxed stores only.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = 0_u64;
            for (at, byte) in chunk.iter().enumerate() {
                word |= u64::from(*byte) << (at * 8);
            }
            self.put(word);
        }
    }

    /// Makes the record visible. Words that were not written are zero.
    ///
    /// # Signal safety
    /// One release store.
    #[inline]
    pub fn commit(mut self) {
        while self.next != self.end {
            self.put(0);
        }
        self.producer.header.head.store(self.end, Ordering::Release);
    }
}

/// What [`Consumer::drain`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Nothing new.
    Empty,
    /// So many words were appended to the caller's buffer.
    Words(usize),
    /// The header made no sense; what the ring held was skipped.
    Corrupt,
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer<'a> {
    header: &'a RingHeader,
    words: &'a [AtomicU64],
    tail: u64,
}

impl<'a> Consumer<'a> {
    /// The reading end of a ring that was not read from yet.
    ///
    /// Returns `None` unless the number of words is a power of two.
    #[must_use]
    pub fn new(header: &'a RingHeader, words: &'a [AtomicU64]) -> Option<Self> {
        words.len().is_power_of_two().then_some(Consumer {
            header,
            words,
            tail: 0,
        })
    }

    /// The ring's header, for its counters.
    #[must_use]
    pub fn header(&self) -> &'a RingHeader {
        self.header
    }

    /// Whether a drain would find something. One atomic load.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.header.head.load(Ordering::Relaxed) != self.tail
    }

    /// Moves everything that was committed to the end of `out`.
    ///
    /// An honest producer commits whole records only, so `out` grows by whole records.
    pub fn drain(&mut self, out: &mut Vec<u64>) -> Drained {
        let head = self.header.head.load(Ordering::Acquire);
        let used = head.wrapping_sub(self.tail);
        if used == 0 {
            return Drained::Empty;
        }
        let capacity = self.words.len() as u64;
        let outcome = if used > capacity {
            Drained::Corrupt
        } else {
            let start = (self.tail & (capacity - 1)) as usize;
            let count = used as usize;
            let (wrapped, first) = self.words.split_at(start);
            let from_first = count.min(first.len());
            out.extend(
                first[..from_first]
                    .iter()
                    .map(|word| word.load(Ordering::Relaxed)),
            );
            let rest = count - from_first;
            out.extend(
                wrapped[..rest]
                    .iter()
                    .map(|word| word.load(Ordering::Relaxed)),
            );
            Drained::Words(count)
        };
        self.tail = head;
        // Release: our reads are done before the producer may write there again.
        self.header.tail.store(head, Ordering::Release);
        outcome
    }
}
