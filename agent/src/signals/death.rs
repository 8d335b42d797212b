//! The end of a process by a signal that the program leaves to its default action.

use std::ffi::c_int;

use crate::signals::action::{Action, kernel_sigaction};
use crate::sys;
use crate::sys::guard;

// An instruction that raises SIGTRAP.
std::arch::global_asm!(
    ".text",
    ".globl rsys_breakpoint",
    ".hidden rsys_breakpoint",
    "rsys_breakpoint:",
    "int3",
);

unsafe extern "C" {
    #[link_name = "rsys_breakpoint"]
    static BREAKPOINT: u8;
}

/// Lets the process end by the fault that is being handled: when the handler returns, the instruction faults again, and the kernel ends
/// a process that blocks the signal of a fault. So its core has the right registers, and no system call is needed, which a filter of the
/// program's might punish.
///
/// # Signal safety
/// Writes what the return from the handler restores.
pub fn of_fault(signal: c_int, machine: &mut libc::ucontext_t) {
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    unsafe { *(&raw mut machine.uc_sigmask).cast::<u64>() |= sys::bit(signal) };
}

/// Ends the process by a signal that was sent, or that no instruction repeats, once the handler has returned.
///
/// # Signal safety
/// Two system calls; where a filter of the program's refuses one, as [`of_fault`].
pub fn of_signal(signal: c_int, machine: &mut libc::ucontext_t) {
    let default = Action {
        handler: libc::SIG_DFL,
        flags: 0,
        mask: 0,
    };
    if kernel_sigaction(signal, default) && sys::tgkill(sys::gettid(), signal) {
        // The code that was interrupted may block it: one that waited was let through by the mask of a wait alone.
        // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
        unsafe { *(&raw mut machine.uc_sigmask).cast::<u64>() &= !sys::bit(signal) };
        return;
    }
    if signal == libc::SIGTRAP {
        of_fault(signal, machine);
        guard::go_on_at(machine, (&raw const BREAKPOINT).addr() as u64);
    } else {
        // No instruction brings the other signals about.
        of_fault(libc::SIGSEGV, machine);
        guard::go_on_at(machine, 0);
    }
}
