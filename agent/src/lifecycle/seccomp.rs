//! A program that confines itself with seccomp, and what that means for the agent.
//!
//! A filter may kill on a system call that the program itself never makes. Before it is installed, its result for
//! every system call that the agent makes ([`calls::MADE`]) is found by running it here. If all are allowed or merely fail, nothing
//! changes. Else the process is *confined*: what runs keeps running, nothing new is set up, and programs that it
//! executes are left alone. The calls on which it would kill are refused by the functions that make them, wherever they are called
//! from. If even the return from a signal handler is forbidden, the clocks stop.

use crate::clocks::clock;
use crate::events;
use crate::lifecycle::bpf::{self, ALLOW, ERRNO, LOG};
use crate::lifecycle::dormancy;
use crate::sampling::slots::{self, Slot};
use crate::sampling::words;
use crate::signals::faults;
use crate::state;
use crate::state::deferred;
use crate::sys;
use crate::sys::calls::{self, When};
use crate::sys::guard;
use crate::target::environment::Environment;
use rsys_wire::adopt::SAMPLE_SIGNAL;
use std::sync::atomic::Ordering;

/// The signals of the clocks.
const OURS: u64 = sys::bit(SAMPLE_SIGNAL) | sys::bit(libc::SIGTRAP);

/// What a filter does to the agent.
#[derive(Debug, Clone, Copy)]
struct Effect {
    /// The calls of ours on which it would kill, as bits by their places in [`calls::MADE`].
    punished: u64,
    /// Whether one of them is a reason to leave the process alone.
    confines: bool,
    /// Whether it would kill even on the return from a signal handler.
    forbids_handlers: bool,
}

/// That of strict mode, which allows four calls. The kernel takes the time stamp counter from the thread as well, so that no sample could
/// tell its time.
const STRICT: Effect = Effect {
    punished: u64::MAX,
    confines: true,
    forbids_handlers: true,
};

/// Lets the program install the filter at `program` (a `struct sock_fprog`), or, without one, go into strict mode.
///
/// `install` returns a negative number when it fails.
pub fn install(program: Option<u64>, install: impl FnOnce() -> i64) -> i64 {
    if !state::is_active() {
        return install();
    }
    let effect = program.map_or(STRICT, |program| {
        faults::while_open(|| effect_of(program)).unwrap_or(STRICT)
    });
    let refused = calls::refused();
    if !effect.confines && !effect.forbids_handlers {
        calls::refuse(refused | effect.punished);
        let result = install();
        if result < 0 {
            calls::refuse(refused);
        }
        return result;
    }
    // What is not set up by now never will be.
    deferred::start();
    events::prepare();
    let stops = effect.forbids_handlers && !state::is_confined();
    // Before the filter holds: afterwards it might be too late for a call of ours that is under way.
    let before = dormancy::confine(true);
    if stops {
        still_clocks();
    }
    if !before {
        // An earlier filter would kill on it.
        slots::for_each_active(|slot| slot.clock.steady());
    }
    let kernel_time = sys::uses_kernel_time();
    calls::refuse(refused | effect.punished);
    if program.is_none() {
        sys::use_kernel_time(true);
    }
    let result = install();
    if result < 0 {
        sys::use_kernel_time(kernel_time);
        calls::refuse(refused);
        dormancy::confine(before);
        if stops {
            slots::for_each_active(|slot| slot.clock.resume());
        }
    } else {
        Environment::current().end_session();
        if !sys::is_time_known() {
            dormancy::fall_asleep();
        }
    }
    result
}

/// Stops the clocks, and waits until no thread is in a handler of ours or will be: it could not return behind the filter.
fn still_clocks() {
    /// A thread that has our signals blocked for a reason of its own must not hold up the program.
    const PATIENCE_NS: u64 = 1_000_000_000;
    let until_ns = sys::boottime_ns().wrapping_add(PATIENCE_NS);
    let own = words::slot();
    // Twice: a handler that was under way at first may have started a clock again.
    for _ in 0..2 {
        slots::for_each_active(|slot| slot.clock.pause());
        slots::for_each_active(|slot| {
            // What was pending for the calling thread came with the last system call.
            if !std::ptr::eq(slot, own) {
                wait_for_handlers(slot, until_ns);
            }
        });
    }
}

