//! The functions of the C library that the agent stands in front of.
//!
//! Each does the least that keeps samples coming, and calls the real one. They preserve `errno`
//! except as the real function sets it. `dlopen` is not among them: it finds libraries relative to
//! its caller, and would take us for it.

pub mod dlsym;
pub mod signal_masks;
pub mod unwind_tables;

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::code::modules;
use crate::code::snapshot;
use crate::lifecycle::children;
use crate::lifecycle::exec;
use crate::lifecycle::exit;
use crate::lifecycle::process;
use crate::lifecycle::restrictions;
use crate::lifecycle::seccomp;
use crate::lifecycle::threads;
use crate::sampling::walk;
use crate::signals;
use crate::signals::action::Action;
use crate::signals::masks;
use crate::sources::gpu::threads as runtime_threads;
use crate::sources::{self, Ending};
use crate::state;
use crate::state::deferred;
use crate::sys::calls;
use crate::target::real::{self, SimpleHandler, StartOfClone, StartRoutine};

/// What a hook returns when no library has the real function: cannot happen with glibc.
const MISSING: c_int = libc::ENOSYS;

/// Starts a thread with a clock.
///
/// # Safety
/// As `pthread_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = real::pthread_create::get() else {
        return MISSING;
    };
    // SAFETY: the caller's own arguments, or a start routine of the same kind with its slot.
    unsafe {
        create(start, argument, |start, argument| {
            real(thread, attributes, start, argument)
        })
    }
}

/// Starts a thread with a clock.
///
/// # Safety
/// As `thrd_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn thrd_create(
    thread: *mut libc::pthread_t,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    const THRD_ERROR: c_int = 2;
    let Some(real) = real::thrd_create::get() else {
        return THRD_ERROR;
    };
    // SAFETY: as above. C11's routine returns an int, in the register that the trampoline keeps.
    unsafe {
        create(start, argument, |start, argument| {
            real(thread, start, argument)
        })
    }
}

/// Names a thread; the caller's own name is recorded, the others' the sampler sees.
///
/// # Safety
/// As `pthread_setname_np(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    let Some(real) = real::pthread_setname_np::get() else {
        return MISSING;
    };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(thread, name) };
    // SAFETY: no arguments.
    if thread == unsafe { libc::pthread_self() } {
        threads::note_name();
    }
    result
}

/// # Safety
/// `real` makes a thread of the two that it is given, as `pthread_create` does, and `start` may be called with `argument` once.
unsafe fn create(
    start: StartRoutine,
    argument: *mut c_void,
    real: impl FnOnce(StartRoutine, *mut c_void) -> c_int,
) -> c_int {
    process::start_early();
    // From now on a child of a fork may find the loader's lock held.
    real::resolve_all();
    // A thread that must make no system calls may well have others: they set themselves up.
    let is_confined = state::is_confined() && !calls::is_dispatched();
    if !state::is_active() || is_confined || !state::is_own_process() {
        return real(start, argument);
    }
    // Only the first thread can do that, and from now on another may want to record.
    if !deferred::start() && !state::is_active() {
        return real(start, argument);
    }
    if runtime_threads::is_of_runtime(start) {
        return runtime_threads::create(start, argument, real);
    }
    let slot = threads::prepare(start as *mut c_void, argument);
    if slot.is_null() {
        return real(start, argument);
    }
    let create = || real(threads::rsys_thread_trampoline, slot.cast());
    let result = exec::with_own_mask(create);
    if result != 0 {
        // SAFETY: the thread does not exist, so the slot is still ours.
        unsafe { (*slot).release() };
    }
    result
}

/// Whether a signal is ours to answer for. A child after `vfork` has dispositions of its own.
fn stand_in_front_of(signal: c_int) -> bool {
    signals::is_shared(signal) && state::is_own_process()
}

/// A handler of the program's may call any of our hooks, and look nothing up.
fn expect_handler(handler: SimpleHandler) {
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
        real::resolve_all();
    }
}

/// # Safety
/// As `sigaction(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller passes null or a valid structure.
    if let Some(new) = unsafe { new.as_ref() } {
        expect_handler(new.sa_sigaction);
    }
    if !stand_in_front_of(signal) {
        return match real::sigaction::get() {
            // A child after `vfork` writes nothing into its parent's memory.
            Some(real) if signals::is_installed() && state::is_own_process() => {
                // SAFETY: the caller's own arguments.
                unsafe { masks::exchange(signal, new, old, real) }
            }
            // SAFETY: as above.
            Some(real) => unsafe { real(signal, new, old) },
            None => -1,
        };
    }
    // SAFETY: the caller passes null or a valid structure.
    let wish = unsafe { new.as_ref() }.map(Action::from_c);
    if let Some(before) = signals::exchange(signal, wish)
        // SAFETY: as above.
        && let Some(old) = unsafe { old.as_mut() }
    {
        *old = before.to_c();
    }
    0
}

fn simple(
    signal: c_int,
    handler: SimpleHandler,
    flags: c_int,
    mask: u64,
    real: Option<unsafe extern "C" fn(c_int, SimpleHandler) -> SimpleHandler>,
) -> SimpleHandler {
    expect_handler(handler);
    if !stand_in_front_of(signal) {
        return match real {
            // SAFETY: the caller's own arguments.
            Some(real) => unsafe { real(signal, handler) },
            None => libc::SIG_ERR,
        };
    }
    signals::exchange(
        signal,
        Some(Action {
            handler,
            flags,
            mask,
        }),
    )
    .map_or(libc::SIG_ERR, |before| before.handler)
}

