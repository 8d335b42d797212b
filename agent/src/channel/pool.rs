//! Pools: rings that are shared with the sampler, and beside each what its thread needs.
//!
//! A segment of rings comes with private memory that holds one *item* for each. Items are handed out without a lock, by claiming their
//! rings, and never unmapped, so that a late signal can always be checked against them. When all are taken, another segment is made,
//! twice the size of the last.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use rsys_wire::handshake::HelloKind;
use rsys_wire::layout::{Segment, SegmentHeader};
use rsys_wire::ring::{Producer, RingHeader};

use crate::channel::segments::{self, Made};
use crate::state;
use crate::sys;
use crate::sys::lock::Lock;

const PAGE: usize = 4096;

/// What a pool's segments and items are like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Of the first segment, and of further ones.
    pub kinds: [HelloKind; 2],
    /// Rings of the first segment, and the most that a segment has.
    pub rings: [u32; 2],
    /// Words of a ring.
    pub ring_words: u32,
    /// Bytes from one item to the next.
    pub stride: usize,
    /// Bytes in front of an item that belong to it.
    pub offset: usize,
    /// Makes an item, in zeroed memory that nothing else uses, for a ring.
    pub furnish: unsafe fn(item: *mut u8, ring: Producer<'static>),
    /// Whether no thread has an item that was made: a block of such items serves the next sampler.
    pub is_idle: unsafe fn(item: *mut u8) -> bool,
}

/// A segment and its items. Lives at the start of the items' memory, for ever.
#[derive(Debug)]
struct Block {
    next: *mut Block,
    segment: Segment,
    shared_base: *mut u8,
    first: *mut u8,
    stride: usize,
    rings: u32,
    number: u32,
    /// Where the last search succeeded. The next begins there: a thread that came and went leaves memory behind that is
    /// in the processor's caches.
    hint: AtomicU32,
}

const _: () = assert!(size_of::<Block>() <= PAGE);

impl Block {
    /// Whether the block can be used once more, for a segment of this kind.
    fn is_free_for(&self, rings: u32, shape: &Shape) -> bool {
        let geometry = self.segment.geometry();
        let fits = self.rings == rings
            && self.stride == shape.stride
            && geometry.ring_words() == shape.ring_words;
        // SAFETY: items are never unmapped.
        fits && (0..rings).all(|index| unsafe { (shape.is_idle)(self.item(index)) })
    }

    fn item(&self, index: u32) -> *mut u8 {
        self.first.wrapping_add(index as usize * self.stride)
    }

    fn claim(&self) -> Option<*mut u8> {
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
                return Some(self.item(index));
            }
        }
        None
    }

    fn contains(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.first.addr());
        offset.checked_rem(self.stride) == Some(0)
            && offset
                .checked_div(self.stride)
                .is_some_and(|index| index < self.rings as usize)
    }
}

/// A pool of items.
#[derive(Debug)]
pub struct Pool {
    /// The newest block; the others follow by `next`.
    newest: AtomicPtr<Block>,
    /// Blocks of samplers that have left, with private memory where that was shared; they follow by `next`.
    parked: AtomicPtr<Block>,
    /// Held while a block is made.
    growing: Lock,
    /// Set when a block could not be announced to the sampler: no more are made.
    is_refused: AtomicBool,
}

