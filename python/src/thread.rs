//! The thread state of the calling thread.

use core::sync::atomic::{AtomicU32, Ordering};

use rsys_unwind::Memory;

use crate::interpreter::Interpreter;
use crate::layout::{Lists, ThreadLookup};
use crate::stack::{self, STATES_MAX};

/// Keys that glibc can give out (`PTHREAD_KEYS_MAX`).
const KEYS: u32 = 1024;
/// How much of the runtime is searched for the key, in bytes.
const SEARCHED: u64 = 16 * 1024;
/// How often.
const SEARCHES: u32 = 256;
/// Thread states of one interpreter, and interpreters, that are looked at.
const THREADS_MAX: u32 = 4096;
const INTERPRETERS_MAX: u32 = 64;

/// What is known of the key under which an interpreter keeps the state of each thread.
#[derive(Debug)]
pub struct Key {
    /// The key and one; 0 while it is not known.
    known: AtomicU32,
    /// Where in the runtime it was found.
    place: AtomicU32,
    searches: AtomicU32,
}

impl Key {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            known: AtomicU32::new(0),
            place: AtomicU32::new(0),
            searches: AtomicU32::new(0),
        }
    }
}

impl Key {
    /// Looks for it anew when it is not what the runtime says any more: the interpreter ended, and perhaps started again.
    fn forget_if_changed(&self, memory: &impl Memory, interpreter: &Interpreter) {
        let place = u64::from(self.place.load(Ordering::Relaxed));
        let known = u64::from(self.known.load(Ordering::Relaxed).wrapping_sub(1));
        let pair = memory.read_u64(interpreter.runtime.wrapping_add(place));
        if pair.is_some_and(|pair| pair != (1 | known << 32)) {
            self.known.store(0, Ordering::Relaxed);
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

/// Finds the state of the calling thread, whose `pthread_self()` is `own_id`. `specific` gets what the thread stores under a key;
/// `cached` keeps, for the thread, what a search of the lists found.
///
/// `None` for a thread that never ran Python, and while the interpreter starts or ends.
///
/// # Signal safety
/// Guarded reads, relaxed atomics, `specific`.
#[inline]
pub fn find(
    memory: &impl Memory,
    interpreter: &Interpreter,
    key: &Key,
    own_id: u64,
    specific: impl Fn(u32) -> u64,
    cached: &mut u64,
) -> Option<u64> {
    let owned = |thread: u64| {
        thread != 0
            && memory.read_u64(thread.wrapping_add(interpreter.layout.thread.id)) == Some(own_id)
    };
    match interpreter.layout.thread.lookup {
        ThreadLookup::Storage {
            key: expected,
            holder_before,
        } => {
            let known = key.known.load(Ordering::Relaxed);
            let thread = match known.checked_sub(1) {
                Some(known) => {
                    let thread = specific(known);
                    if !owned(thread) {
                        key.forget_if_changed(memory, interpreter);
                        return None;
                    }
                    thread
                }
                None => search(memory, interpreter, key, expected, &owned, &specific)?,
            };
            // Before 3.12 a thread that entered another interpreter keeps its first state in the storage.
            let holder = holder_before.and_then(|before| {
                let place = u64::from(key.place.load(Ordering::Relaxed));
                memory.read_u64(interpreter.runtime.wrapping_add(place.wrapping_sub(before)))
            });
            Some(
                holder
                    .filter(|holder| *holder != thread && owned(*holder))
                    .unwrap_or(thread),
            )
        }
        ThreadLookup::Lists => {
            let lists = &interpreter.layout.thread.lists;
            if !is_listed(memory, interpreter, *cached) || !owned(*cached) {
                *cached = find_listed(memory, interpreter, lists, &owned).unwrap_or(0);
            }
            Some(*cached).filter(|thread| *thread != 0)
        }
    }
}

/// The states of a thread that has entered several interpreters.
#[derive(Debug, Default)]
pub struct States {
    states: [u64; STATES_MAX],
    count: usize,
}

impl States {
    /// Adds one, if it has frames, is not there yet, and there is room.
    pub fn add(&mut self, memory: &impl Memory, interpreter: &Interpreter, thread: u64) {
        if !self.as_slice().contains(&thread)
            && stack::is_running(memory, interpreter, thread)
            && let Some(place) = self.states.get_mut(self.count)
        {
            *place = thread;
            self.count = self.count.wrapping_add(1);
        }
    }

    /// Them.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        self.states.get(..self.count).unwrap_or(&[])
    }
}

/// Whether there are other interpreters than the main one.
///
/// # Signal safety
/// Guarded reads.
#[inline]
#[must_use]
pub fn has_several(memory: &impl Memory, interpreter: &Interpreter) -> bool {
    let lists = &interpreter.layout.thread.lists;
    let first = memory.read_u64(interpreter.runtime.wrapping_add(lists.first_interpreter));
    let next = first
        .filter(|first| *first != 0)
        .and_then(|first| memory.read_u64(first.wrapping_add(lists.next_interpreter)));
    next.is_some_and(|next| next != 0)
}

/// All states that the calling thread has frames in. `found` is what [`find`] says, `sp` its stack pointer; the others are as there.
///
/// A script that ran in a sub-interpreter ran in 3.11 and 3.12 with the state of the thread that made it, which is known by where on the stack it was
/// entered.
///
/// # Signal safety
/// As [`list`].
#[cold]
#[inline(never)]
pub fn find_all(
    memory: &impl Memory,
    interpreter: &Interpreter,
    key: &Key,
    found: Option<u64>,
    (own_id, sp): (u64, u64),
    specific: impl Fn(u32) -> u64,
) -> States {
    let layout = &interpreter.layout.thread;
    let mut states = States::default();
    let stack = stack::stack_of(own_id, sp);
    let is_here = |thread: u64| {
        let id = memory.read_u64(thread.wrapping_add(layout.id));
        stack::is_entered_on(memory, interpreter, thread, id == Some(own_id), &stack)
    };
    // Where the stack tells no order, the state that the thread had first is the outermost.
    let known = key.known.load(Ordering::Relaxed).checked_sub(1);
    let first = match layout.lookup {
        ThreadLookup::Storage { .. } => known.map(specific).filter(|first| *first != 0),
        ThreadLookup::Lists => None,
    };
    if let Some(found) = found.filter(|found| first != Some(*found) && is_here(*found)) {
        states.add(memory, interpreter, found);
    }
    // Where the lists change on the way, what was found by then is what there is.
    let _ = list(memory, interpreter, |_, thread| {
        if thread != 0 && Some(thread) != first && is_here(thread) {
            states.add(memory, interpreter, thread);
        }
        Some(())
    });
    if let Some(first) = first.filter(|first| is_here(*first)) {
        states.add(memory, interpreter, first);
    }
    states
}

/// Finds the key, first where it is expected, then anywhere: a `Py_tss_t` (initialised, key) under which this thread stores a thread
/// state that bears its own id.
#[cold]
#[inline(never)]
fn search(
    memory: &impl Memory,
    interpreter: &Interpreter,
    key: &Key,
    expected: u64,
    owned: &impl Fn(u64) -> bool,
    specific: &impl Fn(u32) -> u64,
) -> Option<u64> {
    let try_at = |offset: u64| {
        let pair = memory.read_u64(interpreter.runtime.wrapping_add(offset))?;
        let number = (pair >> 32) as u32;
        if pair as u32 != 1 || number >= KEYS {
            return None;
        }
        Some((specific(number), number))
    };
    let accept = |offset: u64, number: u32| {
        key.place.store(offset as u32, Ordering::Relaxed);
        key.known.store(number.wrapping_add(1), Ordering::Relaxed);
    };
    if let Some((thread, number)) = try_at(expected) {
        if owned(thread) {
            accept(expected, number);
            return Some(thread);
        }
        if thread == 0 {
            // Most likely a thread that never ran Python.
            return None;
        }
    }
    if key.searches.fetch_add(1, Ordering::Relaxed) >= SEARCHES {
        key.searches.store(SEARCHES, Ordering::Relaxed);
        return None;
    }
    (0..SEARCHED / 4)
        .map(|number| number.wrapping_mul(4))
        .find_map(|offset| {
            let (thread, number) = try_at(offset)?;
            owned(thread).then(|| {
                accept(offset, number);
                thread
            })
        })
}

/// Whether a thread state that was found in a list still hangs in it.
#[inline]
fn is_listed(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> bool {
    // With several interpreters a thread may have several states: look for the active one.
    thread != 0 && !has_several(memory, interpreter) && is_linked(memory, interpreter, thread)
}

/// Whether a thread state hangs in the list of its interpreter. The memory of one that is gone may still say what it said.
///
/// # Signal safety
/// Guarded reads.
#[inline]
#[must_use]
pub fn is_linked(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> bool {
    let layout = &interpreter.layout.thread;
    let lists = &layout.lists;
    let linked = || {
        let link = match memory.read_u64(thread.wrapping_add(lists.previous_thread))? {
            0 => memory
                .read_u64(thread.wrapping_add(layout.interpreter))?
                .wrapping_add(lists.first_thread),
            before => before.wrapping_add(lists.next_thread),
        };
        Some(memory.read_u64(link)? == thread)
    };
    linked() == Some(true)
}

/// Searches the lists of all interpreters. The list may change meanwhile: then the search finds nothing, or an own state.
#[cold]
#[inline(never)]
fn find_listed(
    memory: &impl Memory,
    interpreter: &Interpreter,
    lists: &Lists,
    owned: &impl Fn(u64) -> bool,
) -> Option<u64> {
    // Bits of `_status` in 3.14: bound_gilstate and active.
    const BOUND: u32 = 1 << 3;
    const ACTIVE: u32 = 1 << 4;
    let mut best: Option<(u32, u64)> = None;
    list(memory, interpreter, |_, thread| {
        if owned(thread) {
            let status = lists.status.map_or(Some(0), |offset| {
                memory.read_u32(thread.wrapping_add(offset))
            });
            let rank = status? & (ACTIVE | BOUND);
            if best.is_none_or(|(other, _)| rank > other) {
                best = Some((rank, thread));
            }
        }
        Some(())
    })?;
    best.map(|(_, thread)| thread)
}

/// Hands the states of all threads to `each`, as (interpreter, thread), until it answers `None`. Behind those of each interpreter comes
/// one call with 0 in place of a thread. `None` when something could not be read, or `each` had enough.
///
/// # Signal safety
/// Guarded reads; bounded.
pub fn list(
    memory: &impl Memory,
    interpreter: &Interpreter,
    mut each: impl FnMut(u64, u64) -> Option<()>,
) -> Option<()> {
    let lists = &interpreter.layout.thread.lists;
    let mut state = memory.read_u64(interpreter.runtime.wrapping_add(lists.first_interpreter))?;
    for _ in 0..INTERPRETERS_MAX {
        if state == 0 {
            break;
        }
        let mut thread = memory.read_u64(state.wrapping_add(lists.first_thread))?;
        for _ in 0..THREADS_MAX {
            if thread == 0 {
                break;
            }
            each(state, thread)?;
            thread = memory.read_u64(thread.wrapping_add(lists.next_thread))?;
        }
        each(state, 0)?;
        state = memory.read_u64(state.wrapping_add(lists.next_interpreter))?;
    }
    Some(())
}
