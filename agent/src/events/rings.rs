//! Rings for events: one for each thread that records events.
//!
//! They are the items of a pool ([`crate::channel::pool`]).

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use rsys_unwind::LastWalk;
use rsys_wire::event;
use rsys_wire::handshake::HelloKind;
use rsys_wire::layout::Counter;
use rsys_wire::ring::{DropCause, Producer, RingCount};
use rsys_wire::sources::WhenFull;

use crate::channel::counters;
use crate::channel::pool::{Pool, Shape};
use crate::code::object::Object;
use crate::events::interrupted;
use crate::sampling::seen::MOST_NEW;
use crate::state;
use crate::state::{deferred, departure};
use crate::sys;
use crate::sys::apart;
use crate::sys::lock::without_signals;
use crate::thread_words;

/// Words of a ring: a megabyte, of which only what is used is ever touched.
const RING_WORDS: u32 = 128 * 1024;
const FIRST_RINGS: u32 = 4;
const MOST_RINGS: u32 = 256;
/// Deepest call stack of a launch.
pub const STACK_DEPTH: usize = 256;
/// A thread waits so long for a sampler that neither reads nor works, once; then it drops events until something was read.
const PATIENCE_NS: u64 = 2_000_000_000;
/// First and longest pause of a thread that waits: a hundred of them must leave the sampler the processors that it needs.
const NAPS_NS: [u64; 2] = [50_000, 2_000_000];

/// A ring and what its thread needs to write into it.
#[derive(Debug)]
pub struct EventRing {
    producer: Producer<'static>,
    /// [`interrupted::frame`] of who writes, or 0: a signal handler of the program may record an event meanwhile.
    writer: AtomicUsize,
    /// The reader's place when waiting for it was given up, plus one; 0 when it was not.
    stalled: AtomicU64,
    /// Room for a call stack.
    pub frames: UnsafeCell<[u64; STACK_DEPTH]>,
    /// What the walk to the last of them went by.
    pub last_walk: UnsafeCell<LastWalk>,
    /// Hashes of its outermost frames; see [`crate::events::stacks`].
    pub hashes: UnsafeCell<[u64; STACK_DEPTH]>,
    /// Room for its Python frames.
    pub python_frames: UnsafeCell<[u64; STACK_DEPTH]>,
    /// What is known of the thread's Python; see [`crate::sampling::python::ThreadFrames`].
    pub python_thread: UnsafeCell<u64>,
    /// Room for the modules that it shows for the first time.
    pub new_modules: UnsafeCell<[Object; MOST_NEW]>,
}

impl EventRing {
    /// The writing end, for [`put_in`]'s function.
    pub fn producer(&self) -> &Producer<'static> {
        &self.producer
    }
}

/// All rings.
static POOL: Pool = Pool::new();

const SHAPE: Shape = Shape {
    kinds: [HelloKind::Events, HelloKind::Events],
    rings: [FIRST_RINGS, MOST_RINGS],
    ring_words: RING_WORDS,
    stride: size_of::<EventRing>(),
    offset: 0,
    furnish,
    is_idle,
};

/// Makes an unused ring.
///
/// # Safety
/// `ring` must have room for an [`EventRing`], zeroed: its buffers are valid as zeros and left untouched.
unsafe fn furnish(ring: *mut u8, producer: Producer<'static>) {
    let ring = ring.cast::<EventRing>();
    // SAFETY: as the caller says.
    unsafe {
        (&raw mut (*ring).producer).write(producer);
        (&raw mut (*ring).writer).write(AtomicUsize::new(0));
        (&raw mut (*ring).stalled).write(AtomicU64::new(0));
    }
}

/// Whether no thread records into a ring.
///
/// # Safety
/// `ring` must be one that was furnished.
unsafe fn is_idle(_ring: *mut u8) -> bool {
    // Events are not recorded in attached processes: no ring is ever laid aside.
    false
}

thread_words! {
    /// The word with the calling thread's ring.
    fn word() -> *mut *mut EventRing = "rsys_event_ring"
}

/// The calling thread's ring, or null.
#[inline]
fn own() -> *mut EventRing {
    // SAFETY: the thread's own word.
    unsafe { *word() }
}

fn set_own(ring: *mut EventRing) {
    // SAFETY: as above.
    unsafe { *word() = ring }
}

const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// Makes the key whose destructor gives rings back.
#[unsafe(link_section = "rsys_start")]
pub fn register_hook() {
    let mut key = 0;
    // SAFETY: `key` is valid; the destructor has the right signature.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(on_thread_end)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
    }
}

