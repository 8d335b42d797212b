//! The events that have begun, by the handles that the library knows them by.
//!
//! A handle is that of the user's plug-in where it gave one, so that the plug-in finds its own objects wherever the library refers to an event,
//! and a number of ours otherwise ([`next`]), which the library does not dereference. The library refers to the event of a collective after its end, without saying for how
//! long: such entries stay until the room is needed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::sources::rccl::profiler::abi::Phase;

/// Sets of entries, and entries of a set.
const SETS: usize = 2048;
const WAYS: usize = 8;

/// What numbers of ours have in their upper bits: no address does.
const OURS: u64 = 0x7273 << 48;

/// A number for an event to which no plug-in has given a handle.
pub fn next() -> *mut c_void {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> 16);
    std::ptr::without_provenance_mut((OURS | number) as usize)
}

/// Whether a handle is such a number.
#[must_use]
pub fn is_ours(handle: *mut c_void) -> bool {
    handle.addr() as u64 >> 48 == OURS >> 48
}

pub const FREE: u8 = 0;
pub const TASK: u8 = 1;
pub const OPERATION: u8 = 2;
pub const STEP: u8 = 3;

/// An event. Which fields mean something depends on its kind.
#[derive(Debug)]
pub struct Entry {
    handle: AtomicUsize,
    pub kind: AtomicU8,
    pub is_send: AtomicU8,
    /// The phase that a step is in, from 1; 0 is none.
    pub phase: AtomicU8,
    pub channel: AtomicU8,
    pub peer: AtomicU32,
    /// The number of a step, or how many an operation has.
    pub steps: AtomicU32,
    /// The place of its communicator among the contexts.
    pub context: AtomicU32,
    pub begin_ns: AtomicU64,
    pub phase_ns: AtomicU64,
    /// The time spent in each phase; of an operation, that of all its steps.
    pub waited_ns: [AtomicU64; Phase::COUNT],
    /// Bytes from its begin on, and those of them that were recorded with an earlier part of it.
    pub bytes: AtomicU64,
    pub told_bytes: AtomicU64,
    /// Of a step: the handle of its operation.
    pub parent: AtomicUsize,
    /// Key of the name of the collective or message that it belongs to, or 0.
    pub name: AtomicU64,
    /// The number of that operation on its communicator, plus 1, or 0 if it is not known.
    pub sequence: AtomicU64,
    /// The correlation of the call, or 0.
    pub correlation: AtomicU64,
}

static TABLE: [[Entry; WAYS]; SETS] = [const {
    [const {
        Entry {
            handle: AtomicUsize::new(0),
            kind: AtomicU8::new(FREE),
            is_send: AtomicU8::new(0),
            phase: AtomicU8::new(0),
            channel: AtomicU8::new(0),
            peer: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            context: AtomicU32::new(0),
            begin_ns: AtomicU64::new(0),
            phase_ns: AtomicU64::new(0),
            waited_ns: [const { AtomicU64::new(0) }; Phase::COUNT],
            bytes: AtomicU64::new(0),
            told_bytes: AtomicU64::new(0),
            parent: AtomicUsize::new(0),
            name: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            correlation: AtomicU64::new(0),
        }
    }; WAYS]
}; SETS];

/// The handle of an entry that is being written, or was taken: no address, and no number of ours.
const NOT_THERE: usize = 1;

fn set(handle: usize) -> &'static [Entry; WAYS] {
    // The odd factor spreads numbers in a row as well as addresses, whose lowest bits are 0.
    let home = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &TABLE[home % SETS]
}

/// The event with this handle.
#[must_use]
pub fn find(handle: *mut c_void) -> Option<&'static Entry> {
    let handle = handle.addr();
    let is_it = |entry: &&Entry| entry.handle.load(Ordering::Acquire) == handle;
    set(handle)
        .iter()
        .filter(|_| handle > NOT_THERE)
        .find(is_it)
}

