//! What the wrappers know of the calling thread: initial-exec TLS, as in [`crate::sys::thread_words`].

/// How many levels of open ranges are remembered one by one.
const LEVELS: u64 = 2048;
const LEVEL_WORDS: usize = (LEVELS / 64) as usize;

/// The words of one thread. All zero when it starts.
#[derive(Debug)]
#[repr(C)]
pub struct Words {
    /// Calls of roctx that the thread is in: one library may be built upon another.
    pub in_roctx: u32,
    /// Calls of RCCL that the thread is in: RCCL calls itself.
    pub in_rccl: u32,
    /// The level that a push returns when no library answers.
    pub level: u32,
    /// Open ranges.
    ranges: Nest,
    /// The group of calls that the thread has open.
    pub group: Group,
}

/// The open ranges of a thread, and which of them were recorded. All zero when the thread starts.
#[derive(Debug)]
#[repr(C)]
pub struct Nest {
    open: u64,
    /// Which of them were not recorded: a bit each.
    unrecorded: [u64; LEVEL_WORDS],
}

impl Nest {
    /// A range begins.
    pub fn open(&mut self, recorded: bool) {
        if let Some((word, bit)) = self.level_bit(self.open) {
            *word = if recorded { *word & !bit } else { *word | bit };
        }
        self.open = self.open.saturating_add(1);
    }

    /// How many are open.
    pub fn depth(&self) -> u64 {
        self.open
    }

    /// Whether a range that begins now can be left out: the deepest are recorded in any case, for nothing remembers what they are.
    pub fn may_skip(&self) -> bool {
        self.open < LEVELS
    }

    /// The innermost range ends: whether it was recorded. `None` when no range is open.
    pub fn close(&mut self) -> Option<bool> {
        self.open = self.open.checked_sub(1)?;
        let skipped = self
            .level_bit(self.open)
            .map(|(word, bit)| *word & bit != 0);
        Some(skipped != Some(true))
    }

    /// None of the open ranges is known to the trace of this process.
    pub fn forget(&mut self) {
        self.unrecorded = [u64::MAX; LEVEL_WORDS];
        self.open = self.open.min(LEVELS);
    }

    fn level_bit(&mut self, level: u64) -> Option<(&mut u64, u64)> {
        let word = self.unrecorded.get_mut(level as usize / 64)?;
        Some((word, 1 << (level % 64)))
    }
}

/// Calls between the outermost `ncclGroupStart` and `ncclGroupEnd`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Group {
    /// `ncclGroupStart`s without their `ncclGroupEnd`.
    pub depth: u32,
    /// Operations so far.
    pub operations: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The correlation that they share with the `ncclGroupEnd`.
    pub correlation: u64,
    /// The key of the operation's name if all are of one kind, else of "mixed".
    pub kind: u64,
}

impl Words {
    /// A range begins.
    pub fn open_range(&mut self, recorded: bool) {
        self.ranges.open(recorded);
    }

    /// Whether a range that begins now can be left out; see [`Nest::may_skip`].
    pub fn may_skip(&self) -> bool {
        self.ranges.may_skip()
    }

    /// The innermost range ends; see [`Nest::close`].
    pub fn close_range(&mut self) -> Option<bool> {
        self.ranges.close()
    }

    /// None of the open ranges is known to the trace of this process.
    pub fn forget_ranges(&mut self) {
        self.ranges.forget();
    }
}

crate::thread_words! {
    fn place() -> *mut Words = "rsys_marker_words"
}

/// The calling thread's words.
///
/// Nothing that holds the reference calls into the program or a library.
#[inline]
pub fn words<'a>() -> &'a mut Words {
    // SAFETY: part of the thread's static TLS, for as long as it runs; see above for exclusivity.
    unsafe { &mut *place() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of_a_new_thread() -> Words {
        // SAFETY: all zero is how a thread starts.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn ranges_close_as_they_were_opened() {
        let mut words = words_of_a_new_thread();
        assert_eq!(words.close_range(), None);
        let recorded = |level: u64| !level.is_multiple_of(3);
        for level in 0..LEVELS + 10 {
            assert_eq!(words.may_skip(), level < LEVELS);
            words.open_range(recorded(level) || level >= LEVELS);
        }
        for level in (0..LEVELS + 10).rev() {
            let expected = recorded(level) || level >= LEVELS;
            assert_eq!(words.close_range(), Some(expected), "{level}");
        }
        assert_eq!(words.close_range(), None);
    }

    #[test]
    fn a_forks_child_closes_its_parents_ranges_unrecorded() {
        let mut words = words_of_a_new_thread();
        words.open_range(true);
        words.forget_ranges();
        words.open_range(true);
        assert_eq!(
            (words.close_range(), words.close_range()),
            (Some(true), Some(false))
        );
    }
}
