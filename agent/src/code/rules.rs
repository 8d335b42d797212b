use rsys_unwind::{CfiEngine, RuleCache, RuleSlot};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::sys;

/// Memory for rules, and how many were stored, side by side: a walk reads both.
struct Table {
    slots: AtomicPtr<RuleSlot>,
    stored: AtomicUsize,
}

static RULES: Table = Table {
    slots: AtomicPtr::new(std::ptr::null_mut()),
    stored: AtomicUsize::new(0),
};

/// The process-wide cache of unwind rules.
///
/// # Signal safety
/// Reads a pointer and a number.
#[inline]
pub fn rules() -> Option<RuleCache<'static>> {
    let base = RULES.slots.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: mapped by `start` with this size, zeroed, and never unmapped.
    let slots: &'static [RuleSlot] =
        unsafe { std::slice::from_raw_parts(base, RuleCache::DEFAULT_SLOTS) };
    RuleCache::growing(slots, &RULES.stored)
}

/// The engine that walks by call-frame information, with the cache if there is memory for one.
///
/// # Signal safety
/// As [`rules`].
#[inline]
pub fn cfi_engine() -> CfiEngine<'static> {
    rules().map_or_else(CfiEngine::without_cache, CfiEngine::new)
}

/// Makes the cache of unwind rules, once.
pub fn map_rules() {
    let bytes = RuleCache::DEFAULT_SLOTS * size_of::<RuleSlot>();
    if RULES.slots.load(Ordering::Relaxed).is_null()
        && let Ok(memory) = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    {
        RULES.slots.store(memory.cast(), Ordering::Relaxed);
    }
}
