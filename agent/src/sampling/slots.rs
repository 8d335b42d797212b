//! Slots: what one sampled thread owns.
//!
//! They are the items of a pool ([`crate::channel::pool`]): each belongs to a ring that is shared with the sampler, and holds the thread's
//! clock, its stack buffers and its alternate signal stack.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rsys_wire::handshake::HelloKind;
use rsys_wire::layout::Counter;
use rsys_wire::ring::Producer;

use crate::channel::counters::{COUNTERS, count, set_counter};
use crate::channel::pool::{Pool, Shape};
use crate::clocks::clock::ThreadClock;
use crate::clocks::thread_counters::Group;
use crate::code::object::Object;
use crate::sampling::buffers::StackBuffers;
use crate::sampling::python::ThreadFrames;
use crate::sampling::seen::MOST_NEW;
use crate::sampling::words;
use crate::signals::believed::Beliefs;
use crate::state;
use crate::sys;
use crate::sys::signal_stack::SIGNAL_STACK_BYTES;

const PAGE: usize = 4096;
const FIRST_RINGS: u32 = 8;
const MOST_RINGS: u32 = 1024;

/// One thread's state, made of its owners' parts. Only the thread that owns it (and its signal handler) touches it, and the thread that ends the
/// process, each while it has it; see [`Slot::occupy`].
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// The start routine; read by the trampoline at offset 0.
    pub start: *mut c_void,
    /// The start routine's argument; read by the trampoline at offset 8.
    pub argument: *mut c_void,
    /// The trampoline's stack pointer, written by itself at offset 16; 0 where none runs.
    pub bottom: u64,
    /// What interrupts the thread.
    pub clock: ThreadClock,
    /// The events that the thread counts.
    pub counters: Group,
    /// Its call stacks.
    pub stacks: StackBuffers,
    /// How the last sample's stack ends, as flags of the sample.
    pub stack_flags: u8,
    /// Its Python frames.
    pub python: ThreadFrames,
    /// Room for the modules that one stack shows for the first time.
    pub new_modules: *mut Object,
    /// framehop's state, when that engine was chosen.
    pub framehop: *mut c_void,
    /// What the creating thread believed to block; see [`crate::signals::believed`].
    pub inherited_signals: Beliefs,
    /// Whether the thread that made this one must make no system calls; see [`crate::lifecycle::restrictions`].
    pub from_dispatched: bool,
    /// Whether the ring was claimed for this slot's thread.
    pub active: AtomicBool,
    /// Whether the thread was adopted: it does not say when it ends.
    pub adopted: AtomicBool,
    /// Whether the thread blocked the signal of the samples before a sampler attached; see [`crate::sampling::closing`].
    pub blocked_before: AtomicBool,
    /// CPU time of a thread that may be in its last sample, when it was first checked.
    pub used_in_handler_ns: AtomicU64,
    /// Whether something of the slot is being written; see [`Slot::occupy`].
    busy: AtomicBool,
    /// Periods of perf's clock that ended during samples.
    merged: AtomicU64,
    /// Whether there is a guard page below the signal stack.
    guarded: bool,
    ring: Producer<'static>,
}

