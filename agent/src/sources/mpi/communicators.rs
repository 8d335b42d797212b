//! What is known of each communicator of MPI.
//!
//! A handle means nothing outside of its process. The *identity* of a communicator is made of what all its ranks know: who they are in the
//! world, in order, and how many communicators of the same ranks were made before it. So the ranks of one communicator find each other in
//! different traces without a word between them.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use rsys_wire::event::{ArgWords, Key, Value};

use crate::events;
use crate::events::texts;
use crate::sources::mpi::library::Library;
use crate::sources::rccl::communicators::hexadecimal;
use crate::state;
use crate::target::environment::Environment;

/// How many communicators there is room for at a time.
const ENTRIES: usize = 1024;
/// How many groups of ranks have their communicators counted.
const GROUPS: usize = 4096;
/// How many pairs of ranks and tags have their messages counted.
const PAIRS: usize = 1 << 14;
const PROBES: usize = 16;

const FREE: usize = 0;
const REMOVED: usize = 1;
const BEING_MADE: usize = 2;

/// One communicator.
#[derive(Debug)]
pub struct Communicator {
    handle: AtomicUsize,
    /// The key of its identity as text, or 0 when its making was not seen.
    text: AtomicU64,
    /// The hash of its ranks, or 0.
    group: AtomicU64,
    rank: AtomicI32,
    ranks: AtomicI32,
    /// Whether it joins two groups.
    joins_two: AtomicBool,
    /// Whether a message may have come that any receive took: from then on, they are not counted.
    is_uncertain: AtomicBool,
    /// Collectives so far.
    operations: AtomicU64,
    /// Told apart from others that had the same handle.
    number: AtomicU64,
}

static TABLE: [Communicator; ENTRIES] = [const {
    Communicator {
        handle: AtomicUsize::new(FREE),
        text: AtomicU64::new(0),
        group: AtomicU64::new(0),
        rank: AtomicI32::new(-1),
        ranks: AtomicI32::new(-1),
        joins_two: AtomicBool::new(false),
        is_uncertain: AtomicBool::new(false),
        operations: AtomicU64::new(0),
        number: AtomicU64::new(0),
    }
}; ENTRIES];

fn home(handle: usize) -> usize {
    handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

fn entries(handle: usize) -> impl Iterator<Item = &'static Communicator> {
    (0..ENTRIES).filter_map(move |step| TABLE.get(home(handle).wrapping_add(step) % ENTRIES))
}

/// The communicator with this handle, if it is known.
#[inline]
pub fn find(handle: usize) -> Option<&'static Communicator> {
    entries(handle)
        .take_while(|entry| entry.handle.load(Ordering::Relaxed) != FREE)
        .find(|entry| entry.handle.load(Ordering::Acquire) == handle)
}

/// Where a communicator comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is MPI's own.
    Predefined,
    /// A call that all its ranks made has made it.
    Made,
    /// It has the ranks of this one, and may not be asked yet.
    CopyOf(usize),
    /// It was made unseen.
    Unknown,
}

/// Notes a communicator that exists from now on.
pub fn insert(library: &Library, handle: usize, origin: Origin) -> Option<&'static Communicator> {
    if handle <= BEING_MADE || !library.is_communicator(handle) {
        return None;
    }
    remove(handle);
    let original = match origin {
        Origin::CopyOf(original) => Some(find(original)?),
        _ => None,
    };
    let (rank, ranks, joins_two) = match original {
        Some(one) => (
            one.rank.load(Ordering::Relaxed),
            one.ranks.load(Ordering::Relaxed),
            one.joins_two(),
        ),
        None => (
            library.rank(handle)?,
            library.size(handle)?,
            origin != Origin::Predefined && library.joins_two(handle),
        ),
    };
    let group = match original {
        Some(one) => one.group.load(Ordering::Relaxed),
        None if joins_two || origin == Origin::Unknown => 0,
        None => hash_of_ranks(library, handle, ranks),
    };
    let identity = match group {
        0 => 0,
        group => hash(&[group, next_of_group(group)?]),
    };
    let entry = entries(handle).find(|entry| {
        let found = entry.handle.load(Ordering::Relaxed);
        found <= REMOVED
            && entry
                .handle
                .compare_exchange(found, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    })?;
    let text = match identity {
        0 => 0,
        identity => events::text(&hexadecimal(identity)),
    };
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    entry.text.store(text, Ordering::Relaxed);
    entry.group.store(group, Ordering::Relaxed);
    entry.rank.store(rank, Ordering::Relaxed);
    entry.ranks.store(ranks, Ordering::Relaxed);
    entry.joins_two.store(joins_two, Ordering::Relaxed);
    entry.is_uncertain.store(false, Ordering::Relaxed);
    entry.operations.store(0, Ordering::Relaxed);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    entry.number.store(number, Ordering::Relaxed);
    entry.handle.store(handle, Ordering::Release);
    Some(entry)
}

