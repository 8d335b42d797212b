//! What is known of each RCCL communicator.
//!
//! A communicator is an address that means nothing outside of its process. Its *identity* is a hash of what all its ranks were given when it was
//! made, so that the ranks of one communicator find each other in different traces, and *n*-th operations with them.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::events;
use crate::events::texts;
use rsys_wire::event::{ArgWords, Key, Value};

/// How many communicators, and how many initialisations in open groups, there is room for at a time.
const ENTRIES: usize = 1024;
const PENDING: usize = 256;
/// How many pairs of ranks have their messages counted.
const PAIRS: usize = 8192;

const FREE: usize = 0;
const REMOVED: usize = 1;
const BEING_MADE: usize = 2;
/// Rank or size that is not known.
const UNKNOWN: c_int = -1;

/// One communicator of this process: one rank.
#[derive(Debug)]
pub struct Communicator {
    handle: AtomicUsize,
    /// Its identity, or 0 when its making was not seen.
    identity: AtomicU64,
    /// The key of the identity as text, or 0.
    text: AtomicU64,
    rank: AtomicI32,
    ranks: AtomicI32,
    /// Collectives so far.
    operations: AtomicU64,
    /// Splits so far.
    splits: AtomicU64,
    /// Told apart from others that had the same address.
    number: AtomicU64,
}

// Apart from what the loader has to relocate: each page of that is copied in each process.
#[unsafe(link_section = "rsys_tables")]
static TABLE: [Communicator; ENTRIES] = [const {
    Communicator {
        handle: AtomicUsize::new(FREE),
        identity: AtomicU64::new(0),
        text: AtomicU64::new(0),
        rank: AtomicI32::new(UNKNOWN),
        ranks: AtomicI32::new(UNKNOWN),
        operations: AtomicU64::new(0),
        splits: AtomicU64::new(0),
        number: AtomicU64::new(0),
    }
}; ENTRIES];
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// What a communicator is made of.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// Its identity, or 0.
    pub identity: u64,
    /// The rank of this process or device, if known.
    pub rank: Option<c_int>,
    /// The number of ranks, if known.
    pub ranks: Option<c_int>,
}

fn home(handle: usize) -> usize {
    handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

fn entries(handle: usize) -> impl Iterator<Item = &'static Communicator> {
    (0..ENTRIES).filter_map(move |step| TABLE.get(home(handle).wrapping_add(step) % ENTRIES))
}

/// The communicator at this address, if it is known.
pub fn find(handle: *const c_void) -> Option<&'static Communicator> {
    entries(handle.addr())
        .take_while(|entry| entry.handle.load(Ordering::Relaxed) != FREE)
        .find(|entry| entry.handle.load(Ordering::Acquire) == handle.addr())
}

