//! Masks of signals, and the functions that wait for signals or with a mask.
//!
//! Sample signals are never blocked by calls that we intercept; the program reads back the mask that it has set ([`program_mask`]).
//! They can be blocked in other ways: by the mask of a handler, a jump to a saved mask, the system call itself. A sample
//! that is pending then would end a wait that unblocks all signals, so it is taken before.

use std::ffi::{c_int, c_long, c_void};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::hooks::{MISSING, simple, stand_in_front_of};
use crate::signals;
use crate::signals::faults;
use crate::signals::held;
use crate::signals::interrupted::{self, Wait};
use crate::signals::program_mask;
use crate::signals::sets::{self, set_of};
use crate::state;
use crate::sys;
use crate::sys::calls;
use crate::target::real::{self, SimpleHandler};

/// Whether the calling thread's mask is ours to translate. In a child after vfork the words are the parent's.
fn translates() -> bool {
    signals::is_installed() && state::is_own_process()
}

/// What is to be read next has been passed to a system call, perhaps in a handler that has blocked the signals of faults by its own mask.
fn note_kernels_mask() {
    faults::note(sys::sigmask(libc::SIG_BLOCK, 0));
}

/// # Safety
/// As `sigprocmask` has it: each set is null or valid.
unsafe fn change_mask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
    real: impl FnOnce(*const libc::sigset_t, *mut libc::sigset_t) -> c_int,
) -> c_int {
    if !translates() {
        return real(set, old);
    }
    let mut kernels = sets::sigset(0);
    let place = if old.is_null() { &raw mut kernels } else { old };
    let mut result = 0;
    // SAFETY: the caller passes null or a valid set.
    let asked = unsafe { set.as_ref() }.map(set_of);
    let told = program_mask::change(how, asked, |set| {
        let set = set.map(sets::sigset);
        let set = set.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        result = real(set, place);
        // SAFETY: the kernel has written there.
        (result == 0).then(|| set_of(unsafe { &*place }))
    });
    // SAFETY: as above.
    if let (Some(told), Some(old)) = (told, unsafe { old.as_mut() }) {
        *old = sets::sigset(told);
    }
    result
}

/// The system call `rt_sigprocmask` with the kernel's own sets, at these addresses or 0: `call` makes it with others.
///
/// # Safety
/// What the kernel can write at `old` is a set.
pub unsafe fn change_raw(
    how: c_int,
    set: u64,
    old: u64,
    call: impl FnOnce(u64, u64) -> c_long,
) -> c_long {
    // Nothing may be read where our handlers do not guard it. A call with an invalid `how` tests whether the address is readable (Abseil).
    let is_a_change = (libc::SIG_BLOCK..=libc::SIG_SETMASK).contains(&how);
    if !translates() || !is_a_change {
        return call(set, old);
    }
    let asked = if set == 0 {
        None
    } else {
        note_kernels_mask();
        let Some(asked) = faults::read_u64(set) else {
            // What is no set the kernel refuses.
            return call(set, old);
        };
        Some(asked)
    };
    let mut kernels = 0_u64;
    let place = if old == 0 {
        (&raw mut kernels).expose_provenance() as u64
    } else {
        old
    };
    let mut result = 0;
    let told = program_mask::change(how, asked, |set| {
        let set = set
            .as_ref()
            .map_or(0, |set| std::ptr::from_ref(set).expose_provenance() as u64);
        result = call(set, place);
        (result == 0).then(|| faults::read_u64(place).unwrap_or(0))
    });
    let old = std::ptr::with_exposed_provenance_mut::<u64>(old as usize);
    if let Some(told) = told
        && !old.is_null()
    {
        // SAFETY: the kernel has written there.
        unsafe { old.write(told) };
    }
    result
}

/// The functions that change a thread's mask, and what they return when there is no such function.
macro_rules! masks {
    ($($name:ident, $manual:literal, $missing:expr;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name(
                how: c_int,
                set: *const libc::sigset_t,
                old: *mut libc::sigset_t,
            ) -> c_int {
                let Some(real) = real::$name::get() else {
                    return $missing;
                };
                // SAFETY: the caller's own arguments, or a set of ours.
                unsafe { change_mask(how, set, old, |set, old| real(how, set, old)) }
            }
        )*
    };
}

