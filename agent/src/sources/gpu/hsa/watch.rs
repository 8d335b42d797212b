//! Which of the program's signals belongs to an operation in flight.
//!
//! The program uses a signal again as soon as it has seen it complete. A thread that is about to use or destroy one takes the times of the
//! operation before first ([`settle`]). The table is open addressing over atomics: no lock, and nothing but loads when a signal is not
//! there.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rsys_wire::event::OpKind;
use rsys_wire::layout::Counter;

use crate::sources::gpu::hsa::abi::{SUCCESS, Signal, Times};
use crate::sources::gpu::hsa::operations::{self, Phase, Ticket};
use crate::sources::gpu::hsa::table;
use crate::sys;

const ENTRIES: usize = 1 << 18;
const PROBES: usize = 128;
/// A place whose signal was destroyed.
const GONE: u64 = 1;

#[derive(Debug)]
struct Entry {
    signal: AtomicU64,
    ticket: AtomicU64,
}

static TABLE: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the table. Returns whether there was memory.
pub fn start() -> bool {
    if !TABLE.load(Ordering::Acquire).is_null() {
        return true;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let Ok(memory) = sys::mmap(ENTRIES * size_of::<Entry>(), flags, -1) else {
        return false;
    };
    TABLE.store(memory.cast(), Ordering::Release);
    true
}

fn entries() -> &'static [Entry] {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return &[];
    }
    // SAFETY: mapped by `start` with this size and zeroed, which is valid, and never unmapped.
    unsafe { std::slice::from_raw_parts(table, ENTRIES) }
}

fn places(signal: u64) -> impl Iterator<Item = &'static Entry> {
    // Signals are 64 bytes and aligned.
    let hash = (signal >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let entries = entries();
    (0..PROBES).filter_map(move |step| {
        entries.get((hash as usize).wrapping_add(step) & ENTRIES.wrapping_sub(1))
    })
}

fn find(signal: u64) -> Option<&'static Entry> {
    for entry in places(signal) {
        match entry.signal.load(Ordering::Acquire) {
            0 => return None,
            found if found == signal => return Some(entry),
            _ => {}
        }
    }
    None
}

/// Notes that a signal belongs to an operation. False when there is no place left.
pub fn note(signal: u64, ticket: Ticket) -> bool {
    if let Some(entry) = find(signal) {
        entry.ticket.store(ticket.to_word(), Ordering::Release);
        return true;
    }
    for entry in places(signal) {
        let found = entry.signal.load(Ordering::Acquire);
        let free = found == 0 || found == GONE;
        if free
            && entry
                .signal
                .compare_exchange(found, signal, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            entry.ticket.store(ticket.to_word(), Ordering::Release);
            return true;
        }
    }
    false
}

/// The collector is done with an operation: its signal is free again, unless it has another already.
pub fn done(signal: u64, ticket: Ticket) {
    if let Some(entry) = find(signal) {
        // Another thread may have put another ticket there first: then there is nothing to do.
        entry
            .ticket
            .compare_exchange(ticket.to_word(), 0, Ordering::AcqRel, Ordering::Relaxed)
            .ok();
    }
}

/// What became of the operation that a signal belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// There is none, or its times were taken.
    Free,
    /// It is not complete: the signal is shared.
    Shared,
}

/// Takes the times of the operation that a signal belongs to, because another is about to be submitted with it.
#[inline]
pub fn settle(signal: u64) -> Settled {
    match find(signal).map(|entry| entry.ticket.swap(0, Ordering::AcqRel)) {
        None | Some(0) => Settled::Free,
        Some(word) => take_times(signal, word, false),
    }
}

/// The same before a signal is destroyed.
pub fn leave(signal: u64) {
    let Some(entry) = find(signal) else { return };
    let word = entry.ticket.swap(0, Ordering::AcqRel);
    take_times(signal, word, true);
    entry.signal.store(GONE, Ordering::Release);
}

#[cold]
fn take_times(handle: u64, word: u64, last: bool) -> Settled {
    let Some(ticket) = Ticket::from_word(word) else {
        return Settled::Free;
    };
    let Some(node) = operations::node(ticket) else {
        return Settled::Free;
    };
    let mut round = 0;
    loop {
        match node.change(ticket, Phase::Pending, Phase::Taking) {
            Ok(()) => break,
            // The collector is reading this very moment.
            Err(true) => sys::back_off(&mut round),
            Err(false) => return Settled::Free,
        }
    }
    // SAFETY: the phase makes the node ours; the signal exists until the caller destroys it.
    let (operation, signal) = unsafe { (node.operation(), Signal::new(handle)) };
    let (Some(operation), Some(signal)) = (operation, signal) else {
        node.set_cause(Counter::GpuTimeFailed);
        node.change(ticket, Phase::Taking, Phase::Dead).ok();
        return Settled::Free;
    };
    let value = signal.value();
    let times = if operation.kind == OpKind::Kernel {
        let (start, end) = signal.ticks();
        (end != 0 || value < operation.value).then_some((start, end))
    } else {
        // A value of 1 was set anew by a program that has seen the copy complete.
        let complete = value < operation.value || last || value <= 1;
        complete.then(|| copy_times(handle)).flatten()
    };
    // A program that shares a signal has raised it for each use; a value of 1 was set for the next one alone.
    let shared = times.is_none() && !last && value > 1;
    match times {
        Some((start, end)) => {
            node.store_times(start, end);
            node.change(ticket, Phase::Taking, Phase::Taken).ok();
        }
        None => {
            node.set_cause(Counter::GpuTimeFailed);
            node.change(ticket, Phase::Taking, Phase::Dead).ok();
        }
    }
    if shared {
        Settled::Shared
    } else {
        Settled::Free
    }
}

/// When a copy began and ended, in nanoseconds, as the runtime reports them.
pub fn copy_times(handle: u64) -> Option<(u64, u64)> {
    let mut times = Times::default();
    let get = table::profiling_get_async_copy_time::get()?;
    // SAFETY: the signal exists, and there is room for the times.
    (unsafe { get(handle, &raw mut times) } == SUCCESS).then_some((times.start, times.end))
}

/// Forgets all signals: their runtime is gone.
pub fn forget() {
    for entry in entries() {
        if entry.signal.load(Ordering::Relaxed) != 0 {
            entry.signal.store(0, Ordering::Relaxed);
            entry.ticket.store(0, Ordering::Relaxed);
        }
    }
}
