//! What each thread keeps of the locks that it takes: counts, so that no cache line is shared with another thread, and its stacks.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::kind::{KINDS, Kind};
use super::real;
use super::stacks::{Caller, Stacks};
use super::table::{self, Lock, LockKey, key_of, mixed};
use crate::state;
use crate::sys;
use crate::thread_words;

/// Locks that a thread counts by itself; others take their places.
const COUNTS: usize = 256;
const COUNT_BITS: u32 = COUNTS.trailing_zeros();

/// How often a thread has taken a lock since the count began.
#[derive(Debug)]
pub struct Count {
    key: AtomicU64,
    count: AtomicU64,
    lock: AtomicPtr<Lock>,
}

impl Count {
    /// Whether it is this lock's.
    #[inline(always)]
    pub fn is_of(&self, key: LockKey) -> bool {
        self.key.load(Ordering::Relaxed) == key
    }

    /// The lock's entry. Only where [`Count::is_of`] says so.
    #[inline(always)]
    pub fn lock(&self) -> Option<&'static Lock> {
        // SAFETY: null or an entry of the table, which is never freed.
        unsafe { self.lock.load(Ordering::Relaxed).as_ref() }
    }

    /// One more. A signal handler that comes in between may lose one.
    #[inline(always)]
    pub fn add(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds the count to the lock's.
    fn flush(&self) {
        if let Some(lock) = self.lock() {
            let count = self.count.swap(0, Ordering::Relaxed);
            lock.acquisitions.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// What is kept of one thread. Valid as zeros; lives for ever, and goes to another thread when its own ends.
#[derive(Debug)]
pub struct ThreadLocks {
    next: *mut ThreadLocks,
    is_taken: AtomicBool,
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Which kinds are counted: a bit each.
    kinds: u16,
    /// What is known of the thread's Python; see [`crate::sampling::python`].
    pub python: u64,
    counts: [Count; COUNTS],
    stacks: Stacks,
}

thread_words! {
    /// The word with the calling thread's part.
    fn word() -> *mut *mut ThreadLocks = "rsys_thread_locks"
}

/// In the word of a thread that is getting its part, or cannot have one.
const NONE: *mut ThreadLocks = std::ptr::without_provenance_mut(1);

/// All parts.
static ALL: AtomicPtr<ThreadLocks> = AtomicPtr::new(std::ptr::null_mut());
const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// The calling thread's part, if it has one. Nothing that holds it calls into the program.
#[inline(always)]
pub fn own<'a>() -> Option<&'a mut ThreadLocks> {
    // SAFETY: the thread's own word.
    let known = unsafe { *word() };
    if known.addr() <= NONE.addr() {
        return None;
    }
    // SAFETY: a part is never unmapped, and belongs to this thread alone.
    Some(unsafe { &mut *known })
}

/// The calling thread's part, made if it has none yet and locks are recorded.
#[cold]
#[inline(never)]
pub fn own_or_new<'a>(kind: Kind) -> Option<&'a mut ThreadLocks> {
    if !crate::events::records(kind.category()) {
        return None;
    }
    // SAFETY: the thread's own word.
    if unsafe { !(*word()).is_null() } || !state::may_set_up() {
        return None;
    }
    // What is called from here on may take locks.
    set_own(NONE);
    real::resolve_all();
    let part = claim();
    set_own(part);
    if part != NONE {
        keep_for_the_end(part);
    }
    own()
}

fn set_own(part: *mut ThreadLocks) {
    // SAFETY: as above.
    unsafe { *word() = part }
}

fn all() -> impl Iterator<Item = &'static ThreadLocks> {
    let mut next = ALL.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: parts are never unmapped.
        let part = unsafe { next.as_ref() }?;
        next = part.next;
        Some(part)
    })
}

fn claim() -> *mut ThreadLocks {
    let Some(tid) = sys::known_tid() else {
        return NONE;
    };
    let free = all().find(|part| {
        let taken = &part.is_taken;
        !taken.load(Ordering::Relaxed)
            && taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    });
    let part = match free {
        Some(part) => std::ptr::from_ref(part).cast_mut(),
        None => match make() {
            Some(part) => part,
            None => return NONE,
        },
    };
    // SAFETY: taken by this thread.
    let own = unsafe { &mut *part };
    own.tid = tid;
    own.python = 0;
    own.kinds = (0..KINDS as u8)
        .filter(|number| {
            Kind::from_number(*number).is_some_and(|kind| crate::events::records(kind.category()))
        })
        .fold(0_u16, |kinds, number| kinds | 1 << number);
    part
}

