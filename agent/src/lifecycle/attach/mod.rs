//! The agent in a process that ran before it: begun by a sampler from outside, ended when that leaves, and begun again as often as one likes.
//!
//! The sampler has a new thread of the process load this library and call [`rsys_agent_attach`] ([`rsys_wire::attach`]). That thread is ours
//! as long as the sampler is there; all signals are blocked in it but those of the C library. It does in the open what handlers must not: it finds threads and modules
//! that are new, and at the end it waits until no thread takes a sample, before it gives back what the program had ([`detach`]). Until then
//! everything is as where the agent was preloaded, but that the hooks stand in the modules' own words ([`crate::interpose::late`]).

mod begin;
mod detach;
mod threads;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use rsys_wire::attach::{Request, Status};

use crate::channel::{announce, counters};
use crate::interpose::late::Hooks;
use crate::lifecycle::dormancy;
use crate::signals;
use crate::state;
use crate::sys;

/// How often threads, modules and the sampler are checked. The sampler wakes us when it leaves.
const LOOK_NS: u64 = 50_000_000;
/// How long the memory of the request is kept for the sampler to say that it is free.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The process in which a thread serves a sampler; 0 if none does. A child by fork inherits the number, and has no such thread.
static SERVED: AtomicU32 = AtomicU32::new(0);

/// Begins to record this process, and returns when the sampler has left.
///
/// # Safety
/// By the thread that the sampler has made, with its [`Request`], which stays until it says that it is free.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn rsys_agent_attach(request: *mut c_void) -> *mut c_void {
    // SAFETY: the sampler's request, of which only atomics change.
    let request = unsafe { &*request.cast::<Request>() };
    let [memory, bytes] = request.memory;
    if !request.is_ours() {
        request.answer(Status::Version, 0);
        free(request, memory, bytes);
        return std::ptr::null_mut();
    }
    request.tid.store(sys::gettid(), Ordering::Relaxed);
    sys::set_thread_name(c"rsys-attach");
    // A sampler of another build may have had it blocked.
    sys::sigmask(libc::SIG_UNBLOCK, sys::SET_USER);
    if !serve_alone() {
        request.answer(Status::Busy, 0);
        free(request, memory, bytes);
        return std::ptr::null_mut();
    }
    match begin::begin(request) {
        Ok(hooks) => {
            request.answer(Status::Recording, 0);
            free(request, memory, bytes);
            serve(&hooks);
            detach::detach(&hooks);
        }
        Err(error) => {
            request.answer(Status::Refused, error.unsigned_abs());
            free(request, memory, bytes);
        }
    }
    SERVED.store(0, Ordering::Release);
    std::ptr::null_mut()
}

/// Makes the calling thread the one that serves. False if the process is recorded already, or about to be.
fn serve_alone() -> bool {
    let (own, before) = (sys::getpid(), SERVED.load(Ordering::Acquire));
    if before == own {
        return false;
    }
    let is_first = SERVED
        .compare_exchange(before, own, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok();
    if !is_first {
        return false;
    }
    if state::is_active() && has_sampler_left() {
        dormancy::leave();
    }
    if state::is_active() {
        SERVED.store(before, Ordering::Release);
        return false;
    }
    if signals::is_installed() {
        detach::withdraw();
    }
    true
}

/// The sampler is gone, as a sample has seen. The thread that serves it sees that, too, and gives everything back in order. The child of a fork has
/// no such thread; if the calling one is its only one, no other can be within a sample, and the handlers are given back here.
///
/// # Signal safety
/// Makes system calls. Nothing may be read by guess afterwards.
fn leave() {
    if SERVED.load(Ordering::Relaxed) == sys::getpid() || !state::is_own_process() {
        return;
    }
    dormancy::leave();
    let mut threads = 0;
    // Once: from then on the program's own calls change its handlers.
    if signals::is_installed() && sys::for_each_thread(|_| threads += 1) && threads == 1 {
        signals::uninstall();
    }
}

/// Whether the sampler that recorded this process has ended.
fn has_sampler_left() -> bool {
    // One that was killed before it had taken us in has marked nothing.
    counters::is_sampler_gone()
        || !counters::has_sampler() && sys::is_closed(announce::session_name())
}

/// Unmaps the request's memory once the sampler says that no thread is in it any more. One that does not say so has been killed: the memory stays.
fn free(request: &Request, memory: u64, bytes: u64) {
    let begin_ns = sys::monotonic_ns();
    let session = CStr::from_bytes_until_nul(&request.session).unwrap_or(c"");
    let session = session.to_bytes();
    while request.is_free.load(Ordering::Acquire) == 0 {
        let waited_ns = sys::monotonic_ns().saturating_sub(begin_ns);
        if waited_ns > PATIENCE_NS || counters::is_sampler_gone() || sys::is_closed(session) {
            return;
        }
        sys::nap(1_000_000);
    }
    let start = std::ptr::with_exposed_provenance_mut(memory as usize);
    // SAFETY: as the sampler says; nothing of ours refers to it.
    unsafe { sys::munmap(start, bytes as usize) };
}

/// Looks after the process until the sampler has left.
fn serve(hooks: &Hooks) {
    let mut known = threads::Known::default();
    let mut modules = modules_loaded();
    let mut was_new = false;
    while state::is_active() && !has_sampler_left() {
        known.look();
        // The loader lists a module before it has relocated it: so look twice.
        let loaded = modules_loaded();
        if loaded != modules || was_new {
            was_new = loaded != modules;
            modules = loaded;
            hooks.set();
        }
        counters::wait_for_departure(LOOK_NS);
    }
}

/// How often the loader has loaded a module.
fn modules_loaded() -> u64 {
    /// # Safety
    /// As `dl_iterate_phdr` calls it, with a number.
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        size: usize,
        data: *mut c_void,
    ) -> std::ffi::c_int {
        const SIZE: usize = std::mem::offset_of!(libc::dl_phdr_info, dlpi_adds) + 8;
        if size >= SIZE {
            // SAFETY: the loader's structure of this size, and the number of the caller below.
            unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
        }
        1
    }
    let mut adds = 0_u64;
    // SAFETY: the callback gets the number that lives on this stack.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut adds).cast()) };
    adds
}
