//! Living with the runtime of AddressSanitizer.
//!
//! Its shared library wants to be the first in the order of libraries, and ends the program otherwise: its interceptors
//! would not be found. Behind us they are found all the same, since every hook of ours calls what comes next. The
//! runtime asks this function for options that the program was built with; a program that has such a function of its own
//! is asked instead, and `ASAN_OPTIONS` overrides both.

use std::ffi::c_char;

/// Options in the syntax of `ASAN_OPTIONS`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}