/// Forgets a communicator, before its handle can be used again.
pub fn remove(handle: usize) {
    if let Some(entry) = find(handle) {
        entry.handle.store(REMOVED, Ordering::Relaxed);
    }
}

fn hash(words: &[u64; 2]) -> u64 {
    let mut bytes = [0; 16];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    texts::hash(&bytes).max(1)
}

/// A hash of who the ranks of a communicator are, equal on all of them; 0 when one is of another world.
fn hash_of_ranks(library: &Library, handle: usize, ranks: c_int) -> u64 {
    let world = world(library);
    if world == 0 {
        return 0;
    }
    let mut sum = hash(&[world, ranks as u64]);
    let are_known = library.members(handle, ranks, |rank| sum = hash(&[sum, rank as u64]));
    if are_known { sum } else { 0 }
}

/// A hash that is equal in all processes of this `MPI_COMM_WORLD`, and differs between jobs as far as variables of the launcher differ.
fn world(library: &Library) -> u64 {
    static WORLD: AtomicU64 = AtomicU64::new(0);
    let known = WORLD.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let Some(size) = library.size(library.world) else {
        return 0;
    };
    // A process that was started alone is a world of its own.
    let of_launcher = match size {
        1 => state::instance(),
        _ => ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"]
            .iter()
            .filter_map(|name| Environment::current().get(name))
            .fold(0, |sum, value| hash(&[sum, texts::hash(value.to_bytes())])),
    };
    let world = hash(&[of_launcher, size as u64]);
    WORLD.store(world, Ordering::Relaxed);
    world
}

/// How many communicators of these ranks there were. `None` when too many groups are counted.
fn next_of_group(group: u64) -> Option<u64> {
    static COUNTS: [(AtomicU64, AtomicU64); GROUPS] =
        [const { (AtomicU64::new(0), AtomicU64::new(0)) }; GROUPS];
    next(&COUNTS, group)
}

/// How often a key was asked for before. `None` when there is no room.
#[inline]
fn next(counts: &'static [(AtomicU64, AtomicU64)], key: u64) -> Option<u64> {
    let home = (key >> 20) as usize;
    for step in 0..PROBES {
        let (owner, count) = counts.get(home.wrapping_add(step) & counts.len().wrapping_sub(1))?;
        let found = owner.load(Ordering::Relaxed);
        let is_taken = found == key
            || found == 0
                && match owner.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => true,
                    Err(other) => other == key,
                };
        if is_taken {
            return Some(count.fetch_add(1, Ordering::Relaxed));
        }
    }
    None
}

impl Communicator {
    /// Adds whose operation it is: identity, rank and number of ranks.
    #[inline]
    pub fn put_into(&self, args: &mut ArgWords) {
        let text = self.text.load(Ordering::Relaxed);
        if text != 0 {
            args.push(Key::Communicator, Value::Known(text));
        }
        args.push(Key::Rank, Value::Uint(u64::from(self.rank() as u32)));
        args.push(Key::Ranks, Value::Uint(u64::from(self.ranks() as u32)));
    }

    /// The caller's rank.
    #[inline]
    pub fn rank(&self) -> c_int {
        self.rank.load(Ordering::Relaxed)
    }

    /// How many ranks it has.
    #[inline]
    pub fn ranks(&self) -> c_int {
        self.ranks.load(Ordering::Relaxed)
    }

    /// Whether it joins two groups: ranks of others are then those of the other group.
    #[inline]
    pub fn joins_two(&self) -> bool {
        self.joins_two.load(Ordering::Relaxed)
    }

    /// The key of its identity as text, or 0.
    #[inline]
    pub fn text(&self) -> u64 {
        self.text.load(Ordering::Relaxed)
    }

    /// The number of the next collective, from 0; none where its ranks cannot find each other.
    #[inline]
    pub fn next_operation(&self) -> Option<u64> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        (self.text() != 0).then_some(number)
    }

    /// The number of the next message to or from a peer with a tag, from 0. Messages of one sender to one receiver with one tag arrive in the
    /// order in which they were sent, and meet receives in the order of these.
    #[inline]
    pub fn next_message(&self, peer: c_int, tag: c_int, sends: bool) -> Option<u64> {
        static COUNTS: [(AtomicU64, AtomicU64); PAIRS] =
            [const { (AtomicU64::new(0), AtomicU64::new(0)) }; PAIRS];
        if self.text() == 0 || !sends && self.is_uncertain.load(Ordering::Relaxed) {
            return None;
        }
        let ends = u64::from(peer as u32) | u64::from(tag as u32) << 32;
        let whose = self.number.load(Ordering::Relaxed) << 1 | u64::from(sends);
        next(&COUNTS, hash(&[ends, whose]))
    }

    /// A receive may take a message that others would have: which ones get which is not known from now on.
    pub fn doubt(&self) {
        self.is_uncertain.store(true, Ordering::Relaxed);
    }
}
