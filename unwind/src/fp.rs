//! The engine that follows frame pointers.

use crate::fallback;
use crate::frames::{Broken, EXACT, End, FrameBuffer, SCANNED};
use crate::{Engine, Memory, Modules, Registers};

/// The engine that needs no tables, for programs that are compiled with frame pointers throughout.
///
/// Every frame must be plausible: the chain leads up the stack, and each return address follows a call. The caller of a leaf that
/// has not pushed its frame pointer yet is missed, unless the code is in no module.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramePointerEngine;

impl Engine for FramePointerEngine {
    fn walk<M: Memory, S: Modules>(
        &mut self,
        registers: &Registers,
        memory: &M,
        modules: &S,
        out: &mut FrameBuffer<'_>,
    ) -> End {
        let mut registers = *registers;
        let mut flags = EXACT;
        loop {
            if out.push(registers.pc(), flags).is_err() {
                return End::Truncated;
            }
            if registers.fp() == Some(0) && flags & EXACT == 0 {
                return End::Root;
            }
            let Some(guess) = fallback::frame_pointer(&registers, memory, modules) else {
                return End::Broken(Broken::NoUnwindInfo);
            };
            registers.keep_only(0);
            registers.set_pc(guess.return_address);
            registers.set_sp(guess.sp);
            registers.set_fp(guess.fp);
            flags = if guess.certain { 0 } else { SCANNED };
        }
    }
}
