//! Taking a lock, at once or after a wait.

use std::ffi::c_int;

use rsys_wire::event::{Arg, Key, Value};

use super::kind::Kind;
use super::stacks::Caller;
use super::table::{Lock, key_of};
use super::thread::{self, ThreadLocks};
use crate::events;
use crate::events::texts::StaticText;
use crate::sampling::python;
use crate::state;
use crate::state::pause;
use crate::sys;

/// A function that waits.
#[derive(Debug)]
pub struct Waiting {
    /// What is waited for.
    pub kind: Kind,
    /// Its name.
    pub name: StaticText,
}

impl Waiting {
    /// A function of this name.
    pub const fn new(kind: Kind, name: &'static str) -> Self {
        Waiting {
            kind,
            name: StaticText::new(name),
        }
    }
}

/// A wait for the lock of a Python interpreter.
static GIL: Waiting = Waiting::new(Kind::Gil, "Python GIL");

/// How the attempt to take a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the caller's.
    Yes,
    /// Another has it.
    Busy,
    /// An error: the lock was not taken.
    No,
}

/// Takes a lock: by `attempt`, which does not wait, or else by `wait`. `judge` says what a result means.
#[inline(always)]
pub fn acquire(
    waiting: &'static Waiting,
    kind: Kind,
    address: u64,
    caller: Caller,
    attempt: impl FnOnce() -> c_int,
    judge: impl Fn(c_int) -> Taken,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let Some(thread) = thread::own().or_else(|| thread::own_or_new(kind)) else {
        return wait();
    };
    if !thread.counts(kind) {
        return wait();
    }
    let count = thread.count(key_of(kind, address));
    if count.is_of(key_of(kind, address))
        && let Some(lock) = count.lock()
        && !lock.is_contended()
    {
        let result = attempt();
        match judge(result) {
            Taken::Yes => count.add(),
            Taken::Busy => return after_wait(waiting, address, caller, wait, judge),
            Taken::No => {}
        }
        return result;
    }
    with_stack(waiting, address, caller, attempt, judge, wait)
}

/// Takes a lock if it is free.
#[inline(always)]
pub fn try_to_acquire(
    kind: Kind,
    address: u64,
    caller: Caller,
    attempt: impl FnOnce() -> c_int,
    judge: impl Fn(c_int) -> Taken,
) -> c_int {
    let known = thread::own().or_else(|| thread::own_or_new(kind));
    let Some(thread) = known.filter(|thread| thread.counts(kind)) else {
        return attempt();
    };
    let lock = thread.lock(kind, address);
    let stack = if lock.is_contended() {
        thread.stack(caller)
    } else {
        0
    };
    let result = attempt();
    if judge(result) == Taken::Yes {
        took(thread, lock, kind, address, stack);
    }
    result
}

/// As [`acquire`], of a lock that others have waited for, or that this thread has not counted lately.
#[cold]
#[inline(never)]
fn with_stack(
    waiting: &'static Waiting,
    address: u64,
    caller: Caller,
    attempt: impl FnOnce() -> c_int,
    judge: impl Fn(c_int) -> Taken,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let Some(thread) = thread::own() else {
        return wait();
    };
    let lock = thread.lock(waiting.kind, address);
    // Before the lock is taken, so that it is not held any longer.
    let stack = if lock.is_contended() {
        thread.stack(caller)
    } else {
        0
    };
    let result = attempt();
    match judge(result) {
        Taken::Yes => took(thread, lock, waiting.kind, address, stack),
        Taken::Busy => return after_wait(waiting, address, caller, wait, judge),
        Taken::No => {}
    }
    result
}

/// The calling thread has the lock.
fn took(thread: &ThreadLocks, lock: &Lock, kind: Kind, address: u64, stack: u64) {
    let count = thread.count(key_of(kind, address));
    if !count.is_of(key_of(kind, address)) {
        thread.replace(kind, address);
    }
    count.add();
    if lock.is_contended() {
        lock.set_holder(thread.tid, stack);
    }
}

