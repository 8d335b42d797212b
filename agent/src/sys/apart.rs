//! What several processors use, and when a cache line comes to the one that needs it.

/// A value that shares its cache line, and the one that is fetched with it, with nothing else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// Has the processor fetch the cache line of a value that will be written soon. Changes nothing, and never faults.
#[inline]
pub fn fetch_for_writing<T>(value: *const T) {
    // SAFETY: a hint. Processors that do not know it (x86-64 before 2014) take it for no operation.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
}

/// The same for a value that will be read soon.
#[inline]
pub fn fetch_for_reading<T>(value: *const T) {
    // SAFETY: a hint, which every processor knows.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
}
