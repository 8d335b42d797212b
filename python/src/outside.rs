//! What is known of a thread from outside of its process: its kernel's id, and the word that it waits on.
//!
//! The thread's own storage cannot be asked from there, so its state is found in the lists of the interpreters. They change while they
//! are read: what was found is to be looked at again with [`belongs_to`] whenever it is used.

use core::ops::Range;

use rsys_unwind::Memory;

use crate::interpreter::Interpreter;
use crate::layout::Lock;
use crate::thread;

/// Offset of `tid` in glibc's `struct pthread`, which `pthread_self()` points to: the same in all versions since 2.4, for debuggers
/// depend on it.
const GLIBC_TID: u64 = 720;

/// Bytes of `struct _gil_runtime_state` on a 64-bit machine: counters, then two conditions and two mutexes.
const LOCK_BYTES: u64 = 208;
/// The same where it says first whether it is in use.
const LOCK_BYTES_FREE_THREADED: u64 = 216;

/// The id that a thread state notes of its thread, as its own process knows it: from 3.11 on, and not anew where C code forks.
#[must_use]
pub fn noted_tid(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<u32> {
    let offset = interpreter.layout.thread.native_id?;
    let tid = memory.read_u64(thread.wrapping_add(offset))?;
    u32::try_from(tid).ok().filter(|tid| *tid != 0)
}

/// The id that the C library knows of a state's thread.
#[must_use]
pub fn library_tid(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<u32> {
    let handle = memory.read_u64(thread.wrapping_add(interpreter.layout.thread.id))?;
    let place = handle.checked_add(GLIBC_TID)?;
    memory.read_u32(place).filter(|_| handle != 0)
}

/// The kernel's id of a state's thread, as far as either of them says it.
#[must_use]
pub fn tid(memory: &impl Memory, interpreter: &Interpreter, thread: u64) -> Option<u32> {
    noted_tid(memory, interpreter, thread).or_else(|| library_tid(memory, interpreter, thread))
}

/// Whether a thread state is in use, and that of the thread that its own process knows as `tid`.
#[must_use]
pub fn belongs_to(memory: &impl Memory, interpreter: &Interpreter, thread: u64, tid: u32) -> bool {
    thread::is_linked(memory, interpreter, thread)
        && (noted_tid(memory, interpreter, thread) == Some(tid)
            || library_tid(memory, interpreter, thread) == Some(tid))
}

/// The memory of the lock (GIL) that the thread states of an interpreter's state share. A thread that waits on a word in it waits for
/// the lock, or, for an instant, until another thread has taken it.
#[must_use]
pub fn lock(memory: &impl Memory, interpreter: &Interpreter, state: u64) -> Option<Range<u64>> {
    let start = match interpreter.layout.lock {
        Lock::InRuntime(offset) => interpreter.runtime.wrapping_add(offset),
        Lock::BehindInterpreter(offset) => memory
            .read_u64(state.wrapping_add(offset))
            .filter(|lock| *lock != 0)?,
    };
    let bytes = match interpreter.layout.free_threaded {
        true => LOCK_BYTES_FREE_THREADED,
        false => LOCK_BYTES,
    };
    Some(start..start.checked_add(bytes)?)
}

/// The kernel's id of the thread that holds the interpreter's lock, which [`lock`] has found; `None` where it is free.
#[must_use]
pub fn lock_holder(
    memory: &impl Memory,
    interpreter: &Interpreter,
    lock: &Range<u64>,
) -> Option<u32> {
    tid(
        memory,
        interpreter,
        lock_holder_state(memory, interpreter, lock)?,
    )
}

/// The thread state that holds the interpreter's lock; `None` where it is free.
///
/// `struct _gil_runtime_state` (pycore_gil.h of 3.8 to 3.15): where there may be no lock, an `int` that says whether there is; an interval; the
/// last holder; an `int` that says whether that holds it still.
#[must_use]
pub fn lock_holder_state(
    memory: &impl Memory,
    interpreter: &Interpreter,
    lock: &Range<u64>,
) -> Option<u64> {
    let last = lock
        .start
        .wrapping_add(if interpreter.layout.free_threaded {
            16
        } else {
            8
        });
    let state = memory.read_u64(last).filter(|state| *state != 0)?;
    let is_held = memory.read_u32(last.wrapping_add(8))? == 1;
    is_held.then_some(state)
}
