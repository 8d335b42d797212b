//! Clocks, timers, and waiting.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rsys_wire::clocks;

use crate::sys::calls;
use crate::sys::{address, checked, read_file, readlink};

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

/// CLOCK_REALTIME in nanoseconds.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread in nanoseconds (a system call).
pub fn thread_cpu_ns() -> u64 {
    ask_kernel(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of another thread of the process in nanoseconds (a system call); 0 when it is gone.
pub fn cpu_ns_of_thread(tid: u32) -> u64 {
    ask_kernel(thread_clock(tid))
}

/// CPU time of a thread of the process in user mode, in nanoseconds (a system call). Most kernels count it by their ticks.
pub fn thread_user_ns(tid: u32) -> u64 {
    // CPUCLOCK_VIRT in place of CPUCLOCK_SCHED, as in `thread_clock`.
    ask_kernel(thread_clock(tid) & !3 | 1)
}

/// CPU time of all threads of the process in nanoseconds (a system call).
pub fn process_cpu_ns() -> u64 {
    ask_kernel(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Whether the C library's clocks must not be used: they read the processor's time stamp counter.
static KERNEL_TIME: AtomicBool = AtomicBool::new(false);

/// Whether all times come from the kernel from now on.
pub fn use_kernel_time(always: bool) {
    KERNEL_TIME.store(always, Ordering::Relaxed);
}

/// Whether times come from the kernel.
pub fn uses_kernel_time() -> bool {
    KERNEL_TIME.load(Ordering::Relaxed)
}

/// Whether there are times at all.
pub fn is_time_known() -> bool {
    own_boottime_ns() != 0
}

/// `clock_gettime` of the C library, or null where the linker's is to be called.
static CLOCK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Takes the C library's own `clock_gettime`. The program or another library may have one in front of it, which returns other times or
/// must not be called in a signal handler.
///
/// # Safety
/// `function` is the C library's, or null.
pub unsafe fn set_clock(function: *mut ()) {
    CLOCK.store(function, Ordering::Relaxed);
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    type Function = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
    if uses_kernel_time() {
        return ask_kernel(clock);
    }
    let mut time = timespec(0);
    // SAFETY: the C library's function has this signature, and null is `None`.
    let function: Option<Function> = unsafe { std::mem::transmute(CLOCK.load(Ordering::Relaxed)) };
    // SAFETY: `time` is a valid timespec; errno is untouched on success, which is certain for
    // these clocks.
    unsafe {
        match function {
            Some(function) => function(clock, &raw mut time),
            None => libc::clock_gettime(clock, &raw mut time),
        }
    };
    nanoseconds(time)
}

/// A clock by a system call; 0 when the kernel does not say. The handler is here at ticks beside perf, and where the time stamp counter must not be read.
#[cold]
#[inline(never)]
fn ask_kernel(clock: libc::clockid_t) -> u64 {
    let mut time = timespec(0);
    // SAFETY: room for what the kernel writes.
    unsafe { calls::clock_gettime(clock as u64, address(&raw mut time)) };
    nanoseconds(time)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// The kernel's tick in nanoseconds: CPU timers expire no finer than this. One system call in the life of a program.
pub fn tick_ns() -> u64 {
    /// Where a filter does not let us ask: that of most distributions.
    const USUAL_NS: u64 = 4_000_000;
    static TICK_NS: AtomicU64 = AtomicU64::new(0);
    let known = TICK_NS.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let mut time = timespec(0);
    // The coarse clocks advance once per tick.
    let clock = libc::CLOCK_MONOTONIC_COARSE as u64;
    // SAFETY: room for what the kernel writes.
    if unsafe { calls::clock_getres(clock, address(&raw mut time)) } < 0 {
        return USUAL_NS;
    }
    let tick = (time.tv_nsec as u64).max(1);
    TICK_NS.store(tick, Ordering::Relaxed);
    tick
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
    let (event, place) = (address(&raw const event), address(&raw mut timer));
    // SAFETY: an event, and room for the timer's id.
    let made = unsafe { calls::timer_create(clock, event, place) };
    checked(made).map(|_| timer)
}

/// Arms a timer; two zeros disarm it.
pub fn timer_arm(timer: c_int, first_ns: u64, period_ns: u64) {
    let setting = libc::itimerspec {
        it_interval: timespec(period_ns),
        it_value: timespec(first_ns.max(u64::from(period_ns > 0))),
    };
    // SAFETY: the kernel reads the setting.
    unsafe { calls::timer_settime(timer as u64, 0, address(&raw const setting), 0) };
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Deletes a timer.
pub fn timer_delete(timer: c_int) {
    // SAFETY: a number.
    unsafe { calls::timer_delete(timer as u64) };
}

/// Sleeps for a time, or until a signal. Returns false when the program's seccomp filter does not allow that.
///
/// Waits on a futex that is never woken: filters rarely forbid `futex`, and `nanosleep` need not be called.
pub fn nap(ns: u64) -> bool {
    let word = AtomicU32::new(0);
    futex_wait(&word, 0, ns) != -i64::from(libc::EPERM)
}

/// Waits a little for another thread that is about to finish something: for some microseconds at first, then asleep.
/// `round` counts the calls.
pub fn back_off(round: &mut u32) {
    const SPINS: u32 = 100;
    const NAP_NS: u64 = 20_000;
    *round = round.saturating_add(1);
    if *round > SPINS {
        nap(NAP_NS);
    } else {
        std::hint::spin_loop();
    }
}

/// Sleeps while a word has a value, at most for a time, or until it is woken. A negative result is `-errno`.
pub fn futex_wait(word: &AtomicU32, value: u32, ns: u64) -> i64 {
    let time = timespec(ns);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let (place, time) = (address(word.as_ptr()), address(&raw const time));
    // SAFETY: the word and the time live across the call.
    unsafe { calls::futex(place, operation as u64, u64::from(value), time) }
}

/// As [`futex_wait`], where another process may wake us.
pub fn futex_wait_shared(word: &AtomicU32, value: u32, ns: u64) -> i64 {
    let time = timespec(ns);
    let (place, time) = (address(word.as_ptr()), address(&raw const time));
    // SAFETY: the word and the time live across the call.
    unsafe { calls::futex(place, libc::FUTEX_WAIT as u64, u64::from(value), time) }
}

/// Wakes all threads that sleep on a word.
pub fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let all = u64::from(u32::MAX >> 1);
    // SAFETY: the kernel only looks the address up.
    unsafe { calls::futex(address(word.as_ptr()), operation as u64, all, 0) };
}
