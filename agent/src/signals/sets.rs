/// The first 64 signals of a `sigset_t`.
pub fn set_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: the kernel's set is the first eight bytes of libc's.
    unsafe { (&raw const *set).cast::<u64>().read() }
}

/// A `sigset_t` of the first 64 signals.
pub fn sigset(set: u64) -> libc::sigset_t {
    // SAFETY: all zero is the empty set; its first eight bytes are the kernel's set.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        (&raw mut signals).cast::<u64>().write(set);
        signals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_its_first_64_signals() {
        for set in [0, 1, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef] {
            assert_eq!(set_of(&sigset(set)), set);
        }
        // SAFETY: a set of ours.
        let has =
            |signal| unsafe { libc::sigismember(&sigset(crate::sys::bit(libc::SIGTERM)), signal) };
        assert_eq!((has(libc::SIGTERM), has(libc::SIGINT)), (1, 0));
    }
}
