//! Children that are made past the C library's `fork`: by `clone`, and by the system calls themselves.
//!
//! One with a memory of its own begins as after a fork. One that shares its maker's memory and is no thread of it has the maker's words,
//! rings and slots, and no clock: it is left alone. If it works by itself, rather than to execute a program as most do, the sampler is told
//! at its end; so it is of one that was forked in a way that nobody sees.

use std::ffi::{c_int, c_long, c_void};

use rsys_wire::program::Obstacle;

use crate::clocks::clock;
use crate::lifecycle::exec;
use crate::lifecycle::process;
use crate::signals::faults;
use crate::state;
use crate::sys;
use crate::target::real::StartOfClone;

const VM: u64 = libc::CLONE_VM as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;
/// What follows has words of another thread, or none.
const SETTLS: u64 = libc::CLONE_SETTLS as u64;

/// The child has no handlers any more: `CLONE_CLEAR_SIGHAND` of include/uapi/linux/sched.h.
const CLEAR_SIGHAND: u64 = 1 << 32;

/// What the child of a `clone` was to do.
#[derive(Debug)]
#[repr(C, align(16))]
struct Begin {
    start: StartOfClone,
    argument: *mut c_void,
}

/// Makes the program's call of `clone` by `call(start, stack, argument)`.
///
/// # Safety
/// As `clone(2)`: `stack` is null or the end of memory for the child's stack.
pub unsafe fn clone(
    start: StartOfClone,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    call: impl FnOnce(StartOfClone, *mut c_void, *mut c_void) -> c_int,
) -> c_int {
    let flags = u64::from(flags as u32);
    let is_known = flags & SETTLS != 0 || flags & (VM | THREAD) == VM | THREAD;
    if is_known || stack.is_null() || !state::is_active() || !state::is_own_process() {
        return call(start, stack, argument);
    }
    let begins = if flags & VM == 0 {
        begin_copy
    } else {
        begin_shared
    };
    let room = stack.addr() % align_of::<Begin>() + size_of::<Begin>();
    let begin = stack.cast::<u8>().wrapping_sub(room).cast::<Begin>();
    // SAFETY: the child's stack, of which nothing is used yet.
    unsafe { begin.write(Begin { start, argument }) };
    call(begins, begin.cast(), begin.cast())
}

/// The first function of a child that has a copy of its parent's memory.
///
/// # Safety
/// For [`clone`] alone.
unsafe extern "C" fn begin_copy(begin: *mut c_void) -> c_int {
    process::after_fork_in_child();
    // SAFETY: what `clone` has written above this stack.
    let Begin { start, argument } = unsafe { begin.cast::<Begin>().read() };
    // SAFETY: what the program called for.
    unsafe { start(argument) }
}

/// The first function of a process that shares its maker's memory.
///
/// # Safety
/// For [`clone`] alone.
unsafe extern "C" fn begin_shared(begin: *mut c_void) -> c_int {
    // SAFETY: as above.
    let Begin { start, argument } = unsafe { begin.cast::<Begin>().read() };
    // SAFETY: as above.
    let result = unsafe { start(argument) };
    note_end();
    result
}

/// A system call has returned 0: if it was one that makes processes, this is the child.
pub fn after_call(number: c_long, first: u64, second: u64) {
    let flags = match number {
        libc::SYS_fork => 0,
        libc::SYS_clone => first,
        // `struct clone_args` begins with the flags.
        libc::SYS_clone3 if second >= 8 => faults::read_u64(first).unwrap_or(VM),
        _ => return,
    };
    if flags & (VM | SETTLS) == 0 {
        if flags & CLEAR_SIGHAND != 0 {
            process::install_handlers();
        }
        process::after_fork_in_child();
    }
}

/// The process ends. Says so if it is none that the agent knows, and has worked.
pub fn note_end() {
    let is_unknown = state::is_active() && !state::is_own_process();
    if is_unknown && sys::process_cpu_ns() >= clock::period_ns() {
        exec::report_running(Obstacle::PastLibrary, sys::getpid());
    }
}
