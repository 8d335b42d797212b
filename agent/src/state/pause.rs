//! `roctxProfilerPause` and `roctxProfilerResume`: whether anything is collected at present.
//!
//! A gate for the whole process (thread 0) and one for each of a few threads. Pausing twice is pausing once. What began before a
//! pause still ends in it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sys;

/// How many threads can be paused one by one; more are paused no further.
const THREADS: usize = 64;

static ANY: AtomicBool = AtomicBool::new(false);
static ALL: AtomicBool = AtomicBool::new(false);
static PAUSED: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];

/// Whether a thread of this kernel id is to be left alone.
///
/// # Signal safety
/// Relaxed loads.
#[inline]
pub fn is_paused(tid: u32) -> bool {
    ANY.load(Ordering::Relaxed) && is_paused_now(tid)
}

/// Whether the calling thread is to be left alone.
#[inline]
pub fn is_caller_paused() -> bool {
    // The id is a system call: only where threads are paused one by one.
    ANY.load(Ordering::Relaxed) && (ALL.load(Ordering::Relaxed) || is_paused_now(sys::gettid()))
}

#[cold]
#[inline(never)]
fn is_paused_now(tid: u32) -> bool {
    ALL.load(Ordering::Relaxed)
        || PAUSED
            .iter()
            .any(|paused| paused.load(Ordering::Relaxed) == tid)
}

/// Stops collecting for a thread, or for all with 0. Returns whether that changes anything.
pub fn pause(tid: u64) -> bool {
    let changed = match u32::try_from(tid) {
        Ok(0) => !ALL.swap(true, Ordering::Relaxed),
        Ok(tid) => pause_thread(tid),
        Err(_) => false,
    };
    renew();
    changed
}

fn pause_thread(tid: u32) -> bool {
    if PAUSED
        .iter()
        .any(|paused| paused.load(Ordering::Relaxed) == tid)
    {
        return false;
    }
    PAUSED.iter().any(|paused| {
        paused
            .compare_exchange(0, tid, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    })
}

/// Goes on collecting for a thread, or for all with 0. Returns whether that changes anything.
pub fn resume(tid: u64) -> bool {
    let changed = match u32::try_from(tid) {
        Ok(0) => ALL.swap(false, Ordering::Relaxed),
        Ok(tid) => PAUSED.iter().any(|paused| {
            paused
                .compare_exchange(tid, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        }),
        Err(_) => false,
    };
    renew();
    changed
}

/// Whether any gate is closed. Two threads that change gates at once may leave it open for a glance, never closed for long.
fn renew() {
    let any = ALL.load(Ordering::SeqCst)
        || PAUSED
            .iter()
            .any(|paused| paused.load(Ordering::SeqCst) != 0);
    ANY.store(any, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_holds_for_its_thread_or_for_all() {
        assert!(pause(7) && !pause(7));
        assert!(is_paused(7) && !is_paused(8));
        assert!(pause(0) && is_paused(8));
        assert!(resume(0) && is_paused(7) && !is_paused(8));
        assert!(resume(7) && !resume(7) && !is_paused(7));
    }
}
