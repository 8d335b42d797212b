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

use crate::counters::{self, Group};
use crate::modules::{MOST_NEW, Object};
use crate::process;
use crate::segments::{self, Made};
use crate::sys;
use crate::wander::Wander;

/// Size of a slot's alternate signal stack: room for the largest register state (AMX: 11 KiB), our
/// handler, and a handler of the target's that asks for an alternate stack.
pub const SIGNAL_STACK_BYTES: usize = 256 * 1024;

const PAGE: usize = 4096;
const FIRST_RINGS: u32 = 8;
const MOST_RINGS: u32 = 1024;

/// One thread's state. Only the thread that owns it (and its signal handler) touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// The start routine; read by the trampoline at offset 0.
    pub start: *mut c_void,
    /// The start routine's argument; read by the trampoline at offset 8.
    pub argument: *mut c_void,
    /// The kernel's id of the thread.
    pub tid: u32,
    /// The kernel's id of the timer, or -1.
    pub timer: i32,
    /// perf's descriptor, or -1.
    pub perf: i32,
    /// Descriptors of the events that the thread counts.
    pub counters: Group,
    /// Frames in the previous stack.
    pub previous_frames: u32,
    /// Periods that were sampled by perf, or accounted for, before the timer told of them, or that perf may yet deliver.
    pub perf_balance: i64,
    /// Where perf's samples wander, see [`crate::clock::vary`].
    pub wander: Wander,
    /// Periods that the samples so far stand for, recorded or dropped.
    pub accounted_weight: u64,
    /// CPU time that the thread had used when its recording began.
    pub cpu_base_ns: u64,
    /// CPU time of the thread at which the timer expires first.
    pub first_expiry_ns: u64,
    /// When the thread was not there yet (CLOCK_BOOTTIME); 0 when that is not known.
    pub not_before_ns: u64,
    /// Signals that the creating thread believed blocked; see [`crate::tls::ThreadWords`].
    pub inherited_signals: u64,
    /// Whether the ring was claimed for this slot's thread.
    pub active: AtomicBool,
    /// Whether something of the slot is being written; see [`Slot::occupy`].
    pub busy: AtomicBool,
    /// Whether there is a guard page below the signal stack.
    pub guarded: bool,
    /// Whether the thread that made this one must make no system calls; see [`crate::restrictions`].
    pub from_dispatched: bool,
    /// Whether the thread was adopted: it does not say when it ends.
    pub adopted: AtomicBool,
    /// framehop's state, when that engine was chosen.
    pub framehop: *mut c_void,
    ring: Producer<'static>,
    /// Room for the modules that one stack shows for the first time.
    pub new_modules: *mut Object,
    /// The buffer for the stack that is being walked.
    pub current: *mut u64,
    /// The buffer with the stack of the previous sample.
    pub previous: *mut u64,
    /// The same two for Python frames.
    pub current_python: *mut u64,
    /// See [`Slot::current_python`].
    pub previous_python: *mut u64,
    /// Frames in the previous Python stack.
    pub previous_python_frames: u32,
    /// How often the thread's Python name is still looked for.
    pub name_tries: u8,
    /// What the last sample's flags say of how its stack ends.
    pub stack_flags: u8,
    /// What the last sample's flags say of Python.
    pub python_flags: u8,
    /// The thread state that was found in an interpreter's list, or 0.
    pub python_thread: u64,
}

/// A thread that `threading` started has its name from the start; what is in the midst of a change is looked at again.
const NAME_TRIES: u8 = 4;
/// Buffers of a slot, each as long as the deepest stack.
const BUFFERS: usize = 4;

impl Slot {
    /// The ring that the slot records into.
    pub fn ring(&self) -> &Producer<'static> {
        &self.ring
    }

    /// The buffers' length in words.
    pub fn depth() -> usize {
        process::settings().max_depth as usize
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

    /// Notes periods that were accounted for before the timer tells of them.
    pub fn account_ahead(&mut self, periods: u64) {
        self.accounted_weight = self.accounted_weight.saturating_add(periods);
        self.perf_balance = self.perf_balance.saturating_add_unsigned(periods);
    }

    /// Takes the slot for a sample or for its end, until [`Slot::vacate`]. False when an interrupted
    /// sample holds it: perf's SIGTRAP is never blocked (see [`crate::perf`]), so it may come in the
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
/// The header of segment 0, which holds the process-wide counters.
static COUNTERS: AtomicPtr<SegmentHeader> = AtomicPtr::new(std::ptr::null_mut());
/// Held while a block is made; see [`grow`].
static GROWING: AtomicBool = AtomicBool::new(false);

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

/// Counts something for the whole process.
///
/// # Signal safety
/// Atomic loads and one addition.
pub fn count(counter: Counter, by: u64) {
    // SAFETY: the header lies in a mapping that stays until a fork child replaces the pointer.
    if let Some(header) = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() } {
        header.count(counter, by);
    }
}