fn make() -> Option<*mut ThreadLocks> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let part = sys::mmap(size_of::<ThreadLocks>(), flags, -1)
        .ok()?
        .cast::<ThreadLocks>();
    // SAFETY: mapped just now, and zeros are valid.
    unsafe { (*part).is_taken.store(true, Ordering::Relaxed) };
    let mut first = ALL.load(Ordering::Relaxed);
    loop {
        // SAFETY: as above.
        unsafe { (*part).next = first };
        match ALL.compare_exchange_weak(first, part, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(part),
            Err(other) => first = other,
        }
    }
}

/// Lets [`on_thread_end`] be called at the end of the calling thread.
fn keep_for_the_end(part: *mut ThreadLocks) {
    let mut key = KEY.load(Ordering::Acquire);
    if key == NO_KEY {
        // SAFETY: `key` is valid; the destructor has the right signature.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(on_thread_end)) } != 0 {
            return;
        }
        if let Err(other) = KEY.compare_exchange(NO_KEY, key, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made just now, and not used.
            unsafe { libc::pthread_key_delete(key) };
            key = other;
        }
    }
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(key, part.cast()) };
}

/// # Safety
/// As the C library calls it: with the part of the thread that ends.
unsafe extern "C" fn on_thread_end(part: *mut c_void) {
    set_own(std::ptr::null_mut());
    // SAFETY: parts are never unmapped.
    if let Some(part) = unsafe { part.cast::<ThreadLocks>().as_ref() } {
        part.counts.iter().for_each(Count::flush);
        part.is_taken.store(false, Ordering::Release);
    }
}

impl ThreadLocks {
    /// Whether locks of this kind are counted.
    #[inline(always)]
    pub fn counts(&self, kind: Kind) -> bool {
        self.kinds >> kind as u8 & 1 != 0
    }

    /// Where the thread counts a lock, or another one that has the same place.
    #[inline(always)]
    pub fn count(&self, key: LockKey) -> &Count {
        let at = (mixed(key) >> (u64::BITS - COUNT_BITS)) as usize;
        &self.counts[at % COUNTS]
    }

    /// Gives a lock the place of another in this thread's counts. Returns its entry.
    #[cold]
    #[inline(never)]
    pub fn replace(&self, kind: Kind, address: u64) -> &'static Lock {
        let key = key_of(kind, address);
        let lock = table::find(kind, address);
        let count = self.count(key);
        if !count.is_of(key) {
            count.flush();
            count.key.store(0, Ordering::Relaxed);
            count
                .lock
                .store(std::ptr::from_ref(lock).cast_mut(), Ordering::Relaxed);
            count.key.store(key, Ordering::Relaxed);
        }
        lock
    }

    /// The lock's entry in the table of all.
    #[inline(always)]
    pub fn lock(&self, kind: Kind, address: u64) -> &'static Lock {
        let key = key_of(kind, address);
        let count = self.count(key);
        match count.lock() {
            Some(lock) if count.is_of(key) => lock,
            _ => self.replace(kind, address),
        }
    }

    /// The id of the thread's stack; see [`Stacks::id`].
    #[cold]
    #[inline(never)]
    pub fn stack(&mut self, caller: Caller) -> u64 {
        self.stacks.id(caller)
    }
}

/// Adds what threads have counted to [`Lock::of_threads`], which begins with 0.
pub fn sum_up() {
    for lock in table::all() {
        lock.of_threads.store(0, Ordering::Relaxed);
    }
    for count in all().flat_map(|part| &part.counts) {
        if let Some(lock) = count.lock() {
            let more = count.count.load(Ordering::Relaxed);
            lock.of_threads.fetch_add(more, Ordering::Relaxed);
        }
    }
}

/// The child counts for itself, and has one thread.
pub fn after_fork_in_child() {
    // SAFETY: the thread's own word.
    let own = unsafe { *word() };
    for part in all() {
        for count in &part.counts {
            if count.lock().is_some() {
                count.count.store(0, Ordering::Relaxed);
            }
        }
        if !std::ptr::eq(part, own) {
            part.is_taken.store(false, Ordering::Relaxed);
        }
    }
    table::forget_counts();
    if let (Some(part), Some(tid)) = (self::own(), sys::known_tid()) {
        part.tid = tid;
    }
}
