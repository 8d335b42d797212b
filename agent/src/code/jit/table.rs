//! The functions with registered tables, sorted by address, for readers that cannot wait.
//!
//! There are two copies. A writer fills the one that is not in use and then puts it into use by counting [`VERSION`] up, so a
//! handler that interrupts a writer reads a whole copy. A reader that was overtaken by two changes notices it by the version and
//! reads again. Memory of a copy that has become too small is not given back: a handler may be reading it, and as each is twice as
//! large as the one before, all of them together are no larger than the last.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use crate::sys;
use crate::sys::lock::Lock;

/// One function of generated code. Its four words are also the form in which the copies hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Function {
    /// Its first address.
    pub start: u64,
    /// One past its last.
    pub end: u64,
    /// Address of its FDE.
    pub description: u64,
    /// Address of the tables that were registered.
    pub registration: u64,
}

/// A copy: the number of functions, the number that there is room for, then four words for each.
static COPIES: [AtomicPtr<AtomicU64>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// The number of changes so far; its lowest bit says which copy is in use.
static VERSION: AtomicU64 = AtomicU64::new(0);
/// Held by the one thread that makes a change.
static LOCK: Lock = Lock::new();

const HEAD_WORDS: usize = 2;
const FUNCTION_WORDS: usize = 4;
const FIRST_CAPACITY: usize = 126;
/// How often a reader tries: two changes during one look-up are rare, and eight times in a row they do not happen.
const ATTEMPTS: u32 = 8;

/// One copy as a reader or the writer sees it.
#[derive(Clone, Copy)]
struct Copied(*const AtomicU64);

impl Copied {
    fn of_version(version: u64) -> Option<Self> {
        let base = COPIES.get((version & 1) as usize)?.load(Ordering::Acquire);
        (!base.is_null()).then_some(Copied(base))
    }

    /// A word, which must lie within the capacity.
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: copies are never unmapped. Callers stay below the count, which never was above the capacity of this memory.
        unsafe { &*self.0.wrapping_add(index) }
    }

    fn count(&self) -> usize {
        self.word(0).load(Ordering::Relaxed) as usize
    }

    fn capacity(&self) -> usize {
        self.word(1).load(Ordering::Relaxed) as usize
    }

    fn at(&self, index: usize, field: usize) -> &AtomicU64 {
        self.word(
            index
                .wrapping_mul(FUNCTION_WORDS)
                .wrapping_add(HEAD_WORDS)
                .wrapping_add(field),
        )
    }

    fn start(&self, index: usize) -> u64 {
        self.at(index, 0).load(Ordering::Relaxed)
    }

    fn get(&self, index: usize) -> Function {
        let field = |number| self.at(index, number).load(Ordering::Relaxed);
        Function {
            start: field(0),
            end: field(1),
            description: field(2),
            registration: field(3),
        }
    }

    fn set(&self, index: usize, function: &Function) {
        let fields = [
            function.start,
            function.end,
            function.description,
            function.registration,
        ];
        for (number, value) in fields.into_iter().enumerate() {
            self.at(index, number).store(value, Ordering::Relaxed);
        }
    }

    /// The function that contains `pc`.
    fn find(&self, pc: u64) -> Option<Function> {
        let (mut low, mut size) = (0_usize, self.count());
        // Invariant: functions below `low` begin at or before pc, those from `low + size` on begin after it.
        while size > 0 {
            let half = size >> 1;
            let middle = low.wrapping_add(half);
            if self.start(middle) <= pc {
                low = middle.wrapping_add(1);
                size = size.wrapping_sub(half).wrapping_sub(1);
            } else {
                size = half;
            }
        }
        let found = self.get(low.checked_sub(1)?);
        (found.start <= pc && pc < found.end).then_some(found)
    }
}

/// Finds the function that contains `pc`.
///
/// # Signal safety
/// Atomic loads from memory that is never unmapped; bounded.
#[inline]
pub fn find(pc: u64) -> Option<Function> {
    if VERSION.load(Ordering::Relaxed) == 0 {
        return None;
    }
    find_in_copies(pc)
}

#[inline(never)]
fn find_in_copies(pc: u64) -> Option<Function> {
    for _ in 0..ATTEMPTS {
        let version = VERSION.load(Ordering::Acquire);
        let found = Copied::of_version(version)?.find(pc);
        // Pairs with the fence in `replace`: who has read a word of the next change but one, reads its version, too.
        fence(Ordering::Acquire);
        if VERSION.load(Ordering::Relaxed) == version {
            return found;
        }
    }
    None
}

/// Replaces the functions of a registration by `new`, which takes the place of whatever it overlaps. Returns whether functions
/// went. Not for handlers.
pub fn replace(registration: u64, new: &mut [Function]) -> bool {
    new.sort_unstable_by_key(|function| function.start);
    LOCK.with(|| replace_alone(registration, new))
        .unwrap_or(false)
}

/// Makes the change of [`replace`], while no other thread makes one.
fn replace_alone(registration: u64, new: &mut [Function]) -> bool {
    let version = VERSION.load(Ordering::Relaxed);
    let old = Copied::of_version(version);
    let old = (0..old.map_or(0, |old| old.count())).filter_map(|index| Some(old?.get(index)));
    let goes = |function: &Function| {
        let after = new.partition_point(|new| new.start < function.end);
        let replaced = after
            .checked_sub(1)
            .and_then(|last| new.get(last))
            .is_some_and(|new| new.end > function.start);
        replaced || function.registration == registration
    };
    let gone = old.clone().filter(goes).count();
    let kept = old.clone().count() - gone;
    if (gone > 0 || !new.is_empty())
        && let Some(next) = room(version + 1, kept + new.len())
    {
        fence(Ordering::Release);
        let mut old = old.filter(|function| !goes(function)).peekable();
        let mut new = new.iter().copied().peekable();
        let mut count = 0;
        let mut covered = 0;
        loop {
            let old_is_next = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => old.start < new.start,
                (old, _) => old.is_some(),
            };
            let Some(function) = (if old_is_next { old.next() } else { new.next() }) else {
                break;
            };
            // Tables may describe the same code twice.
            if function.start >= covered {
                covered = function.end;
                next.set(count, &function);
                count += 1;
            }
        }
        next.word(0).store(count as u64, Ordering::Relaxed);
        VERSION.store(version + 1, Ordering::Release);
    }
    gone > 0
}

/// The thread that was making a change may be missing in the child of a fork: lets the next writer in.
pub fn after_fork_in_child() {
    LOCK.break_open();
}

/// The copy of a version, made larger where it has no room for `count` functions.
fn room(version: u64, count: usize) -> Option<Copied> {
    if let Some(copy) = Copied::of_version(version)
        && copy.capacity() >= count
    {
        return Some(copy);
    }
    let capacity = (count * 2).max(FIRST_CAPACITY);
    let bytes = (HEAD_WORDS + capacity * FUNCTION_WORDS) * size_of::<AtomicU64>();
    let memory = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).ok()?;
    let copy = Copied(memory.cast::<AtomicU64>());
    copy.word(1).store(capacity as u64, Ordering::Relaxed);
    COPIES
        .get((version & 1) as usize)?
        .store(copy.0.cast_mut(), Ordering::Release);
    Some(copy)
}
