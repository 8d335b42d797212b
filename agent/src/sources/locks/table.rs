//! All locks of the process: what is counted of each, and who took it last.
//!
//! A table of fixed size without a lock of its own. What does not fit is counted together, per kind.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::kind::{KINDS, Kind};

/// How many locks have an entry of their own.
pub const LOCKS: usize = 16 * 1024;
const LOCK_BITS: u32 = LOCKS.trailing_zeros();
const PROBES: usize = 16;
/// Entries of a page: only pages in use are ever touched, also by a fork's child.
const CHUNK: usize = 64;
const CHUNKS: usize = LOCKS / CHUNK;

/// The address of a lock with its kind in the highest byte: memory may be used for another kind later.
pub type LockKey = u64;

/// The key of a lock.
#[inline(always)]
pub const fn key_of(kind: Kind, address: u64) -> LockKey {
    address ^ (kind as u64) << 56
}

/// One lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lock {
    /// 0 in a free entry.
    key: AtomicU64,
    /// How often it was taken, but for what threads have in their own tables.
    pub acquisitions: AtomicU64,
    /// How often it was held by another thread when it was wanted; of conditions and the like, how often a thread waited.
    pub contended: AtomicU64,
    /// The time of these waits.
    pub wait_ns: AtomicU64,
    /// The longest of them.
    pub longest_ns: AtomicU64,
    /// The stack by which it was taken last, or 0.
    holder_stack: AtomicU64,
    /// Who did that.
    holder: AtomicU32,
    /// Whether a thread has waited for it: from then on, takers leave their stacks.
    is_contended: AtomicBool,
    kind: AtomicU8,
    /// What threads have in their own tables; see [`super::statistics`].
    pub of_threads: AtomicU64,
}

const _: () = assert!(size_of::<Lock>() == 64);

impl Lock {
    const fn new(kind: u8) -> Self {
        Lock {
            key: AtomicU64::new(0),
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
            holder_stack: AtomicU64::new(0),
            holder: AtomicU32::new(0),
            is_contended: AtomicBool::new(false),
            kind: AtomicU8::new(kind),
            of_threads: AtomicU64::new(0),
        }
    }

    /// Its address; 0 of those that are counted together.
    pub fn address(&self) -> u64 {
        self.key.load(Ordering::Relaxed) << 8 >> 8
    }

    /// What it is.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.kind.load(Ordering::Relaxed))
    }

    /// Whether takers are to leave their stacks.
    #[inline(always)]
    pub fn is_contended(&self) -> bool {
        self.is_contended.load(Ordering::Relaxed)
    }

    /// Lets takers leave their stacks from now on, unless several locks are counted here.
    pub fn mark_contended(&self) {
        if !self.is_contended() && self.address() != 0 {
            self.is_contended.store(true, Ordering::Relaxed);
        }
    }

    /// The calling thread has taken it.
    #[inline]
    pub fn set_holder(&self, thread: u32, stack: u64) {
        self.holder.store(thread, Ordering::Relaxed);
        self.holder_stack.store(stack, Ordering::Relaxed);
    }

    /// Who took it last, and by which stack; 0 where that is not known.
    pub fn holder(&self) -> (u32, u64) {
        (
            self.holder.load(Ordering::Relaxed),
            self.holder_stack.load(Ordering::Relaxed),
        )
    }

    /// A thread has waited for it, or, where the wait is not whole, will go on.
    pub fn count_wait(&self, ns: u64, is_whole: bool) {
        self.contended
            .fetch_add(u64::from(is_whole), Ordering::Relaxed);
        self.wait_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Forgets everything but which lock it is.
    fn reset(&self) {
        for count in [
            &self.acquisitions,
            &self.contended,
            &self.wait_ns,
            &self.longest_ns,
            &self.holder_stack,
            &self.of_threads,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.holder.store(0, Ordering::Relaxed);
    }
}

static TABLE: [Lock; LOCKS] = [const { Lock::new(0) }; LOCKS];
/// Those without an entry of their own, by their kind.
static OTHERS: [Lock; KINDS] = [
    Lock::new(0),
    Lock::new(1),
    Lock::new(2),
    Lock::new(3),
    Lock::new(4),
    Lock::new(5),
    Lock::new(6),
    Lock::new(7),
    Lock::new(8),
];
/// Which pages of the table are in use: a bit each.
static USED: [AtomicU64; CHUNKS / 64] = [const { AtomicU64::new(0) }; CHUNKS / 64];

/// A number in which all bits of a key have a part.
#[inline(always)]
pub const fn mixed(key: LockKey) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The entry of a lock, made if there is none yet.
pub fn find(kind: Kind, address: u64) -> &'static Lock {
    let key = key_of(kind, address);
    let home = (mixed(key) >> (u64::BITS - LOCK_BITS)) as usize;
    for step in 0..PROBES {
        let at = home.wrapping_add(step) % LOCKS;
        let Some(lock) = TABLE.get(at) else { break };
        let known = lock.key.load(Ordering::Acquire);
        if known == key {
            return lock;
        }
        if known == 0 {
            let taken = lock
                .key
                .compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
            match taken {
                Ok(_) => {
                    lock.kind.store(kind as u8, Ordering::Relaxed);
                    mark_used(at / CHUNK);
                    return lock;
                }
                Err(other) if other == key => return lock,
                Err(_) => {}
            }
        }
    }
    OTHERS.get(kind as usize).unwrap_or(&OTHERS[0])
}

fn mark_used(chunk: usize) {
    if let Some(word) = USED.get(chunk / 64) {
        word.fetch_or(1 << (chunk % 64), Ordering::Relaxed);
    }
}

/// All locks, and behind them those without an entry of their own.
pub fn all() -> impl Iterator<Item = &'static Lock> {
    let used = (0..CHUNKS).filter(|chunk| {
        let word = USED.get(chunk / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (chunk % 64) & 1 != 0)
    });
    used.flat_map(|chunk| TABLE.iter().skip(chunk * CHUNK).take(CHUNK))
        .filter(|lock| lock.key.load(Ordering::Acquire) != 0)
        .chain(&OTHERS)
}

/// Forgets all counts and holders, in a fork's child.
pub fn forget_counts() {
    all().for_each(Lock::reset);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_entry_and_its_memory_may_become_another_kind() {
        let mutex = find(Kind::Mutex, 0x7fff_0000_1000);
        assert!(std::ptr::eq(mutex, find(Kind::Mutex, 0x7fff_0000_1000)));
        let spin = find(Kind::Spin, 0x7fff_0000_1000);
        assert!(!std::ptr::eq(mutex, spin));
        assert_eq!(mutex.address(), spin.address());
        assert_eq!(
            (mutex.kind(), spin.kind()),
            (Some(Kind::Mutex), Some(Kind::Spin))
        );
        mutex.count_wait(7, true);
        mutex.count_wait(5, true);
        assert_eq!(mutex.wait_ns.load(Ordering::Relaxed), 12);
        assert_eq!(mutex.longest_ns.load(Ordering::Relaxed), 7);
        assert!(all().any(|lock| std::ptr::eq(lock, mutex)));
    }

    #[test]
    fn more_locks_than_there_is_room_for_are_counted_together() {
        let others = (1..=2 * LOCKS as u64)
            .map(|number| find(Kind::Barrier, number << 6))
            .filter(|lock| lock.address() == 0)
            .count();
        assert!(others >= LOCKS, "{others}");
        let lock = find(Kind::Barrier, u64::from(u32::MAX) << 8);
        lock.mark_contended();
        assert_eq!(lock.is_contended(), lock.address() != 0);
    }
}
