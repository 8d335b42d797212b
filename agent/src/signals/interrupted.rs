//! Waits with a mask of their own (`sigsuspend`, `pselect`, `ppoll`, `epoll_pwait`) that a sample has ended.
//!
//! The kernel delivers a thread's own signals first. Where a sample comes at the end of a wait that another signal ends, our handler runs with that one
//! blocked, and goes back to the mask from before the wait: the program would find its wait over, and its handler not run. Called again, the wait ends
//! at once, with the handler run. [`after_sample`] does so wherever it sees the call; the functions that we stand in front of do it for
//! programs whose C library makes its calls in another way (glibc from 2.41 on).

use std::ffi::{c_int, c_long};

use crate::signals::action::current_action;
use crate::signals::{faults, program_mask};
use crate::sys;

/// From arch/x86/entry/syscalls/syscall_64.tbl.
const IO_PGETEVENTS: c_long = 333;

/// Whether a system call may wait with a mask of its own.
pub fn has_mask(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_rt_sigsuspend
            | libc::SYS_ppoll
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_pselect6
            | IO_PGETEVENTS
    )
}

/// The mask with which this system call waits, if there is one.
pub fn mask_of(number: c_long, words: &[u64; 6]) -> Option<u64> {
    let [first, _, _, fourth, fifth, sixth] = *words;
    let set = match number {
        libc::SYS_rt_sigsuspend => first,
        libc::SYS_ppoll => fourth,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => fifth,
        // The set's address stands in a structure.
        libc::SYS_pselect6 | IO_PGETEVENTS => faults::read_u64(sixth)?,
        _ => return None,
    };
    faults::read_u64(set)
}

/// Whether a wait with the mask `mask` that was interrupted has left a signal behind that it would have let through, and that does something.
pub fn has_left_a_signal(mask: u64) -> bool {
    const IGNORED: u64 = sys::bit(libc::SIGCHLD)
        | sys::bit(libc::SIGCONT)
        | sys::bit(libc::SIGURG)
        | sys::bit(libc::SIGWINCH);
    let left = sys::waiting_signals() & !mask & !program_mask::of_samples();
    let does_something = |signal: c_int| {
        let action = current_action(signal).map_or(libc::SIG_IGN, |action| action.handler);
        match action {
            libc::SIG_IGN => false,
            libc::SIG_DFL => sys::bit(signal) & IGNORED == 0,
            _ => true,
        }
    };
    left != 0 && (1..=64).any(|signal| left & sys::bit(signal) != 0 && does_something(signal))
}

/// A sample was taken: where it has ended a wait in place of another signal, the wait is begun again when our handler returns.
///
/// # Signal safety
/// Two comparisons; where a wait was ended, some system calls.
#[inline]
pub fn after_sample(machine: &mut libc::ucontext_t) {
    let result = machine.uc_mcontext.gregs[libc::REG_RAX as usize];
    if result == i64::from(-libc::EINTR) {
        begin_again(machine);
    }
}

#[cold]
#[inline(never)]
fn begin_again(machine: &mut libc::ucontext_t) {
    let register = |place: c_int| machine.uc_mcontext.gregs[place as usize] as u64;
    let pc = register(libc::REG_RIP);
    let Some(number) = number_of_call(pc) else {
        return;
    };
    let words = [
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_R10,
        libc::REG_R8,
        libc::REG_R9,
    ]
    .map(register);
    let Some(mask) = mask_of(number, &words) else {
        return;
    };
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    let before = unsafe { (&raw const machine.uc_sigmask).cast::<u64>().read() };
    // One that the mask from before lets through comes as soon as our handler returns: that is the end of the wait.
    let comes_anyway = sys::waiting_signals() & !before & !program_mask::of_samples();
    if comes_anyway == 0 && has_left_a_signal(mask) {
        machine.uc_mcontext.gregs[libc::REG_RAX as usize] = number;
        machine.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64 - 2;
    }
}

/// The number of the system call behind which `pc` is, if that is a wait with a mask: `mov eax, number`, at most one other instruction, `syscall`.
fn number_of_call(pc: u64) -> Option<c_long> {
    const SYSCALL: u64 = 0x050F;
    const MOV_EAX: u64 = 0xB8;
    let front = faults::read_u64(pc.wrapping_sub(16))?;
    let back = faults::read_u64(pc.wrapping_sub(8))?;
    if back >> 48 != SYSCALL {
        return None;
    }
    let bytes = u128::from(back) << 64 | u128::from(front);
    (7..=12).find_map(|distance| {
        let code = (bytes >> (8 * (16 - distance))) as u64;
        let number = c_long::from((code >> 8) as u32);
        (code & 0xFF == MOV_EAX && has_mask(number)).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_wait_stands_in_front_of_it() {
        const ENTER: [u8; 2] = [0x0F, 0x05];
        let of = |code: &[u8]| {
            let bytes = [&[0x90; 16], code, &ENTER].concat();
            number_of_call(bytes.as_ptr_range().end as u64)
        };
        let suspend = [0xB8, 130, 0, 0, 0];
        assert_eq!(of(&suspend), Some(libc::SYS_rt_sigsuspend));
        // mov edi, [rsp + 0x1c] between.
        let select = [0xB8, 0x0E, 1, 0, 0, 0x8B, 0x7C, 0x24, 0x1C];
        assert_eq!(of(&select), Some(libc::SYS_pselect6));
        let read = [0xB8, 0, 0, 0, 0];
        assert_eq!(of(&read), None);
        assert_eq!(of(&[suspend.as_slice(), &[0x90; 8]].concat()), None);
    }
}
