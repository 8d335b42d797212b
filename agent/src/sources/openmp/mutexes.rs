//! Critical sections, ordered and atomic constructs, and locks: waiting for them, and holding them.
//!
//! Constructs nest, so that holding one is a slice of its thread; locks need not, and are ranges of the process.

use std::ffi::{c_int, c_uint};

use rsys_wire::event::{Arg, Category, Key, Value};

use super::abi::{self, CodeAddress};
use super::chain::callbacks;
use super::{address, begin_at, close_at, end, end_at, is_recorded, now_ns, words};
use crate::events;
use crate::events::texts::StaticText;
use crate::sources::table::Table;
use crate::state;

callbacks! {
    /// A thread wants a lock.
    fn on_mutex_acquire(kind: c_int, hint: c_uint, implementation: c_uint, lock: u64, code: CodeAddress)
        = MUTEX_ACQUIRE as MutexAcquire, acquire;
    /// It has it.
    fn on_mutex_acquired(kind: c_int, lock: u64, code: CodeAddress) = MUTEX_ACQUIRED as Mutex, acquired;
    /// It has it no more.
    fn on_mutex_released(kind: c_int, lock: u64, code: CodeAddress) = MUTEX_RELEASED as Mutex, released;
    /// It had a nested lock already, and has it once more or once less.
    fn on_nest_lock(endpoint: c_int, lock: u64, code: CodeAddress) = NEST_LOCK as NestLock, nested;
}

/// The ranges of the locks that are held.
static HELD: Table<4096> = Table::new();

/// The ranges are its parent's.
pub fn after_fork_in_child() {
    // Each page of a table that is cleared becomes the child's own, also where the table was empty.
    if state::settings().events.has(Category::Openmp) {
        HELD.clear();
    }
}

static WAITS: [StaticText; 4] = [
    StaticText::new("wait for critical"),
    StaticText::new("wait for atomic"),
    StaticText::new("wait for ordered"),
    StaticText::new("wait for lock"),
];
static HOLDS: [StaticText; 4] = [
    StaticText::new("critical"),
    StaticText::new("atomic"),
    StaticText::new("ordered"),
    StaticText::new("lock"),
];

fn place_of(kind: c_int) -> usize {
    match kind {
        abi::CRITICAL => 0,
        abi::ATOMIC => 1,
        abi::ORDERED => 2,
        _ => 3,
    }
}

fn is_construct(kind: c_int) -> bool {
    place_of(kind) != 3
}

/// Whether the thread may go on without the lock: then nothing says that it does.
fn is_trial(kind: c_int) -> bool {
    matches!(kind, abi::TEST_LOCK | abi::TEST_NEST_LOCK)
}

fn of(lock: u64) -> [Arg<'static>; 1] {
    [(Key::Lock, Value::Pointer(lock))]
}

/// Something else happens in a thread that was waiting: it has tried to get a lock, in vain. Runtimes before LLVM 15 do not say which call
/// for a lock is a trial.
#[inline]
pub fn give_up_wait() {
    let words = words();
    if words.waiting != 0 {
        words.waiting = 0;
        close_at(words.waiting_since_ns);
    }
}

fn acquire(kind: c_int, _hint: c_uint, _implementation: c_uint, lock: u64, code: CodeAddress) {
    if is_trial(kind) {
        return;
    }
    let now_ns = now_ns();
    begin_at(now_ns, &WAITS[place_of(kind)], address(code), &of(lock));
    if !is_construct(kind) {
        let words = words();
        words.waiting = lock.wrapping_add(1);
        words.waiting_since_ns = now_ns;
    }
}

/// The thread waits for this lock no more: it has it.
fn end_wait(lock: u64, time_ns: u64) {
    let words = words();
    if words.waiting == lock.wrapping_add(1) {
        words.waiting = 0;
        close_at(time_ns);
    }
}

fn acquired(kind: c_int, lock: u64, code: CodeAddress) {
    let now_ns = now_ns();
    if is_construct(kind) {
        end_at(now_ns);
        begin_at(now_ns, &HOLDS[place_of(kind)], address(code), &of(lock));
        return;
    }
    end_wait(lock, now_ns);
    if is_recorded() {
        let name = events::place(&HOLDS[place_of(kind)], address(code));
        let number = events::next_correlation();
        // Without a place its end would not be known.
        if HELD.set(lock, number) && !events::async_begin(Category::Openmp, number, name, &of(lock))
        {
            HELD.set(lock, 0);
        }
    }
}

fn released(kind: c_int, lock: u64, _code: CodeAddress) {
    if is_construct(kind) {
        end();
    } else {
        give_up_wait();
        let number = HELD.get(lock);
        if number != 0 {
            HELD.set(lock, 0);
            events::async_end(Category::Openmp, number);
        }
    }
}

/// The wait for a nested lock ends so where the thread holds it already.
fn nested(endpoint: c_int, lock: u64, _code: CodeAddress) {
    if endpoint == abi::BEGIN {
        end_wait(lock, now_ns());
    }
}
