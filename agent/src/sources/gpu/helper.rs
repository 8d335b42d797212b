//! Threads of ours that do one piece of work: where the runtime may block, or the program's stack is not ours to use.
//!
//! Each is made for its work, but for the one that waits for the end of the process ([`park`]): that may come in a handler which has interrupted `malloc`,
//! when no thread can be made.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::channel::counters;
use crate::sources::gpu::{threads, words};
use crate::state::{self, departure};
use crate::sys;
use crate::target::real::{self, StartRoutine};

const STACK_BYTES: usize = 1 << 20;
/// How often the thread that waits looks whether the sampler is gone.
const LOOK_NS: u64 = 1_000_000_000;

/// CPU time of helpers that are gone.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// There is no thread that waits.
const NONE: u32 = 0;
/// It waits for work.
const WAITS: u32 = 1;
/// It has work, or is at it.
const WORKS: u32 = 2;

/// What the thread does that waits for the end of the process.
static PARKED: AtomicU32 = AtomicU32::new(NONE);
/// The work that it is given.
static GIVEN: AtomicPtr<Work> = AtomicPtr::new(std::ptr::null_mut());

/// A fork child has had no helpers.
pub fn after_fork_in_child() {
    CPU_NS.store(0, Ordering::Release);
    PARKED.store(NONE, Ordering::Release);
}

/// Makes the thread that waits for the end of the process, unless there is one. Not for signal handlers.
#[inline]
pub fn park() {
    if PARKED.load(Ordering::Relaxed) == NONE && state::is_active() {
        make_parked();
    }
}

#[cold]
fn make_parked() {
    let is_first = PARKED.compare_exchange(NONE, WAITS, Ordering::AcqRel, Ordering::Relaxed);
    if is_first.is_ok() && !make_thread(wait_for_work, std::ptr::null_mut()) {
        PARKED.store(NONE, Ordering::Release);
    }
}

/// # Safety
/// As the C library calls it.
unsafe extern "C" fn wait_for_work(_: *mut c_void) -> *mut c_void {
    words::set_helper();
    sys::set_thread_name(c"rsys-gpu-end");
    let unsampled = threads::enter();
    loop {
        while PARKED.load(Ordering::Acquire) == WAITS {
            sys::futex_wait(&PARKED, WAITS, LOOK_NS);
            if counters::is_sampler_gone() {
                departure::leave();
            }
            let order = Ordering::AcqRel;
            if !state::is_active()
                && PARKED
                    .compare_exchange(WAITS, NONE, order, Ordering::Relaxed)
                    .is_ok()
            {
                unsampled.leave();
                return std::ptr::null_mut();
            }
        }
        // SAFETY: works live for ever.
        if let Some(work) = unsafe { GIVEN.load(Ordering::Acquire).as_ref() } {
            (work.what)();
            PARKED.store(WAITS, Ordering::Release);
            work.is_done_now();
        }
    }
}

/// Makes a thread on which all signals are blocked. Returns whether there is one.
fn make_thread(start: StartRoutine, argument: *mut c_void) -> bool {
    real::resolve_all();
    let Some(create) = real::pthread_create::get() else {
        return false;
    };
    let before = sys::sigmask(libc::SIG_SETMASK, sys::ALL_BUT_FAULTS & sys::OF_OUR_THREADS);
    // SAFETY: zero bytes are room for it; it is initialised before it is used, and destroyed after.
    let made = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        let mut thread: libc::pthread_t = 0;
        let made = create(&raw mut thread, &raw const attributes, start, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        made
    };
    sys::sigmask(libc::SIG_SETMASK, before);
    made == 0
}

/// What was done of a piece of work.
#[derive(Debug)]
pub struct Work {
    what: fn(),
    done: AtomicU32,
    /// The thread that is at it, or 0.
    tid: AtomicU32,
}

/// CPU time of helpers that have ended.
pub fn cpu_ns() -> u64 {
    CPU_NS.load(Ordering::Acquire)
}

impl Work {
    /// Work that has not begun.
    pub const fn new(what: fn()) -> Self {
        Work {
            what,
            done: AtomicU32::new(0),
            tid: AtomicU32::new(0),
        }
    }

    /// Whether it was done.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// CPU time of the thread that is still at it.
    pub fn cpu_ns(&self) -> u64 {
        match self.tid.load(Ordering::Acquire) {
            0 => 0,
            tid => sys::cpu_ns_of_thread(tid),
        }
    }

    /// Does it on a thread of its own. Returns whether there is one. Not for signal handlers.
    pub fn begin(&'static self) -> bool {
        self.done.store(0, Ordering::Relaxed);
        let this: *const Work = self;
        make_thread(run, this.cast_mut().cast())
    }

    /// Does it on the thread that waits for the end of the process. Returns whether that is there, and idle.
    ///
    /// # Signal safety
    /// A system call.
    pub fn begin_parked(&'static self) -> bool {
        if PARKED.load(Ordering::Acquire) != WAITS {
            return false;
        }
        // Nobody else gives it work: the end of a process is one thread's at a time.
        self.done.store(0, Ordering::Relaxed);
        let this: *const Work = self;
        GIVEN.store(this.cast_mut(), Ordering::Release);
        let is_given = PARKED.compare_exchange(WAITS, WORKS, Ordering::AcqRel, Ordering::Relaxed);
        sys::futex_wake(&PARKED);
        is_given.is_ok()
    }

    fn is_done_now(&self) {
        self.done.store(1, Ordering::Release);
        sys::futex_wake(&self.done);
    }

    /// Waits until it was done, or until a time (CLOCK_BOOTTIME ns). Returns whether it was.
    pub fn wait_until(&self, deadline_ns: u64) -> bool {
        loop {
            let now = sys::boottime_ns();
            if self.is_done() || now >= deadline_ns {
                return self.is_done();
            }
            sys::futex_wait(&self.done, 0, deadline_ns - now);
        }
    }
}

/// # Safety
/// With a [`Work`] that lives for ever.
unsafe extern "C" fn run(work: *mut c_void) -> *mut c_void {
    words::set_helper();
    // SAFETY: `begin` passes a piece of work that lives for ever.
    let work = unsafe { &*work.cast::<Work>() };
    work.tid.store(sys::gettid(), Ordering::Release);
    (work.what)();
    work.tid.store(0, Ordering::Release);
    CPU_NS.fetch_add(sys::thread_cpu_ns(), Ordering::AcqRel);
    work.is_done_now();
    std::ptr::null_mut()
}
