//! What is particular to aarch64: its registers, its compact rules, its call instructions and its signal frames.

pub(crate) mod calls;
pub mod names;
mod registers;
pub(crate) mod rules;
pub(crate) mod signal;

pub use self::registers::Registers;

use self::names::{FP, LR, SP};

/// DWARF columns that a walk tracks: `x0` to `x30`, `sp` and the program counter.
pub(crate) const REGISTER_COUNT: usize = 33;
/// The column in which a CIE of this architecture names the return address.
pub(crate) const RETURN_ADDRESS: u8 = LR;
/// The stack pointer's column.
pub(crate) const STACK_POINTER: u8 = SP;
/// The frame pointer's column.
pub(crate) const FRAME_POINTER: u8 = FP;
/// Registers that a function hands back as it found them (AAPCS64): `x19` to `x29`. The link register is among them as far as
/// call frame information is concerned: where no rule is given, it still has the return address.
pub(crate) const CALLEE_SAVED: u64 = 0xfff << 19;
/// The first register that carries data to a landing pad: `x0`. Only functions that return to one save it, among all that a row
/// has.
pub(crate) const LANDING_DATA: u8 = 0;
/// On other architectures, the register that says where the landing pad's address is. Here it is where the return address was.
pub(crate) const LANDING_PLACE: Option<u8> = None;
/// The distance of the CFA from the stack pointer at the first instruction of a function: a call pushes nothing.
pub(crate) const ENTRY_CFA: i64 = 0;
/// Whether a call leaves the return address in a register, so that a leaf's frame may be empty.
pub(crate) const LINK_REGISTER: bool = true;

/// A return address without its authentication code, which is in the bits above a 48-bit address.
#[inline(always)]
pub(crate) fn strip(return_address: u64) -> u64 {
    return_address & ((1 << 48) - 1)
}

/// The stack pointer of a caller, of whose callee everything below `above` is. GCC keeps the frame record at the lower end of a
/// frame, so the frame pointer is it; clang's tables do not ask for the stack pointer.
#[inline(always)]
pub(crate) fn caller_sp(above: u64, caller_fp: Option<u64>) -> u64 {
    caller_fp.filter(|fp| *fp >= above).unwrap_or(above)
}
