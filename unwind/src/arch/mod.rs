//! What is particular to x86-64: its registers, its call instructions and its signal frames.

pub(crate) mod calls;
pub mod names;
mod registers;
pub(crate) mod signal;

pub use self::registers::Registers;

use self::names::{R12, R13, R14, R15, RAX, RBP, RBX, RCX, RIP, RSP};

/// DWARF columns that a walk tracks: the sixteen general registers and the return address.
pub(crate) const REGISTER_COUNT: usize = 17;
/// The column in which a CIE of this architecture names the return address.
pub(crate) const RETURN_ADDRESS: u8 = RIP;
/// The stack pointer's column.
pub(crate) const STACK_POINTER: u8 = RSP;
/// The frame pointer's column.
pub(crate) const FRAME_POINTER: u8 = RBP;
/// Registers that a function hands back as it found them (System V ABI). After a call, only these are known.
pub(crate) const CALLEE_SAVED: u64 =
    1 << RBX | 1 << RBP | 1 << R12 | 1 << R13 | 1 << R14 | 1 << R15;
/// The first register that carries data to a landing pad. Only functions that return to one save it, among all that a row has.
pub(crate) const LANDING_DATA: u8 = RAX;
/// The register by which `__builtin_eh_return` moves the stack pointer: first the distance, then where the landing pad's address is
/// (GCC's `EH_RETURN_STACKADJ_RTX`).
pub(crate) const LANDING_PLACE: Option<u8> = Some(RCX);
/// The distance of the CFA from the stack pointer at the first instruction of a function: a call has pushed the return address.
pub(crate) const ENTRY_CFA: i64 = 8;
