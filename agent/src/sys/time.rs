//! Clocks, timers, and waiting.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rsys_wire::clocks;

use super::{address, call, checked, read_file, readlink};

/// How far this process' CLOCK_BOOTTIME is ahead of the sampler's, in nanoseconds.
static BOOT_AHEAD_NS: AtomicU64 = AtomicU64::new(0);

/// Finds out how far our CLOCK_BOOTTIME is ahead of the sampler's, which is ahead of the machine's by so many nanoseconds: a time
/// namespace begins with a fork or an exec.
pub fn agree_on_boottime(sampler_ahead_ns: i64) {
    let [own, childrens] = clocks::NAMESPACES.map(|path| {
        let mut name = [0_u8; 32];
        readlink(path, &mut name);
        name
    });
    let mut text = [0_u8; 256];
    let length = if own == childrens {
        read_file(clocks::OFFSETS_FILE, &mut text)
    } else {
        0
    };
    let ahead = clocks::boot_offset_ns(text.get(..length).unwrap_or(&[]));
    BOOT_AHEAD_NS.store(
        ahead.wrapping_sub(sampler_ahead_ns).cast_unsigned(),
        Ordering::Relaxed,
    );
}

/// The sampler's CLOCK_BOOTTIME in nanoseconds.
///
/// # Signal safety
/// `clock_gettime` is async-signal-safe and answered by the vDSO, without a system call.
#[inline]
pub fn boottime_ns() -> u64 {
    agreed_boottime_ns(own_boottime_ns())
}

/// CLOCK_BOOTTIME of the time namespace that the process lives in, in nanoseconds.
///
/// # Signal safety
/// As [`boottime_ns`].
#[inline]
pub fn own_boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// The sampler's CLOCK_BOOTTIME at a time of [`own_boottime_ns`].
///
/// # Signal safety
/// One atomic load.
#[inline]
pub fn agreed_boottime_ns(own_ns: u64) -> u64 {
    own_ns.wrapping_sub(BOOT_AHEAD_NS.load(Ordering::Relaxed))
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds (a system call).
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of another thread of the process in nanoseconds (a system call); 0 when it is gone.
pub fn cpu_ns_of_thread(tid: u32) -> u64 {
    clock_ns(thread_clock(tid))
}

/// CPU time of all threads of the process in nanoseconds (a system call).
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec; errno is untouched on success, which is certain for
    // these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// The kernel's tick in nanoseconds: CPU timers expire no finer than this.
pub fn tick_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. The coarse clocks advance once per tick.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_nsec as u64).max(1)
}

/// A CPU-time clock of one thread of this process, as `clock_gettime` and `timer_create` take it.
pub fn thread_clock(tid: u32) -> libc::clockid_t {
    // (~tid << 3) | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, from include/linux/posix-timers.h.
    ((!tid) << 3 | 6) as libc::clockid_t
}

/// Makes a timer on a thread's CPU clock that signals that thread, with `value` in the signal.
///
/// # Errors
/// The kernel's error number; `EAGAIN` when RLIMIT_SIGPENDING is reached.
pub fn timer_create(tid: u32, signal: c_int, value: u64) -> Result<c_int, i32> {
    // SAFETY: zero is a valid value of every field.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(value as usize);
    event.sigev_notify_thread_id = tid as c_int;
    let mut timer: c_int = 0;
    let clock = thread_clock(tid) as u64;
    let made = call(
        libc::SYS_timer_create,
        &[clock, address(&raw const event), address(&raw mut timer)],
    );
    checked(made).map(|_| timer)
}

/// Arms a timer; two zeros disarm it.
pub fn timer_arm(timer: c_int, first_ns: u64, period_ns: u64) {
    let time = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let setting = libc::itimerspec {
        it_interval: time(period_ns),
        it_value: time(first_ns.max(u64::from(period_ns > 0))),
    };
    call(
        libc::SYS_timer_settime,
        &[timer as u64, 0, address(&raw const setting), 0],
    );
}

/// Deletes a timer.
pub fn timer_delete(timer: c_int) {
    call(libc::SYS_timer_delete, &[timer as u64]);
}

/// Sleeps so long, or until a signal.
pub fn nap(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    call(libc::SYS_nanosleep, &[(&raw const time).addr() as u64, 0]);
}

/// Gives the rest of the time slice away.
pub fn sched_yield() {
    call(libc::SYS_sched_yield, &[]);
}

/// Sleeps while a word has a value, at most so long, or until it is woken.
pub fn futex_wait(word: &AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    call(
        libc::SYS_futex,
        &[
            word.as_ptr().addr() as u64,
            operation as u64,
            u64::from(value),
            address(&raw const time),
        ],
    );
}

/// Wakes all who sleep on a word.
pub fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let all = u64::from(u32::MAX >> 1);
    call(
        libc::SYS_futex,
        &[word.as_ptr().addr() as u64, operation as u64, all],
    );
}
