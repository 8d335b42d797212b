//! The signals of samples that a thread believes to be blocked, in words of initial-exec TLS.
//!
//! The kernel never hears of them, but it puts masks back by itself: a handler returns, a jump or a context goes back to a saved mask. So what
//! is believed is kept beside the kernel's mask that it came with. Where that mask is in force again, so is the belief; a mask that only has more
//! signals than the latest is that of a handler, which believes what the code believes that it interrupts.

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::sys;
use crate::thread_words;

/// A mask of the kernel's, and what the thread believed along with it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Belief {
    mask: u64,
    blocked: u64,
}

/// The latest beliefs of a thread, the last one first. Zeros: nothing is blocked.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Beliefs([Belief; 4]);

impl Beliefs {
    /// Those of a thread that blocks nothing.
    pub const NONE: Self = Self(
        [Belief {
            mask: 0,
            blocked: 0,
        }; 4],
    );
}

thread_words! {
    /// The calling thread's words.
    fn words() -> *mut Beliefs = "rsys_believed_signals"
}

/// The part of a mask by which it is recognised: without sample signals, those that cannot be blocked, and those that the C library reserves.
const fn key(mask: u64) -> u64 {
    const C_LIBRARYS: u64 = sys::bit(32) | sys::bit(33);
    const NEVER: u64 = sys::bit(libc::SIGKILL) | sys::bit(libc::SIGSTOP);
    const OURS: u64 = sys::bit(SAMPLE_SIGNAL) | sys::bit(libc::SIGTRAP);
    mask & !(C_LIBRARYS | NEVER | OURS)
}

/// The signals of samples that the calling thread believes blocked while the kernel has this mask.
///
/// # Signal safety
/// Reads the thread's own words.
pub fn with(mask: u64) -> u64 {
    let mask = key(mask);
    // SAFETY: the thread's own words.
    let Beliefs(beliefs) = unsafe { &*words() };
    let same = beliefs.iter().find(|belief| belief.mask == mask);
    let [latest, ..] = beliefs;
    match same {
        Some(belief) => belief.blocked,
        None if latest.mask & !mask == 0 => latest.blocked,
        None => 0,
    }
}

/// Whether the calling thread believes nothing blocked, whatever mask it has.
pub fn is_none() -> bool {
    // SAFETY: the thread's own words.
    let Beliefs(beliefs) = unsafe { &*words() };
    beliefs.iter().all(|belief| belief.blocked == 0)
}

/// What the calling thread believes with the mask that it has.
pub fn now() -> u64 {
    with(sys::sigmask(libc::SIG_BLOCK, 0))
}

/// Sets what the calling thread believes while the kernel has this mask.
pub fn set(mask: u64, blocked: u64) {
    let mask = key(mask);
    // SAFETY: the thread's own words.
    let Beliefs(beliefs) = unsafe { &mut *words() };
    let mut moved = Belief { mask, blocked };
    for belief in beliefs {
        std::mem::swap(belief, &mut moved);
        if moved.mask == mask {
            break;
        }
    }
}

/// All that the calling thread believes, for a thread that inherits its mask.
pub fn all() -> Beliefs {
    // SAFETY: as above.
    unsafe { *words() }
}

/// Begins a thread that has inherited its mask.
pub fn inherit(beliefs: Beliefs) {
    // SAFETY: as above.
    unsafe { *words() = beliefs }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u64 = sys::bit(libc::SIGUSR1);
    const MORE: u64 = OTHER | sys::bit(libc::SIGUSR2);
    const OURS: u64 = sys::bit(SAMPLE_SIGNAL);

    #[test]
    fn a_mask_that_is_back_brings_its_belief_back() {
        inherit(Beliefs::NONE);
        set(OTHER, OURS);
        assert_eq!(with(OTHER | OURS), OURS);
        // A handler, and what it makes of its own mask.
        assert_eq!(with(MORE), OURS);
        set(MORE, 0);
        assert_eq!((with(MORE), with(OTHER)), (0, OURS));
        set(0, 0);
        assert_eq!((with(0), with(OTHER)), (0, OURS));
        for round in 1..20 {
            set(round << 40, 0);
            set(OTHER, OURS);
        }
        assert_eq!((with(OTHER), with(sys::bit(libc::SIGHUP))), (OURS, 0));
        inherit(Beliefs::NONE);
    }
}
