//! Slots: what one sampled thread owns.
//!
//! A segment of rings (shared with the sampler) comes with private memory that holds one slot per
//! ring: the thread's timer, its stack buffers and its alternate signal stack. Slots are handed out
//! and taken back without a lock, and never unmapped, so that a late signal can always be checked
//! against them. When all are taken, another segment is made, twice the size of the last.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use rsys_wire::handshake::HelloKind;
use rsys_wire::layout::{Counter, Segment, SegmentHeader};
use rsys_wire::ring::{Producer, RingHeader};

use crate::channel::counters::{COUNTERS, count, set_counter};
use crate::channel::segments::{self, Made};
use crate::clocks::clock::ThreadClock;
use crate::clocks::thread_counters::Group;
use crate::code::object::Object;
use crate::sampling::buffers::StackBuffers;
use crate::sampling::python::ThreadFrames;
use crate::sampling::seen::MOST_NEW;
use crate::state;
use crate::sys;
use crate::sys::lock::Lock;

/// Size of a slot's alternate signal stack: room for the largest register state (AMX: 11 KiB), our
/// handler, and a handler of the target's that asks for an alternate stack.
pub const SIGNAL_STACK_BYTES: usize = 256 * 1024;

const PAGE: usize = 4096;
const FIRST_RINGS: u32 = 8;
const MOST_RINGS: u32 = 1024;

/// One thread's state, made of its owners' parts. Only the thread that owns it (and its signal handler) touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// The start routine; read by the trampoline at offset 0.
    pub start: *mut c_void,
    /// The start routine's argument; read by the trampoline at offset 8.
    pub argument: *mut c_void,
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
    /// Signals that the creating thread believed blocked; see [`crate::signals::believed`].
    pub inherited_signals: u64,
    /// Whether the thread that made this one must make no system calls; see [`crate::lifecycle::restrictions`].
    pub from_dispatched: bool,
    /// Whether the ring was claimed for this slot's thread.
    pub active: AtomicBool,
    /// Whether the thread was adopted: it does not say when it ends.
    pub adopted: AtomicBool,
    /// Whether something of the slot is being written; see [`Slot::occupy`].
    busy: AtomicBool,
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

    /// Makes the page below the signal stack inaccessible, once: whoever needs more than the stack has
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
    /// middle of one.
    ///
    /// # Signal safety
    /// One load, one store.
    #[inline]
    pub fn occupy(slot: *const Slot) -> bool {
        // SAFETY: slots are never unmapped.
        let busy = unsafe { &(*slot).busy };
        let free = !busy.load(Ordering::Relaxed);
        if free {
            busy.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
        free
    }

    /// Lets the next sample have the slot. Not by `Drop`: that would bring unwinding into the handler.
    ///
    /// # Signal safety
    /// One store.
    #[inline]
    pub fn vacate(slot: *const Slot) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: slots are never unmapped.
        unsafe { (*slot).busy.store(false, Ordering::Relaxed) };
    }

    /// Gives ring and slot back. The owner must have stopped its clocks.
    pub fn release(&self) {
        self.active.store(false, Ordering::Relaxed);
        self.ring.header().release();
    }
}

/// A segment and its slots. Lives at the start of the slots' memory, for ever.
#[derive(Debug)]
struct Block {
    next: *mut Block,
    segment: Segment,
    shared_base: *mut u8,
    first_slot: *mut u8,
    stride: usize,
    rings: u32,
    number: u32,
    /// Where the last search succeeded. The next begins there: a thread that came and went leaves memory behind that is
    /// in the processor's caches.
    hint: AtomicU32,
}

/// The newest block; the others follow by `next`.
static NEWEST: AtomicPtr<Block> = AtomicPtr::new(std::ptr::null_mut());
/// Held while a block is made; see [`grow`].
static GROWING: Lock = Lock::new();

fn blocks() -> impl Iterator<Item = &'static Block> {
    let mut next = NEWEST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: blocks are published complete and never freed.
        let block: &'static Block = unsafe { next.as_ref() }?;
        next = block.next;
        Some(block)
    })
}

impl Block {
    fn slot(&self, index: u32) -> *mut Slot {
        self.first_slot
            .wrapping_add(index as usize * self.stride)
            .cast()
    }

    fn claim(&self) -> Option<*mut Slot> {
        let hint = self.hint.load(Ordering::Relaxed);
        for step in 0..self.rings {
            let Some(index) = hint.wrapping_add(step).checked_rem(self.rings) else {
                break;
            };
            let Some(ring) = self.segment.ring_header(index) else {
                continue;
            };
            if ring.claim(u64::from(self.segment.geometry().ring_words())) {
                self.hint.store(index, Ordering::Relaxed);
                return Some(self.slot(index));
            }
        }
        None
    }

