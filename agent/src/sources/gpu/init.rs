//! `hsa_init`, which every program that uses a GPU comes through.
//!
//! Opening the driver's device is the one step of it that a signal can spoil: an interrupted open is not repeated, and the program
//! would be told that there is no GPU. So our signals wait meanwhile.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::interpose::libraries;
use crate::interpose::symbols;
use crate::sources::gpu;
use crate::sources::gpu::threads;
use crate::sources::gpu::tool;
use crate::state;
use crate::state::deferred;
use crate::sys;

/// `HSA_STATUS_ERROR_NOT_INITIALIZED`: returned to the program when no library has the function.
const NOT_INITIALIZED: c_int = 0x100b;

type Init = unsafe extern "C" fn() -> c_int;

static REAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

fn real() -> Option<Init> {
    let mut address = REAL.load(Ordering::Relaxed);
    if address.is_null() {
        address = libraries::next_or_in(c"hsa_init", b"/libhsa-runtime64.so");
        REAL.store(address, Ordering::Relaxed);
    }
    // SAFETY: the signature that the HSA specification gives; null is None.
    unsafe { std::mem::transmute::<*mut (), Option<Init>>(address) }
}

/// Sets up the HSA runtime.
///
/// # Safety
/// As the HSA specification has it: none.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn hsa_init() -> c_int {
    let Some(real) = real() else {
        return NOT_INITIALIZED;
    };
    if !state::may_set_up() {
        // SAFETY: no arguments.
        return unsafe { real() };
    }
    threads::learn();
    let before = sys::sigmask(libc::SIG_BLOCK, sys::bit(SAMPLE_SIGNAL));
    // SAFETY: as above.
    let result = unsafe { real() };
    sys::sigmask(libc::SIG_SETMASK, before);
    if result == 0 {
        gpu::runtime_is_up();
        if events::is_on() {
            tool::check_is_loaded();
        } else if deferred::start() {
            // The user may not know that there is something to see.
            counters::set_counter(Counter::GpuNotAskedFor, 1);
        }
    }
    result
}

/// The name of [`hsa_init`].
pub const NAME: &CStr = c"hsa_init";

/// What `dlsym` returns for [`NAME`] where the real one returns `found`; `ask_next` is the real one for what comes behind us.
pub fn answer(found: *const (), ask_next: &dyn Fn() -> *const ()) -> *const () {
    if found.is_null() {
        return found;
    }
    if symbols::is_ours(found) {
        // What only we have, the program must not find.
        return if real().is_none() { ask_next() } else { found };
    }
    threads::learn();
    if threads::is_in_hsa(found.addr() as u64) {
        hsa_init as *const ()
    } else {
        found
    }
}
