//! DWARF register numbers of x86-64 (System V ABI, figure "DWARF Register Number Mapping").

/// `rax`.
pub const RAX: u8 = 0;
/// `rdx`.
pub const RDX: u8 = 1;
/// `rcx`.
pub const RCX: u8 = 2;
/// `rbx`.
pub const RBX: u8 = 3;
/// `rsi`.
pub const RSI: u8 = 4;
/// `rdi`.
pub const RDI: u8 = 5;
/// `rbp`, the frame pointer where there is one.
pub const RBP: u8 = 6;
/// `rsp`, the stack pointer.
pub const RSP: u8 = 7;
/// `r8`.
pub const R8: u8 = 8;
/// `r9`.
pub const R9: u8 = 9;
/// `r10`.
pub const R10: u8 = 10;
/// `r11`.
pub const R11: u8 = 11;
/// `r12`.
pub const R12: u8 = 12;
/// `r13`.
pub const R13: u8 = 13;
/// `r14`.
pub const R14: u8 = 14;
/// `r15`.
pub const R15: u8 = 15;
/// The return address column, in which a walk keeps `rip`.
pub const RIP: u8 = 16;
