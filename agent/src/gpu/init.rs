//! `hsa_init`, which every program that uses a GPU comes through.
//!
//! Opening the driver's device is the one step of it that a signal can spoil: nobody repeats an interrupted open, and the program
//! would be told that there is no GPU. So our signals wait meanwhile.

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

use rsys_wire::adopt::SAMPLE_SIGNAL;

use crate::gpu::{self, library, threads};
use crate::process;
use crate::sys;

/// `HSA_STATUS_ERROR_NOT_INITIALIZED`: what the program is told when no library has the function.
const NOT_INITIALIZED: c_int = 0x100b;

type Init = unsafe extern "C" fn() -> c_int;

static REAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

fn real() -> Option<Init> {
    let mut address = REAL.load(Ordering::Relaxed);
    if address.is_null() {
        address = library::next_or_in(c"hsa_init", b"/libhsa-runtime64.so");
        REAL.store(address, Ordering::Relaxed);
    }
    // SAFETY: the signature that the HSA specification gives; null is None.
    unsafe { std::mem::transmute::<*mut (), Option<Init>>(address) }
}

/// Sets up the HSA runtime.
///
/// # Safety
/// As the HSA specification has it: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_init() -> c_int {
    let Some(real) = real() else {
        return NOT_INITIALIZED;
    };
    if !process::is_active() || process::is_confined() || !process::is_own_process() {
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
    }
    result
}
