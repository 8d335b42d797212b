//! The thread on which the HSA runtime calls handlers of signals that are complete; HIP's are among them.
//!
//! [`catch_up`] waits until all handlers that were due have returned, by a signal of ours with a handler of ours. In one round over its signals
//! the runtime calls handlers in no particular order, so another's may follow ours; a second signal, given when the first handler has been
//! called, is handled a round later (`Runtime::AsyncEventsLoop` of ROCr 5.2 to 7.2).

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::interpose::libraries;
use crate::sys;

const RUNTIME: &[u8] = b"/libhsa-runtime64.so";
const SUCCESS: u32 = 0;
/// The condition that a signal has a value.
const EQUAL: u32 = 0;

type Handler = unsafe extern "C" fn(i64, *mut c_void) -> bool;
type Create = unsafe extern "C" fn(i64, u32, *const u64, *mut u64) -> u32;
type Handle = unsafe extern "C" fn(u64, u32, i64, Handler, *mut c_void) -> u32;
type Subtract = unsafe extern "C" fn(u64, i64);
type Destroy = unsafe extern "C" fn(u64) -> u32;

/// The runtime's functions, which are not looked for in its table: it shows that to tools alone. None of them is one that we record.
#[derive(Debug, Clone, Copy)]
struct Functions {
    create: Create,
    handle: Handle,
    subtract: Subtract,
    destroy: Destroy,
}

impl Functions {
    fn find() -> Option<Functions> {
        const NAMES: [&CStr; 4] = [
            c"hsa_signal_create",
            c"hsa_amd_signal_async_handler",
            c"hsa_signal_subtract_screlease",
            c"hsa_signal_destroy",
        ];
        static FOUND: [AtomicPtr<()>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];
        let [create, handle, subtract, destroy] = &FOUND;
        if destroy.load(Ordering::Acquire).is_null() {
            let library = libraries::handle(RUNTIME);
            for (place, name) in FOUND.iter().zip(NAMES) {
                place.store(libraries::symbol(library, name), Ordering::Release);
            }
        }
        let get = |place: &AtomicPtr<()>| place.load(Ordering::Acquire);
        // SAFETY: the runtime's headers say that these are their signatures; null is None.
        unsafe {
            Some(Functions {
                create: std::mem::transmute::<*mut (), Option<Create>>(get(create))?,
                handle: std::mem::transmute::<*mut (), Option<Handle>>(get(handle))?,
                subtract: std::mem::transmute::<*mut (), Option<Subtract>>(get(subtract))?,
                destroy: std::mem::transmute::<*mut (), Option<Destroy>>(get(destroy))?,
            })
        }
    }
}

/// How long the handlers of others may take: functions of the program can be among them, and wait for a thread that waits here.
const PATIENCE_NS: u64 = 200_000_000;
/// After as many waits in vain there is none any more.
const MOST_IN_VAIN: u32 = 10;

const FREE: u32 = 0;
const AWAITED: u32 = 1;
const CALLED: u32 = 2;
/// Nobody waits any more, but the handler may still be called.
const LEFT: u32 = 3;

/// One for each thread that waits.
static PLACES: [AtomicU32; 64] = [const { AtomicU32::new(FREE) }; 64];
static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// Waits until the handlers of all signals that are complete by now have returned, for a fifth of a second at most. Not on the runtime's threads.
pub fn catch_up() {
    if IN_VAIN.load(Ordering::Relaxed) >= MOST_IN_VAIN {
        return;
    }
    let free = |place: &&AtomicU32| {
        place
            .compare_exchange(FREE, AWAITED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let Some(functions) = Functions::find() else {
        return;
    };
    let Some(place) = PLACES.iter().find(free) else {
        return;
    };
    let deadline_ns = sys::boottime_ns().saturating_add(PATIENCE_NS);
    let is_caught_up = (0..2).all(|_| wait_once(&functions, place, deadline_ns));
    if is_caught_up {
        place.store(FREE, Ordering::Release);
    }
}

/// Has the handler called, and waits for that. Returns whether it was, and the place may be used again.
fn wait_once(functions: &Functions, place: &'static AtomicU32, deadline_ns: u64) -> bool {
    place.store(AWAITED, Ordering::Release);
    let mut signal = 0;
    let argument = place.as_ptr().cast();
    // SAFETY: a signal of our own, which is destroyed when its handler has been called, or never; the place lives for ever.
    unsafe {
        if (functions.create)(1, 0, std::ptr::null(), &raw mut signal) != SUCCESS {
            return true;
        }
        if (functions.handle)(signal, EQUAL, 0, on_signal, argument) != SUCCESS {
            (functions.destroy)(signal);
            return true;
        }
        (functions.subtract)(signal, 1);
    }
    while place.load(Ordering::Acquire) == AWAITED {
        let now_ns = sys::boottime_ns();
        let is_late = now_ns >= deadline_ns;
        if is_late
            && place
                .compare_exchange(AWAITED, LEFT, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            IN_VAIN.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        sys::futex_wait(place, AWAITED, deadline_ns.saturating_sub(now_ns));
    }
    // SAFETY: the runtime has done with it.
    unsafe { (functions.destroy)(signal) };
    true
}

/// # Safety
/// As the runtime calls it, with one of [`PLACES`].
unsafe extern "C" fn on_signal(_value: i64, place: *mut c_void) -> bool {
    // SAFETY: places live for ever.
    let place = unsafe { AtomicU32::from_ptr(place.cast()) };
    if place.swap(CALLED, Ordering::AcqRel) == LEFT {
        place.store(FREE, Ordering::Release);
    } else {
        sys::futex_wake(place);
    }
    false
}