impl Slot {
    /// The ring that the slot records into.
    pub fn ring(&self) -> &Producer<'static> {
        &self.ring
    }

    /// The lowest address of the slot's alternate signal stack.
    pub fn signal_stack(slot: *mut Slot) -> *mut c_void {
        slot.cast::<u8>().wrapping_sub(SIGNAL_STACK_BYTES).cast()
    }

    /// Makes the page below the signal stack inaccessible, once: a handler that needs more than the stack has
    /// must not find another thread's slot there.
    pub fn guard_signal_stack(slot: *mut Slot) {
        // SAFETY: the caller owns the slot.
        let guarded = unsafe { std::mem::replace(&mut (*slot).guarded, true) };
        if !guarded {
            let below = Slot::signal_stack(slot).cast::<u8>().wrapping_sub(PAGE);
            // SAFETY: the page below the stack, which nothing uses.
            unsafe { sys::forbid(below, PAGE) };
        }
    }

    /// Takes the slot for a sample or for its end, until [`Slot::vacate`]. False when an interrupted
    /// sample holds it: perf's SIGTRAP is never blocked (see [`crate::clocks::perf`]), so it may come in the
    /// middle of one. False as well while another thread has it, because it ends the process, and while its thread begins.
    ///
    /// # Signal safety
    /// One atomic operation.
    #[inline]
    pub fn occupy(slot: *const Slot) -> bool {
        // SAFETY: slots are never unmapped.
        !unsafe { (*slot).busy.swap(true, Ordering::Acquire) }
    }

    /// Lets the next sample have the slot. Not by `Drop`: that would bring unwinding into the handler.
    ///
    /// # Signal safety
    /// One store.
    #[inline]
    pub fn vacate(slot: *const Slot) {
        // SAFETY: slots are never unmapped.
        unsafe { (*slot).busy.store(false, Ordering::Release) };
    }

    /// Notes a period of perf's clock that ended while a sample was under way, for [`Slot::take_merged`].
    ///
    /// # Signal safety
    /// One atomic operation.
    #[inline]
    pub fn merge(slot: *const Slot) {
        // SAFETY: slots are never unmapped.
        unsafe { (*slot).merged.fetch_add(1, Ordering::Relaxed) };
    }

    /// The periods that were noted since the last time, which the clock counts as perf's from now on.
    ///
    /// # Signal safety
    /// A load; an atomic operation where there are some.
    #[inline]
    pub fn take_merged(&mut self) -> u64 {
        if self.merged.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let merged = self.merged.swap(0, Ordering::Relaxed);
        self.clock.count_perf(merged);
        merged
    }

    /// Gives ring and slot back. The owner must have stopped its clocks.
    pub fn release(&self) {
        self.active.store(false, Ordering::Relaxed);
        self.ring.header().release();
    }
}

/// All slots.
static POOL: Pool = Pool::new();

fn shape() -> Shape {
    let buffers = 2 * StackBuffers::words() * size_of::<u64>();
    let modules = MOST_NEW * size_of::<Object>();
    let slot_bytes = (size_of::<Slot>() + buffers + modules).next_multiple_of(PAGE);
    Shape {
        kinds: [HelloKind::Process, HelloKind::Segment],
        rings: [FIRST_RINGS, MOST_RINGS],
        ring_words: state::settings().ring_words,
        stride: PAGE + SIGNAL_STACK_BYTES + slot_bytes,
        offset: PAGE + SIGNAL_STACK_BYTES,
        furnish,
        is_idle,
    }
}

/// Whether no thread has a slot.
///
/// # Safety
/// `slot` must be one that was furnished.
unsafe fn is_idle(slot: *mut u8) -> bool {
    // SAFETY: as the caller says; slots are never unmapped.
    unsafe { !(*slot.cast::<Slot>()).active.load(Ordering::Relaxed) }
}

/// Makes an unused slot.
///
/// # Safety
/// `slot` must have room for it and for its buffers, zeroed.
unsafe fn furnish(slot: *mut u8, ring: Producer<'static>) {
    let room = slot.wrapping_add(size_of::<Slot>()).cast::<u64>();
    let buffers = StackBuffers::words();
    // SAFETY: as the caller says.
    unsafe {
        slot.cast::<Slot>().write(Slot {
            start: std::ptr::null_mut(),
            argument: std::ptr::null_mut(),
            bottom: 0,
            clock: ThreadClock::default(),
            counters: Group::NONE,
            stacks: StackBuffers::new(room),
            stack_flags: 0,
            python: ThreadFrames::new(StackBuffers::new(room.wrapping_add(buffers))),
            new_modules: room.wrapping_add(2 * buffers).cast(),
            framehop: std::ptr::null_mut(),
            inherited_signals: Beliefs::NONE,
            from_dispatched: false,
            active: AtomicBool::new(false),
            adopted: AtomicBool::new(false),
            blocked_before: AtomicBool::new(false),
            used_in_handler_ns: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            merged: AtomicU64::new(0),
            guarded: false,
            ring,
        });
    }
}