/// Has the C library make room for the key in the calling thread: for its first value it may allocate, which the handler that claims a ring must not.
pub fn make_room_for_key() {
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY && own().is_null() {
        // SAFETY: the key exists; without a value nothing is called at the end.
        unsafe {
            libc::pthread_setspecific(key, (&raw const KEY).cast());
            libc::pthread_setspecific(key, std::ptr::null());
        }
    }
}

/// # Safety
/// As the C library calls it: with a ring of the thread that ends.
unsafe extern "C" fn on_thread_end(ring: *mut c_void) {
    set_own(std::ptr::null_mut());
    // SAFETY: the key's value is a ring of ours, which is never unmapped but in a fork child, whose key was reset.
    if let Some(ring) = unsafe { ring.cast::<EventRing>().as_ref() } {
        ring.producer.header().release();
    }
}

/// Writes an event into the calling thread's ring. Returns whether it is there.
#[inline]
pub fn put(when_full: WhenFull, write: impl Fn(&Producer<'static>) -> bool) -> bool {
    put_in(|ring| ring.put(when_full, &write))
}

/// Counts a call or operation of the calling thread's, in its ring if it has one.
#[inline]
pub fn count(what: RingCount) {
    // SAFETY: a ring is never unmapped while a thread knows it.
    match unsafe { own().as_ref() } {
        Some(ring) => ring.producer.header().count(what),
        None => counters::count(what.of_process(), 1),
    }
}

/// Does something with the calling thread's ring, unless there is none or it is being written into.
#[inline]
pub fn put_in(what: impl FnOnce(&EventRing) -> bool) -> bool {
    let mut known = own();
    if known.is_null() {
        known = claim();
    }
    // SAFETY: a ring is never unmapped while a thread knows it.
    let Some(ring) = (unsafe { known.as_ref() }) else {
        counters::count(Counter::EventsWithoutRing, 1);
        return false;
    };
    if counters::is_sampler_gone() {
        departure::leave();
    }
    if !state::is_active() {
        return false;
    }
    let (here, writer) = (interrupted::frame(), ring.writer.load(Ordering::Relaxed));
    if writer != 0 && !interrupted::is_gone(writer, here) {
        ring.producer.header().count_drop(DropCause::Busy, 0);
        return false;
    }
    ring.writer.store(here, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let done = what(ring);
    compiler_fence(Ordering::SeqCst);
    ring.writer.store(0, Ordering::Relaxed);
    done
}

impl EventRing {
    /// Writes; what happens if there is no room, the caller says.
    #[inline]
    fn put(&self, when_full: WhenFull, write: &impl Fn(&Producer<'static>) -> bool) -> bool {
        match when_full {
            WhenFull::Wait => self.put_or_wait(write),
            WhenFull::Drop => write(&self.producer) || self.count_drop(),
        }
    }

    #[cold]
    fn count_drop(&self) -> bool {
        self.producer.header().count_drop(DropCause::RingFull, 0);
        false
    }

    /// Writes, and waits for room if there is none.
    #[inline]
    pub fn put_or_wait(&self, write: &impl Fn(&Producer<'static>) -> bool) -> bool {
        let done = write(&self.producer);
        self.fetch_ahead();
        done || self.wait_and_put(write)
    }

    /// Has the processor fetch what the next records will be written to: the sampler's processor read it last, and the first locked instruction after
    /// a store to such a line would wait for it.
    #[inline]
    fn fetch_ahead(&self) {
        /// Words: some two launches ahead, a cache line each.
        const AHEAD: [u64; 2] = [32, 40];
        for words in AHEAD {
            if let Some(word) = self.producer.ahead(words) {
                apart::fetch_for_writing(word);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_and_put(&self, write: &impl Fn(&Producer<'static>) -> bool) -> bool {
        let header = self.producer.header();
        let place = || {
            (
                header.tail.load(Ordering::Relaxed),
                counters::sampler_work(),
            )
        };
        let mut seen = place();
        let given_up = self.stalled.load(Ordering::Relaxed) == seen.0.wrapping_add(1);
        if !given_up {
            let mut since = sys::boottime_ns();
            let [mut nap_ns, longest_ns] = NAPS_NS;
            // Where a filter allows no sleep, there is no waiting.
            while sys::nap(nap_ns) {
                nap_ns = longest_ns.min(nap_ns.wrapping_mul(2));
                if write(&self.producer) {
                    return true;
                }
                if counters::is_sampler_gone() {
                    departure::leave();
                    return false;
                }
                let now = sys::boottime_ns();
                let moved = place();
                if moved != seen {
                    (seen, since) = (moved, now);
                } else if now.wrapping_sub(since) > PATIENCE_NS {
                    self.stalled
                        .store(seen.0.wrapping_add(1), Ordering::Relaxed);
                    if !counters::has_sampler() {
                        // It ended before it had mapped the segment.
                        departure::leave();
                    }
                    break;
                }
            }
        }
        self.count_drop()
    }
}

/// Gets the calling thread its ring before system calls may be forbidden.
pub fn prepare() {
    if state::is_active() && state::settings().events.any() && own().is_null() {
        claim();
    }
}

thread_words! {
    /// Not 0 while the calling thread claims its ring.
    fn claiming() -> *mut u64 = "rsys_event_claiming"
}

/// Claims a ring for the calling thread; null in a handler that interrupts that.
#[cold]
#[inline(never)]
fn claim() -> *mut EventRing {
    without_signals(|| {
        // SAFETY: the thread's own word; so below.
        if unsafe { claiming().replace(1) } != 0 {
            return std::ptr::null_mut();
        }
        let ring = claim_now();
        // SAFETY: as above.
        unsafe { claiming().write(0) };
        ring
    })
}

fn claim_now() -> *mut EventRing {
    if !own().is_null() {
        return own();
    }
    if !state::is_active() || !state::is_own_process() {
        return std::ptr::null_mut();
    }
    if !deferred::start() {
        return std::ptr::null_mut();
    }
    // A filter may forbid to ask.
    let Some(tid) = sys::known_tid() else {
        return std::ptr::null_mut();
    };
    let Ok(ring) = POOL.claim_or_grow(&SHAPE) else {
        return std::ptr::null_mut();
    };
    let ring = ring.cast::<EventRing>();
    // SAFETY: claimed for this thread.
    let state = unsafe { &*ring };
    state.writer.store(0, Ordering::Relaxed);
    state.stalled.store(0, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        *state.python_thread.get() = 0;
        (*state.last_walk.get()).forget();
    }
    set_own(ring);
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, ring.cast()) };
    }
    let (time_ns, name) = (sys::boottime_ns(), sys::thread_name());
    state.put_or_wait(&|ring| event::put_thread(ring, time_ns, tid, &name));
    ring
}

/// Gives the shared memory back, which has no reader any more.
///
/// # Signal safety
/// Walks an immutable list; system calls.
pub fn give_back() {
    POOL.give_back();
}

/// Forgets the parent's rings in a fork child.
pub fn forget_parents() {
    set_own(std::ptr::null_mut());
    // A child of raw `clone`s in a handler, say.
    // SAFETY: the thread's own word.
    unsafe { claiming().write(0) };
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
    }
    POOL.forget_parents(|_| {});
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_wire::event::{Arg, Category, Key, Value};
    use rsys_wire::ring::RingHeader;

    /// A ring with room for a few events, which nothing reads.
    fn ring() -> Box<EventRing> {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let header = Box::leak(Box::new(RingHeader::new()));
        let producer = Producer::new(header, Vec::leak(words)).expect("a power of two");
        // SAFETY: what `furnish` leaves as it is, is valid as zeros.
        let mut ring: Box<EventRing> = unsafe { Box::new_zeroed().assume_init() };
        // SAFETY: a ring of this size.
        unsafe { furnish((&raw mut *ring).cast(), producer) };
        ring
    }

    fn write(ring: &Producer<'static>) -> bool {
        let args: [Arg<'_>; 1] = [(Key::Bytes, Value::Uint(1))];
        event::put_begin(ring, 1, Category::Hip, 0, (1, false), args.as_slice())
    }

    #[test]
    fn what_finds_no_room_is_dropped_without_a_wait_where_its_source_says_so() {
        let ring = ring();
        let dropped =
            || ring.producer.header().dropped[DropCause::RingFull as usize].load(Ordering::Relaxed);
        while write(&ring.producer) {}
        assert!(!ring.put(WhenFull::Drop, &write));
        assert_eq!(dropped(), 1);
        // A wait in vain leaves its mark.
        assert_eq!(ring.stalled.load(Ordering::Relaxed), 0);
        assert!(!ring.put(WhenFull::Wait, &write));
        assert_eq!(dropped(), 2);
        assert_eq!(ring.stalled.load(Ordering::Relaxed), 1);
    }
}