masks! {
    pthread_sigmask, "pthread_sigmask(3)", MISSING;
    sigprocmask, "sigprocmask(2)", -1;
}

/// Changes the mask by the first 32 signals alone. Returns them as they were before.
fn change_word(how: c_int, word: c_int) -> c_int {
    let set = sets::sigset(u64::from(word as u32));
    let mut old = sets::sigset(0);
    // SAFETY: sets of ours.
    let result = unsafe { sigprocmask(how, &raw const set, &raw mut old) };
    if result < 0 {
        result
    } else {
        set_of(&old) as c_int
    }
}

/// The mask as 4.3BSD has it.
///
/// # Safety
/// As `sigblock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigblock(mask: c_int) -> c_int {
    change_word(libc::SIG_BLOCK, mask)
}

/// # Safety
/// As `sigsetmask(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigsetmask(mask: c_int) -> c_int {
    change_word(libc::SIG_SETMASK, mask)
}

/// # Safety
/// As `siggetmask(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn siggetmask() -> c_int {
    change_word(libc::SIG_BLOCK, 0)
}

/// Blocks one of our signals, or lets it through, as the program is to believe. Returns whether it was blocked.
fn change_one(how: c_int, signal: c_int) -> bool {
    let set = sets::sigset(sys::bit(signal));
    let mut old = sets::sigset(0);
    // SAFETY: sets of ours.
    unsafe { sigprocmask(how, &raw const set, &raw mut old) };
    set_of(&old) & sys::bit(signal) != 0
}

/// The functions of System V that change the mask by one signal.
macro_rules! ones {
    ($($name:ident = $how:ident, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name(signal: c_int) -> c_int {
                if stand_in_front_of(signal) {
                    change_one(libc::$how, signal);
                    return 0;
                }
                match real::$name::get() {
                    // SAFETY: the caller's own argument.
                    Some(real) => unsafe { real(signal) },
                    None => -1,
                }
            }
        )*
    };
}

ones! {
    sighold = SIG_BLOCK, "sighold(3)";
    sigrelse = SIG_UNBLOCK, "sigrelse(3)";
}

/// Sets a handler and lets the signal through, or blocks it.
///
/// # Safety
/// As `sigset(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigset(signal: c_int, handler: SimpleHandler) -> SimpleHandler {
    const SIG_HOLD: SimpleHandler = 2;
    if !stand_in_front_of(signal) {
        return simple(signal, handler, 0, 0, real::sigset::get());
    }
    let (how, before) = if handler == SIG_HOLD {
        let before = signals::exchange(signal, None);
        (
            libc::SIG_BLOCK,
            before.map_or(libc::SIG_ERR, |action| action.handler),
        )
    } else {
        (libc::SIG_UNBLOCK, simple(signal, handler, 0, 0, None))
    };
    if change_one(how, signal) {
        SIG_HOLD
    } else {
        before
    }
}

/// Waits by `real(set, info)` for signals of the program's: samples are none.
///
/// # Safety
/// As `sigwaitinfo` has it: each pointer is null or valid.
unsafe fn wait_for(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    real: impl Fn(*const libc::sigset_t, *mut libc::siginfo_t) -> c_int,
) -> c_int {
    const OURS: u64 = sys::bit(SAMPLE_SIGNAL);
    // SAFETY: the caller passes null or a valid set.
    let Some(asked) = unsafe { set.as_ref() }.filter(|_| translates()) else {
        return real(set, info);
    };
    let others = set_of(&program_mask::to_wait_for(asked));
    // SAFETY: zero is a valid value.
    let mut own: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let place = if info.is_null() { &raw mut own } else { info };
    loop {
        // One that the program has been sent is held back, and samples do not come meanwhile.
        let held = held::all() & set_of(asked) & OURS;
        let set = sets::sigset(others | held);
        let result = real(&raw const set, place);
        if result < 0 {
            // SAFETY: the thread's own word.
            let is_interrupted = unsafe { *libc::__errno_location() } == libc::EINTR;
            if is_interrupted && held != held::all() & set_of(asked) & OURS {
                continue;
            }
        } else if result == SAMPLE_SIGNAL && !signals::is_of_program(place) {
            continue;
        } else if (1..=64).contains(&result) {
            held::let_go(sys::bit(result));
        }
        return result;
    }
}