/// The slot that a timer signal's value names, if it is one and in use.
///
/// # Signal safety
/// Walks an immutable list.
#[inline]
pub fn look_up(value: *mut c_void) -> Option<*mut Slot> {
    let known = POOL.contains(value.addr());
    let slot = value.cast::<Slot>();
    // SAFETY: it is the address of a slot, which is never unmapped.
    (known && unsafe { &*slot }.active.load(Ordering::Relaxed)).then_some(slot)
}

/// Takes a slot whose ring exists already. It is occupied until its thread has begun.
///
/// # Signal safety
/// Atomics and stores into the slot.
pub fn claim_existing() -> Option<*mut Slot> {
    let claimed = POOL.claim().or_else(|| {
        reclaim_adopted();
        POOL.claim()
    })?;
    let slot = claimed.cast::<Slot>();
    // SAFETY: the claim made the slot ours.
    let state = unsafe { &mut *slot };
    state.bottom = 0;
    state.clock = ThreadClock::new(slot.addr() as u64);
    state.counters = Group::NONE;
    state.stacks.reset();
    state.stack_flags = 0;
    state.python.reset();
    state.inherited_signals = Beliefs::NONE;
    state.from_dispatched = false;
    state.busy.store(true, Ordering::Relaxed);
    state.merged.store(0, Ordering::Relaxed);
    state.adopted.store(false, Ordering::Relaxed);
    state.blocked_before.store(false, Ordering::Relaxed);
    state.used_in_handler_ns.store(0, Ordering::Relaxed);
    state.active.store(true, Ordering::Relaxed);
    Some(slot)
}

/// Does something with every slot that a thread has.
///
/// The threads run on: only what concerns the kernel's objects alone is safe to do.
pub fn for_each_active(mut what: impl FnMut(&Slot)) {
    POOL.for_each(|slot| {
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &*slot.cast::<Slot>() };
        if slot.active.load(Ordering::Relaxed) {
            what(slot);
        }
    });
}

/// Does something with every slot that another thread has, while that takes no sample and does not end.
///
/// # Signal safety
/// Walks an immutable list; atomics.
pub fn for_each_other(mut what: impl FnMut(&mut Slot)) {
    let own = words::slot();
    POOL.for_each(|slot| {
        let slot = slot.cast::<Slot>();
        // SAFETY: slots are never unmapped.
        let is_active = || unsafe { (*slot).active.load(Ordering::Acquire) };
        if slot == own || !is_active() || !Slot::occupy(slot) {
            return;
        }
        if is_active() {
            // SAFETY: the slot is exclusively ours until it is vacated.
            what(unsafe { &mut *slot });
        }
        Slot::vacate(slot);
    });
}

/// Takes the slots of adopted threads back that are gone. Makes system calls.
fn reclaim_adopted() {
    POOL.for_each(|slot| {
        let slot = slot.cast::<Slot>();
        // SAFETY: slots are never unmapped. An adopted thread that is gone has no handler that
        // could use the slot, and no other thread may claim it before it is released.
        unsafe {
            let in_use =
                (*slot).active.load(Ordering::Relaxed) && (*slot).adopted.load(Ordering::Relaxed);
            if in_use
                && sys::is_gone((*slot).clock.tid)
                // The thread that ends the process may have it.
                && Slot::occupy(slot)
                && (*slot).adopted.swap(false, Ordering::Relaxed)
            {
                (*slot).clock.stop();
                (*slot).counters.close();
                (*slot).release();
            }
        }
    });
}

/// Takes a slot, making more when there is none. A handler that interrupts the making of more by its own thread gets none.
pub fn claim() -> Option<*mut Slot> {
    loop {
        if let Some(slot) = claim_existing() {
            return Some(slot);
        }
        grow(|shape| POOL.grow(shape))??;
    }
}

