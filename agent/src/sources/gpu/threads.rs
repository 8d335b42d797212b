//! Threads of the GPU runtimes.
//!
//! They wait for the GPU's interrupts and are none of the program's work, so no clock is given to them. They are known by their start routine,
//! which lies in a runtime's library.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::event::Labelled;

use crate::code::modules;
use crate::events;
use crate::interpose::libraries;
use crate::sources::gpu::words;
use crate::sys;
use crate::target::real::StartRoutine;

/// The libraries, a function that each has, and what their threads are called.
const RUNTIMES: [(&[u8], &std::ffi::CStr, &[u8]); 2] = [
    (b"/libhsa-runtime64.so", c"hsa_shut_down", b"HSA runtime"),
    (b"/libamdhip64.so", c"hipGetDeviceCount", b"HIP runtime"),
];
/// First address and one past the last of each, or zeros.
static RANGES: [[AtomicU64; 2]; 2] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; 2];

/// Learns where the runtimes' code is, as far as they are loaded.
pub fn learn() {
    for ((path, function, _), [first, last]) in RUNTIMES.iter().zip(&RANGES) {
        if last.load(Ordering::Relaxed) != 0 || !libraries::is_loaded(path) {
            continue;
        }
        let address = libraries::symbol(libraries::handle(path), function).addr() as u64;
        if let Some(object) = modules::find(address) {
            first.store(object.start, Ordering::Relaxed);
            last.store(object.end, Ordering::Relaxed);
        }
    }
}

fn runtime_of(address: u64) -> Option<usize> {
    RANGES.iter().position(|[first, last]| {
        (first.load(Ordering::Relaxed)..last.load(Ordering::Relaxed)).contains(&address)
    })
}

/// Whether an address is in the HSA runtime.
pub fn is_in_hsa(address: u64) -> bool {
    runtime_of(address) == Some(0)
}

/// Whether it is known where the HSA runtime is.
pub fn knows_hsa() -> bool {
    let [[_, last], _] = &RANGES;
    last.load(Ordering::Relaxed) != 0
}

/// Whether an address is in HIP.
pub fn is_in_hip(address: u64) -> bool {
    runtime_of(address) == Some(1)
}

/// Whether a thread that begins here is a runtime's.
#[inline]
pub fn is_of_runtime(start: StartRoutine) -> bool {
    runtime_of((start as *const ()).addr() as u64).is_some()
}

/// Threads without a clock that live, by their kernel ids.
static LIVING: [AtomicU32; 128] = [const { AtomicU32::new(0) }; 128];
/// CPU time of those that have ended.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);

/// The calling thread has no clock: its CPU time is not to be accounted for by samples.
pub fn enter() -> Unsampled {
    let tid = sys::gettid();
    for place in &LIVING {
        if place
            .compare_exchange(0, tid, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            break;
        }
    }
    Unsampled { tid }
}

/// A thread without a clock, until it ends.
#[derive(Debug)]
pub struct Unsampled {
    tid: u32,
}

impl Unsampled {
    /// It ends.
    pub fn leave(self) {
        ENDED_NS.fetch_add(sys::thread_cpu_ns(), Ordering::Relaxed);
        for place in &LIVING {
            place
                .compare_exchange(self.tid, 0, Ordering::Relaxed, Ordering::Relaxed)
                .ok();
        }
    }
}

/// CPU time that threads without a clock have used.
pub fn unsampled_cpu_ns() -> u64 {
    let living = LIVING
        .iter()
        .map(|place| place.load(Ordering::Relaxed))
        .filter(|tid| *tid != 0);
    living.fold(ENDED_NS.load(Ordering::Relaxed), |sum, tid| {
        sum.saturating_add(sys::cpu_ns_of_thread(tid))
    })
}

/// A fork's child has none of them.
pub fn after_fork_in_child() {
    ENDED_NS.store(0, Ordering::Relaxed);
    for place in &LIVING {
        place.store(0, Ordering::Relaxed);
    }
}

/// What a thread needs to begin.
#[derive(Debug)]
struct Beginning {
    taken: AtomicBool,
    what: UnsafeCell<Option<(StartRoutine, *mut c_void)>>,
}

// SAFETY: the thread that took the place writes it before the new thread exists, and the thread reads it before the place is free again.
unsafe impl Sync for Beginning {}

static BEGINNINGS: [Beginning; 64] = [const {
    Beginning {
        taken: AtomicBool::new(false),
        what: UnsafeCell::new(None),
    }
}; 64];

/// Creates such a thread: our signals are blocked in it, so that it is not asked to sample itself either.
pub fn create(
    start: StartRoutine,
    argument: *mut c_void,
    real: impl FnOnce(StartRoutine, *mut c_void) -> c_int,
) -> c_int {
    let place = BEGINNINGS
        .iter()
        .find(|place| !place.taken.swap(true, Ordering::Acquire));
    let before = sys::sigmask(libc::SIG_BLOCK, sys::bit(SAMPLE_SIGNAL));
    let result = match place {
        Some(place) => {
            // SAFETY: the place is ours.
            unsafe { *place.what.get() = Some((start, argument)) };
            // SAFETY: the same function; a cancelled thread unwinds through it, into the C library.
            let begin = unsafe {
                std::mem::transmute::<
                    unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
                    StartRoutine,
                >(begin)
            };
            let result = real(begin, (&raw const *place).cast_mut().cast());
            if result != 0 {
                place.taken.store(false, Ordering::Release);
            }
            result
        }
        None => real(start, argument),
    };
    sys::sigmask(libc::SIG_SETMASK, before);
    result
}

/// # Safety
/// As the C library calls it, with a [`Beginning`] that was filled.
unsafe extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes a place that it has filled.
    let place = unsafe { &*place.cast::<Beginning>() };
    // SAFETY: as above.
    let what = unsafe { *place.what.get() };
    place.taken.store(false, Ordering::Release);
    // SAFETY: the thread's own words.
    unsafe { (*words::words()).of_runtime = 1 };
    let Some((start, argument)) = what else {
        return std::ptr::null_mut();
    };
    if events::is_on()
        && let Some((_, _, name)) =
            runtime_of((start as *const ()).addr() as u64).and_then(|runtime| RUNTIMES.get(runtime))
    {
        events::label(Labelled::Thread, u64::from(sys::gettid()), name, &[]);
    }
    let unsampled = enter();
    // SAFETY: the runtime's own routine and argument.
    let result = unsafe { start(argument) };
    unsampled.leave();
    result
}
