//! What the tests must know of the processor: taking the registers of here, and code without unwind tables.

use std::arch::naked_asm;

use rsys_unwind::{Registers, register};

/// The callee-saved registers, the caller's stack pointer and the return address, in the order of [`capture`].
pub type Captured = [u64; 16];

/// Stores them.
#[unsafe(naked)]
pub extern "C" fn capture(words: &mut Captured) {
    naked_asm!(
        "mov [rdi], rbx",
        "mov [rdi + 8], rbp",
        "mov [rdi + 16], r12",
        "mov [rdi + 24], r13",
        "mov [rdi + 32], r14",
        "mov [rdi + 40], r15",
        "lea rax, [rsp + 8]",
        "mov [rdi + 48], rax",
        "mov rax, [rsp]",
        "mov [rdi + 56], rax",
        "ret",
    )
}

/// The registers behind the call of [`capture`].
pub fn registers(words: &Captured) -> Registers {
    let mut registers = Registers::new(words[7], words[6], words[1]);
    registers.set(register::RBX, words[0]);
    registers.set(register::R12, words[2]);
    registers.set(register::R13, words[3]);
    registers.set(register::R14, words[4]);
    registers.set(register::R15, words[5]);
    registers
}

/// The registers that a signal interrupted.
pub fn interrupted(context: &libc::ucontext_t) -> Registers {
    Registers::from_gregs(&context.uc_mcontext.gregs)
}

/// A function without tables and without a frame record, which calls the function that it is given, and keeps some words on the
/// stack below its return address.
#[unsafe(naked)]
pub extern "C" fn without_tables(function: extern "C" fn()) {
    naked_asm!(
        "jmp 2f",
        ".pushsection .text.rsys_no_tables,\"ax\",@progbits",
        "2: sub rsp, 40",
        "mov qword ptr [rsp], 0",
        "mov qword ptr [rsp + 8], 0",
        "mov qword ptr [rsp + 16], 0",
        "mov qword ptr [rsp + 24], 0",
        "mov qword ptr [rsp + 32], 0",
        "call rdi",
        "add rsp, 40",
        "ret",
        ".popsection",
    )
}
