use rsys_unwind::{CfiEngine, RuleCache, RuleSlot};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sys;

pub static RULES: AtomicPtr<RuleSlot> = AtomicPtr::new(std::ptr::null_mut());

/// The process-wide cache of unwind rules.
///
/// # Signal safety
/// Reads a pointer.
#[inline]
pub fn rules() -> Option<RuleCache<'static>> {
    let base = RULES.load(Ordering::Relaxed);
    if base.is_null() {
        return None;
    }
    // SAFETY: mapped by `start` with this size, zeroed, and never unmapped.
    let slots: &'static [RuleSlot] =
        unsafe { std::slice::from_raw_parts(base, RuleCache::DEFAULT_SLOTS) };
    RuleCache::new(slots)
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
    if RULES.load(Ordering::Relaxed).is_null()
        && let Ok(memory) = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    {
        RULES.store(memory.cast(), Ordering::Relaxed);
    }
}