impl Pool {
    /// No item yet.
    pub const fn new() -> Self {
        Pool {
            newest: AtomicPtr::new(std::ptr::null_mut()),
            parked: AtomicPtr::new(std::ptr::null_mut()),
            growing: Lock::new(),
            is_refused: AtomicBool::new(false),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &'static Block> {
        let mut next = self.newest.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: blocks are published complete and never freed.
            let block: &'static Block = unsafe { next.as_ref() }?;
            next = block.next;
            Some(block)
        })
    }

    /// Whether there is a segment.
    pub fn has_segments(&self) -> bool {
        !self.newest.load(Ordering::Acquire).is_null()
    }

    /// Takes an item that exists already.
    ///
    /// # Signal safety
    /// Walks an immutable list; atomics.
    pub fn claim(&self) -> Option<*mut u8> {
        self.blocks().find_map(Block::claim)
    }

    /// Whether an address is that of an item.
    ///
    /// # Signal safety
    /// Walks an immutable list.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        self.blocks().any(|block| block.contains(address))
    }

    /// Does something with every item, taken or not.
    pub fn for_each(&self, mut what: impl FnMut(*mut u8)) {
        for block in self.blocks() {
            for index in 0..block.rings {
                what(block.item(index));
            }
        }
    }

    /// Makes more items, unless another thread does (`None`), or has done so since this one looked.
    ///
    /// # Signal safety
    /// Does not wait, but makes system calls.
    pub fn try_to_grow(&self, shape: &Shape) -> Option<Result<(), i32>> {
        let seen = self.newest.load(Ordering::Acquire);
        self.growing.try_with(|| self.grow_from(seen, shape))
    }

    /// Takes an item, making more when there is none. A handler that interrupts the making of more by its own thread gets `EDEADLK`.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn claim_or_grow(&self, shape: &Shape) -> Result<*mut u8, i32> {
        loop {
            if let Some(item) = self.claim() {
                return Ok(item);
            }
            self.grow(shape).unwrap_or(Err(libc::EDEADLK))?;
        }
    }

    /// Makes more items, or waits until another thread has. `None` where the calling thread was interrupted while it does that.
    pub fn grow(&self, shape: &Shape) -> Option<Result<(), i32>> {
        let seen = self.newest.load(Ordering::Acquire);
        self.growing.with(|| self.grow_from(seen, shape))
    }

    /// Makes another block, while no other thread does, unless there is one behind `seen`.
    fn grow_from(&self, seen: *mut Block, shape: &Shape) -> Result<(), i32> {
        if self.newest.load(Ordering::Acquire) != seen {
            return Ok(());
        }
        if state::is_confined() {
            return Err(libc::EPERM);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return Err(libc::ECONNREFUSED);
        }
        let made = self.make_block(seen, shape, &[]).map(|_| ());
        if made == Err(libc::ECONNREFUSED) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        // As in `sampling::adopt::start_recording`.
        fence(Ordering::SeqCst);
        if !state::is_active() {
            self.give_back();
        }
        made
    }

    /// Makes the first segment and announces it with `info`. Returns its header, which lives until [`Pool::forget_parents`].
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn start(&self, shape: &Shape, info: &[u8]) -> Result<*const SegmentHeader, i32> {
        self.is_refused.store(false, Ordering::Relaxed);
        let block = self.make_block(std::ptr::null_mut(), shape, info)?;
        let header: *const SegmentHeader = block.segment.header();
        Ok(header)
    }

    fn make_block(
        &self,
        newest: *mut Block,
        shape: &Shape,
        info: &[u8],
    ) -> Result<&'static Block, i32> {
        let [first, more] = shape.kinds;
        let [fewest, most] = shape.rings;
        // SAFETY: blocks are never freed.
        let (kind, number, rings) = match unsafe { newest.as_ref() } {
            Some(last) => (more, last.number + 1, (last.rings * 2).min(most)),
            None => (first, 0, fewest),
        };
        let used_before = self.unpark(rings, shape);
        // SAFETY: blocks are never freed.
        let place = unsafe { used_before.as_ref() };
        let place = place.map_or(std::ptr::null_mut(), |block| block.shared_base);
        let furnish = |made| furnish(used_before, newest, number, shape, made);
        let words = shape.ring_words;
        let made = segments::make(kind, number, rings, words, info, place, furnish, |block| {
            if block != used_before {
                // SAFETY: not published.
                unsafe {
                    let bytes = private_bytes((*block).rings, shape);
                    sys::munmap(block.cast(), bytes);
                }
            }
        });
        if made.is_err() && !used_before.is_null() {
            self.park(used_before);
        }
        let block = made?;
        self.newest.store(block, Ordering::Release);
        // SAFETY: made just now, and never freed.
        unsafe { block.as_ref() }.ok_or(libc::EINVAL)
    }

    /// Lays all blocks aside, whose shared memory was given back, for the next sampler. Only when nothing is recorded.
    pub fn lay_aside(&self) {
        let mut next = self.newest.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: blocks are never freed.
        while let Some(block) = unsafe { next.as_ref() } {
            let this = std::mem::replace(&mut next, block.next);
            self.park(this);
        }
    }

    /// By the one thread that starts or ends the recording, or that makes a block.
    fn park(&self, block: *mut Block) {
        // SAFETY: blocks are never freed, and no list has this one.
        unsafe { (*block).next = self.parked.load(Ordering::Relaxed) };
        self.parked.store(block, Ordering::Release);
    }

    /// Takes a block that was laid aside and that no thread uses; null if there is none.
    fn unpark(&self, rings: u32, shape: &Shape) -> *mut Block {
        let mut before: *mut Block = std::ptr::null_mut();
        let mut this = self.parked.load(Ordering::Acquire);
        // SAFETY: blocks are never freed.
        while let Some(block) = unsafe { this.as_ref() } {
            if block.is_free_for(rings, shape) {
                // SAFETY: as above; only this thread changes the list.
                match unsafe { before.as_mut() } {
                    Some(before) => before.next = block.next,
                    None => self.parked.store(block.next, Ordering::Release),
                }
                return this;
            }
            before = this;
            this = block.next;
        }
        this
    }

    /// Gives the shared memory back, which has no reader any more. Threads may still be writing there.
    ///
    /// # Signal safety
    /// Walks an immutable list; system calls.
    pub fn give_back(&self) {
        for block in self.blocks() {
            let bytes = block.segment.geometry().bytes();
            // SAFETY: what was written is lost, and nothing depends on it: rings bear any content.
            unsafe { sys::replace(block.shared_base, bytes) };
        }
    }

    /// Forgets every segment of the parent in a fork child; `each` gets all items first. Their private memory stays: the child's own
    /// signal stack may lie in it.
    pub fn forget_parents(&self, mut each: impl FnMut(*mut u8)) {
        let mut next = self.newest.swap(std::ptr::null_mut(), Ordering::AcqRel);
        self.growing.break_open();
        self.is_refused.store(false, Ordering::Relaxed);
        // SAFETY: blocks are never freed.
        while let Some(block) = unsafe { next.as_ref() } {
            for index in 0..block.rings {
                each(block.item(index));
            }
            // SAFETY: the child's only thread no longer uses the rings.
            unsafe { sys::munmap(block.shared_base.cast(), block.segment.geometry().bytes()) };
            next = block.next;
        }
    }
}

