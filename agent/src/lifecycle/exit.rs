//! The end of a process.
//!
//! What a thread did since its last tick is accounted for when it ends. The thread that ends the process does that for itself and for the
//! threads that are still there: over many short processes and pools of threads, that is most of their time. It is seen in the library's destructor (a
//! return from `main`, `exit`) and in the functions that end a process without destructors. A process that is killed
//! ends without that.

use std::ffi::{c_int, c_long};

use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::lifecycle::announcement;
use crate::lifecycle::children;
use crate::lifecycle::deferred_start;
use crate::lifecycle::threads;
use crate::sampling::slots::{self, Slot};
use crate::sampling::tail;
use crate::sampling::words;
use crate::sources::{self, Ending};
use crate::state;
use crate::sys;
use crate::sys::lock::without_signals;
use crate::target::real;

#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static DESTRUCTOR: extern "C" fn() = at_exit;

#[unsafe(link_section = "rsys_start")]
extern "C" fn at_exit() {
    sources::at_end(Ending::Exit);
    account();
}

/// Accounts for the time of all threads up to now.
///
/// The clocks go on: other destructors may have much to do, and periods that were accounted for are not sampled again.
#[unsafe(link_section = "rsys_start")]
pub fn account() {
    // A child after vfork ends here, too, with the memory of its parent.
    if !state::may_set_up() {
        return children::note_end();
    }
    if state::is_deferred() {
        return deferred_start::account();
    }
    counters::set_counter(Counter::CpuTime, announcement::cpu_time_ns());
    // No handler of the program may leave this by a jump.
    without_signals(|| {
        let mut own = words::own_slot().filter(|slot| Slot::occupy(*slot));
        if let Some(slot) = &mut own {
            account_of(slot, sys::thread_cpu_ns());
            threads::put_name(slot);
        }
        slots::for_each_other(|slot| account_of(slot, sys::cpu_ns_of_thread(slot.clock.tid)));
        if let Some(slot) = own {
            Slot::vacate(slot);
        }
    });
}

/// Accounts for the time of a thread, of which it has used `cpu_ns`. The slot must be occupied.
fn account_of(slot: &mut Slot, cpu_ns: u64) {
    // What an adopted thread did that was never sampled is unknown.
    let is_known = !slot.start.is_null()
        || slot.stacks.previous_frames() > 0
        || slot.clock.tid == sys::getpid();
    let periods = match is_known {
        true => slot.clock.unsampled_periods(cpu_ns),
        false => 0,
    };
    tail::account_for_tail(slot, periods, threads::bottom(slot));
    slot.clock.account_ahead(periods);
    let ring = *slot.ring();
    slot.counters.record(&ring, sys::boottime_ns());
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
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name(status: c_int) -> ! {
                sources::at_end(Ending::Exit);
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

/// GPU runtimes end the process so when a GPU has failed: what it had done before is recorded first.
///
/// # Safety
/// As `abort(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn abort() -> ! {
    sources::at_end(Ending::Abort);
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
