//! The stack of a thread that takes a lock, walked once and recognised when it comes again.
//!
//! A stack is recognised by its stack pointer and by the return addresses of its frames, which must still stand where they stood when
//! it was walked. That costs a few nanoseconds instead of a microsecond. With Python frames it is walked each time, for these change
//! while the native ones stay.

use crate::code::modules;
use crate::events;
use crate::sys;
use crate::sys::guard::read_u64;
use rsys_wire::record::FRAME_ADDRESS;

/// Stacks that a thread remembers.
const STACKS: usize = 16;
/// Frames by which one is recognised.
const FRAMES: usize = 24;
/// How far apart two return addresses are looked for, in words.
const WIDEST_FRAME: u32 = 16 * 1024;
/// Walks that a thread may make at once, and in a second from then on.
const WALKS: u64 = 4_000;

/// Where a lock's function returns to, and its stack pointer then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The return address.
    pub address: u64,
    /// The stack pointer after the return.
    pub stack: u64,
}

/// A stack that was walked.
#[derive(Debug)]
struct Known {
    caller: Caller,
    generation: u64,
    id: u64,
    count: u32,
    /// Where the return addresses stand, in words above the stack pointer.
    places: [u32; FRAMES],
    addresses: [u64; FRAMES],
}

/// The stacks of one thread. Valid as zeros.
#[derive(Debug)]
pub struct Stacks {
    known: [Known; STACKS],
    /// Walks that were made since `since_ns`.
    walks: u64,
    since_ns: u64,
}

/// What was recorded, or means something else now, has another number.
fn generation() -> u64 {
    u64::from(modules::libraries_generation()) ^ events::generation() << 40
}

impl Known {
    fn is_still_there(&self, caller: Caller) -> bool {
        self.caller == caller
            && self.generation == generation()
            && self
                .places
                .iter()
                .zip(&self.addresses)
                .take(self.count as usize)
                .all(|(place, address)| word_at(caller, *place) == Some(*address))
    }

    /// Notes where the frames' return addresses stand. False when one is not found.
    fn note(&mut self, caller: Caller, frames: &[u64]) -> bool {
        let mut place = 0_u32;
        self.count = 0;
        // The first is the caller's own.
        let rest = frames.iter().skip(1).map(|word| word & FRAME_ADDRESS);
        for ((address, to), kept) in rest.zip(&mut self.places).zip(&mut self.addresses) {
            let last = place.saturating_add(WIDEST_FRAME);
            let found = (place..last)
                .map_while(|at| Some((at, word_at(caller, at)?)))
                .find(|(_, word)| *word == address);
            let Some((at, _)) = found else { return false };
            (*to, *kept) = (at, address);
            self.count = self.count.wrapping_add(1);
            place = at.wrapping_add(1);
        }
        true
    }
}

#[inline]
fn word_at(caller: Caller, place: u32) -> Option<u64> {
    read_u64(caller.stack.wrapping_add(u64::from(place).wrapping_mul(8)))
}

impl Stacks {
    /// The id of the calling thread's stack, recorded if that was not done before. 0 when it cannot be, or when the thread has walked too
    /// many stacks lately.
    pub fn id(&mut self, caller: Caller) -> u64 {
        let hash =
            (caller.address ^ caller.stack.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (hash >> 60) as usize % STACKS;
        let Some(known) = self.known.get_mut(place) else {
            return 0;
        };
        if known.is_still_there(caller) {
            return known.id;
        }
        if !may_walk(&mut self.walks, &mut self.since_ns) {
            return 0;
        }
        let mut is_whole = false;
        known.caller = Caller {
            address: 0,
            stack: 0,
        };
        let id = events::launch_stack_with(|frames, has_python| {
            is_whole = !has_python && known.note(caller, frames);
        })
        .id;
        if is_whole && id != 0 {
            known.id = id;
            known.generation = generation();
            known.caller = caller;
        }
        id
    }
}

/// Whether one more walk is no burden yet.
fn may_walk(walks: &mut u64, since_ns: &mut u64) -> bool {
    const SECOND_NS: u64 = 1_000_000_000;
    if *walks >= WALKS {
        let now = sys::boottime_ns();
        if now.wrapping_sub(*since_ns) < SECOND_NS {
            return false;
        }
        (*walks, *since_ns) = (0, now);
    }
    *walks = walks.wrapping_add(1);
    true
}
