//! A lock for short changes that no signal handler can make a thread wait for for ever.
//!
//! A handler of the program may call whatever the program may, in the middle of any of our functions: launch, record, make a thread. So the rule for
//! every wait of the agent is: **nobody waits for a state that a thread holds which may be interrupted meanwhile.** The handler would wait for its
//! own thread, or others would wait as long as the handler runs. [`Lock`] keeps the rule by itself:
//!
//! * its holder has all signals blocked ([`without_signals`]), so that its thread always comes to the end of what it does;
//! * handlers of faults and traps cannot be blocked: one that asks for a lock that its own thread holds is turned away with `None`, and what it
//!   wanted to record is dropped and counted.
//!
//! What is too frequent for two system calls marks itself as busy and turns handlers away (`EventRing::writer`, `Slot::occupy`), or needs no
//! wait at all. Waits for other threads that are not ours to interrupt (the sampler, the GPU) have an end in time.
//! (`tests/tests/agent/handlers.rs` interrupts each instruction of these paths.)

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// Held by one thread at a time.
#[derive(Debug)]
pub struct Lock {
    /// [`this_thread`] of the holder, or 0.
    holder: AtomicUsize,
}

/// The calling thread, as long as it lives. (Threads of a raw `clone` without thread-local memory of their own pass for their parent.)
fn this_thread() -> usize {
    // SAFETY: no arguments; reads the thread pointer.
    unsafe { libc::pthread_self() as usize }
}

/// Does something while no signal comes but those of faults of the calling thread itself.
///
/// # Signal safety
/// Two system calls.
pub fn without_signals<R>(what: impl FnOnce() -> R) -> R {
    let before = sys::block_signals();
    let result = what();
    if let Some(before) = before {
        sys::sigmask(libc::SIG_SETMASK, before);
    }
    result
}

impl Lock {
    /// Not held.
    pub const fn new() -> Self {
        Lock {
            holder: AtomicUsize::new(0),
        }
    }

    /// Does something while the lock is held, as soon as no other thread holds it; `None` when the calling thread holds it itself.
    ///
    /// # Signal safety
    /// Waits for threads only that nothing interrupts.
    pub fn with<R>(&self, what: impl FnOnce() -> R) -> Option<R> {
        let me = this_thread();
        without_signals(|| {
            let mut round = 0;
            loop {
                match self.take(me) {
                    Ok(()) => break,
                    Err(holder) if holder == me => return None,
                    Err(_) => sys::back_off(&mut round),
                }
            }
            Some(self.finish(what))
        })
    }

    /// Does something while the lock is held; `None` when any thread holds it.
    ///
    /// # Signal safety
    /// Does not wait.
    pub fn try_with<R>(&self, what: impl FnOnce() -> R) -> Option<R> {
        let me = this_thread();
        without_signals(|| self.take(me).is_ok().then(|| self.finish(what)))
    }

    fn take(&self, me: usize) -> Result<(), usize> {
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        self.holder
            .compare_exchange(0, me, order, failed)
            .map(|_| ())
    }

    fn finish<R>(&self, what: impl FnOnce() -> R) -> R {
        let result = what();
        self.holder.store(0, Ordering::Release);
        result
    }

    /// Takes the lock from the thread that held it: in the child of a fork that thread does not exist.
    pub fn break_open(&self) {
        self.holder.store(0, Ordering::Release);
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
        // SAFETY: the threads are gone.
        assert_eq!(LOCK.try_with(|| unsafe { COUNT }), Some(40_000));
    }

    #[test]
    fn nobody_waits_for_himself() {
        static LOCK: Lock = Lock::new();
        assert_eq!(LOCK.with(|| LOCK.with(|| ())), Some(None));
        assert_eq!(LOCK.with(|| LOCK.try_with(|| ())), Some(None));
        assert_eq!(LOCK.with(|| ()), Some(()));
    }

    #[test]
    fn signals_wait_for_the_holder() {
        static LOCK: Lock = Lock::new();
        let blocked = || sys::sigmask(libc::SIG_BLOCK, 0);
        let before = blocked();
        assert_eq!(
            LOCK.with(blocked),
            Some(
                (before | sys::ALL_BUT_FAULTS)
                    & !sys::bit(libc::SIGKILL)
                    & !sys::bit(libc::SIGSTOP)
            )
        );
        assert_eq!(blocked(), before);
    }
}
