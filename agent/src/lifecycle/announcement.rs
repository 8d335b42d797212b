//! Making a process known to the sampler, and the CPU time that it has used since.

use crate::channel::announce::{self};
use crate::clocks::clock;
use crate::code::rules;
use crate::sampling::slots;
use crate::sources;
use crate::state::{self, State};
use crate::sys;
use crate::target::environment::{self, Environment};
use rsys_wire::layout::{
    CPU_TIMER, FEW_SIGNALS, FEW_SIGNALS_TIMER, INFO_BYTES, InfoTag, push_info,
};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// CPU time of the process when the agent began in it: an exec keeps that of the program before.
static CPU_BASE_NS: AtomicU64 = AtomicU64::new(0);

/// What the sampler learns of the process. Not on the stack: a fork may come from a tiny one.
#[derive(Debug)]
struct Information(UnsafeCell<[u8; INFO_BYTES]>);

// SAFETY: written at the start and in fork children only, where there is one thread.
unsafe impl Sync for Information {}

static INFORMATION: Information = Information(UnsafeCell::new([0; INFO_BYTES]));

/// The executable's path while it is read, for the same reason.
#[derive(Debug)]
struct Path(UnsafeCell<[u8; 1024]>);

// SAFETY: as above.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; 1024]));
/// How much of [`INFORMATION`] describes the program, which a fork does not change.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

/// Keeps what describes the program: its command and variables. Once, at the start.
#[unsafe(link_section = "rsys_start")]
pub fn describe(environment: &Environment<'_>) {
    // SAFETY: there is one thread; see `Information`.
    let described = environment.describe(unsafe { &mut *INFORMATION.0.get() });
    DESCRIBED.store(described, Ordering::Relaxed);
}

/// Makes the process known to the sampler. `began` is when it began, by its own CLOCK_BOOTTIME, and the CPU time that it had used then;
/// without it, that is now. Returns that time by the sampler's CLOCK_BOOTTIME.
pub fn begin(parent_instance: u64, began: Option<(u64, u64)>) -> Option<u64> {
    let pid = sys::getpid();
    sys::agree_on_boottime(state::settings().boot_offset_ns);
    let (own_ns, cpu_base_ns) =
        began.unwrap_or_else(|| (sys::own_boottime_ns(), sys::process_cpu_ns()));
    let now = sys::agreed_boottime_ns(own_ns);
    state::set_pid(pid);
    CPU_BASE_NS.store(cpu_base_ns, Ordering::Relaxed);
    // Unique in time and space: no two program runs of a machine share pid and nanosecond.
    let instance = (now ^ u64::from(pid) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    state::set_instance(instance);
    // SAFETY: there is one thread; see `Information`.
    let info = unsafe { &mut *INFORMATION.0.get() };
    let mut number = [0_u8; 20];
    // SAFETY: as above.
    let executable = environment::executable(unsafe { &mut *PATH.0.get() });
    let described = DESCRIBED.load(Ordering::Relaxed);
    let mut length = push_info(info, described, InfoTag::Executable, executable);
    for (tag, value) in [
        (InfoTag::StartTime, now),
        (InfoTag::ParentPid, u64::from(sys::getppid())),
        (InfoTag::ParentInstance, parent_instance),
        (InfoTag::TickNs, sys::tick_ns()),
    ] {
        length = push_info(info, length, tag, sys::decimal(value, &mut number));
    }
    let clock: &[u8] = if state::settings().overflow.is_some() {
        b"overflow of an event"
    } else if clock::avoids_timers() {
        FEW_SIGNALS.as_bytes()
    } else if clock::are_signals_few() {
        FEW_SIGNALS_TIMER.as_bytes()
    } else if clock::wants_perf() {
        b"perf cpu-clock (user mode), CPU timer for the rest"
    } else {
        CPU_TIMER.as_bytes()
    };
    length = push_info(info, length, InfoTag::Clock, clock);
    slots::start(info.get(..length)?)
        .inspect_err(|error| announce::announce_failure(*error))
        .ok()
        .map(|()| now)
}

/// Announces a process whose start was deferred. It began at `own_boottime_ns` of its CLOCK_BOOTTIME, when it had used
/// `cpu_base_ns` of CPU time. Returns when it began by the sampler's clock; `None` when that fails, and the process is left alone.
pub fn start_deferred(parent_instance: u64, own_boottime_ns: u64, cpu_base_ns: u64) -> Option<u64> {
    // A signal that comes from here on finds no slot.
    state::set(State::Active);
    rules::map_rules();
    let began_ns = begin(parent_instance, Some((own_boottime_ns, cpu_base_ns)));
    if began_ns.is_none() {
        state::set(State::Dormant);
    }
    began_ns
}

/// CPU time that the process has used since the agent began, but for threads that are not to be sampled.
pub fn cpu_time_ns() -> u64 {
    sys::process_cpu_ns()
        .saturating_sub(CPU_BASE_NS.load(Ordering::Relaxed))
        .saturating_sub(sources::unsampled_cpu_ns())
}