/// Makes room for an event, which `fill` fills in before others find it. Returns whether it has room, and no operation or step had to make way.
pub fn insert(handle: *mut c_void, kind: u8, begin_ns: u64, fill: impl FnOnce(&Entry)) -> bool {
    let handle = handle.addr();
    let set = set(handle);
    let known = |entry: &&Entry| entry.handle.load(Ordering::Relaxed) == handle;
    let rank = |entry: &&Entry| {
        let is_free = entry.handle.load(Ordering::Relaxed) == 0;
        let is_task = entry.kind.load(Ordering::Relaxed) == TASK;
        (!is_free, !is_task, entry.begin_ns.load(Ordering::Relaxed))
    };
    let is_there = |entry: &&Entry| entry.handle.load(Ordering::Relaxed) != NOT_THERE;
    let Some(entry) = set
        .iter()
        .find(known)
        .or_else(|| set.iter().filter(is_there).min_by_key(rank))
    else {
        return false;
    };
    let was = entry.handle.load(Ordering::Relaxed);
    let is_taken = entry
        .handle
        .compare_exchange(was, NOT_THERE, Ordering::Acquire, Ordering::Relaxed)
        .is_ok();
    if was == NOT_THERE || !is_taken {
        return false;
    }
    let kept = was == 0 || was == handle || entry.kind.load(Ordering::Relaxed) == TASK;
    for field in &entry.waited_ns {
        field.store(0, Ordering::Relaxed);
    }
    for field in [
        &entry.phase_ns,
        &entry.bytes,
        &entry.told_bytes,
        &entry.name,
        &entry.sequence,
        &entry.correlation,
    ] {
        field.store(0, Ordering::Relaxed);
    }
    entry.phase.store(0, Ordering::Relaxed);
    entry.kind.store(kind, Ordering::Relaxed);
    entry.begin_ns.store(begin_ns, Ordering::Relaxed);
    fill(entry);
    entry.handle.store(handle, Ordering::Release);
    kept
}

impl Entry {
    /// Takes an operation or step out of the table, so that no lookup finds its entry and no new event uses it until it is [freed](Self::free). False when
    /// another thread did, or is about to fill it.
    pub fn take(&self, handle: *mut c_void) -> bool {
        let (handle, order) = (handle.addr(), Ordering::Acquire);
        handle > NOT_THERE
            && self
                .handle
                .compare_exchange(handle, NOT_THERE, order, Ordering::Relaxed)
                .is_ok()
    }

    /// What was taken was recorded.
    pub fn free(&self) {
        self.handle.store(0, Ordering::Release);
    }

    /// A phase ends, and another one begins, if any.
    pub fn enter(&self, phase: Option<Phase>, now_ns: u64) {
        self.account(now_ns);
        let number = phase.map_or(0, |phase| phase as u8 + 1);
        self.phase.store(number, Ordering::Relaxed);
    }

