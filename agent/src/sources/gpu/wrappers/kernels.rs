//! Names of the kernels behind functions and handles of HIP.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{Arg, Key, Value};

use crate::events;
use crate::sources::gpu::wrappers::Function;

const ENTRIES: usize = 4096;
const PROBES: usize = 32;

/// A function or handle, and the key of its kernel's name.
static KNOWN: [[AtomicU64; 2]; ENTRIES] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; ENTRIES];

static BY_FUNCTION: Function = Function::new(c"hipKernelNameRefByPtr", "");
static BY_HANDLE: Function = Function::new(c"hipKernelNameRef", "");

/// The kernel behind a function of the program.
pub fn of_function(function: *const c_void, stream: *mut c_void) -> Arg<'static> {
    kernel(function, || {
        let address = BY_FUNCTION.address();
        // SAFETY: the signature that HIP's headers give; null is None.
        let name = unsafe {
            std::mem::transmute::<
                *mut (),
                Option<unsafe extern "C" fn(*const c_void, *mut c_void) -> *const c_char>,
            >(address)
        };
        // SAFETY: the program is about to launch it on this stream.
        name.map(|name| unsafe { name(function, stream) })
    })
}

/// The kernel behind a handle.
pub fn of_handle(handle: *const c_void) -> Arg<'static> {
    kernel(handle, || {
        let address = BY_HANDLE.address();
        // SAFETY: as above.
        let name = unsafe {
            std::mem::transmute::<
                *mut (),
                Option<unsafe extern "C" fn(*const c_void) -> *const c_char>,
            >(address)
        };
        // SAFETY: the program is about to launch it.
        name.map(|name| unsafe { name(handle) })
    })
}

fn kernel(which: *const c_void, ask: impl FnOnce() -> Option<*const c_char>) -> Arg<'static> {
    let which = which.addr() as u64;
    let hash = (which >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let places =
        (0..PROBES).filter_map(|step| KNOWN.get((hash as usize).wrapping_add(step) % ENTRIES));
    let mut free = None;
    for place in places {
        let [known, key] = place;
        match known.load(Ordering::Acquire) {
            0 => {
                free = Some(place);
                break;
            }
            found if found == which => {
                return (Key::Kernel, Value::Known(key.load(Ordering::Relaxed)));
            }
            _ => {}
        }
    }
    let name = ask().filter(|name| !name.is_null());
    // SAFETY: HIP returns a C string that lives as long as the kernel, or null.
    let text = name.map_or(&b""[..], |name| unsafe { CStr::from_ptr(name) }.to_bytes());
    let key = if text.is_empty() {
        0
    } else {
        events::text(text)
    };
    // Handles of modules come again with other kernels: what is not a function of the program is asked each time.
    if let Some([known, place]) = free
        && key != 0
    {
        place.store(key, Ordering::Relaxed);
        known.store(which, Ordering::Release);
    }
    (Key::Kernel, Value::Known(key))
}