/// # Safety
/// As `sigwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigwait(set: *const libc::sigset_t, signal: *mut c_int) -> c_int {
    let Some(real) = real::sigwaitinfo::get() else {
        return MISSING;
    };
    // SAFETY: the thread's own word, which this function leaves alone.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    loop {
        // SAFETY: the caller's own set, or one of ours; and the thread's own word.
        let (result, error) = unsafe {
            let result = wait_for(set, std::ptr::null_mut(), |set, info| real(set, info));
            (result, std::mem::replace(&mut *errno, before))
        };
        if result >= 0 {
            // SAFETY: the caller's own pointer.
            unsafe { *signal = result };
            return 0;
        }
        if error != libc::EINTR {
            return error;
        }
    }
}

/// # Safety
/// As `sigwaitinfo(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigwaitinfo(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
) -> c_int {
    let Some(real) = real::sigwaitinfo::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments, or objects of ours.
    unsafe { wait_for(set, info, |set, info| real(set, info)) }
}

/// # Safety
/// As `sigtimedwait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigtimedwait(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    timeout: *const libc::timespec,
) -> c_int {
    let Some(real) = real::sigtimedwait::get() else {
        return -1;
    };
    // SAFETY: as above.
    unsafe { wait_for(set, info, |set, info| real(set, info, timeout)) }
}

/// # Safety
/// As `signalfd(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn signalfd(fd: c_int, set: *const libc::sigset_t, flags: c_int) -> c_int {
    let Some(real) = real::signalfd::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments, or a set of ours.
    match unsafe { set.as_ref() } {
        Some(set) if signals::is_installed() => {
            let set = program_mask::without_sample_signal(set);
            // SAFETY: as above.
            unsafe { real(fd, &raw const set, flags) }
        }
        // SAFETY: as above.
        _ => unsafe { real(fd, set, flags) },
    }
}

/// Makes a call that waits with this mask.
fn wait_with_mask<R: From<i8> + PartialEq>(mask: Option<u64>, call: impl Fn() -> R) -> R {
    if !translates() || calls::is_dispatched() {
        return call();
    }
    loop {
        let wait = mask.map(Wait::begin);
        let result = program_mask::wait_with(mask, &call);
        let is_to_be_repeated = wait.is_some_and(Wait::end);
        // SAFETY: the thread's own word.
        let error = unsafe { libc::__errno_location() };
        let result = result.unwrap_or_else(|| {
            // SAFETY: as above.
            unsafe { error.write(libc::EINTR) };
            R::from(-1)
        });
        // SAFETY: as above.
        let is_interrupted = result == R::from(-1) && unsafe { error.read() } == libc::EINTR;
        if !is_interrupted || !is_to_be_repeated {
            return result;
        }
    }
}

/// Makes a system call with these arguments that may wait with a mask of its own.
pub fn wait_by_number(number: c_long, words: &[u64; 6], call: impl Fn() -> c_long) -> c_long {
    if !interrupted::has_mask(number) || !translates() || calls::is_dispatched() {
        return call();
    }
    note_kernels_mask();
    wait_with_mask(interrupted::mask_of(number, words), call)
}

/// The functions that wait with a mask of their own, which is their argument `$mask` or null.
macro_rules! masked_waits {
    ($($name:ident = $real:ident($($argument:ident: $type:ty),*), $mask:ident, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                let Some(real) = real::$real::get() else {
                    // SAFETY: the thread's own word.
                    unsafe { *libc::__errno_location() = MISSING };
                    return -1;
                };
                // SAFETY: the caller's own arguments.
                let call = || unsafe { real($($argument),*) };
                // SAFETY: null or a valid set.
                match unsafe { $mask.as_ref() } {
                    None => call(),
                    Some(mask) => wait_with_mask(Some(set_of(mask)), call),
                }
            }
        )*
    };
}

