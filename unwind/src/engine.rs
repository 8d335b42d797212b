//! The interface that all ways of walking a stack share.

use crate::{End, FrameBuffer, Memory, Modules, Registers};

/// One way of walking a stack.
pub trait Engine {
    /// Walks the stack whose registers are `registers`, leaf first, into `out`.
    ///
    /// The first frame is the program counter itself, [`EXACT`](crate::EXACT). The frames that were found are in `out` however
    /// the walk ends.
    ///
    /// # Signal safety
    ///
    /// May run in a handler, also in several threads at once, when `memory` and `modules` may.
    fn walk<M: Memory, S: Modules>(
        &mut self,
        registers: &Registers,
        memory: &M,
        modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End;
}
