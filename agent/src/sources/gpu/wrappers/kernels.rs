//! Names of the kernels behind functions and handles of HIP.

use std::ffi::{c_char, c_void};

use rsys_wire::event::{Arg, Key, Value};

use crate::sources::gpu::hip::names;
use crate::sources::gpu::wrappers::Function;

static BY_FUNCTION: Function = Function::new(c"hipKernelNameRefByPtr", "");
static BY_HANDLE: Function = Function::new(c"hipKernelNameRef", "");

/// The kernel behind a function of the program.
#[inline(never)]
pub fn of_function(function: *const c_void, stream: *mut c_void) -> Arg<'static> {
    let address = BY_FUNCTION.address();
    // SAFETY: the signature that HIP's headers give; null is None.
    let name = unsafe {
        std::mem::transmute::<
            *mut (),
            Option<unsafe extern "C" fn(*const c_void, *mut c_void) -> *const c_char>,
        >(address)
    };
    // SAFETY: the program is about to launch it on this stream; so below.
    let name_of = |function| name.map(|name| unsafe { name(function, stream) });
    // SAFETY: as above.
    (
        Key::Kernel,
        Value::Known(unsafe { names::kernel(function, name_of) }),
    )
}

/// The kernel behind a handle.
#[inline(never)]
pub fn of_handle(handle: *const c_void) -> Arg<'static> {
    let address = BY_HANDLE.address();
    // SAFETY: the signature that HIP's headers give; null is None.
    let name = unsafe {
        std::mem::transmute::<*mut (), Option<unsafe extern "C" fn(*const c_void) -> *const c_char>>(
            address,
        )
    };
    // SAFETY: the program is about to launch it; so below.
    let name_of = |handle| name.map(|name| unsafe { name(handle) });
    // SAFETY: as above.
    (
        Key::Kernel,
        Value::Known(unsafe { names::kernel(handle, name_of) }),
    )
}
