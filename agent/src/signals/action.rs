use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::signals::sets::{set_of, sigset};
use crate::sys;
use crate::sys::calls;
use crate::target::real;

/// One disposition, in our own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Address of the handler, or `SIG_DFL`, `SIG_IGN`.
    pub handler: usize,
    /// `SA_*` flags.
    pub flags: c_int,
    /// Signals blocked in the handler, as a kernel set.
    pub mask: u64,
}

impl Action {
    /// From the C structure.
    pub fn from_c(action: &libc::sigaction) -> Action {
        Action {
            handler: action.sa_sigaction,
            flags: action.sa_flags,
            mask: set_of(&action.sa_mask),
        }
    }

    /// To the C structure.
    pub fn to_c(self) -> libc::sigaction {
        // SAFETY: all zero is valid; the fields are filled in.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = sigset(self.mask);
        action
    }
}

/// The kernel's `struct sigaction` (`asm-generic/signal.h`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct KernelAction {
    pub handler: usize,
    pub flags: u64,
    restorer: usize,
    pub mask: u64,
}

impl KernelAction {
    pub fn action(&self) -> Action {
        Action {
            handler: self.handler,
            flags: self.flags as c_int & !RESTORER_FLAG,
            mask: self.mask,
        }
    }
}

/// SA_RESTORER: the kernel returns from handlers by a function of the C library's. Unwinders know it.
pub const RESTORER_FLAG: c_int = 0x0400_0000;

pub static RESTORER: AtomicUsize = AtomicUsize::new(0);

/// Learns the C library's restorer from a handler that it installs for us.
#[unsafe(link_section = "rsys_start")]
pub fn learn_restorer(signal: c_int, action: Action) {
    let Some(real) = real::sigaction::get() else {
        return;
    };
    let new = action.to_c();
    // SAFETY: a valid structure, and the handler matches SA_SIGINFO.
    unsafe { real(signal, &raw const new, std::ptr::null_mut()) };
    if let Some(installed) = ask_kernel(signal) {
        RESTORER.store(installed.restorer, Ordering::Relaxed);
    }
}

/// Tells the kernel itself: the runtimes of sanitizers stand in front of the C library's function, too, and would call
/// our handler when they please. Returns whether it was done.
#[unsafe(link_section = "rsys_start")]
pub fn kernel_sigaction(signal: c_int, action: Action) -> bool {
    // The program lets the C library's system calls reach the kernel, if any.
    if calls::is_dispatched()
        && let Some(real) = real::sigaction::known()
    {
        let new = action.to_c();
        // SAFETY: a valid structure with a handler of ours or the default.
        return unsafe { real(signal, &raw const new, std::ptr::null_mut()) } == 0;
    }
    let new = KernelAction {
        handler: action.handler,
        flags: (action.flags | RESTORER_FLAG) as u64,
        restorer: RESTORER.load(Ordering::Relaxed),
        mask: action.mask,
    };
    // SAFETY: the kernel's structure, with a handler of ours or the default.
    unsafe { sys::sigaction(signal, Some(&new), None) == 0 }
}

#[unsafe(link_section = "rsys_start")]
pub fn ask_kernel(signal: c_int) -> Option<KernelAction> {
    let mut action = KernelAction::default();
    // SAFETY: the kernel's structure; no handler is changed.
    let result = unsafe { sys::sigaction(signal, None, Some(&mut action)) };
    (result == 0).then_some(action)
}

/// The disposition that the kernel knows.
#[unsafe(link_section = "rsys_start")]
pub fn current_action(signal: c_int) -> Option<Action> {
    ask_kernel(signal).map(|action| action.action())
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn handler(_: c_int) {}

    #[test]
    fn the_kernels_structure_is_as_the_c_library_fills_it_in() {
        let wanted = Action {
            handler: handler as *const () as usize,
            flags: libc::SA_NODEFER,
            mask: 1 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGTTOU - 1),
        };
        let new = wanted.to_c();
        let mut before = new;
        // SAFETY: valid structures with an empty handler, for a signal that is not sent.
        let result = unsafe { libc::sigaction(libc::SIGTTIN, &raw const new, &raw mut before) };
        assert_eq!(result, 0);
        assert_eq!(current_action(libc::SIGTTIN), Some(wanted));
        let other = Action {
            mask: 1 << (libc::SIGTTOU - 1),
            ..wanted
        };
        let new = KernelAction {
            handler: other.handler,
            flags: other.flags as u64,
            restorer: 0,
            mask: other.mask,
        };
        // SAFETY: as above; never delivered, so that nothing has to return from the handler.
        let result = unsafe { sys::sigaction(libc::SIGTTIN, Some(&new), None) };
        assert_eq!(result, 0);
        let mut read = wanted.to_c();
        // SAFETY: room for the answer.
        let result = unsafe { libc::sigaction(libc::SIGTTIN, std::ptr::null(), &raw mut read) };
        assert_eq!(result, 0);
        assert_eq!(Action::from_c(&read).mask, other.mask);
        assert_eq!(Action::from_c(&read).handler, other.handler);
        // SAFETY: what stood there.
        let result =
            unsafe { libc::sigaction(libc::SIGTTIN, &raw const before, std::ptr::null_mut()) };
        assert_eq!(result, 0);
    }
}
