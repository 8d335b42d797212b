//! A function of a higher floor, which the constructor hands down.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The function; none until the constructor has run.
#[derive(Debug)]
pub struct HandedDown(AtomicPtr<()>);

impl HandedDown {
    /// No function yet.
    pub const fn none() -> Self {
        HandedDown(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Hands it down. Once, in the constructor.
    pub fn set(&self, function: fn()) {
        self.0.store(function as *mut (), Ordering::Relaxed);
    }

    /// Calls it, if it is there.
    #[cold]
    #[inline(never)]
    pub fn call(&self) {
        let function = self.0.load(Ordering::Relaxed);
        if !function.is_null() {
            // SAFETY: `set` stored a function of this type.
            unsafe { std::mem::transmute::<*mut (), fn()>(function)() };
        }
    }
}