/// Takes a slot for a thread that runs already, making more when there is none and no other thread makes them.
///
/// # Signal safety
/// Does not wait, but makes system calls.
pub fn claim_in_handler() -> Option<*mut Slot> {
    claim_existing().or_else(|| {
        grow(|shape| POOL.try_to_grow(shape))??;
        claim_existing()
    })
}

/// Makes more slots by `how`, unless that is not possible at the moment (`None`). `Some(None)` when it fails.
fn grow(how: impl FnOnce(&Shape) -> Option<Result<(), i32>>) -> Option<Option<()>> {
    // Without its first segment, the process is not known to the sampler.
    let grown = if POOL.has_segments() {
        how(&shape())?
    } else {
        Err(libc::ENOENT)
    };
    if let Err(error) = grown {
        count(Counter::ThreadsWithoutRing, 1);
        set_counter(Counter::LastError, error as u64);
    }
    Some(grown.ok())
}

/// Makes the first slots of a process and announces it with `info`.
///
/// # Errors
/// The kernel's error number.
pub fn start(info: &[u8]) -> Result<(), i32> {
    let header = POOL.start(&shape(), info)?;
    COUNTERS.store(header.cast_mut(), Ordering::Release);
    Ok(())
}

const _: () = assert!(std::mem::offset_of!(Slot, start) == 0);
const _: () = assert!(std::mem::offset_of!(Slot, argument) == 8);
const _: () = assert!(std::mem::offset_of!(Slot, bottom) == 16);

/// Removes the clocks of all threads, and gives the shared memory back, which has no reader any more.
///
/// # Signal safety
/// Walks an immutable list; system calls.
pub fn give_back() {
    for_each_active(|slot| {
        slot.clock.give_back();
        slot.counters.give_back();
    });
    COUNTERS.store(std::ptr::null_mut(), Ordering::Release);
    POOL.give_back();
}

/// Takes a slot for another thread of this process, which has none; see [`crate::lifecycle::attach`].
pub fn claim_for(tid: u32) -> Option<&'static mut Slot> {
    let slot = claim()?;
    // SAFETY: claimed just now: the thread finds it when its timer expires, which is not made yet.
    let state = unsafe { &mut *slot };
    state.clock.tid = tid;
    state.start = std::ptr::null_mut();
    state.adopted.store(true, Ordering::Relaxed);
    Some(state)
}

/// Whether a thread has a slot.
pub fn has_thread(tid: u32) -> bool {
    of_thread(tid).is_some()
}

/// The slot of a thread of this process.
pub fn of_thread<'a>(tid: u32) -> Option<&'a mut Slot> {
    let mut found = None;
    POOL.for_each(|slot| {
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &mut *slot.cast::<Slot>() };
        if slot.active.load(Ordering::Relaxed) && slot.clock.tid == tid {
            found = Some(slot);
        }
    });
    found
}

/// Whether any thread is in the middle of a sample.
pub fn any_busy() -> bool {
    let mut any = false;
    // That of a thread that has ended stays taken.
    for_each_active(|slot| any |= slot.busy.load(Ordering::Acquire));
    any
}

/// After [`give_back`], when no thread samples any more: the slots of adopted threads are free, those of others when their threads end, and all
/// serve the next sampler.
pub fn lay_aside() {
    for_each_active(|slot| {
        if slot.adopted.load(Ordering::Relaxed) {
            slot.release();
        }
    });
    POOL.lay_aside();
}

/// Takes the slots back of adopted threads that are gone. Makes system calls.
pub fn reclaim() {
    reclaim_adopted();
}

/// Forgets all slots of the parent in a fork child, and closes what was inherited with them.
pub fn forget_parents() {
    COUNTERS.store(std::ptr::null_mut(), Ordering::Release);
    POOL.forget_parents(|slot| {
        // SAFETY: a slot of the parent's; its threads do not exist here.
        let slot = unsafe { &mut *slot.cast::<Slot>() };
        if slot.active.load(Ordering::Relaxed) {
            slot.clock.forget_parents();
            slot.counters.close();
            // Where nothing is written, the page stays the parent's.
            slot.active.store(false, Ordering::Relaxed);
        }
    });
}
