//! Reads of memory that may not be there.
//!
//! A guarded load is one instruction whose address stands in a table (section `rsys_guard`). When
//! it faults, the SIGSEGV or SIGBUS handler finds its program counter there, clears the register
//! that says "ok" and continues behind it. A load that does not fault costs what a load costs.

use rsys_unwind::Memory;

/// A guarded load by one instruction; `$ok` is the register that says whether it succeeded.
macro_rules! guarded {
    ($name:ident, $type:ty, $ok:tt, $load:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Signal safety
        /// One load; a fault is mended by `mend`.
        #[inline]
        pub fn $name(address: u64) -> Option<$type> {
            let value: u64;
            let ok: u32;
            // SAFETY: the load cannot escape as a fault because its address is in the table that
            // `mend` looks up; a mended load leaves 0 in `$ok` and its target as it was.
            unsafe {
                std::arch::asm!(
                    concat!("2: ", $load),
                    "3:",
                    ".pushsection rsys_guard, \"aR\", @progbits",
                    ".balign 4",
                    ".long 2b - .",
                    ".long 3b - .",
                    ".popsection",
                    address = in(reg) address,
                    value = inout(reg) 0_u64 => value,
                    inout($ok) 1_u32 => ok,
                    options(nostack, readonly, preserves_flags),
                );
            }
            (ok != 0).then_some(value as $type)
        }
    };
}

#[rustfmt::skip]
mod machine {
    guarded!(read_u64, u64, "ecx", "mov {value}, qword ptr [{address}]", "Reads eight bytes.");
    guarded!(read_u32, u32, "ecx", "mov {value:e}, dword ptr [{address}]", "Reads four bytes.");
    guarded!(read_u16, u16, "ecx", "movzx {value:e}, word ptr [{address}]", "Reads two bytes.");
    guarded!(read_u8, u8, "ecx", "movzx {value:e}, byte ptr [{address}]", "Reads one byte.");

    pub(super) fn pc(context: &libc::ucontext_t) -> u64 {
        context.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned()
    }

    pub(super) fn set_pc(context: &mut libc::ucontext_t, pc: u64) {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc.cast_signed();
    }

    /// Clears the register that says "ok".
    pub(super) fn clear_ok(context: &mut libc::ucontext_t) {
        context.uc_mcontext.gregs[libc::REG_RCX as usize] = 0;
    }
}

/// Writes eight bytes at an aligned address, at once; false where that memory may not be written.
///
/// # Safety
/// The word, if it may be written, must be one that may have this value.
pub unsafe fn write_u64(address: u64, value: u64) -> bool {
    let ok: u32;
    // SAFETY: as the caller says; the store cannot escape as a fault, as the loads above.
    unsafe {
        std::arch::asm!(
            "2: mov qword ptr [{address}], {value}",
            "3:",
            ".pushsection rsys_guard, \"aR\", @progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".popsection",
            address = in(reg) address,
            value = in(reg) value,
            inout("ecx") 1_u32 => ok,
            options(nostack, preserves_flags),
        );
    }
    ok != 0
}

pub use machine::{read_u8, read_u16, read_u32, read_u64};

/// The process's own memory, read with guarded loads.
#[derive(Debug, Clone, Copy)]
pub struct Guarded;

impl Memory for Guarded {
    #[inline]
    fn read_u64(&self, address: u64) -> Option<u64> {
        read_u64(address)
    }
    #[inline]
    fn read_u32(&self, address: u64) -> Option<u32> {
        read_u32(address)
    }
    #[inline]
    fn read_u16(&self, address: u64) -> Option<u16> {
        read_u16(address)
    }
    #[inline]
    fn read_u8(&self, address: u64) -> Option<u8> {
        read_u8(address)
    }
}

/// Copies bytes until the first that cannot be read or is zero; returns how many.
///
/// # Signal safety
/// Guarded loads and stores into the caller's buffer.
#[unsafe(link_section = "rsys_start")]
pub fn copy_c_string(address: u64, buffer: &mut [u8]) -> usize {
    let mut length = 0;
    for (offset, to) in buffer.iter_mut().enumerate() {
        match read_u8(address.wrapping_add(offset as u64)) {
            None | Some(0) => break,
            Some(byte) => *to = byte,
        }
        length = offset.wrapping_add(1);
    }
    length
}

// Two libraries with such a section must not see each other's.
std::arch::global_asm!(".hidden __start_rsys_guard", ".hidden __stop_rsys_guard");

unsafe extern "C" {
    // Set by the linker around the section of the same name.
    #[link_name = "__start_rsys_guard"]
    static GUARD_START: [i32; 2];
    #[link_name = "__stop_rsys_guard"]
    static GUARD_STOP: [i32; 2];
}

/// Continues behind a guarded load that faulted.
///
/// Returns `false` when the fault is not one of ours.
///
/// # Safety
/// `context` must be the third argument of a signal handler.
///
/// # Signal safety
/// Reads a constant table, writes the interrupted registers.
pub unsafe fn mend(context: *mut libc::ucontext_t) -> bool {
    // SAFETY: the caller passes a handler's context.
    let context = unsafe { &mut *context };
    let pc = machine::pc(context);
    let mut entry = &raw const GUARD_START;
    while entry < &raw const GUARD_STOP {
        // SAFETY: the linker's bounds enclose whole entries of two offsets, each relative to its
        // own place.
        let [load, resume] = unsafe { *entry };
        let base = entry.addr() as u64;
        if base.wrapping_add_signed(i64::from(load)) == pc {
            let resume = base.wrapping_add(4).wrapping_add_signed(i64::from(resume));
            machine::set_pc(context, resume);
            machine::clear_ok(context);
            return true;
        }
        entry = entry.wrapping_add(1);
    }
    false
}

/// Lets the thread go on at `pc` when the handler returns.
pub fn go_on_at(context: &mut libc::ucontext_t, pc: u64) {
    machine::set_pc(context, pc);
}