    fn contains(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.first_slot.addr());
        offset.checked_rem(self.stride) == Some(0)
            && offset
                .checked_div(self.stride)
                .is_some_and(|index| index < self.rings as usize)
    }
}

/// The slot that a timer signal's value names, if it is one and in use.
///
/// # Signal safety
/// Walks an immutable list.
#[inline]
pub fn look_up(value: *mut c_void) -> Option<*mut Slot> {
    let known = blocks().any(|block| block.contains(value.addr()));
    let slot = value.cast::<Slot>();
    // SAFETY: it is the address of a slot, which is never unmapped.
    (known && unsafe { &*slot }.active.load(Ordering::Relaxed)).then_some(slot)
}

/// Takes a slot whose ring exists already.
///
/// # Signal safety
/// Atomics and stores into the slot.
pub fn claim_existing() -> Option<*mut Slot> {
    let claimed = blocks().find_map(Block::claim);
    let slot = claimed.or_else(|| {
        reclaim_adopted();
        blocks().find_map(Block::claim)
    })?;
    // SAFETY: the claim made the slot ours.
    let state = unsafe { &mut *slot };
    state.clock = ThreadClock::new(slot.addr() as u64);
    state.counters = Group::NONE;
    state.stacks.reset();
    state.stack_flags = 0;
    state.python.reset();
    state.inherited_signals = 0;
    state.from_dispatched = false;
    state.busy.store(false, Ordering::Relaxed);
    state.adopted.store(false, Ordering::Relaxed);
    state.active.store(true, Ordering::Relaxed);
    Some(slot)
}

/// Does something with every slot that a thread has.
///
/// The threads run on: only what concerns the kernel's objects alone is safe to do.
pub fn for_each_active(mut what: impl FnMut(&Slot)) {
    for block in blocks() {
        for index in 0..block.rings {
            // SAFETY: slots are never unmapped.
            let slot = unsafe { &*block.slot(index) };
            if slot.active.load(Ordering::Relaxed) {
                what(slot);
            }
        }
    }
}

/// Takes the slots of adopted threads back that are gone. Makes system calls.
fn reclaim_adopted() {
    for block in blocks() {
        for index in 0..block.rings {
            let slot = block.slot(index);
            // SAFETY: slots are never unmapped. An adopted thread that is gone has no handler that
            // could use the slot, and nobody else may claim it before it is released.
            unsafe {
                let in_use = (*slot).active.load(Ordering::Relaxed)
                    && (*slot).adopted.load(Ordering::Relaxed);
                if in_use
                    && sys::is_gone((*slot).clock.tid)
                    && (*slot).adopted.swap(false, Ordering::Relaxed)
                {
                    (*slot).clock.stop();
                    (*slot).counters.close();
                    (*slot).release();
                }
            }
        }
    }
}

/// Takes a slot, making more when there is none. Not for signal handlers.
pub fn claim() -> Option<*mut Slot> {
    let mut round = 0;
    loop {
        if let Some(slot) = claim_existing() {
            return Some(slot);
        }
        match try_to_grow() {
            Some(Ok(())) => {}
            Some(Err(())) => return None,
            // Another thread is making a block: that takes some tens of microseconds.
            None => sys::back_off(&mut round),
        }
    }
}

/// Takes a slot for a thread that runs already, making more when there is none and nobody else is at it.
///
/// # Signal safety
/// Waits for nobody, but makes system calls.
pub fn claim_in_handler() -> Option<*mut Slot> {
    claim_existing().or_else(|| {
        try_to_grow()?.ok()?;
        claim_existing()
    })
}

/// Makes a block, unless another thread does (`None`) or has done so since all were taken.
fn try_to_grow() -> Option<Result<(), ()>> {
    let seen = NEWEST.load(Ordering::Acquire);
    let grown = GROWING.try_with(|| {
        if NEWEST.load(Ordering::Acquire) == seen {
            grow(seen)
        } else {
            Ok(())
        }
    })?;
    Some(grown.map_err(|error| {
        count(Counter::ThreadsWithoutRing, 1);
        set_counter(Counter::LastError, error as u64);
    }))
}

/// Makes the first block of a process and announces it with `info`.
///
/// # Errors
/// The kernel's error number.
pub fn start(info: &[u8]) -> Result<(), i32> {
    make_block(std::ptr::null_mut(), 0, FIRST_RINGS, info)
}

fn grow(newest: *mut Block) -> Result<(), i32> {
    if state::is_confined() {
        return Err(libc::EPERM);
    }
    // SAFETY: blocks are never freed.
    let Some(last) = (unsafe { newest.as_ref() }) else {
        return Err(libc::ENOENT);
    };
    make_block(
        newest,
        last.number + 1,
        (last.rings * 2).min(MOST_RINGS),
        &[],
    )
}

