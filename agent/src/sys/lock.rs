//! A lock for short changes, which makes no system call as long as no thread waits.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

/// Held by one thread at a time. Not for signal handlers, but for [`Lock::try_with`].
#[derive(Debug)]
pub struct Lock(AtomicBool);

impl Lock {
    /// Not held.
    pub const fn new() -> Self {
        Lock(AtomicBool::new(false))
    }

    /// Does something while the lock is held, as soon as that can be.
    #[inline]
    pub fn with<R>(&self, what: impl FnOnce() -> R) -> R {
        let mut round = 0;
        while self.0.swap(true, Ordering::Acquire) {
            sys::back_off(&mut round);
        }
        let result = what();
        self.0.store(false, Ordering::Release);
        result
    }

    /// Does something while the lock is held; `None` when another thread holds it.
    ///
    /// # Signal safety
    /// Does not wait.
    #[inline]
    pub fn try_with<R>(&self, what: impl FnOnce() -> R) -> Option<R> {
        if self.0.swap(true, Ordering::Acquire) {
            return None;
        }
        let result = what();
        self.0.store(false, Ordering::Release);
        Some(result)
    }

    /// Takes the lock from the thread that held it: in the child of a fork that thread does not exist.
    pub fn break_open(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_is_inside() {
        static LOCK: Lock = Lock::new();
        static mut COUNT: u64 = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        // SAFETY: under the lock.
                        LOCK.with(|| unsafe { COUNT += 1 });
                    }
                });
            }
        });
        assert_eq!(LOCK.with(|| LOCK.try_with(|| ())), None);
        // SAFETY: the threads are gone.
        assert_eq!(LOCK.try_with(|| unsafe { COUNT }), Some(40_000));
    }
}
