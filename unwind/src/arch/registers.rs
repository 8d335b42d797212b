//! The registers of one frame.

use super::REGISTER_COUNT;
use super::names::*;

/// The order of `ucontext_t.uc_mcontext.gregs` on Linux x86-64, as DWARF numbers.
pub(crate) const GREGS: [u8; REGISTER_COUNT] = [
    R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP,
];

/// Values of the general registers and the program counter in one frame, by DWARF number ([`crate::register`]). A register
/// whose value is not known, as most are after a call, has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    values: [u64; REGISTER_COUNT],
    known: u64,
}

const _: () = assert!(size_of::<Registers>() == 144);

impl Registers {
    /// Registers of which only the program counter, the stack pointer and the frame pointer (`rbp`) are known.
    #[inline]
    pub fn new(pc: u64, sp: u64, fp: u64) -> Self {
        let mut registers = Self {
            values: [0; REGISTER_COUNT],
            known: 0,
        };
        registers.set(RIP, pc);
        registers.set(RSP, sp);
        registers.set(RBP, fp);
        registers
    }

    /// Registers of which only the program counter and the stack pointer are known, as the kernel reports them of a blocked thread, and
    /// the arguments of the system call that it is in, if it is in one: these registers keep them to its end.
    #[inline]
    pub fn of_blocked(pc: u64, sp: u64, arguments: Option<[u64; 6]>) -> Self {
        let mut registers = Self::new(pc, sp, 0);
        registers.set_fp(None);
        for (register, value) in [RDI, RSI, RDX, R10, R8, R9]
            .into_iter()
            .zip(arguments.into_iter().flatten())
        {
            registers.set(register, value);
        }
        registers
    }

    /// The registers in a signal handler's `ucontext_t`: pass `uc_mcontext.gregs`.
    ///
    /// # Signal safety
    ///
    /// Copies seventeen words.
    #[inline]
    pub fn from_gregs(gregs: &[i64; 23]) -> Self {
        let mut registers = Self {
            values: [0; REGISTER_COUNT],
            known: 0,
        };
        for (&register, &value) in GREGS.iter().zip(gregs) {
            registers.set(register, value.cast_unsigned());
        }
        registers
    }

    /// The value of the register with DWARF number `register`, if it is known.
    #[inline(always)]
    pub fn get(&self, register: u8) -> Option<u64> {
        if self.known >> (register & 63) & 1 == 0 {
            return None;
        }
        self.values.get(usize::from(register)).copied()
    }

    /// Makes a register known. Numbers that the architecture does not have are ignored.
    #[inline(always)]
    pub fn set(&mut self, register: u8, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(register)) {
            *slot = value;
            self.known |= 1 << (register & 63);
        }
    }

    /// Makes a register unknown.
    #[inline(always)]
    pub fn forget(&mut self, register: u8) {
        self.known &= !(1 << (register & 63));
    }

    /// Forgets every register that is not in the set `mask` (bit n: register n).
    #[inline(always)]
    pub(crate) fn keep_only(&mut self, mask: u64) {
        self.known &= mask;
    }

    /// The program counter.
    #[inline(always)]
    pub fn pc(&self) -> u64 {
        let [.., rip] = self.values;
        rip
    }

    /// Sets the program counter.
    #[inline(always)]
    pub(crate) fn set_pc(&mut self, pc: u64) {
        self.set(RIP, pc);
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> u64 {
        let [_, _, _, _, _, _, _, rsp, ..] = self.values;
        rsp
    }

    /// Sets the stack pointer.
    #[inline(always)]
    pub(crate) fn set_sp(&mut self, sp: u64) {
        self.set(RSP, sp);
    }

    /// The frame pointer, if its value is known.
    #[inline(always)]
    pub fn fp(&self) -> Option<u64> {
        self.get(RBP)
    }

    /// Makes the frame pointer known, or unknown.
    #[inline(always)]
    pub(crate) fn set_fp(&mut self, fp: Option<u64>) {
        match fp {
            Some(fp) => self.set(RBP, fp),
            None => self.forget(RBP),
        }
    }
}
