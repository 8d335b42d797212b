//! Processes whose start is deferred.
//!
//! A build or a shell script starts thousands of programs that live for a millisecond. What a process needs to record anything
//! (shared memory, slots, a writer in the sampler) costs more than that. So the start of a process that is no child of the sampler
//! is *deferred*: it has its hooks, and a timer on the CPU clock of its only thread. It starts when that timer expires for the
//! first time, or when something is to be recorded before: a thread, an event ([`crate::state::deferred`]). One that ends before
//! reports how many periods it lived for, if any.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::channel::announce;
use crate::clocks::clock;
use crate::lifecycle::announcement;
use crate::lifecycle::threads;
use crate::sampling::deferred::{SLOT, TIMER, mark};
use crate::sampling::slots;
use crate::signals::program_mask;
use crate::state::{self, State};
use crate::sys;
use crate::sys::signal_stack::{self, SIGNAL_STACK_BYTES};
use crate::target::debugger;

const PAGE: usize = 4096;

/// The signal stack of the first thread, above an inaccessible page; null in fork children, which have their parent's. The thread
/// keeps it for its life. (Not in our own data: LeakSanitizer reads all of that, and stumbles over the page.)
static STACK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// When the process began, by its own CLOCK_BOOTTIME in nanoseconds.
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);
/// CPU time of the process, and of its thread, at that time: an exec keeps that of the program before.
static PROCESS_BASE_NS: AtomicU64 = AtomicU64::new(0);
static THREAD_BASE_NS: AtomicU64 = AtomicU64::new(0);
/// CPU time of the thread at which the timer expires first.
static FIRST_EXPIRY_NS: AtomicU64 = AtomicU64::new(0);
/// Periods that were reported when the process seemed to end.
static REPORTED: AtomicU64 = AtomicU64::new(0);
/// The parent's [`state::instance`] in the child of a fork, else 0.
static PARENT: AtomicU64 = AtomicU64::new(0);

/// Whether the start of this process may be deferred: it is no child of the sampler, and a timer is not too much.
#[unsafe(link_section = "rsys_start")]
pub fn is_allowed() -> bool {
    let sampler = state::settings().late_unless_child_of;
    sampler != 0 && sampler != sys::getppid() && !clock::avoids_timers()
}

/// Defers the start; false when there is no timer. A fork's child has used no CPU time yet.
///
/// # Signal safety
/// Makes system calls. Allocates nothing, locks nothing: it may run in the child of a fork.
#[unsafe(link_section = "rsys_start")]
pub fn defer(parent_instance: u64, is_fork_child: bool) -> bool {
    SLOT.store(std::ptr::null_mut(), Ordering::Relaxed);
    REPORTED.store(0, Ordering::Relaxed);
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
            signal_stack::enter(memory.wrapping_add(PAGE).cast());
        }
        // It may allocate, which a start in the handler must not.
        threads::keep_for_the_end(mark());
    }
    let tid = sys::gettid();
    let timer = sys::timer_create(tid, SAMPLE_SIGNAL, mark().addr() as u64).unwrap_or(-1);
    TIMER.store(timer, Ordering::Relaxed);
    program_mask::begin_thread(true);
    let phase = clock::phase_ns(tid, now_ns);
    FIRST_EXPIRY_NS.store(thread_ns + phase, Ordering::Relaxed);
    if timer >= 0 {
        sys::timer_arm(timer, phase, clock::period_ns());
    }
    timer >= 0
}

/// Starts the process: announces it and gives its only thread the slot that its timer records into.
///
/// # Signal safety
/// Makes system calls. Allocates nothing, locks nothing.
#[cold]
#[inline(never)]
pub fn start() {
    // A vfork child has the memory of its parent, a thread by a raw clone its words.
    if state::is_confined() || !state::is_own_process() || sys::gettid() != sys::getpid() {
        return;
    }
    // A debugger without our agent, such as a static gdbserver, could not mark its children: each process that lives for a period asks once.
    if debugger::is_debugged() {
        sys::timer_delete(TIMER.load(Ordering::Relaxed));
        state::set(State::Dormant);
        announce::announce_failure(libc::EBUSY);
        return;
    }
    let began = announcement::start_deferred(
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
        state.clock.cpu_base_ns = THREAD_BASE_NS.load(Ordering::Relaxed);
        state.clock.take_over(
            timer,
            FIRST_EXPIRY_NS.load(Ordering::Relaxed),
            REPORTED.load(Ordering::Relaxed),
        );
        let guard = STACK.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !guard.is_null() {
            // SAFETY: the page below the stack, which nothing uses.
            unsafe { sys::forbid(guard, PAGE) };
        }
        threads::begin_deferred(slot, began_ns);
        Some(slot)
    }) else {
        sys::timer_delete(timer);
        return;
    };
    SLOT.store(slot, Ordering::Relaxed);
}

/// Reports the unsampled periods of a process that seems to end before its deferred start.
#[unsafe(link_section = "rsys_start")]
pub fn account() {
    // It may go on and start after all: what was reported is not counted again.
    let reported = REPORTED.load(Ordering::Relaxed);
    let first_ns = FIRST_EXPIRY_NS.load(Ordering::Relaxed);
    let periods = clock::periods_between(first_ns, sys::thread_cpu_ns()).saturating_sub(reported);
    if periods > 0 {
        REPORTED.store(reported + periods, Ordering::Relaxed);
        announce::announce_short(periods);
    }
}
