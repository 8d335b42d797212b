//! Room for the stack of a sample, beside the stack of the sample before it.

use crate::state;

/// The deepest stack that is recorded, in frames: the length of each buffer in words.
pub fn depth() -> usize {
    state::settings().max_depth as usize
}

/// The stack that is being read and the one before it, of which only the thread (and its signal handler) knows.
#[derive(Debug)]
pub struct StackBuffers {
    current: *mut u64,
    previous: *mut u64,
    previous_frames: u32,
}

impl StackBuffers {
    /// How many words two buffers take.
    pub fn words() -> usize {
        2 * depth()
    }

    /// Two empty buffers.
    ///
    /// # Safety
    /// `memory` must have room for [`StackBuffers::words`], for ever, and not be used otherwise.
    pub unsafe fn new(memory: *mut u64) -> Self {
        StackBuffers {
            current: memory,
            previous: memory.wrapping_add(depth()),
            previous_frames: 0,
        }
    }

    /// Forgets the stack before.
    pub fn reset(&mut self) {
        self.previous_frames = 0;
    }

    /// Frames of the stack before.
    #[inline]
    pub fn previous_frames(&self) -> u32 {
        self.previous_frames
    }

    /// Room for the next stack, and the stack before.
    ///
    /// # Safety
    /// One sample of the owning thread at a time: the slices are valid until [`StackBuffers::swap`].
    #[inline]
    pub unsafe fn slices<'a>(&self) -> (&'a mut [u64], &'a [u64]) {
        // SAFETY: the memory has `depth` words for each, see `new`; no other thread uses it, as the caller says.
        unsafe {
            (
                std::slice::from_raw_parts_mut(self.current, depth()),
                std::slice::from_raw_parts(self.previous, self.previous_frames as usize),
            )
        }
    }

    /// The stack that was just read has this many frames, and is the one before from now on.
    #[inline]
    pub fn swap(&mut self, frames: usize) {
        self.previous_frames = frames as u32;
        std::mem::swap(&mut self.current, &mut self.previous);
    }
}

/// How many outermost frames two stacks share.
#[inline]
pub fn shared(frames: &[u64], previous: &[u64]) -> usize {
    let both = frames.iter().rev().zip(previous.iter().rev());
    both.take_while(|(a, b)| a == b).count()
}