/// Waits until the thread of a slot is in no handler of ours and none is due.
fn wait_for_handlers(slot: &Slot, until_ns: u64) {
    /// A sample of perf's that the kernel has in hand is no pending signal yet. A thread that has run for this long has got it.
    const RUN_NS: u64 = 100_000;
    const NAP_NS: u64 = 50_000;
    let tid = slot.clock.tid;
    let begin_ns = sys::cpu_ns_of_thread(tid);
    while slot.active.load(Ordering::Relaxed) && sys::boottime_ns() < until_ns {
        let has_run = sys::cpu_ns_of_thread(tid).wrapping_sub(begin_ns) > RUN_NS;
        let Some(state) = sys::thread_state(tid) else {
            return;
        };
        let is_free = state.pending & OURS == 0 && (state.sleeps() || state.blocked & OURS == 0);
        if is_free && (has_run || state.sleeps()) {
            return;
        }
        sys::nap(NAP_NS);
    }
}

fn effect_of(program: u64) -> Effect {
    let settings = state::settings();
    let uses_perf = clock::may_use_perf() || !settings.counters.as_slice().is_empty();
    let uses_gpus = settings.events.any_of_gpus();
    let (mut punished, mut confines) = (0, false);
    for (place, call) in calls::MADE.iter().enumerate() {
        let is_made = match call.when {
            When::Always | When::Library | When::Seldom => true,
            When::Perf => uses_perf,
            When::Threads => uses_gpus,
        };
        let harmless = || {
            let verdict = verdict(program, i64::from(call.number));
            matches!(verdict, Some(ALLOW | LOG | ERRNO))
        };
        if is_made && !harmless() {
            punished |= 1 << place;
            confines |= call.when != When::Seldom;
        }
    }
    let allows = |number| matches!(verdict(program, number), Some(ALLOW | LOG));
    // Handlers return, and may have to ask for the time.
    let forbids_handlers = !allows(libc::SYS_rt_sigreturn)
        || sys::uses_kernel_time() && !allows(libc::SYS_clock_gettime);
    Effect {
        punished,
        confines,
        forbids_handlers,
    }
}

/// What the filter at `program` (a `struct sock_fprog`) says of a system call by its number alone; `None` when it looks at more.
fn verdict(program: u64, number: i64) -> Option<u32> {
    let count = (guard::read_u64(program)? & 0xffff) as usize;
    let code = guard::read_u64(program.wrapping_add(8))?;
    let instruction = |at: usize| guard::read_u64(code.wrapping_add(8 * at as u64));
    bpf::verdict(count, instruction, number)
}

/// The program's request in `prctl(PR_SET_SECCOMP, mode, filter)`: the filter, or `None` for strict mode.
///
/// Returns `None` when the call confines no thread (some only ask whether it could).
pub fn request_of_prctl(mode: u64, filter: u64) -> Option<Option<u64>> {
    match mode {
        mode if mode == u64::from(libc::SECCOMP_MODE_STRICT) => Some(None),
        mode if mode == u64::from(libc::SECCOMP_MODE_FILTER) && filter != 0 => Some(Some(filter)),
        _ => None,
    }
}

/// The same for `syscall(SYS_seccomp, operation, flags, filter)`.
pub fn request_of_syscall(number: i64, operation: u64, filter: u64) -> Option<Option<u64>> {
    match operation {
        _ if number != libc::SYS_seccomp => None,
        operation if operation == u64::from(libc::SECCOMP_SET_MODE_STRICT) => Some(None),
        operation if operation == u64::from(libc::SECCOMP_SET_MODE_FILTER) && filter != 0 => {
            Some(Some(filter))
        }
        _ => None,
    }
}