/// Size of the memory of items for this number of rings.
fn private_bytes(rings: u32, shape: &Shape) -> usize {
    PAGE + shape.stride * rings as usize
}

/// Makes the items of a segment, in the memory of a block that was `used_before`, if there is one.
fn furnish(
    used_before: *mut Block,
    next: *mut Block,
    number: u32,
    shape: &Shape,
    made: Made,
) -> Result<*mut Block, i32> {
    let Made {
        segment,
        base: shared_base,
    } = made;
    let rings = segment.geometry().ring_count();
    let bytes = private_bytes(rings, shape);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let memory = if used_before.is_null() {
        sys::mmap(bytes, flags, -1)?
    } else {
        used_before.cast()
    };
    let first = memory.wrapping_add(PAGE + shape.offset);
    for index in 0..rings {
        let (Some(header), Some(words)) = (segment.ring_header(index), segment.ring_words(index))
        else {
            continue;
        };
        let (header, words): (*const RingHeader, *const [AtomicU64]) = (header, words);
        // SAFETY: the references point into the shared mapping, which stays for the process's life
        // (a fork child unmaps it after it has forgotten the items).
        let (header, words) = unsafe { (&*header, &*words) };
        if let Some(ring) = Producer::new(header, words) {
            // SAFETY: fresh zeroed memory with room for the item.
            unsafe { (shape.furnish)(first.wrapping_add(index as usize * shape.stride), ring) };
        }
    }
    let block = memory.cast::<Block>();
    // SAFETY: the first page is reserved for it.
    unsafe {
        block.write(Block {
            next,
            segment,
            shared_base,
            first,
            stride: shape.stride,
            rings,
            number,
            hint: AtomicU32::new(0),
        });
    }
    Ok(block)
}