/// Before this time (CLOCK_BOOTTIME) the sampler wants no samples.
///
/// # Signal safety
/// Atomic loads.
#[inline]
pub fn quiet_until_ns() -> u64 {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.map_or(0, |header| header.quiet_until_ns.load(Ordering::Relaxed))
}

/// Changes while the sampler works.
pub fn sampler_work() -> u64 {
    // SAFETY: as in `count`.
    let header = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() };
    header.map_or(0, |header| header.work.load(Ordering::Relaxed))
}

/// Sets a process-wide counter.
pub fn set_counter(counter: Counter, value: u64) {
    // SAFETY: as in `count`.
    if let Some(header) = unsafe { COUNTERS.load(Ordering::Acquire).as_ref() } {
        header.set(counter, value);
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
    unsafe {
        (*slot).timer = -1;
        (*slot).perf = -1;
        (*slot).counters = counters::NONE;
        (*slot).previous_frames = 0;
        (*slot).previous_python_frames = 0;
        (*slot).name_tries = NAME_TRIES;
        (*slot).stack_flags = 0;
        (*slot).python_flags = 0;
        (*slot).python_thread = 0;
        (*slot).perf_balance = 0;
        (*slot).wander = Wander::default();
        (*slot).accounted_weight = 0;
        (*slot).cpu_base_ns = 0;
        (*slot).first_expiry_ns = 0;
        (*slot).not_before_ns = 0;
        (*slot).inherited_signals = 0;
        (*slot).from_dispatched = false;
        (*slot).busy.store(false, Ordering::Relaxed);
        (*slot).adopted.store(false, Ordering::Relaxed);
        (*slot).active.store(true, Ordering::Relaxed);
    }
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
                    && sys::is_gone((*slot).tid)
                    && (*slot).adopted.swap(false, Ordering::Relaxed)
                {
                    crate::clock::stop(&mut *slot);
                    counters::close(&mut *slot);
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
    if GROWING.swap(true, Ordering::Acquire) {
        return None;
    }
    let grown = if NEWEST.load(Ordering::Acquire) == seen {
        grow(seen)
    } else {
        Ok(())
    };
    GROWING.store(false, Ordering::Release);
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
    if process::is_confined() {
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
    let words = process::settings().ring_words;
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
    let buffers = Slot::depth() * 8;
    let modules = MOST_NEW * size_of::<Object>();
    let slot_bytes = (size_of::<Slot>() + BUFFERS * buffers + modules).next_multiple_of(PAGE);
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
        let current = slot
            .cast::<u8>()
            .wrapping_add(size_of::<Slot>())
            .cast::<u64>();
        // SAFETY: fresh zeroed memory with room for the slot and its buffers.
        unsafe {
            slot.write(Slot {
                start: std::ptr::null_mut(),
                argument: std::ptr::null_mut(),
                tid: 0,
                timer: -1,
                perf: -1,
                counters: counters::NONE,
                previous_frames: 0,
                perf_balance: 0,
                wander: Wander::default(),
                accounted_weight: 0,
                cpu_base_ns: 0,
                first_expiry_ns: 0,
                not_before_ns: 0,
                inherited_signals: 0,
                active: AtomicBool::new(false),
                busy: AtomicBool::new(false),
                guarded: false,
                from_dispatched: false,
                adopted: AtomicBool::new(false),
                framehop: std::ptr::null_mut(),
                ring,
                new_modules: current.wrapping_add(BUFFERS * Slot::depth()).cast(),
                current,
                previous: current.wrapping_add(Slot::depth()),
                current_python: current.wrapping_add(2 * Slot::depth()),
                previous_python: current.wrapping_add(3 * Slot::depth()),
                previous_python_frames: 0,
                name_tries: 0,
                stack_flags: 0,
                python_flags: 0,
                python_thread: 0,
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
    GROWING.store(false, Ordering::Relaxed);
    // SAFETY: blocks are never freed.
    while let Some(block) = unsafe { next.as_ref() } {
        for index in 0..block.rings {
            // SAFETY: a slot of the parent's; its threads do not exist here.
            let slot = unsafe { &mut *block.slot(index) };
            if slot.active.load(Ordering::Relaxed) {
                if slot.perf >= 0 {
                    crate::perf::close(slot.perf);
                }
                counters::close(slot);
                // Where nothing is written, the page stays the parent's.
                slot.active.store(false, Ordering::Relaxed);
            }
        }
        // SAFETY: the child's only thread no longer uses the rings.
        unsafe { sys::munmap(block.shared_base.cast(), block.segment.geometry().bytes()) };
        next = block.next;
    }
}
