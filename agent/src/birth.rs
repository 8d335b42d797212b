//! Processes that begin late.
//!
//! A build or a shell script starts thousands of programs that live for a millisecond. What a process needs to record anything (shared
//! memory, slots, a writer in the sampler) costs more than that. So a process that is no child of the sampler begins *unborn*: it has
//! its hooks, and a timer on the CPU clock of its only thread. It is born when that timer expires for the first time, or when
//! something is to be recorded before: a thread, an event. One that ends unborn tells how many periods it lived for, if any.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::clock;
use crate::process;
use crate::signals;
use crate::slots::{self, SIGNAL_STACK_BYTES, Slot};
use crate::sys;
use crate::threads;
use crate::tls;

const PAGE: usize = 4096;

/// The signal stack of the first thread, above a page that nobody may touch; null in fork children, which have their parent's. The thread
/// keeps it for its life. (Not in our own data: LeakSanitizer reads all of that, and stumbles over the page.)
static STACK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// When the process began, by its own CLOCK_BOOTTIME in nanoseconds.
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);
/// CPU time of the process, and of its thread, at that time: an exec keeps that of the program before.
static PROCESS_BASE_NS: AtomicU64 = AtomicU64::new(0);
static THREAD_BASE_NS: AtomicU64 = AtomicU64::new(0);
/// CPU time of the thread at which the timer expires first.
static FIRST_EXPIRY_NS: AtomicU64 = AtomicU64::new(0);
/// Periods that were told of when the process seemed to end.
static TOLD: AtomicU64 = AtomicU64::new(0);
/// Who forked us, see [`process::instance`].
static PARENT: AtomicU64 = AtomicU64::new(0);
/// The kernel's id of the timer, or -1.
static TIMER: AtomicI32 = AtomicI32::new(-1);
/// The slot that the timer belongs to since the birth.
static SLOT: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// What the signals of the timer carry: no address of a slot.
#[inline]
pub fn mark() -> *mut c_void {
    (&raw const TIMER).cast_mut().cast()
}

/// Whether this process may begin late: nobody named it on a command line.
pub fn may_wait() -> bool {
    let sampler = process::settings().late_unless_child_of;
    sampler != 0 && sampler != sys::getppid()
}

/// Begins unborn; false when there is no timer. Where a process was forked, `is_fork_child` says that it has used no CPU time yet.
///
/// # Signal safety
/// Makes system calls. Allocates nothing, locks nothing: it may run in the child of a fork.
pub fn wait(parent_instance: u64, is_fork_child: bool) -> bool {
    SLOT.store(std::ptr::null_mut(), Ordering::Relaxed);
    TOLD.store(0, Ordering::Relaxed);
    PARENT.store(parent_instance, Ordering::Relaxed);
    let now_ns = sys::own_boottime_ns();
    BEGAN_NS.store(now_ns, Ordering::Relaxed);
    let (process_ns, thread_ns) = if is_fork_child {
        (0, 0)
    } else {
        (sys::process_cpu_ns(), sys::thread_cpu_ns())
    };
    PROCESS_BASE_NS.store(process_ns, Ordering::Relaxed);
    THREAD_BASE_NS.store(thread_ns, Ordering::Relaxed);
    if !is_fork_child {
        // A fork child has its parent's, which stays mapped.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        if let Ok(memory) = sys::mmap(PAGE + SIGNAL_STACK_BYTES, flags, -1) {
            STACK.store(memory, Ordering::Relaxed);
            threads::use_stack(memory.wrapping_add(PAGE).cast());
        }
        // It may allocate, which a birth in the handler must not.
        threads::keep_for_the_end(mark());
    }
    let tid = sys::gettid();
    let timer = sys::timer_create(tid, SAMPLE_SIGNAL, mark().addr() as u64).unwrap_or(-1);
    TIMER.store(timer, Ordering::Relaxed);
    let blocked = signals::unblock_ours();
    // SAFETY: the thread's own words.
    unsafe { (*tls::words()).signals |= blocked };
    let phase = clock::phase_ns(tid, now_ns);
    FIRST_EXPIRY_NS.store(thread_ns + phase, Ordering::Relaxed);
    if timer >= 0 {
        sys::timer_arm(timer, phase, clock::period_ns());
    }
    timer >= 0
}

/// Is born, if not yet: something is to be recorded. False when that cannot be.
#[inline]
pub fn be_born() -> bool {
    if process::is_unborn() {
        begin();
    }
    !process::is_unborn()
}

/// The slot of the thread whose first timer expired. Makes system calls, once in a process.
#[inline]
pub fn slot_of_timer(timer: c_int) -> Option<*mut Slot> {
    if timer != TIMER.load(Ordering::Relaxed) {
        return None;
    }
    be_born();
    let slot = SLOT.load(Ordering::Relaxed);
    // SAFETY: slots are never unmapped.
    let valid = unsafe { slot.as_ref() }.is_some_and(|slot| {
        // The thread may have ended, and another have its slot.
        slot.timer == timer && slot.active.load(Ordering::Relaxed)
    });
    valid.then_some(slot)
}

#[cold]
#[inline(never)]
pub fn begin() {
    // A vfork child has the memory of its parent, a thread by a raw clone its words.
    if process::is_confined() || !process::is_own_process() || sys::gettid() != sys::getpid() {
        return;
    }
    let began = process::be_born(
        PARENT.load(Ordering::Relaxed),
        BEGAN_NS.load(Ordering::Relaxed),
        PROCESS_BASE_NS.load(Ordering::Relaxed),
    );
    let timer = TIMER.load(Ordering::Relaxed);
    let Some(slot) = began.and_then(|began_ns| {
        let slot = slots::claim_existing()?;
        // SAFETY: claimed for this thread, whose timer finds it from the last line on.
        let state = unsafe { &mut *slot };
        state.start = std::ptr::null_mut();
        state.timer = timer;
        state.cpu_base_ns = THREAD_BASE_NS.load(Ordering::Relaxed);
        state.first_expiry_ns = FIRST_EXPIRY_NS.load(Ordering::Relaxed);
        state.account_ahead(TOLD.load(Ordering::Relaxed));
        let guard = STACK.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !guard.is_null() {
            // SAFETY: the page below the stack, which nothing uses.
            unsafe { sys::forbid(guard, PAGE) };
        }
        threads::begin_unborn(slot, began_ns);
        Some(slot)
    }) else {
        sys::timer_delete(timer);
        return;
    };
    SLOT.store(slot, Ordering::Relaxed);
}

/// The process seems to end: what its thread did is told, if it was never born.
pub fn account() {
    // It may be that it goes on, and is born after all: that is then no news.
    let told = TOLD.load(Ordering::Relaxed);
    let first_ns = FIRST_EXPIRY_NS.load(Ordering::Relaxed);
    let periods = clock::periods_between(first_ns, sys::thread_cpu_ns()).saturating_sub(told);
    if periods > 0 {
        TOLD.store(told + periods, Ordering::Relaxed);
        process::announce_short(periods);
    }
}