/// Notes a communicator. `None` when there is no room.
pub fn insert(handle: *const c_void, made: Made) -> Option<&'static Communicator> {
    if handle.addr() <= BEING_MADE {
        return None;
    }
    remove(handle);
    let entry = entries(handle.addr()).find(|entry| {
        let found = entry.handle.load(Ordering::Relaxed);
        found <= REMOVED
            && entry
                .handle
                .compare_exchange(found, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    })?;
    let text = match made.identity {
        0 => 0,
        identity => events::text(&hexadecimal(identity)),
    };
    entry.identity.store(made.identity, Ordering::Relaxed);
    entry.text.store(text, Ordering::Relaxed);
    entry
        .rank
        .store(made.rank.unwrap_or(UNKNOWN), Ordering::Relaxed);
    entry
        .ranks
        .store(made.ranks.unwrap_or(UNKNOWN), Ordering::Relaxed);
    entry.operations.store(0, Ordering::Relaxed);
    entry.splits.store(0, Ordering::Relaxed);
    entry
        .number
        .store(NUMBERS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    entry.handle.store(handle.addr(), Ordering::Release);
    Some(entry)
}

/// Forgets a communicator, before its address can be used again.
pub fn remove(handle: *const c_void) {
    if let Some(entry) = find(handle) {
        entry.handle.store(REMOVED, Ordering::Relaxed);
    }
}

/// The identity that a unique id gives.
pub fn identity_of(id: &[u8]) -> u64 {
    texts::hash(id).max(1)
}

/// An identity as it stands in the trace.
pub fn hexadecimal(identity: u64) -> [u8; 16] {
    let mut text = [0_u8; 16];
    for (digit, to) in text.iter_mut().rev().enumerate() {
        let nibble = (identity >> (4 * digit as u64) & 15) as u8;
        *to = match nibble {
            0..=9 => b'0'.wrapping_add(nibble),
            _ => b'a'.wrapping_add(nibble).wrapping_sub(10),
        };
    }
    text
}

fn known(value: &AtomicI32) -> Option<u64> {
    u64::try_from(value.load(Ordering::Relaxed)).ok()
}

impl Communicator {
    /// Adds whose operation it is: identity, rank and number of ranks, as far as they are known.
    pub fn put_into(&self, args: &mut ArgWords) {
        if self.text() != 0 {
            args.push(Key::Communicator, Value::Known(self.text()));
        }
        if let Some(rank) = self.rank() {
            args.push(Key::Rank, Value::Uint(rank));
        }
        if let Some(ranks) = self.ranks() {
            args.push(Key::Ranks, Value::Uint(ranks));
        }
    }

    /// The key of its identity as text, or 0.
    pub fn text(&self) -> u64 {
        self.text.load(Ordering::Relaxed)
    }

    /// Its rank, if known.
    pub fn rank(&self) -> Option<u64> {
        known(&self.rank)
    }

    /// Its number of ranks, if known.
    pub fn ranks(&self) -> Option<u64> {
        known(&self.ranks)
    }

    /// Sets what was not known when it was made.
    pub fn set_ranks(&self, rank: c_int, ranks: c_int) {
        self.rank.store(rank, Ordering::Relaxed);
        self.ranks.store(ranks, Ordering::Relaxed);
    }

    /// The number of the next collective, from 0.
    pub fn next_operation(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }

    /// The identity of what is split off next under this color. Equal on all ranks, which split in the same order.
    pub fn next_split(&self, color: c_int) -> u64 {
        let number = self.splits.fetch_add(1, Ordering::Relaxed);
        let parent = self.identity.load(Ordering::Relaxed);
        if parent == 0 {
            return 0;
        }
        let mut words = [0_u8; 24];
        for (to, from) in
            words
                .chunks_exact_mut(8)
                .zip([parent, number, u64::from(color.cast_unsigned())])
        {
            to.copy_from_slice(&from.to_le_bytes());
        }
        identity_of(&words)
    }

    /// The number of the next message to or from a peer, from 0. `None` when too many pairs are counted.
    pub fn next_message(&self, peer: c_int, sends: bool) -> Option<u64> {
        static COUNTS: [(AtomicU64, AtomicU64); PAIRS] =
            [const { (AtomicU64::new(0), AtomicU64::new(0)) }; PAIRS];
        const PROBES: usize = 64;
        let number = self.number.load(Ordering::Relaxed);
        let key = number << 33 | u64::from(peer.cast_unsigned()) << 1 | u64::from(sends);
        let home = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for step in 0..PROBES {
            let (owner, count) = COUNTS.get(home.wrapping_add(step) % PAIRS)?;
            let found = owner.load(Ordering::Relaxed);
            let taken = found == 0
                && owner
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if taken || owner.load(Ordering::Relaxed) == key {
                return Some(count.fetch_add(1, Ordering::Relaxed));
            }
        }
        None
    }
}

/// A communicator that is made when the group of its thread ends.
#[derive(Debug)]
struct Pending {
    /// A thread's identifier, or 0.
    owner: AtomicUsize,
    /// Where RCCL will put the address.
    to: AtomicPtr<*mut c_void>,
    identity: AtomicU64,
    rank: AtomicI32,
    ranks: AtomicI32,
}

// Apart from what the loader has to relocate: each page of that is copied in each process.
#[unsafe(link_section = "rsys_tables")]
static MAKING: [Pending; PENDING] = [const {
    Pending {
        owner: AtomicUsize::new(0),
        to: AtomicPtr::new(std::ptr::null_mut()),
        identity: AtomicU64::new(0),
        rank: AtomicI32::new(UNKNOWN),
        ranks: AtomicI32::new(UNKNOWN),
    }
}; PENDING];

/// Notes where a communicator will be when the thread's group ends.
pub fn expect(owner: usize, to: *mut *mut c_void, made: Made) {
    let free = MAKING.iter().find(|pending| {
        pending
            .owner
            .compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    });
    if let Some(pending) = free {
        pending.to.store(to, Ordering::Relaxed);
        pending.identity.store(made.identity, Ordering::Relaxed);
        pending
            .rank
            .store(made.rank.unwrap_or(UNKNOWN), Ordering::Relaxed);
        pending
            .ranks
            .store(made.ranks.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }
}

/// The thread's group has ended: notes what was made in it, unless it failed.
pub fn settle(owner: usize, failed: bool) {
    for pending in &MAKING {
        if pending.owner.load(Ordering::Relaxed) != owner {
            continue;
        }
        let to = pending.to.load(Ordering::Relaxed);
        let value =
            |value: &AtomicI32| Some(value.load(Ordering::Relaxed)).filter(|value| *value >= 0);
        let made = Made {
            identity: pending.identity.load(Ordering::Relaxed),
            rank: value(&pending.rank),
            ranks: value(&pending.ranks),
        };
        // SAFETY: RCCL has just stored there itself, so the caller keeps the place valid until now.
        if !failed && let Some(handle) = unsafe { to.as_ref() } {
            insert(*handle, made);
        }
        pending.owner.store(0, Ordering::Release);
    }
}