masked_waits! {
    sigsuspend = sigsuspend(mask: *const libc::sigset_t), mask, "sigsuspend(2)";
    pselect = pselect(
        highest: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, time: *const c_void, mask: *const libc::sigset_t
    ), mask, "pselect(2)";
    ppoll = ppoll(fds: *mut c_void, count: libc::nfds_t, time: *const c_void, mask: *const libc::sigset_t), mask, "ppoll(2)";
    __ppoll_chk = checked_ppoll(
        fds: *mut c_void, count: libc::nfds_t, time: *const c_void, mask: *const libc::sigset_t, bytes: usize
    ), mask, "ppoll(2)";
    epoll_pwait = epoll_pwait(
        epoll: c_int, events: *mut c_void, most: c_int, milliseconds: c_int, mask: *const libc::sigset_t
    ), mask, "epoll_pwait(2)";
    epoll_pwait2 = epoll_pwait2(
        epoll: c_int, events: *mut c_void, most: c_int, time: *const c_void, mask: *const libc::sigset_t
    ), mask, "epoll_pwait2(2)";
}

/// The calling thread is about to go on in a context: the signals of samples are taken out of its mask. Returns the C library's function.
///
/// # Safety
/// `context` is what the program hands over.
unsafe extern "C" fn before_setcontext(context: *mut libc::ucontext_t) -> *mut () {
    // SAFETY: as above.
    unsafe { open_context(context) };
    real::setcontext::REAL.address()
}

/// As [`before_setcontext`]; the first argument is the place where the calling context is kept.
///
/// # Safety
/// As above.
unsafe extern "C" fn before_swapcontext(
    _kept: *mut libc::ucontext_t,
    context: *mut libc::ucontext_t,
) -> *mut () {
    // SAFETY: as above.
    unsafe { open_context(context) };
    real::swapcontext::REAL.address()
}

/// # Safety
/// As above.
unsafe fn open_context(context: *mut libc::ucontext_t) {
    if !translates() {
        return;
    }
    // A handler's context ends with the kernel's eight bytes.
    // SAFETY: the C library reads the context next.
    unsafe {
        let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
        let asked = mask.read();
        let open = program_mask::enter_context(asked);
        // A context may lie where nothing can be written.
        if open != asked {
            mask.write(open);
        }
    }
}

/// The functions that go on in a context. They jump on into the C library's: the context that is kept is that of their caller, which may
/// go on in it more than once.
macro_rules! contexts {
    ($($name:ident, $before:ident, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    "push rdi",
                    "push rsi",
                    "sub rsp, 8",
                    ".cfi_adjust_cfa_offset 24",
                    "call {before}",
                    "add rsp, 8",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_adjust_cfa_offset -24",
                    "jmp rax",
                    ".cfi_endproc",
                    before = sym $before,
                );
            }
        )*
    };
}

contexts! {
    setcontext, before_setcontext, "setcontext(3)";
    swapcontext, before_swapcontext, "swapcontext(3)";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests have no handlers that would guard a read.
    #[test]
    fn nothing_is_read_where_nothing_guards_it() {
        const NOWHERE: u64 = 64;
        let mut old = 0_u64;
        let old_at = (&raw mut old).expose_provenance() as u64;
        let change = |how: c_int, set: u64, old: u64| {
            let call = |set: u64, old: u64| {
                // SAFETY: the kernel checks addresses.
                unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, old, 8) }
            };
            // SAFETY: null, or a place for a set.
            unsafe { change_raw(how, set, old, call) }
        };
        assert_eq!(change(libc::SIG_BLOCK, 0, old_at), 0);
        assert_eq!(change(libc::SIG_BLOCK, NOWHERE, 0), -1);
        assert_eq!(change(!0, NOWHERE, 0), -1);
        let words = [NOWHERE; 6];
        for number in [libc::SYS_rt_sigsuspend, libc::SYS_pselect6] {
            assert_eq!(wait_by_number(number, &words, || -1), -1);
        }
    }
}
