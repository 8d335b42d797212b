//! Streams that go.
//!
//! HIP 6 and 7 report what a stream did on a thread of the HSA runtime's, a moment after the program may know that it is over. HIP then asks the
//! stream for the number of its queue. A program that was faster has destroyed the stream by then, and with any tracer HIP reads what is not
//! there. So a stream is destroyed only when HIP has reported all of it (`tests/tests/gpu/hip.rs`: `streams_that_are_destroyed_at_once_are_told`).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::interpose::libraries;
use crate::sources::gpu::handlers;
use crate::sources::gpu::hip::end;
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::owner;
use crate::sources::gpu::words::{self, OwnStream};

/// What a program calls the stream that HIP makes for each thread, `hipStreamPerThread`. Smaller numbers are the default stream.
const OWN: usize = 2;

fn are_reported_late() -> bool {
    owner::is_hip() && hip_functions::is_late() && !end::is_over() && !words::is_of_runtime()
}

/// A stream is about to be destroyed.
pub fn before_one_goes(stream: u64) {
    if !are_reported_late() {
        return;
    }
    let stream: *const c_void = std::ptr::with_exposed_provenance(stream as usize);
    if stream.addr() > OWN {
        wait_for(stream);
    }
    handlers::catch_up();
}

/// All streams are about to be destroyed.
pub fn before_all_go() {
    if are_reported_late() {
        handlers::catch_up();
    }
}

/// Waits until a stream is idle, as HIP does when it destroys it: what HIP has not begun to report is reported too late otherwise.
fn wait_for(stream: *const c_void) {
    let (Some(is_capturing), Some(synchronise)) = (
        hip_functions::stream_is_capturing::get(),
        hip_functions::stream_synchronize::get(),
    ) else {
        return;
    };
    words::set_asking(true);
    let mut capture: c_int = 0;
    // SAFETY: HIP takes any handle, and a place for a number. To wait would spoil a capture, in which the stream has nothing to do anyway.
    unsafe {
        if is_capturing(stream, &raw mut capture) == 0 && capture == 0 {
            synchronise(stream);
        }
    }
    words::set_asking(false);
}

/// The thread is about to give a stream work. HIP destroys a thread's own stream without a call.
#[inline]
pub fn note_use(stream: u64) {
    if stream as usize == OWN && words::own_stream() == OwnStream::Unused {
        words::set_own_stream(OwnStream::New);
    }
}

/// A call of the thread's has returned. The end of a thread whose own stream was used for the first time is watched from now on: what was
/// registered last is called first, before HIP's own.
#[inline]
pub fn after_use() {
    if words::own_stream() == OwnStream::New {
        watch_end();
    }
}

#[cold]
fn watch_end() {
    type AtExit = unsafe extern "C" fn(
        unsafe extern "C" fn(*mut c_void),
        *mut c_void,
        *const c_void,
    ) -> c_int;
    static AT_EXIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
    words::set_own_stream(OwnStream::Watched);
    if !hip_functions::is_late() {
        return;
    }
    let mut found = AT_EXIT.load(Ordering::Relaxed);
    if found.is_null() {
        let library = libraries::handle(b"/libc.so.6");
        found = libraries::symbol(library, c"__cxa_thread_atexit_impl");
        AT_EXIT.store(found, Ordering::Relaxed);
    }
    // SAFETY: the C library has this signature for this name (since 2.18); null is None.
    if let Some(at_exit) = unsafe { std::mem::transmute::<*mut (), Option<AtExit>>(found) } {
        // SAFETY: the agent is never unloaded, so it may count as a part of the program.
        unsafe { at_exit(on_end, std::ptr::null_mut(), std::ptr::null()) };
    }
}

/// # Safety
/// As the C library calls it when the thread ends.
unsafe extern "C" fn on_end(_: *mut c_void) {
    if are_reported_late() {
        wait_for(std::ptr::without_provenance(OWN));
        handlers::catch_up();
    }
}
