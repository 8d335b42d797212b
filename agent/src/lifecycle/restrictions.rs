//! What a thread takes from itself by `prctl` or `ptrace`, and what that means for the agent. Each is seen before it holds.
//!
//! * A **seccomp filter**: [`crate::lifecycle::seccomp`].
//! * The **time stamp counter** (`PR_SET_TSC`): reading it is a fault, and the C library's clocks read it. From then on the process's
//!   times come from the kernel, by a system call each. Threads and children inherit it. (A program that is executed then does too, but
//!   glibc's loader dies of it.)
//! * **Syscall user dispatch** (`PR_SET_SYSCALL_USER_DISPATCH`): the thread's system calls, even the return from a signal handler, raise
//!   SIGSYS as long as a byte of the program's says so. No sample may be taken then: the thread's clocks stop, the sample signal is
//!   blocked, and none of our functions makes a system call in it. Threads and children that it makes are free.
//! * A **tracer** (`PTRACE_TRACEME`, as programs do that want to know whether a debugger has them): each signal stops the thread until its parent lets it
//!   go on, which the sampler does and no shell or launcher. Under any other parent, the thread's clocks end.

use std::ffi::{c_int, c_long};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::lifecycle::dormancy;
use crate::lifecycle::seccomp;
use crate::lifecycle::threads;
use crate::sampling::slots;
use crate::sampling::words;
use crate::state;
use crate::state::deferred;
use crate::sys;
use crate::sys::calls;
use crate::target::debugger;

/// From include/uapi/linux/prctl.h.
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const PR_SYS_DISPATCH_OFF: u64 = 0;

/// Makes the program's call `prctl(option, a, b, c, d)`.
pub fn prctl(option: c_int, [a, b, _, d]: [u64; 4], call: impl FnOnce() -> i64) -> i64 {
    match option {
        _ if !state::is_active() => call(),
        libc::PR_SET_SECCOMP => match seccomp::request_of_prctl(a, b) {
            Some(filter) => seccomp::install(filter, call),
            None => call(),
        },
        libc::PR_SET_TSC if a == libc::PR_TSC_SIGSEGV as u64 => without_counter(call),
        PR_SET_SYSCALL_USER_DISPATCH if a == PR_SYS_DISPATCH_OFF => end_dispatch(call),
        PR_SET_SYSCALL_USER_DISPATCH => dispatch(d, call),
        libc::PR_SET_NAME => {
            let result = call();
            threads::note_name();
            result
        }
        _ => call(),
    }
}

/// Makes the program's call `ptrace(request, …)`.
pub fn ptrace(request: c_long, call: impl FnOnce() -> c_long) -> c_long {
    // In a child after vfork the words are the parent's.
    let is_ours = state::is_active() && state::is_own_process() && !calls::is_dispatched();
    if request as u32 != libc::PTRACE_TRACEME || !is_ours || debugger::is_sampler(sys::getppid()) {
        return call();
    }
    deferred::start();
    // The words of an adopted thread do not name its slot.
    let own = words::own_slot().or_else(|| slots::of_thread(sys::gettid()));
    let Some(slot) = own else {
        return call();
    };
    slot.clock.pause();
    let result = call();
    if result < 0 {
        slot.clock.go_on();
    } else {
        slot.clock.stop();
        counters::count(Counter::ThreadsTraced, 1);
    }
    result
}

fn without_counter(call: impl FnOnce() -> i64) -> i64 {
    sys::use_kernel_time(true);
    if !sys::is_time_known() {
        // A filter forbids to ask the kernel.
        dormancy::fall_asleep();
    }
    call()
}

fn dispatch(selector: u64, call: impl FnOnce() -> i64) -> i64 {
    // In a child after vfork the words are the parent's.
    if calls::is_dispatched() || !state::is_own_process() {
        return call();
    }
    deferred::start();
    events::prepare();
    let slot = words::own_slot();
    if let Some(slot) = &slot {
        slot.clock.pause();
    }
    // What the sampler would send to a thread without a clock must not come either.
    sys::sigmask(libc::SIG_BLOCK, sys::bit(SAMPLE_SIGNAL));
    calls::set_dispatched(true, selector);
    let result = call();
    if result < 0 {
        let_go(slot);
    } else {
        counters::count(Counter::ThreadsDispatched, 1);
    }
    result
}

fn end_dispatch(call: impl FnOnce() -> i64) -> i64 {
    let result = call();
    if result >= 0 && calls::is_dispatched() {
        calls::set_dispatched(false, 0);
        let_go(words::own_slot());
    }
    result
}

fn let_go(slot: Option<&mut slots::Slot>) {
    calls::set_dispatched(false, 0);
    if let Some(slot) = slot {
        slot.clock.go_on();
    }
    sys::sigmask(libc::SIG_UNBLOCK, sys::bit(SAMPLE_SIGNAL));
}

/// The child of a thread whose system calls are dispatched is free, and so is its mask.
pub fn after_fork_in_child() {
    if calls::is_dispatched() {
        calls::set_dispatched(false, 0);
        sys::sigmask(libc::SIG_UNBLOCK, sys::bit(SAMPLE_SIGNAL));
    }
}
