//! The calls that the program has made and the library has not begun yet: by them its events are joined to ours.
//!
//! The library numbers collectives by their kind, groups may be launched in another order than they were called in, and counts are turned into bytes
//! on the way. The buffers stay what they are, and no two GPUs have the same.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::events::texts;
use crate::sources::rccl::profiler::abi::Task;
use crate::sources::rccl::profiler::contexts::Context;

const SETS: usize = 512;
const WAYS: usize = 8;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Key of its name.
    pub name: u64,
    /// Key of the communicator's name, or 0.
    pub communicator: u64,
    /// Its rank and number of ranks, if known.
    pub rank: Option<u64>,
    pub ranks: Option<u64>,
    /// The operation's number on the communicator, if known.
    pub sequence: Option<u64>,
    /// The call's correlation.
    pub correlation: u64,
}

/// A call that waits. All words but the first two are as they are in [`Call`], with 0 for what is not known, and 1 more than what is.
#[derive(Debug)]
struct Entry {
    key: AtomicU64,
    order: AtomicU64,
    words: [AtomicU64; 6],
}

static TABLE: [[Entry; WAYS]; SETS] = [const {
    [const {
        Entry {
            key: AtomicU64::new(0),
            order: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; 6],
        }
    }; WAYS]
}; SETS];

/// While an entry is being written.
const BEING_MADE: u64 = 1;

/// What identifies a call: function and buffers.
fn key(function: &[u8], send: *const c_void, receive: *const c_void) -> u64 {
    let function = match function {
        b"Bcast" => b"Broadcast",
        function => function,
    };
    let mut words = [0_u8; 24];
    let parts = [
        texts::hash(function),
        send.addr() as u64,
        receive.addr() as u64,
    ];
    for (to, from) in words.chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    texts::hash(&words) | 2
}

fn set(key: u64) -> &'static [Entry; WAYS] {
    &TABLE[(key >> 32) as usize % SETS]
}

/// A call that was announced, by which it is taken back.
#[derive(Debug, Clone, Copy)]
pub struct Announced {
    key: u64,
    order: u64,
}

/// The program calls `function` (with the library's prefix, as `ncclAllReduce`) with these buffers.
pub fn announce(function: &str, buffers: [*const c_void; 2], call: &Call) -> Announced {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let function = function.strip_prefix("nccl").unwrap_or(function);
    let key = key(function.as_bytes(), buffers[0], buffers[1]);
    let order = NEXT.fetch_add(1, Ordering::Relaxed);
    let rank = |entry: &&Entry| {
        let is_free = entry.key.load(Ordering::Relaxed) == 0;
        (!is_free, entry.order.load(Ordering::Relaxed))
    };
    if let Some(entry) = set(key).iter().min_by_key(rank) {
        let was = entry.key.load(Ordering::Relaxed);
        let is_taken = was != BEING_MADE
            && entry
                .key
                .compare_exchange(was, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if is_taken {
            let known = |number: Option<u64>| number.map_or(0, |number| number.wrapping_add(1));
            let values = [
                call.name,
                call.communicator,
                known(call.rank),
                known(call.ranks),
                known(call.sequence),
                call.correlation,
            ];
            for (word, value) in entry.words.iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            entry.order.store(order, Ordering::Relaxed);
            entry.key.store(key, Ordering::Release);
        }
    }
    Announced { key, order }
}

/// The call is over, and what it made has begun by now, if it does at all.
pub fn withdraw(announced: Announced) {
    let is_it = |entry: &&Entry| {
        entry.key.load(Ordering::Acquire) == announced.key
            && entry.order.load(Ordering::Relaxed) == announced.order
    };
    if let Some(entry) = set(announced.key).iter().find(is_it) {
        let none = (Ordering::Relaxed, Ordering::Relaxed);
        // Where that fails, somebody has taken it.
        _ = entry.key.compare_exchange(announced.key, 0, none.0, none.1);
    }
}

impl Entry {
    fn call(&self) -> Call {
        let word = |place: usize| {
            self.words
                .get(place)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let known = |place| word(place).checked_sub(1);
        Call {
            name: word(0),
            communicator: word(1),
            rank: known(2),
            ranks: known(3),
            sequence: known(4),
            correlation: word(5),
        }
    }
}

/// The oldest call that may have made this task of a communicator.
pub fn take(task: &Task, context: &Context) -> Option<Call> {
    if task.function.is_null() {
        return None;
    }
    // SAFETY: the library's name of the function, which it keeps.
    let function = unsafe { CStr::from_ptr(task.function) }.to_bytes();
    let key = key(function, task.send, task.receive);
    let is_of = |call: &Call| {
        let same = |known: i32, said: Option<u64>| match (u64::try_from(known), said) {
            (Ok(known), Some(said)) => known == said,
            _ => true,
        };
        let communicator = context.communicator.load(Ordering::Relaxed);
        same(context.rank.load(Ordering::Relaxed), call.rank)
            && same(context.ranks.load(Ordering::Relaxed), call.ranks)
            && (communicator == 0 || call.communicator == communicator)
    };
    let entry = set(key)
        .iter()
        .filter(|entry| entry.key.load(Ordering::Acquire) == key && is_of(&entry.call()))
        .min_by_key(|entry| entry.order.load(Ordering::Relaxed))?;
    let call = entry.call();
    entry
        .key
        .compare_exchange(key, 0, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
        .then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::rccl::profiler::contexts;

    fn call(sequence: u64, rank: u64) -> Call {
        Call {
            name: 1,
            communicator: 7 + rank,
            rank: Some(rank),
            ranks: Some(2),
            sequence: Some(sequence),
            correlation: 3,
        }
    }

    #[test]
    fn tasks_find_their_calls_oldest_first_and_of_their_own_rank() {
        let at = |address| std::ptr::without_provenance::<c_void>(address);
        let task = Task {
            function: c"AllReduce".as_ptr(),
            send: at(0x1000),
            receive: at(0x2000),
        };
        let context = contexts::claim().expect("room");
        context.rank.store(1, Ordering::Relaxed);
        context.ranks.store(2, Ordering::Relaxed);
        let buffers = [task.send, task.receive];
        announce("ncclAllReduce", buffers, &call(0, 0));
        announce("ncclAllReduce", buffers, &call(4, 1));
        let withdrawn = announce("ncclAllReduce", buffers, &call(5, 1));
        announce("ncclAllReduce", buffers, &call(6, 1));
        announce("ncclReduce", buffers, &call(7, 1));
        withdraw(withdrawn);
        assert_eq!(take(&task, context), Some(call(4, 1)));
        assert_eq!(take(&task, context), Some(call(6, 1)));
        assert_eq!(take(&task, context), None);
        context.release();
    }
}
