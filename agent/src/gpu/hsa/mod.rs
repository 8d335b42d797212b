//! The HSA runtime as a source: queues, copies and kernel names seen through its table of functions.
//!
//! When the runtime is set up it shows its tables ([`table`], [`abi`]), and functions of ours take their places: [`queues`] and [`packets`] see every
//! packet, [`copies`] every copy, [`names`] learns what kernels are called, [`calls`] tells the calls themselves. What was submitted is
//! in flight ([`operations`]) until the [`collector`] finds its signal complete; signals of the program's are watched meanwhile
//! ([`watch`]), ours are lent to kernels that have none.
//!
//! No operation waits for us, and we hold up the end of the process for two seconds at most. `seen = recorded + dropped`, by cause.

mod abi;
mod agents;
mod calls;
mod collector;
mod copies;
mod faults;
mod names;
mod operations;
mod packets;
mod queues;
mod room;
mod scratch;
mod source;
mod table;
mod tags;
mod version;
mod watch;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use self::abi::Layout;
pub use self::calls::Name;
use self::source::Choice;
use self::table::Tables;
use crate::events;
use crate::gpu::threads;
use crate::markers::gate;
use crate::process;

/// Nothing of the runtime may be touched.
const OFF: u32 = 0;
/// Its calls are told.
const CALLS: u32 = 1;
/// Its operations are recorded.
const OPERATIONS: u32 = 2;

static MODE: AtomicU32 = AtomicU32::new(OFF);
/// Whether this runtime has queues and signals of ours.
static USED: AtomicU32 = AtomicU32::new(0);
static LAYOUT: AtomicU32 = AtomicU32::new(0);

/// Whether GPU operations are recorded from here.
#[inline]
pub fn is_recording() -> bool {
    MODE.load(Ordering::Acquire) & OPERATIONS != 0
}

/// The number in the trace of the GPU that the runtime calls so; `None` for CPUs.
pub fn number_of_agent(handle: u64) -> Option<u32> {
    agents::find(handle).map(|gpu| gpu.node)
}

/// Whether calls are told.
#[inline]
fn tells_calls() -> bool {
    MODE.load(Ordering::Relaxed) & CALLS != 0 && !gate::is_caller_paused()
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
    if !events::is_on() || !process::is_own_process() {
        return;
    }
    let wished = process::settings().events;
    if !wished.hsa && !wished.gpu {
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
    let mut mode = if wished.hsa { CALLS } else { OFF };
    let choice = if wished.gpu {
        source::choose(&tables)
    } else {
        Choice::Elsewhere
    };
    if choice == Choice::Here && names::start() && watch::start() {
        mode |= OPERATIONS;
        USED.store(1, Ordering::Release);
        collector::start();
        copies::start_timing(&tables);
        tags::start(&tables);
        register_exit();
    }
    if mode & CALLS != 0 {
        calls::start(&tables);
    }
    if mode != OFF {
        calls::start_queues(&tables);
        copies::start(&tables);
    }
    MODE.store(mode, Ordering::Release);
}

/// The runtime ends: its signals are there for the last time.
pub fn on_unload() {
    if !process::is_own_process() {
        return;
    }
    // The end of the process may have come first.
    if is_recording() {
        collector::flush(true);
        MODE.store(OFF, Ordering::Release);
        collector::give_up_all();
    }
    if USED.swap(0, Ordering::AcqRel) != 0 {
        queues::forget();
        watch::forget();
        names::forget(0);
        if let Some(destroy) = table::signal_destroy::get() {
            // SAFETY: signals of ours that no kernel has any more; the runtime is there until we return.
            operations::drop_signals(|signal| unsafe {
                destroy(signal);
            });
        }
    }
    MODE.store(OFF, Ordering::Release);
}

/// Has [`at_exit`] called before the runtime's own destructors.
fn register_exit() {
    extern "C" fn before_destructors() {
        if is_recording() && process::is_own_process() {
            collector::flush(true);
        }
    }
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    if REGISTERED.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(before_destructors) };
    }
}

/// The process ends now: tells what is complete, and counts the rest.
pub fn at_exit() {
    if is_recording() && process::is_own_process() {
        collector::flush(false);
        MODE.store(OFF, Ordering::Release);
        collector::give_up_all();
    }
}

/// The process may become another program: tells what completes soon.
pub fn before_exec() {
    if is_recording() && process::is_own_process() {
        collector::flush(true);
    }
}

/// The process is about to end, perhaps by the runtime, whose locks may be held: tells what is complete as far as that is possible.
pub fn before_end() {
    if is_recording() && process::is_own_process() {
        collector::let_look();
    }
}

/// A fork's child has no GPU work of ours: the runtime does not survive a fork.
pub fn after_fork_in_child() {
    MODE.store(OFF, Ordering::Release);
    USED.store(0, Ordering::Relaxed);
    faults::after_fork_in_child();
    collector::after_fork_in_child();
}