/// Waits for a lock that another thread has.
#[cold]
#[inline(never)]
fn after_wait(
    waiting: &'static Waiting,
    address: u64,
    caller: Caller,
    wait: impl FnOnce() -> c_int,
    judge: impl Fn(c_int) -> Taken,
) -> c_int {
    let Some(thread) = thread::own() else {
        return wait();
    };
    let begin_ns = sys::boottime_ns();
    let lock = thread.lock(waiting.kind, address);
    lock.mark_contended();
    let owner = waiting.kind.owner(address);
    let (holder, holder_stack) = lock.holder();
    // Another thread may have taken it since that was noted.
    let (holder, holder_stack) = match owner {
        0 => (holder, holder_stack),
        owner if owner == holder => (owner, holder_stack),
        owner => (owner, 0),
    };
    let stack = thread.stack(caller);
    let result = wait();
    let end_ns = sys::boottime_ns();
    // What the program has called in the wait may have changed it: a signal handler, for one.
    let Some(thread) = thread::own() else {
        return result;
    };
    if judge(result) == Taken::Yes {
        took(thread, lock, waiting.kind, address, stack);
    }
    if result == libc::EDEADLK {
        // That was no wait.
        return result;
    }
    let wait = Wait {
        address,
        when_ns: [begin_ns, end_ns],
        stack,
        holder,
        holder_stack,
        result,
    };
    wait.record(waiting, lock);
    result
}

/// Waits for something that is not held: a condition, a barrier, the end of a thread. `mutex` is held again afterwards, if it is not 0.
#[inline(never)]
pub fn rest(
    waiting: &'static Waiting,
    address: u64,
    mutex: u64,
    caller: Caller,
    wait: impl FnOnce() -> c_int,
    judge: impl Fn(c_int) -> Taken,
) -> c_int {
    let Some(thread) = thread::own().or_else(|| thread::own_or_new(waiting.kind)) else {
        return wait();
    };
    if !thread.counts(waiting.kind) {
        return wait();
    }
    let stack = thread.stack(caller);
    let begin_ns = sys::boottime_ns();
    // Python waits for its interpreter's lock by a condition.
    let gil = match waiting.kind {
        Kind::Condition => python::lock_at(address, &mut thread.python),
        _ => None,
    };
    let (waiting, address) = gil.map_or((waiting, address), |(lock, _)| (&GIL, lock));
    let (holder, holder_stack) = match gil {
        Some((_, owner)) => {
            let lock = thread.lock(Kind::Gil, address);
            lock.mark_contended();
            match lock.holder() {
                (holder, stack) if holder == owner => (owner, stack),
                _ => (owner, 0),
            }
        }
        None => (0, 0),
    };
    let result = wait();
    let end_ns = sys::boottime_ns();
    let Some(thread) = thread::own() else {
        return result;
    };
    let lock = thread.lock(waiting.kind, address);
    if judge(result) == Taken::Yes {
        took(thread, lock, waiting.kind, address, stack);
    }
    if mutex != 0 {
        let mutex = thread.lock(Kind::Mutex, mutex);
        if mutex.is_contended() {
            mutex.set_holder(thread.tid, stack);
        }
    }
    let wait = Wait {
        address,
        when_ns: [begin_ns, end_ns],
        stack,
        holder,
        holder_stack,
        result,
    };
    wait.record(waiting, lock);
    result
}

/// A wait that is over.
struct Wait {
    address: u64,
    when_ns: [u64; 2],
    /// The waiter's stack.
    stack: u64,
    holder: u32,
    holder_stack: u64,
    /// What the function returned.
    result: c_int,
}

impl Wait {
    /// Counts it, and records it if it was long enough.
    fn record(&self, waiting: &'static Waiting, lock: &Lock) {
        let [begin_ns, end_ns] = self.when_ns;
        let waited_ns = end_ns.saturating_sub(begin_ns);
        // Python waits for its lock in turns, of which the last one gets it.
        let is_turn = waiting.kind == Kind::Gil && self.result != 0;
        lock.count_wait(waited_ns, !is_turn);
        let category = waiting.kind.category();
        if waited_ns < state::settings().shortest_wait_ns
            || !events::records(category)
            || pause::is_caller_paused()
        {
            return;
        }
        let mut args: [Arg<'_>; 5] = [(Key::Lock, Value::Pointer(self.address)); 5];
        let more = [
            (Key::LaunchStack, Value::Uint(self.stack)),
            (Key::HolderThread, Value::Uint(u64::from(self.holder))),
            (Key::HolderStack, Value::Uint(self.holder_stack)),
            (Key::Result, Value::Int(i64::from(self.result))),
        ];
        let mut used = 1;
        let known = |value: &Value<'_>| !matches!(value, Value::Uint(0) | Value::Int(0));
        for arg in more.into_iter().filter(|(_, value)| known(value)) {
            if let Some(to) = args.get_mut(used) {
                *to = arg;
                used = used.wrapping_add(1);
            }
        }
        let args = args.get(..used).unwrap_or(&[]);
        keeping_errno(|| {
            events::slice(self.when_ns, category, waiting.name.key(), args);
        });
    }
}

/// Does something that the program must not see in `errno`.
fn keeping_errno(what: impl FnOnce()) {
    // SAFETY: the thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; so below.
    let before = unsafe { *errno };
    what();
    // SAFETY: as above.
    unsafe { *errno = before };
}