    /// A step ends: what it waited for and moved is its operation's too.
    pub fn add_to_operation(&self) {
        let parent = self.parent.load(Ordering::Relaxed);
        let Some(operation) = find(std::ptr::without_provenance_mut(parent)) else {
            return;
        };
        for (sum, waited) in operation.waited_ns.iter().zip(&self.waited_ns) {
            sum.fetch_add(waited.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let bytes = self.bytes_to_tell();
        operation.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were not recorded yet.
    pub fn bytes_to_tell(&self) -> u64 {
        let told = self.told_bytes.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed).saturating_sub(told)
    }

    /// Its part up to now was recorded, and it goes on: the rest is recorded when it ends, and nothing twice.
    pub fn begin_again(&self, now_ns: u64) {
        self.begin_ns.store(now_ns, Ordering::Relaxed);
        // The library says how many there were from the begin on.
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.told_bytes.store(bytes, Ordering::Relaxed);
        for waited in &self.waited_ns {
            waited.store(0, Ordering::Relaxed);
        }
    }

    /// Adds the time up to now to the phase that it is in, which goes on.
    pub fn account(&self, now_ns: u64) {
        let last = usize::from(self.phase.load(Ordering::Relaxed)).wrapping_sub(1);
        if let Some(waited) = self.waited_ns.get(last) {
            let since = self.phase_ns.load(Ordering::Relaxed);
            waited.fetch_add(now_ns.saturating_sub(since), Ordering::Relaxed);
        }
        self.phase_ns.store(now_ns, Ordering::Relaxed);
    }
}

/// The operations, or the steps, that have not ended, with the handles that they had when they were looked at.
pub fn open(kind: u8) -> impl Iterator<Item = (&'static Entry, *mut c_void)> {
    TABLE.iter().flatten().filter_map(move |entry| {
        let handle = entry.handle.load(Ordering::Acquire);
        let is_open = handle > NOT_THERE && entry.kind.load(Ordering::Relaxed) == kind;
        is_open.then(|| (entry, std::ptr::without_provenance_mut(handle)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The table is one for all tests.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(handle: *mut c_void) {
        let entry = find(handle).expect("it was inserted, and had not to make way");
        assert!(entry.take(handle));
        entry.free();
    }

    #[test]
    fn an_event_is_found_until_it_is_removed_and_tasks_make_way() {
        let _alone = alone();
        let handles: Vec<_> = (0..20_000).map(|_| next()).collect();
        for (number, handle) in handles.iter().enumerate() {
            assert!(is_ours(*handle));
            assert!(insert(*handle, TASK, number as u64, |_| {}));
        }
        let operation = next();
        insert(operation, OPERATION, 1, |entry| {
            entry.steps.store(7, Ordering::Relaxed);
        });
        for handle in &handles {
            insert(*handle, TASK, 5, |_| {});
        }
        let found = find(operation).expect("an operation does not make way for tasks");
        assert_eq!(found.steps.load(Ordering::Relaxed), 7);
        assert!(open(OPERATION).any(|(_, handle)| handle == operation));
        assert!(!open(STEP).any(|(_, handle)| handle == operation));
        assert!(found.take(operation) && !found.take(operation));
        found.free();
        assert!(find(operation).is_none());
    }

    #[test]
    fn operations_that_begin_in_a_row_stay_while_thousands_of_steps_pass() {
        let _alone = alone();
        // Numbers of ours, and addresses as an allocator gives them.
        let addresses = |base: usize, bytes: usize| -> Vec<*mut c_void> {
            let addresses = (0..64).map(|number| base + number * bytes);
            addresses.map(std::ptr::without_provenance_mut).collect()
        };
        let numbers = (0..64).map(|_| next()).collect();
        for operations in [
            numbers,
            addresses(0x5555_0000_0010, 16),
            addresses(0x7f00_1234_0010, 48),
            addresses(0x7f00_5678_0040, 64),
        ] {
            for operation in &operations {
                assert!(insert(*operation, OPERATION, 1, |_| {}));
            }
            for _ in 0..10_000 {
                let step = next();
                assert!(insert(step, STEP, 2, |_| {}));
                remove(step);
            }
            for operation in operations {
                remove(operation);
            }
        }
    }

    #[test]
    fn operations_beyond_the_room_are_told_of_one_by_one() {
        let _alone = alone();
        let all: Vec<_> = (0..2 * SETS * WAYS).map(|_| next()).collect();
        let mut had_to_make_way = 0;
        for (number, handle) in all.iter().enumerate() {
            let kept = insert(*handle, OPERATION, number as u64 + 1, |_| {});
            had_to_make_way += usize::from(!kept);
            assert!(find(*handle).is_some(), "the newest has room");
        }
        let left: Vec<_> = all
            .iter()
            .filter(|&&handle| find(handle).is_some())
            .collect();
        assert_eq!(left.len() + had_to_make_way, all.len());
        // Numbers in a row fill the table nearly evenly: all but the oldest stay.
        assert!(left.len() > SETS * WAYS * 9 / 10, "{}", left.len());
        assert_eq!(open(OPERATION).count(), left.len());
        for handle in left {
            remove(*handle);
        }
        assert_eq!(open(OPERATION).count(), 0);
    }

    #[test]
    fn what_is_free_or_being_made_is_not_taken_and_what_was_taken_is_not_filled() {
        let _alone = alone();
        let step = next();
        let not_there = std::ptr::without_provenance_mut(NOT_THERE);
        insert(step, STEP, 10, |entry| {
            assert!(!entry.take(not_there) && !entry.take(step));
        });
        let entry = find(step).expect("just inserted");
        assert!(entry.take(step));
        assert!(!entry.take(not_there) && !entry.take(std::ptr::null_mut()));
        // More than the whole table has room for.
        for _ in 0..2 * SETS * WAYS {
            insert(next(), TASK, 20, |_| {});
        }
        let found = (
            entry.kind.load(Ordering::Relaxed),
            entry.begin_ns.load(Ordering::Relaxed),
        );
        assert_eq!(found, (STEP, 10));
        entry.free();
        assert!(!entry.take(std::ptr::null_mut()));
    }

    #[test]
    fn phases_add_up() {
        let _alone = alone();
        let step = next();
        insert(step, STEP, 10, |_| {});
        let entry = find(step).expect("just inserted");
        entry.enter(Some(Phase::Gpu), 10);
        entry.enter(Some(Phase::Peer), 15);
        entry.account(20);
        entry.enter(Some(Phase::Network), 22);
        entry.enter(None, 30);
        let waited = || [0, 1, 2, 3].map(|place| entry.waited_ns[place].load(Ordering::Relaxed));
        assert_eq!(waited(), [5, 7, 8, 0]);
        // What was recorded in between is not recorded again.
        entry.enter(Some(Phase::Gpu), 40);
        entry.account(45);
        entry.bytes.fetch_max(1000, Ordering::Relaxed);
        assert_eq!(entry.bytes_to_tell(), 1000);
        entry.begin_again(45);
        entry.enter(None, 51);
        assert_eq!(entry.bytes_to_tell(), 0);
        entry.bytes.fetch_max(4000, Ordering::Relaxed);
        assert_eq!(entry.bytes_to_tell(), 3000);
        assert_eq!(waited(), [6, 0, 0, 0]);
        assert_eq!(entry.begin_ns.load(Ordering::Relaxed), 45);
    }
}