/// The functions that take a handler alone: what each means in terms of `sigaction`.
macro_rules! simple {
    ($($name:ident = $real:ident, $manual:literal, $flags:expr, $blocks_itself:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name(signal: c_int, handler: SimpleHandler) -> SimpleHandler {
                let mask = if $blocks_itself { mask_of(signal) } else { 0 };
                simple(signal, handler, $flags, mask, real::$real::get())
            }
        )*
    };
}

simple! {
    signal = signal, "signal(2)", libc::SA_RESTART, true;
    bsd_signal = signal, "bsd_signal(3)", libc::SA_RESTART, true;
    ssignal = signal, "ssignal(3)", libc::SA_RESTART, true;
    sysv_signal = sysv_signal, "sysv_signal(3)", libc::SA_RESETHAND | libc::SA_NODEFER, false;
    // `signal` compiles to this name with `_XOPEN_SOURCE`.
    __sysv_signal = sysv_signal, "sysv_signal(3)", libc::SA_RESETHAND | libc::SA_NODEFER, false;
}

/// # Safety
/// As `sigignore(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if stand_in_front_of(signal) {
        let ignore = Action {
            handler: libc::SIG_IGN,
            flags: 0,
            mask: 0,
        };
        return if signals::exchange(signal, Some(ignore)).is_some() {
            0
        } else {
            -1
        };
    }
    match real::sigignore::get() {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(signal) },
        None => -1,
    }
}

/// # Safety
/// As `siginterrupt(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn siginterrupt(signal: c_int, flag: c_int) -> c_int {
    if stand_in_front_of(signal) {
        if let Some(mut action) = signals::exchange(signal, None) {
            action.flags &= !libc::SA_RESTART;
            if flag == 0 {
                action.flags |= libc::SA_RESTART;
            }
            signals::exchange(signal, Some(action));
        }
        return 0;
    }
    match real::siginterrupt::get() {
        // SAFETY: the caller's own arguments.
        Some(real) => unsafe { real(signal, flag) },
        None => -1,
    }
}

fn mask_of(signal: c_int) -> u64 {
    u32::try_from(signal - 1)
        .ok()
        .and_then(|shift| 1_u64.checked_shl(shift))
        .unwrap_or(0)
}

/// # Safety
/// As `prctl(2)`; unused arguments are passed on as they come.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int {
    let Some(real) = real::prctl::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments.
    let call = || unsafe { real(option, a, b, c, d) };
    restrictions::prctl(option, [a, b, c, d], || i64::from(call())) as c_int
}

/// # Safety
/// As `ptrace(2)`; unused arguments are passed on as they come.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ptrace(request: c_long, a: u64, b: u64, c: u64) -> c_long {
    let Some(real) = real::ptrace::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments.
    restrictions::ptrace(request, || unsafe { real(request, a, b, c) })
}

/// # Safety
/// As `syscall(2)`; unused arguments are passed on as they come.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
) -> c_long {
    let Some(real) = real::syscall::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments.
    let call = || unsafe { real(number, a, b, c, d, e, f) };
    if let Some(filter) = seccomp::request_of_syscall(number, a, c) {
        return seccomp::install(filter, call);
    }
    if number == libc::SYS_prctl {
        return restrictions::prctl(a as c_int, [b, c, d, e], call);
    }
    if number == libc::SYS_ptrace {
        return restrictions::ptrace(a as c_long, call);
    }
    let replaced = |environment: *const *const c_char| {
        let environment = environment.expose_provenance() as u64;
        let (c, d) = match number {
            libc::SYS_execve => (environment, d),
            _ => (c, environment),
        };
        // SAFETY: the caller's own arguments, with a part of its variables.
        unsafe { real(number, a, b, c, d, e, f) }
    };
    if let Some(result) = exec::by_number(number, &[a, b, c, d, e], replaced) {
        return result;
    }
    if exit::is_end(number) {
        sources::at_end(Ending::Exit);
        exit::account();
    }
    if number == libc::SYS_rt_sigaction && c_int::try_from(a).is_ok_and(stand_in_front_of) {
        // SAFETY: the caller's own pointers, as the kernel takes them.
        return unsafe { signals::exchange_raw(a as c_int, b, c) };
    }
    if number == libc::SYS_rt_sigprocmask {
        // SAFETY: as above.
        return unsafe {
            signal_masks::change_raw(a as c_int, b, c, |set, old| {
                real(number, a, set, old, d, e, f)
            })
        };
    }
    let result = signal_masks::wait_by_number(number, &[a, b, c, d, e, f], call);
    if result == 0 {
        children::after_call(number, a, b);
    }
    if result >= 0 && number == libc::SYS_userfaultfd {
        walk::guess_no_more();
    }
    result
}

/// # Safety
/// As `clone(2)`; unused arguments are passed on as they come.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn clone(
    start: StartOfClone,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    let Some(real) = real::clone::get() else {
        return -1;
    };
    // SAFETY: the caller's own arguments, or a function of the same kind with its argument.
    let call = |start, stack, argument| unsafe {
        real(start, stack, flags, argument, parent_tid, tls, child_tid)
    };
    // SAFETY: as above.
    unsafe { children::clone(start, stack, flags, argument, call) }
}

/// `_Fork` runs no fork handlers.
///
/// # Safety
/// As `_Fork(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _Fork() -> libc::pid_t {
    let Some(real) = real::fork_raw::get() else {
        return -1;
    };
    // SAFETY: no arguments.
    let pid = unsafe { real() };
    if pid == 0 {
        process::after_fork_in_child();
    }
    pid
}

/// What is unloaded takes its rules along: others may be mapped in its place.
///
/// # Safety
/// As `dlclose(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(real) = real::dlclose::get() else {
        return -1;
    };
    // SAFETY: the caller's own argument.
    let result = unsafe { real(handle) };
    if state::is_active() {
        modules::new_generation();
        snapshot::renew();
    }
    result
}
