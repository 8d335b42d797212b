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
//! So it interrupts samples, and such a one does nothing: see [`crate::slots::Slot::occupy`].

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::debugger;
use crate::sys;

/// `si_code` of a SIGTRAP that perf raised (include/uapi/asm-generic/siginfo.h).
pub const TRAP_PERF: c_int = 6;

/// PERF_EVENT_IOC_ENABLE and _DISABLE, from include/uapi/linux/perf_event.h.
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;

/// F_GETSIG, from include/uapi/asm-generic/fcntl.h.
const GET_SIGNAL: c_int = 11;
/// F_SETSIG, from the same.
const SET_SIGNAL: c_int = 10;

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

/// `struct perf_event_attr` up to PERF_ATTR_SIZE_VER7 (Linux 5.13).
#[derive(Debug, Default)]
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
    /// From config2 to aux_sample_size: not used here.
    unused: [u64; 7],
    /// Comes back in the signal.
    signal_data: u64,
}

const _: () = assert!(size_of::<Attributes>() == 128);
/// PERF_ATTR_SIZE_VER0, which every kernel takes.
const SMALL: u32 = 64;

/// disabled, exclude_kernel, exclude_hv.
const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
/// remove_on_exec, sigtrap.
const TRAP_FLAGS: u64 = 1 << 36 | 1 << 37;

/// Opens the clock of the calling thread, stopped. A SIGTRAP will carry `value`.
///
/// # Errors
/// The kernel's error number.
pub fn open(tid: u32, period_ns: u64, value: u64) -> Result<c_int, i32> {
    if uses_traps()
        && let Ok(fd) = open_event(tid, period_ns, Some(value))
    {
        // Nothing is sent by it: it says that the descriptor is ours, see `close`.
        sys::fcntl(fd, SET_SIGNAL, SAMPLE_SIGNAL as u64);
        return Ok(fd);
    }
    let fd = open_event(tid, period_ns, None)?;
    if direct(fd, tid) {
        Ok(fd)
    } else {
        sys::close(fd);
        Err(libc::EINVAL)
    }
}

fn open_event(tid: u32, period_ns: u64, trap: Option<u64>) -> Result<c_int, i32> {
    const TYPE_SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    const CLOSE_ON_EXEC: u64 = 1 << 3;
    let mut attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: SMALL,
        config: CPU_CLOCK,
        sample_period: period_ns,
        flags: FLAGS,
        wakeup_events: 1,
        ..Attributes::default()
    };
    if let Some(value) = trap {
        attributes.size = size_of::<Attributes>() as u32;
        attributes.flags |= TRAP_FLAGS;
        attributes.signal_data = value;
    }
    let low = sys::perf_event_open(&attributes, tid, CLOSE_ON_EXEC)?;
    // Out of the way of the numbers that the program gets for its own files.
    let lowest = (sys::descriptor_limit().min(1 << 16) / 2).max(64);
    let high = sys::fcntl(low, libc::F_DUPFD_CLOEXEC, lowest) as c_int;
    sys::close(low);
    if high < 0 { Err(-high) } else { Ok(high) }
}

/// Directs the event's wake-ups at the thread, as signals.
fn direct(fd: c_int, tid: u32) -> bool {
    const SET_OWNER: c_int = 15; // F_SETOWN_EX
    const OWNER_THREAD: c_int = 0; // F_OWNER_TID
    let owner = [OWNER_THREAD, tid as c_int];
    let flags = (libc::O_ASYNC | libc::O_NONBLOCK) as u64;
    sys::fcntl_object(fd, SET_OWNER, &owner) >= 0
        && sys::fcntl(fd, SET_SIGNAL, SAMPLE_SIGNAL as u64) >= 0
        && sys::fcntl(fd, libc::F_SETFL, flags) >= 0
}

/// Starts the clock.
pub fn start(fd: c_int) {
    sys::ioctl(fd, ENABLE, 0);
}

/// Stops the clock. Closing does not: a fork child may hold the descriptor open.
pub fn stop(fd: c_int) {
    sys::ioctl(fd, DISABLE, 0);
}

/// Closes the descriptor, unless the program has closed it and uses its number for another file.
pub fn close(fd: c_int) {
    if sys::fcntl(fd, GET_SIGNAL, 0) == i64::from(SAMPLE_SIGNAL) {
        sys::close(fd);
    }
}
