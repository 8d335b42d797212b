//! The end of a process.
//!
//! What a thread did since its last tick is accounted for when it ends; the thread that ends the process is no
//! exception: over many short processes, that is most of their time. It is seen in the library's destructor (a
//! return from `main`, `exit`) and in the functions that end a process without destructors. A process that is killed
//! ends without that.

use std::ffi::{c_int, c_long};

use rsys_wire::adopt::SAMPLE_SIGNAL;
use rsys_wire::layout::Counter;

use crate::birth;
use crate::clock;
use crate::counters;
use crate::gpu;
use crate::handler;
use crate::process;
use crate::real;
use crate::slots::{self, Slot};
use crate::sys;
use crate::threads;
use crate::tls;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    gpu::at_end();
    account();
}

/// Accounts for the time of the calling thread up to now, and tells how much CPU time the process has used.
///
/// The clocks go on: other destructors may have much to do, and periods that were accounted for are not sampled again.
pub fn account() {
    // A child after vfork ends here, too, with the memory of its parent.
    if !process::is_active() || process::is_confined() || !process::is_own_process() {
        return;
    }
    if process::is_unborn() {
        return birth::account();
    }
    slots::set_counter(Counter::CpuTime, process::cpu_time_ns());
    // SAFETY: the thread's own slot or null.
    let Some(slot) = (unsafe { tls::slot().as_mut() }) else {
        return;
    };
    // A thread made by a raw clone shares the words of its maker.
    if slot.tid != sys::gettid() {
        return;
    }
    if !Slot::occupy(slot) {
        return;
    }
    let before = sys::sigmask(libc::SIG_BLOCK, sys::bit(SAMPLE_SIGNAL));
    let periods = clock::unsampled_periods(slot, sys::thread_cpu_ns());
    handler::account_for_tail(slot, periods, None);
    slot.account_ahead(periods);
    counters::record(slot, sys::boottime_ns());
    threads::put_name(slot);
    Slot::vacate(slot);
    sys::sigmask(libc::SIG_SETMASK, before);
}

/// Ends the process when the C library's function cannot be found: it always can.
fn end(status: c_int) -> ! {
    loop {
        sys::exit_group(status);
    }
}

macro_rules! ends {
    ($($name:ident = $real:ident, $manual:literal;)*) => {
        $(
            /// # Safety
            #[doc = concat!("As `", $manual, "`.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(status: c_int) -> ! {
                gpu::at_end();
                account();
                match real::$real::get() {
                    // SAFETY: the caller's own argument.
                    Some(real) => unsafe { real(status) },
                    None => end(status),
                }
            }
        )*
    };
}

ends! {
    _exit = exit_at_once, "_exit(2)";
    _Exit = exit_at_once, "_Exit(3)";
    quick_exit = quick_exit, "quick_exit(3)";
}

/// GPU runtimes end the process so when a GPU has failed: what it had done before is told first.
///
/// # Safety
/// As `abort(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn abort() -> ! {
    if process::is_active() && !process::is_confined() {
        gpu::at_abort();
    }
    match real::abort::get() {
        // SAFETY: no arguments.
        Some(real) => unsafe { real() },
        None => end(128 + libc::SIGABRT),
    }
}

/// Whether `syscall(number)` ends the process.
pub fn is_end(number: c_long) -> bool {
    number == libc::SYS_exit_group
}
