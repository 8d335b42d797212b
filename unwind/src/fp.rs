//! The engine that follows frame pointers.

use crate::fallback;
use crate::frames::{EXACT, End, FrameBuffer};
use crate::{CfiEngine, Engine, Memory, Modules, Registers};

/// The engine that needs no tables, for programs that are compiled with frame pointers throughout.
///
/// Every frame must be plausible: the chain leads up the stack, and each return address follows a call, or is in generated code whose
/// callers' frames lead on. The caller of a leaf that has not pushed its frame pointer yet is missed, unless the code is in no module.
/// Where the chain ends before the stack does, as in the C library's start of threads, the tables show the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramePointerEngine<'cache> {
    tables: CfiEngine<'cache>,
}

impl<'cache> FramePointerEngine<'cache> {
    /// An engine that goes on with `tables` where frame pointers end.
    pub const fn new(tables: CfiEngine<'cache>) -> Self {
        Self { tables }
    }
}

impl Engine for FramePointerEngine<'_> {
    fn walk<M: Memory, S: Modules>(
        &mut self,
        registers: &Registers,
        memory: &M,
        modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End {
        let mut registers = *registers;
        let mut flags = EXACT;
        let mut generated = 0;
        let mut sound_to = 0;
        loop {
            if out.push(registers.pc(), flags).is_err() {
                return End::Truncated;
            }
            let is_exact = flags & EXACT != 0;
            if modules.find(registers.pc()).is_none() && memory.read_u8(registers.pc()).is_some() {
                generated = registers.pc();
            }
            let guess =
                fallback::frame_pointer(&registers, memory, modules, generated, &mut sound_to);
            let Some(guess) = guess else {
                return self
                    .tables
                    .go_on(&registers, is_exact, memory, modules, out);
            };
            registers.keep_only(0);
            registers.set_pc(guess.return_address);
            registers.set_sp(guess.sp);
            registers.set_fp(guess.fp);
            flags = 0;
        }
    }
}
