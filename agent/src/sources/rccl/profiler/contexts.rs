//! The communicators that the library has set the plug-in up for.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// How many there is room for at a time; more are the user's plug-in's alone.
const CONTEXTS: usize = 1024;

/// A communicator of this process: one rank.
#[derive(Debug)]
pub struct Context {
    is_used: AtomicBool,
    /// Whether the user's plug-in takes part, its context, and the kinds of events that it asked for.
    pub has_theirs: AtomicBool,
    pub theirs: AtomicPtr<c_void>,
    asked: AtomicI32,
    /// Where the library keeps the kinds of events that are asked for, and what we have left there.
    mask: AtomicPtr<c_int>,
    left: AtomicI32,
    /// The library's own number of the communicator, or 0, and rank and ranks, or -1: before version 4 it says none of them.
    pub hash: AtomicU64,
    pub rank: AtomicI32,
    pub ranks: AtomicI32,
    /// Key of the name by which our wrappers know the communicator, or 0 as long as that is not known.
    pub communicator: AtomicU64,
}

// Apart from what the loader has to relocate: each page of that is copied in each process.
#[unsafe(link_section = "rsys_tables")]
static TABLE: [Context; CONTEXTS] = [const {
    Context {
        is_used: AtomicBool::new(false),
        has_theirs: AtomicBool::new(false),
        theirs: AtomicPtr::new(std::ptr::null_mut()),
        asked: AtomicI32::new(0),
        mask: AtomicPtr::new(std::ptr::null_mut()),
        left: AtomicI32::new(0),
        hash: AtomicU64::new(0),
        rank: AtomicI32::new(-1),
        ranks: AtomicI32::new(-1),
        communicator: AtomicU64::new(0),
    }
}; CONTEXTS];

/// Room for one more, if there is any.
pub fn claim() -> Option<&'static Context> {
    let is_free = |context: &&Context| {
        context
            .is_used
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    TABLE.iter().find(is_free)
}

/// The one that the library means.
pub fn find(context: *mut c_void) -> Option<&'static Context> {
    let place = context.addr().wrapping_sub(TABLE.as_ptr().addr()) / size_of::<Context>();
    TABLE.get(place)
}

/// The place of what belongs to no communicator of this process.
pub const ELSEWHERE: u32 = u32::MAX;

/// The one at a place, which is none if that is [`ELSEWHERE`].
pub fn at(place: u32) -> Option<&'static Context> {
    TABLE.get(place as usize)
}

impl Context {
    /// What the library gets.
    pub fn pointer(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Its place.
    pub fn place(&'static self) -> u32 {
        let bytes = self.pointer().addr().wrapping_sub(TABLE.as_ptr().addr());
        (bytes / size_of::<Context>()) as u32
    }

    /// Takes what the user's plug-in asked for from where the library reads it, and asks for ours as well.
    ///
    /// # Safety
    /// `mask` must be the library's word of what is asked for, which is there as long as the communicator.
    pub unsafe fn ask(&self, mask: *mut c_int, ours: c_int) {
        self.mask.store(mask, Ordering::Relaxed);
        // SAFETY: as the caller says; other threads may read and write it.
        let word = unsafe { AtomicI32::from_ptr(mask) };
        let theirs = word.load(Ordering::Relaxed);
        let asked = match self.has_theirs.load(Ordering::Relaxed) {
            true => theirs,
            false => 0,
        };
        self.asked.store(asked, Ordering::Relaxed);
        self.left.store(asked | ours, Ordering::Relaxed);
        word.store(asked | ours, Ordering::Relaxed);
    }

    /// What the user's plug-in asks for. It may change its mind in the library's word at any time; ours is then asked for again.
    pub fn asked(&self, ours: c_int) -> u64 {
        let mask = self.mask.load(Ordering::Relaxed);
        if !mask.is_null() && self.has_theirs.load(Ordering::Relaxed) {
            // SAFETY: the library's word, while it calls for this communicator.
            let word = unsafe { AtomicI32::from_ptr(mask) };
            let now = word.load(Ordering::Relaxed);
            if now != self.left.load(Ordering::Relaxed) && now & ours != ours {
                self.asked.store(now, Ordering::Relaxed);
                self.left.store(now | ours, Ordering::Relaxed);
                word.store(now | ours, Ordering::Relaxed);
            }
        }
        u64::from(self.asked.load(Ordering::Relaxed).cast_unsigned())
    }

    /// The communicator is gone.
    pub fn release(&self) {
        self.mask.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.communicator.store(0, Ordering::Relaxed);
        self.has_theirs.store(false, Ordering::Relaxed);
        self.theirs.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.is_used.store(false, Ordering::Release);
    }
}
