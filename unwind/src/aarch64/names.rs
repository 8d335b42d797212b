//! DWARF register numbers of aarch64; `x0` to `x30` are 0 to 30.

/// `x19`, the first of the callee-saved registers.
pub const X19: u8 = 19;
/// `x29`, the frame pointer.
pub const FP: u8 = 29;
/// `x30`, the link register.
pub const LR: u8 = 30;
/// `sp`, the stack pointer.
pub const SP: u8 = 31;
/// The program counter.
pub const PC: u8 = 32;
