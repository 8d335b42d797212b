//! perf's `cpu-clock` as a clock of one thread.
//!
//! Linux 6.12 and newer deliver a sample as SIGTRAP on the way back to the program
//! (`perf_event_attr.sigtrap`). Older kernels, and threads under a debugger, get it through
//! `F_SETSIG`: an interrupt which the processor sends to itself, in a virtual machine an exit to the
//! host. SIGTRAP could be had from Linux 5.13 on, but it kills a thread that blocks it before 5.19,
//! and comes by the same interrupt before 6.11.
//!
//! **SIGTRAP must never be blocked where memory may be read in vain.** The kernel hands out faults
//! before other signals, and takes a pending SIGTRAP of perf's for one, blocked or not
//! (`dequeue_synchronous_signal` in kernel/signal.c, Linux 6.18). A SIGSEGV would then find us at the
//! first instruction of our handler rather than at the guarded load (`broken_stacks_are_marked_and_told`).
//! So it interrupts samples, and such a one does nothing: see [`crate::sampling::slots::Slot::occupy`].

mod attributes;
mod place;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::sys;
use crate::target::debugger;

pub use attributes::{Attributes, Clock};

/// `si_code` of a SIGTRAP that perf raised (include/uapi/asm-generic/siginfo.h).
pub const TRAP_PERF: c_int = 6;

/// PERF_EVENT_IOC_ENABLE, _DISABLE and _PERIOD, from include/uapi/linux/perf_event.h.
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;
const PERIOD: u64 = 0x4008_2404;

static TRAPS: AtomicBool = AtomicBool::new(false);

/// Decides, once per program, whether samples shall come as SIGTRAP.
pub fn choose_delivery() {
    TRAPS.store(
        sys::kernel_version() >= (6, 12) && !debugger::is_traced(),
        Ordering::Relaxed,
    );
}

/// Whether SIGTRAP may be a sample.
///
/// # Signal safety
/// One relaxed load.
#[inline]
pub fn uses_traps() -> bool {
    TRAPS.load(Ordering::Relaxed)
}

/// Opens the clock of the calling thread, stopped. A SIGTRAP will carry `value`.
///
/// # Errors
/// The kernel's error number.
pub fn open(tid: u32, clock: &Clock, value: u64) -> Result<c_int, i32> {
    if uses_traps()
        && let Ok(fd) = open_out_of_the_way(&Attributes::clock(clock, Some(value)), tid, -1)
    {
        mark(fd);
        return Ok(fd);
    }
    let fd = open_out_of_the_way(&Attributes::clock(clock, None), tid, -1)?;
    if direct(fd, tid) {
        Ok(fd)
    } else {
        sys::close(fd);
        Err(libc::EINVAL)
    }
}

/// Says that the descriptor is ours, see [`close`]. Nothing is ever sent by it.
pub fn mark(fd: c_int) {
    sys::set_signal_of(fd, SAMPLE_SIGNAL);
}

/// Opens an event in the group of another (or -1), with a descriptor out of the way of the program's own; see [`place`].
///
/// # Errors
/// The kernel's error number; `EMFILE` when we have taken our share.
pub fn open_out_of_the_way(attributes: &Attributes, tid: u32, group: c_int) -> Result<c_int, i32> {
    const CLOSE_ON_EXEC: u64 = 1 << 3;
    let low = sys::perf_event_open(attributes, tid, group, CLOSE_ON_EXEC)?;
    // The stack's address is random in each process, and the time in each thread.
    let here = (&raw const low).addr() as u64;
    place::move_away(low, here ^ sys::boottime_ns())
}

/// Directs the event's wake-ups at the thread, as signals.
fn direct(fd: c_int, tid: u32) -> bool {
    const SET_OWNER: c_int = 15; // F_SETOWN_EX
    const OWNER_THREAD: c_int = 0; // F_OWNER_TID
    let owner = [OWNER_THREAD, tid as c_int];
    let flags = (libc::O_ASYNC | libc::O_NONBLOCK) as u64;
    let place = (&raw const owner).expose_provenance() as u64;
    // SAFETY: the kernel reads a `struct f_owner_ex`, two numbers.
    let owned = unsafe { sys::fcntl(fd, SET_OWNER, place) } >= 0;
    owned
        && sys::set_signal_of(fd, SAMPLE_SIGNAL)
        // SAFETY: the command takes flags.
        && unsafe { sys::fcntl(fd, libc::F_SETFL, flags) } >= 0
}

/// Starts the clock.
pub fn start(fd: c_int) {
    // SAFETY: a request of perf events without an argument; other files refuse it.
    unsafe { sys::ioctl(fd, ENABLE, 0) };
}

/// Stops the clock. Closing does not: a fork child may hold the descriptor open. False when that may not be.
pub fn stop(fd: c_int) -> bool {
    // SAFETY: as above.
    unsafe { sys::ioctl(fd, DISABLE, 0) >= 0 }
}

/// Changes the period, also of the one that has begun. False when that may not be.
pub fn set_period(fd: c_int, period: u64) -> bool {
    let place = (&raw const period).expose_provenance() as u64;
    // SAFETY: the kernel reads eight bytes.
    unsafe { sys::ioctl(fd, PERIOD, place) == 0 }
}

/// Whether the descriptor is still ours: the program may have closed it, and use its number for another file.
pub fn is_open(fd: c_int) -> bool {
    sys::signal_of(fd) == i64::from(SAMPLE_SIGNAL)
}

/// Closes the descriptor, if it is still ours.
pub fn close(fd: c_int) {
    if is_open(fd) {
        sys::close(fd);
    }
}
