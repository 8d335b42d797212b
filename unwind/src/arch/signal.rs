//! Signal frames: what the kernel pushed before it entered a handler.

use super::registers::GREGS;
use crate::Memory;
use crate::arch::Registers;

/// `mov $15, %rax; syscall`: `rt_sigreturn`, to which a handler returns.
const RESTORE_RT: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Where `uc_mcontext.gregs` is in `ucontext_t`: after `uc_flags`, `uc_link` and `uc_stack`.
const GREGS_OFFSET: u64 = 40;

/// Whether `pc` is in the trampoline that ends a signal handler, by its instructions.
pub(crate) fn is_trampoline<M: Memory>(memory: &M, pc: u64, exact: bool) -> bool {
    // A thread can be interrupted before the mov or before the syscall; a handler returns to the mov.
    is_restore_rt(memory, pc) || (exact && is_restore_rt(memory, pc.wrapping_sub(7)))
}

fn is_restore_rt<M: Memory>(memory: &M, address: u64) -> bool {
    let [b0, b1, b2, b3, b4, b5, b6, b7, b8] = RESTORE_RT;
    let head = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    memory.read_u64(address) == Some(head) && memory.read_u8(address.wrapping_add(8)) == Some(b8)
}

/// Replaces the registers of a trampoline by those that the signal interrupted. The kernel's `rt_sigframe` is a return address,
/// which the handler's `ret` has popped, and then the `ucontext_t`.
pub(crate) fn restore<M: Memory>(registers: &mut Registers, memory: &M) -> Option<()> {
    let mut address = registers.sp().wrapping_add(GREGS_OFFSET);
    for &register in &GREGS {
        registers.set(register, memory.read_u64(address)?);
        address = address.wrapping_add(8);
    }
    Some(())
}
