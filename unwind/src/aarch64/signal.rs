//! Signal frames: what the kernel pushed before it entered a handler.

use super::names::{LR, PC, SP};
use crate::Memory;
use crate::arch::Registers;

/// `mov x8, #139; svc #0`: `rt_sigreturn`, to which a handler returns.
const RT_SIGRETURN: u64 = 0xd400_0001_d280_1168;

/// Where `regs` is from the stack pointer: a `siginfo_t` (128 bytes), and in the `ucontext_t` the fields before `uc_mcontext`
/// (176 bytes), whose first word is the fault address.
const REGS_OFFSET: u64 = 128 + 176 + 8;

/// Whether `pc` is in the trampoline that ends a signal handler, by its instructions.
pub(crate) fn is_trampoline<M: Memory>(memory: &M, pc: u64, exact: bool) -> bool {
    memory.read_u64(pc) == Some(RT_SIGRETURN)
        || (exact && memory.read_u64(pc.wrapping_sub(4)) == Some(RT_SIGRETURN))
}

/// Replaces the registers of a trampoline by those that the signal interrupted.
pub(crate) fn restore<M: Memory>(registers: &mut Registers, memory: &M) -> Option<()> {
    let mut address = registers.sp().wrapping_add(REGS_OFFSET);
    for register in (0..=LR).chain([SP, PC]) {
        registers.set(register, memory.read_u64(address)?);
        address = address.wrapping_add(8);
    }
    Some(())
}
