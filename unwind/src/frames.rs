//! Where a walk puts its frames, and how it ends.

use core::fmt;

/// Flag of a frame word: the address is where the thread was (the leaf, or a frame that a signal interrupted), not where a call
/// returns to. A return address belongs to the instruction before it, so it is symbolised with `pc - 1`; an exact one as it is.
pub const EXACT: u64 = 1 << 63;

/// Flag of a frame word: the frame is a guess. The code below it had no usable unwind information, and this address was found
/// by looking at the words on the stack.
pub const SCANNED: u64 = 1 << 62;

/// The bits of a frame word that are flags; the others are the address.
pub const FLAGS: u64 = 0xff << 56;

/// A fixed buffer for frame words, leaf first: an address each, with [`EXACT`] and [`SCANNED`] in the top byte.
#[derive(Debug)]
pub struct FrameBuffer<'a> {
    words: &'a mut [u64],
    len: usize,
}

/// There was no room for another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<'a> FrameBuffer<'a> {
    /// An empty buffer over `words`, whose length is the limit of the walk's depth.
    #[inline]
    pub fn new(words: &'a mut [u64]) -> Self {
        Self { words, len: 0 }
    }

    /// Appends one frame. The top byte of `pc` is replaced by `flags`.
    ///
    /// # Errors
    ///
    /// [`Full`] when the buffer has no room; the buffer is unchanged then.
    ///
    /// # Signal safety
    ///
    /// Writes to the buffer only.
    #[inline]
    pub fn push(&mut self, pc: u64, flags: u64) -> Result<(), Full> {
        let word = self.words.get_mut(self.len).ok_or(Full)?;
        *word = (pc & !FLAGS) | (flags & FLAGS);
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Adds flags to the frame that was pushed last.
    #[inline]
    pub(crate) fn mark_last(&mut self, flags: u64) {
        if let Some(word) = self.words.get_mut(self.len.wrapping_sub(1)) {
            *word |= flags & FLAGS;
        }
    }

    /// Takes the last frame back.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// How many frames the buffer holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was pushed yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The frames so far, leaf first.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.len).unwrap_or(&[])
    }

    /// The frames for as long as the storage lives.
    #[inline]
    pub fn into_words(self) -> &'a [u64] {
        let len = self.len;
        let words: &'a [u64] = self.words;
        words.get(..len).unwrap_or(&[])
    }
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost frame of the thread was reached (`_start`, `clone`, or a null return address).
    Root,
    /// The buffer is full; there are more frames.
    Truncated,
    /// The next frame could not be found.
    Broken(Broken),
}

/// Why the next frame could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Broken {
    /// The code has no unwind information, and neither the frame pointer nor the words on the stack lead to a caller.
    NoUnwindInfo = 1,
    /// The unwind tables are damaged, not readable, or use something that no compiler emits.
    BadTables = 2,
    /// The rule needs a register whose value is not known here.
    UnknownRegister = 3,
    /// A word of the stack cannot be read.
    UnreadableStack = 4,
    /// The caller's frame would not lie above the callee's.
    StackNotGrowing = 5,
    /// The return address is no address of code.
    BadReturnAddress = 6,
    /// The engine failed and gave no reason.
    Other = 7,
}

impl Broken {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoUnwindInfo => "code without unwind information",
            Self::BadTables => "unusable unwind tables",
            Self::UnknownRegister => "a register is not known",
            Self::UnreadableStack => "the stack cannot be read",
            Self::StackNotGrowing => "the stack does not grow",
            Self::BadReturnAddress => "the return address is not code",
            Self::Other => "the engine gave up",
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
