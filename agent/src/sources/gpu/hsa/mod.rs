//! The HSA runtime as a source: queues, copies and kernel names seen through its table of functions.
//!
//! When the runtime is set up it shows its tables ([`table`], [`abi`]), and functions of ours take their places: [`queues`] and [`packets`] see every
//! packet, [`copies`] every copy, [`names`] learns what kernels are called, [`calls`] records the calls themselves. What was submitted is
//! in flight ([`operations`]) until the [`collector`] finds its signal complete; signals of the program's are watched meanwhile
//! ([`watch`]), ours are lent to kernels that have none.
//!
//! No operation waits for us, and we hold up the end of the process for two seconds at most. `seen = recorded + dropped`, by cause.

mod abi;
mod agents;
mod calls;
mod collector;
mod copies;
mod doorbell;
mod faults;
mod kernel_counters;
mod loader;
mod names;
mod operations;
mod packets;
mod queue_calls;
mod queue_depth;
mod queues;
mod scratch;
mod source;
mod table;
mod tags;
mod watch;
mod write_index;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rsys_wire::sources::Category;

use crate::events;
use crate::sources::gpu::hsa::abi::Layout;
use crate::sources::gpu::hsa::collector::Request;
pub use crate::sources::gpu::hsa::source::Choice;
use crate::sources::gpu::hsa::table::Tables;
use crate::sources::gpu::owner;
use crate::sources::gpu::threads;
use crate::state;
use crate::state::pause;

/// Whether the runtime's calls are recorded.
static RECORDS_CALLS: AtomicBool = AtomicBool::new(false);
/// Whether this runtime has queues and signals of ours.
static USED: AtomicU32 = AtomicU32::new(0);
static LAYOUT: AtomicU32 = AtomicU32::new(0);

/// Whether GPU operations are recorded from here.
#[inline]
pub fn is_recording() -> bool {
    owner::is_hsa() && is_needed()
}

/// Whether operations are to be followed: by the sampler, or by a runtime whose queues must not get full, also when the sampler is gone.
#[inline]
pub fn is_needed() -> bool {
    state::is_active() || queue_depth::is_needed()
}

/// Nothing is recorded from here on: the runtime may not be touched.
fn stop() {
    RECORDS_CALLS.store(false, Ordering::Release);
    owner::set_hsa(false);
}

/// The number in the trace of the GPU that the runtime calls so; `None` for CPUs.
pub fn number_of_agent(handle: u64) -> Option<u32> {
    agents::find(handle).map(|gpu| gpu.node)
}

/// Whether calls are recorded.
#[inline]
fn records_calls() -> bool {
    RECORDS_CALLS.load(Ordering::Relaxed) && !pause::is_caller_paused()
}

/// Where the runtime's functions are.
#[inline]
fn layout() -> Layout {
    if LAYOUT.load(Ordering::Relaxed) == 0 {
        Layout::UpTo55
    } else {
        Layout::From56
    }
}

/// The runtime is set up and shows its tables.
pub fn on_load(table: *mut c_void, _version: u64) {
    if !events::is_on() || !state::is_own_process() {
        return;
    }
    let wished = state::settings().events;
    if !wished.has(Category::Hsa) && !wished.gpu {
        return;
    }
    // SAFETY: the runtime passes its root table.
    let Some(tables) = (unsafe { Tables::new(table.cast()) }) else {
        source::refuse(b"the HSA runtime's tables are of an unknown kind; its calls and GPU operations are not recorded");
        return;
    };
    LAYOUT.store(
        u32::from(tables.layout == Layout::From56),
        Ordering::Relaxed,
    );
    table::read_all(&tables);
    // It may have been set up past our wrapper of its first function.
    threads::learn();
    agents::start();
    if wished.gpu {
        faults::start();
        scratch::start(&tables);
    }
    let mut records_operations = false;
    let choice = if wished.gpu {
        source::choose()
    } else {
        Choice::Elsewhere
    };
    if choice == Choice::Here && names::start() && watch::start() {
        records_operations = true;
        kernel_counters::start();
        USED.store(1, Ordering::Release);
        collector::start();
        copies::start_timing(&tables);
        write_index::start(&tables);
        if source::may_break(&tables) {
            doorbell::start(&tables);
        }
        register_exit();
    }
    if wished.has(Category::Hsa) {
        calls::start(&tables);
    }
    if wished.has(Category::Hsa) || records_operations {
        calls::start_queues(&tables);
        copies::start(&tables);
    }
    calls::start_code(&tables);
    RECORDS_CALLS.store(wished.has(Category::Hsa), Ordering::Release);
    owner::set_hsa(records_operations);
}

/// The runtime ends: its signals are there for the last time.
pub fn on_unload() {
    if !state::is_own_process() {
        return;
    }
    // The end of the process may have come first.
    if is_recording() {
        collector::flush(true);
        stop();
        collector::give_up_all();
    }
    if USED.swap(0, Ordering::AcqRel) != 0 {
        queues::forget();
        watch::forget();
        names::forget(0);
        if let Some(destroy) = table::signal_destroy::get() {
            // SAFETY: signals of ours that no packet has any more; the runtime is there until we return.
            let destroy = |signal| unsafe {
                destroy(signal);
            };
            operations::drop_signals(destroy);
            kernel_counters::for_each(|gpu| gpu.drop_signals(destroy));
        }
        kernel_counters::forget();
    }
    stop();
}

/// Has [`at_exit`] called before the runtime's own destructors.
fn register_exit() {
    extern "C" fn before_destructors() {
        if is_recording() && state::is_own_process() {
            collector::flush(true);
        }
    }
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    if REGISTERED.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(before_destructors) };
    }
}

/// The process ends now: records what is complete, and counts the rest.
pub fn at_exit() {
    if is_recording() && state::is_own_process() {
        collector::ask(Request::End);
        stop();
    }
}

/// The process may become another program: records what completes soon.
pub fn before_exec() {
    if is_recording() && state::is_own_process() {
        collector::ask(Request::Exec);
    }
}

/// The process is about to end, perhaps by the runtime, whose locks may be held: records what is complete as far as that is possible.
pub fn before_end() {
    if is_recording() && state::is_own_process() {
        collector::let_look();
    }
}

/// A fork's child has no GPU work of ours: the runtime does not survive a fork.
pub fn after_fork_in_child() {
    stop();
    USED.store(0, Ordering::Relaxed);
    faults::after_fork_in_child();
    kernel_counters::after_fork_in_child();
    names::after_fork_in_child();
    collector::after_fork_in_child();
}
