//! Threads of ours that live for one piece of work: where the runtime may block, or the program's stack is not ours to use.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sources::gpu::words;
use crate::sys;
use crate::target::real;

const STACK_BYTES: usize = 1 << 20;

/// CPU time of helpers that are gone.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// A fork child has had no helpers.
pub fn after_fork_in_child() {
    CPU_NS.store(0, Ordering::Release);
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

    /// Does it on a thread of its own, on which all signals are blocked. Returns whether there is one.
    pub fn begin(&'static self) -> bool {
        real::resolve_all();
        let Some(create) = real::pthread_create::get() else {
            return false;
        };
        self.done.store(0, Ordering::Relaxed);
        let before = sys::sigmask(libc::SIG_SETMASK, sys::ALL_BUT_FAULTS & sys::OF_OUR_THREADS);
        // SAFETY: zero bytes are room for it; it is initialised before it is used, and destroyed after.
        let made = unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
            let mut thread: libc::pthread_t = 0;
            let this: *const Work = self;
            let made = create(
                &raw mut thread,
                &raw const attributes,
                run,
                this.cast_mut().cast(),
            );
            libc::pthread_attr_destroy(&raw mut attributes);
            made
        };
        sys::sigmask(libc::SIG_SETMASK, before);
        made == 0
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
    work.done.store(1, Ordering::Release);
    sys::futex_wake(&work.done);
    std::ptr::null_mut()
}
