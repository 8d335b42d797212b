//! Waits with a mask of their own (`sigsuspend`, `pselect`, `ppoll`, `epoll_pwait`) that a sample has ended.
//!
//! The kernel delivers a thread's own signals first. Where a sample comes at the end of a wait that another signal ends, our handler runs with that one
//! blocked, and goes back to the mask from before the wait: the program would find its wait over, and its handler not run. Called again, the wait ends
//! at once, with the handler run. The functions that we stand in front of do that ([`Wait`]); elsewhere (the program's own system calls, processes to which
//! a sampler attached) the handler goes back to the call.
//!
//! A sample at the very end of a handler that ran within the wait looks the same. If yet another signal came during that handler, it comes within this wait
//! and not at the next one.

use std::ffi::{c_int, c_long};

use crate::signals::action::current_action;
use crate::signals::{faults, program_mask};
use crate::sys;
use crate::thread_words;

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
    let word_at = |address: u64| (address != 0).then(|| faults::read_u64(address))?;
    let set = match number {
        libc::SYS_rt_sigsuspend => first,
        libc::SYS_ppoll => fourth,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => fifth,
        // The set's address stands in a structure.
        libc::SYS_pselect6 | IO_PGETEVENTS => word_at(sixth)?,
        _ => return None,
    };
    word_at(set)
}

/// The wait that the calling thread is in.
#[derive(Debug)]
#[repr(C)]
struct Words {
    mask: u64,
    /// The stack where it began; 0 outside of waits.
    stack: u64,
    /// A sample has ended it in place of another signal.
    is_to_be_repeated: u64,
}

thread_words! {
    fn words() -> *mut Words = "rsys_wait_words"
}

/// A wait with a mask, in a function that we stand in front of.
#[derive(Debug)]
pub struct Wait(());

impl Wait {
    /// It begins.
    #[inline(always)]
    pub fn begin(mask: u64) -> Self {
        let here = 0_u8;
        // SAFETY: the thread's own words.
        unsafe {
            *words() = Words {
                mask,
                stack: (&raw const here).addr() as u64,
                is_to_be_repeated: 0,
            };
        }
        Self(())
    }

    /// It has ended. Returns whether a sample ended it in place of another signal.
    pub fn end(self) -> bool {
        // SAFETY: as above.
        unsafe {
            (*words()).stack = 0;
            (*words()).is_to_be_repeated != 0
        }
    }
}

/// Whether one of these signals ends a wait that lets it through.
fn ends_a_wait(signals: u64) -> bool {
    const NOT_BY_DEFAULT: u64 = sys::bit(libc::SIGCHLD)
        | sys::bit(libc::SIGCONT)
        | sys::bit(libc::SIGURG)
        | sys::bit(libc::SIGWINCH)
        | sys::bit(libc::SIGTSTP)
        | sys::bit(libc::SIGTTIN)
        | sys::bit(libc::SIGTTOU);
    let ends = |signal: c_int| {
        let action = current_action(signal).map_or(libc::SIG_IGN, |action| action.handler);
        match action {
            libc::SIG_IGN => false,
            libc::SIG_DFL => sys::bit(signal) & NOT_BY_DEFAULT == 0,
            _ => true,
        }
    };
    signals != 0 && (1..=64).any(|signal| signals & sys::bit(signal) != 0 && ends(signal))
}

/// Whether a sample may have ended a wait.
#[inline]
pub fn may_have_ended(machine: &libc::ucontext_t) -> bool {
    machine.uc_mcontext.gregs[libc::REG_RAX as usize] == i64::from(-libc::EINTR)
}

/// Where the sample has ended a wait in place of another signal, has it begin again.
///
/// # Signal safety
/// Within the sample handler: guarded reads, and some system calls.
#[cold]
#[inline(never)]
pub fn begin_again(machine: &mut libc::ucontext_t) {
    /// Functions between ours and the system call take less of the stack, and the kernel's frame of a handler more.
    const NEAR_BYTES: u64 = 1024;
    /// Where the function keeps its own.
    const OWN_BYTES: u64 = 256;
    let register = |place: c_int| machine.uc_mcontext.gregs[place as usize] as u64;
    // SAFETY: a kernel signal set is the first eight bytes of a sigset_t.
    let before = unsafe { (&raw const machine.uc_sigmask).cast::<u64>().read() };
    faults::note(before);
    let pc = register(libc::REG_RIP);
    let Some(code) = code_in_front(pc).filter(|code| code >> 112 == SYSCALL) else {
        return;
    };
    // SAFETY: the thread's own words.
    let wait = unsafe { &mut *words() };
    let below = wait.stack.wrapping_add(OWN_BYTES);
    let is_ours = below.wrapping_sub(register(libc::REG_RSP)) < NEAR_BYTES + OWN_BYTES;
    let number = number_of_call(code);
    let mask = match number {
        _ if is_ours => Some(wait.mask),
        Some(number) => {
            let arguments = [
                libc::REG_RDI,
                libc::REG_RSI,
                libc::REG_RDX,
                libc::REG_R10,
                libc::REG_R8,
                libc::REG_R9,
            ];
            mask_of(number, &arguments.map(register))
        }
        None => None,
    };
    let Some(mask) = mask else {
        return;
    };
    let waiting = sys::waiting_signals() & !program_mask::of_samples();
    // One that the mask from before lets through comes as soon as our handler returns: that is the end of the wait.
    if waiting & !before != 0 || !ends_a_wait(waiting & !mask) {
        return;
    }
    match number {
        _ if is_ours => wait.is_to_be_repeated = 1,
        Some(number) => {
            machine.uc_mcontext.gregs[libc::REG_RAX as usize] = number;
            machine.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64 - 2;
        }
        None => {}
    }
}

/// The instruction, as the last two of the bytes in front of an address.
const SYSCALL: u128 = 0x050F;

/// The sixteen bytes in front of an address.
fn code_in_front(pc: u64) -> Option<u128> {
    let front = faults::read_u64(pc.wrapping_sub(16))?;
    let back = faults::read_u64(pc.wrapping_sub(8))?;
    Some(u128::from(back) << 64 | u128::from(front))
}

/// The number of the system call at the end of this code, if that is a wait with a mask: `mov eax, number`, at most five other bytes, `syscall`.
fn number_of_call(code: u128) -> Option<c_long> {
    const MOV_EAX: u64 = 0xB8;
    (7..=12).find_map(|distance| {
        let code = (code >> (8 * (16 - distance))) as u64;
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
            code_in_front(bytes.as_ptr_range().end as u64).and_then(number_of_call)
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
