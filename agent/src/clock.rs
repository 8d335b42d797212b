//! The clocks that interrupt a thread.
//!
//! * The **timer**: a POSIX timer on the thread's CPU clock. It follows the thread wherever it runs,
//!   needs no descriptor and interrupts no system call, but the kernel looks at it only once per
//!   tick. The expirations in between come as overruns, so the weights are right at any frequency.
//! * **perf** `cpu-clock`, with the signal directed at the thread: as fine as asked for. It counts
//!   user mode only (a signal raised in kernel mode could make a system call return `EINTR`), and
//!   signals that coincide are merged. Therefore the timer runs beside it as the accountant: what
//!   perf did not deliver since the last tick is the weight of the timer's sample.

use std::ffi::c_int;

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::handshake::ClockChoice;
use rsys_wire::layout::Counter;
use rsys_wire::record::Clock;

use crate::process;
use crate::slots::{self, Slot};
use crate::sys;

/// PERF_EVENT_IOC_ENABLE and _DISABLE, from include/uapi/linux/perf_event.h.
const PERF_ENABLE: u64 = 0x2400;
const PERF_DISABLE: u64 = 0x2401;

/// perf is used when a period is shorter than this fraction of the tick.
const PERF_BELOW: f64 = 1.0 / 1.5;

/// The period of the samples in nanoseconds.
pub fn period_ns() -> u64 {
    (1e9 / process::settings().frequency_hz) as u64
}

/// Whether threads shall have perf beside the timer.
pub fn wants_perf() -> bool {
    match process::settings().clock {
        ClockChoice::Timer => false,
        ClockChoice::Perf => true,
        ClockChoice::Auto => (period_ns() as f64) < sys::tick_ns() as f64 * PERF_BELOW,
    }
}

/// Makes the thread's clocks without starting them; returns which it has.
pub fn prepare(slot: &mut Slot) -> Clock {
    let clock = prepare_timer(slot);
    if !wants_perf() {
        return clock;
    }
    match open_perf(slot.tid, period_ns()) {
        Ok(fd) => {
            slot.perf = fd;
            Clock::PerfAndTimer
        }
        Err(error) => {
            slots::count(Counter::ThreadsWithoutPerf, 1);
            slots::set_counter(Counter::LastError, error as u64);
            clock
        }
    }
}

/// Makes the thread's timer alone.
pub fn prepare_timer(slot: &mut Slot) -> Clock {
    let value = (&raw const *slot).addr() as u64;
    match sys::timer_create(slot.tid, SAMPLE_SIGNAL, value) {
        Ok(timer) => {
            slot.timer = timer;
            Clock::Timer
        }
        Err(error) => {
            slots::count(Counter::ThreadsWithoutTimer, 1);
            slots::set_counter(Counter::LastError, error as u64);
            Clock::None
        }
    }
}

/// Starts the thread's clocks. The first expiry is anywhere in the first period, so that threads do
/// not go in lock-step and short threads are neither favoured nor missed on average.
pub fn start(slot: &mut Slot) {
    let period = period_ns();
    if slot.timer >= 0 {
        let phase = phase_ns(slot.tid, period);
        slot.first_expiry_ns = slot.cpu_base_ns + phase;
        sys::timer_arm(slot.timer, phase, period);
    }
    if slot.perf >= 0 {
        sys::ioctl(slot.perf, PERF_ENABLE, 0);
    }
}

/// Periods that ended since the thread's last sample, when its CPU time is `cpu_ns`.
///
/// The kernel looks at a CPU timer at its ticks only; what expired after the last tick of a thread
/// never becomes a signal. Over many short threads that would be much. What is more than some ticks
/// has another cause, such as a signal that somebody else takes: that is not for the last stack to bear.
pub fn unsampled_periods(slot: &Slot, cpu_ns: u64) -> u64 {
    if slot.timer < 0 || cpu_ns < slot.first_expiry_ns {
        return 0;
    }
    const TICKS: u64 = 4;
    let period = period_ns().max(1);
    let expired = 1 + (cpu_ns - slot.first_expiry_ns) / period;
    let most = 1 + TICKS * sys::tick_ns() / period;
    expired.saturating_sub(slot.accounted_weight).min(most)
}

/// Silences a thread's clocks for the time being; any thread may do that.
pub fn pause(slot: &Slot) {
    if slot.timer >= 0 {
        sys::timer_arm(slot.timer, 0, 0);
    }
    if slot.perf >= 0 {
        sys::ioctl(slot.perf, PERF_DISABLE, 0);
    }
}

/// Lets paused clocks go on.
pub fn resume(slot: &Slot) {
    if slot.timer >= 0 {
        sys::timer_arm(slot.timer, period_ns(), period_ns());
    }
    if slot.perf >= 0 {
        sys::ioctl(slot.perf, PERF_ENABLE, 0);
    }
}

/// Stops and removes the thread's clocks.
pub fn stop(slot: &mut Slot) {
    if slot.timer >= 0 {
        sys::timer_delete(slot.timer);
        slot.timer = -1;
    }
    if slot.perf >= 0 {
        // A fork child may hold the descriptor open: closing ours does not stop the event.
        sys::ioctl(slot.perf, PERF_DISABLE, 0);
        close_perf(slot.perf);
        slot.perf = -1;
    }
}

fn phase_ns(tid: u32, period: u64) -> u64 {
    let mut mixed = sys::boottime_ns() ^ u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 32) % period.max(1)
}

/// The first 64 bytes of `struct perf_event_attr` (PERF_ATTR_SIZE_VER0).
#[derive(Debug, Default)]
#[repr(C)]
struct PerfAttributes {
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
}

const _: () = assert!(size_of::<PerfAttributes>() == 64);

fn open_perf(tid: u32, period_ns: u64) -> Result<c_int, i32> {
    const TYPE_SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    // disabled, exclude_kernel, exclude_hv.
    const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
    const CLOSE_ON_EXEC: u64 = 1 << 3;
    const F_SETSIG: c_int = 10;
    const F_SETOWN_EX: c_int = 15;
    const F_OWNER_TID: c_int = 0;
    let attributes = PerfAttributes {
        kind: TYPE_SOFTWARE,
        size: 64,
        config: CPU_CLOCK,
        sample_period: period_ns,
        flags: FLAGS,
        wakeup_events: 1,
        ..PerfAttributes::default()
    };
    let low = sys::perf_event_open(&attributes, tid, CLOSE_ON_EXEC)?;
    // Out of the way of the numbers that the program gets for its own files.
    let lowest = (sys::descriptor_limit().min(1 << 16) / 2).max(64);
    let high = sys::fcntl(low, libc::F_DUPFD_CLOEXEC, lowest) as c_int;
    sys::close(low);
    if high < 0 {
        return Err(-high);
    }
    let owner = [F_OWNER_TID, tid as c_int];
    let directed = sys::fcntl_object(high, F_SETOWN_EX, &owner) >= 0
        && sys::fcntl(high, F_SETSIG, SAMPLE_SIGNAL as u64) >= 0
        && sys::fcntl(
            high,
            libc::F_SETFL,
            (libc::O_ASYNC | libc::O_NONBLOCK) as u64,
        ) >= 0;
    if directed {
        Ok(high)
    } else {
        sys::close(high);
        Err(libc::EINVAL)
    }
}

/// Closes a perf descriptor, unless the program has closed it and uses its number for another file.
pub fn close_perf(fd: c_int) {
    const F_GETSIG: c_int = 11;
    if sys::fcntl(fd, F_GETSIG, 0) == i64::from(SAMPLE_SIGNAL) {
        sys::close(fd);
    }
}