fn make_block(next: *mut Block, number: u32, rings: u32, info: &[u8]) -> Result<(), i32> {
    let kind = if number == 0 {
        HelloKind::Process
    } else {
        HelloKind::Segment
    };
    let words = state::settings().ring_words;
    let block = segments::make(kind, number, rings, words, info, |made| {
        map_slots(next, number, made)
    })?;
    if number == 0 {
        // SAFETY: just mapped; the header lives as long as the mapping.
        let header: *const SegmentHeader = unsafe { (*block).segment.header() };
        COUNTERS.store(header.cast_mut(), Ordering::Release);
    }
    NEWEST.store(block, Ordering::Release);
    Ok(())
}

fn map_slots(next: *mut Block, number: u32, made: Made) -> Result<*mut Block, i32> {
    let Made {
        segment,
        base: shared_base,
    } = made;
    let rings = segment.geometry().ring_count();
    let buffers = StackBuffers::words();
    let modules = MOST_NEW * size_of::<Object>();
    let slot_bytes =
        (size_of::<Slot>() + 2 * buffers * size_of::<u64>() + modules).next_multiple_of(PAGE);
    let stride = PAGE + SIGNAL_STACK_BYTES + slot_bytes;
    let bytes = PAGE + stride * rings as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let memory = sys::mmap(bytes, flags, -1)?;
    let first_slot = memory.wrapping_add(2 * PAGE + SIGNAL_STACK_BYTES);
    for index in 0..rings {
        let slot = first_slot
            .wrapping_add(index as usize * stride)
            .cast::<Slot>();
        let (Some(header), Some(words)) = (segment.ring_header(index), segment.ring_words(index))
        else {
            continue;
        };
        let (header, words): (*const RingHeader, *const [AtomicU64]) = (header, words);
        // SAFETY: the references point into the shared mapping, which stays for the process's life
        // (a fork child unmaps it after it has forgotten the slots).
        let (header, words) = unsafe { (&*header, &*words) };
        let Some(ring) = Producer::new(header, words) else {
            continue;
        };
        let room = slot
            .cast::<u8>()
            .wrapping_add(size_of::<Slot>())
            .cast::<u64>();
        // SAFETY: fresh zeroed memory with room for the slot and its buffers.
        unsafe {
            slot.write(Slot {
                start: std::ptr::null_mut(),
                argument: std::ptr::null_mut(),
                clock: ThreadClock::default(),
                counters: Group::NONE,
                stacks: StackBuffers::new(room),
                stack_flags: 0,
                python: ThreadFrames::new(StackBuffers::new(room.wrapping_add(buffers))),
                new_modules: room.wrapping_add(2 * buffers).cast(),
                framehop: std::ptr::null_mut(),
                inherited_signals: 0,
                from_dispatched: false,
                active: AtomicBool::new(false),
                adopted: AtomicBool::new(false),
                busy: AtomicBool::new(false),
                guarded: false,
                ring,
            });
        }
    }
    let block = memory.cast::<Block>();
    // SAFETY: the first page is reserved for it.
    unsafe {
        block.write(Block {
            next,
            segment,
            shared_base,
            first_slot,
            stride,
            rings,
            number,
            hint: AtomicU32::new(0),
        });
    }
    Ok(block)
}

const _: () = assert!(size_of::<Block>() <= 4096);
const _: () = assert!(std::mem::offset_of!(Slot, start) == 0);
const _: () = assert!(std::mem::offset_of!(Slot, argument) == 8);

/// Forgets every block of the parent in a fork child, and closes what was inherited with them.
///
/// The private memory stays: the child's own signal stack lies in it.
pub fn forget_parents() {
    let mut next = NEWEST.swap(std::ptr::null_mut(), Ordering::AcqRel);
    COUNTERS.store(std::ptr::null_mut(), Ordering::Release);
    GROWING.break_open();
    // SAFETY: blocks are never freed.
    while let Some(block) = unsafe { next.as_ref() } {
        for index in 0..block.rings {
            // SAFETY: a slot of the parent's; its threads do not exist here.
            let slot = unsafe { &mut *block.slot(index) };
            if slot.active.load(Ordering::Relaxed) {
                slot.clock.forget_parents();
                slot.counters.close();
                // Where nothing is written, the page stays the parent's.
                slot.active.store(false, Ordering::Relaxed);
            }
        }
        // SAFETY: the child's only thread no longer uses the rings.
        unsafe { sys::munmap(block.shared_base.cast(), block.segment.geometry().bytes()) };
        next = block.next;
    }
}
