//! The life of the agent in one process: start, fork, sleep.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rsys_wire::handshake::{AgentSettings, ENV_SESSION, ENV_SETTINGS, FollowChoice};
use rsys_wire::layout::{CPU_TIMER, Counter, INFO_BYTES, InfoTag, push_info};

use crate::channel::announce::{self, SessionName};
use crate::channel::counters;
use crate::clocks::clock;
use crate::clocks::perf;
use crate::code::jit;
use crate::code::modules;
use crate::code::rules;
use crate::code::snapshot;
use crate::events;
use crate::lifecycle::deferred_start;
use crate::lifecycle::exec;
use crate::lifecycle::own_runtime;
use crate::lifecycle::restrictions;
use crate::lifecycle::threads;
use crate::sampling::framehop;
use crate::sampling::python;
use crate::sampling::words;
use crate::sampling::{handler, slots, stack_room};
use crate::signals;
use crate::sources;
use crate::state::{self, State, deferred};
use crate::sys;
use crate::target::debugger;
use crate::target::environment::Environment;
use crate::target::other_libc;
use crate::target::real;

/// CPU time of the process when the agent began in it: an exec keeps that of the program before.
static CPU_BASE_NS: AtomicU64 = AtomicU64::new(0);

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

/// Ends sampling in this process for good: the time cannot be read.
pub fn fall_asleep() {
    slots::for_each_active(|slot| slot.clock.pause());
    counters::set_counter(Counter::Dormant, 1);
    state::set(State::Dormant);
}

/// Notes that the process confines itself, or that it failed to. Returns what was noted before.
pub fn confine(confined: bool) -> bool {
    counters::set_counter(Counter::Seccomp, u64::from(confined));
    state::set_confined(confined)
}

/// CPU time that the process has used since the agent began, but for threads that are not to be sampled.
pub fn cpu_time_ns() -> u64 {
    sys::process_cpu_ns()
        .saturating_sub(CPU_BASE_NS.load(Ordering::Relaxed))
        .saturating_sub(sources::unsampled_cpu_ns())
}

#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// Runs when the library was loaded; glibc passes the program's arguments.
extern "C" fn constructor(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: the loader passes the program's own vectors.
    start_once(|| unsafe { Environment::new(argv, envp) });
}

/// Starts from a hook that another library's constructor calls before ours had its turn.
pub fn start_early() {
    start_once(Environment::find);
}

fn start_once(environment: impl FnOnce() -> Environment<'static>) {
    // Constructors run one after another, on one thread.
    if state::is_started() {
        return;
    }
    // Other C libraries give constructors no arguments.
    if !other_libc::is_glibc() || start(&environment()).is_none() {
        state::set(State::Dormant);
    }
}

/// Starts sampling. `None` when there is nothing to do or it cannot be done: the program then runs
/// as without the agent.
fn start(environment: &Environment<'_>) -> Option<()> {
    let session = environment
        .get(ENV_SESSION)
        .filter(|session| !session.is_empty())?;
    if environment.is_launcher() {
        return None;
    }
    let line = environment
        .get(ENV_SETTINGS)
        .and_then(|line| line.to_str().ok())
        .unwrap_or("");
    let settings = AgentSettings::from_line(line);
    let name = SessionName::new(session.to_bytes())?;
    // SAFETY: the constructor runs once, and nobody reads before it is done.
    unsafe {
        state::set_settings(settings);
        announce::set_session_name(name);
    }
    deferred::set_start(deferred_start::start);
    if settings.follow == FollowChoice::None {
        environment.stop_following();
    }
    if debugger::is_debugged() || debugger::is_emulated(environment) {
        announce::announce_failure(libc::EBUSY);
        return None;
    }
    if own_runtime::is_programs_own() {
        announce::announce_failure(libc::ENOEXEC);
        return None;
    }
    real::resolve_all();
    exec::begin(environment);
    if clock::wants_perf() {
        perf::choose_delivery();
    }
    snapshot::start(environment.get(snapshot::ENV_FORCE).is_some());
    // SAFETY: there is one thread; see `Information`.
    let described = environment.describe(unsafe { &mut *INFORMATION.0.get() });
    DESCRIBED.store(described, Ordering::Relaxed);
    let deferred = deferred_start::is_allowed();
    if deferred {
        state::set_pid(sys::getpid());
    } else {
        rules::map_rules();
        begin(0, None)?;
    }
    threads::register_hooks();
    if settings.events.any() {
        events::register_hook();
    }
    // SAFETY: the handler needs nothing that is not set up by now.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    stack_room::learn_frame_size();
    signals::install(handler::on_sample);
    if deferred {
        state::set(State::Deferred);
        if !deferred_start::defer(0, false) {
            // What the process lacks it reports when it starts.
            deferred_start::start();
        }
    } else {
        state::set(State::Active);
        threads::begin_current();
    }
    Some(())
}

/// What the sampler learns of the process. Not on the stack: a fork may come from a tiny one.
#[derive(Debug)]
struct Information(UnsafeCell<[u8; INFO_BYTES]>);

// SAFETY: written at the start and in fork children only, where there is one thread.
unsafe impl Sync for Information {}

static INFORMATION: Information = Information(UnsafeCell::new([0; INFO_BYTES]));
/// How much of [`INFORMATION`] describes the program, which a fork does not change.
static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

/// Makes the process known to the sampler. `began` is when it began, by its own CLOCK_BOOTTIME, and the CPU time that it had used then;
/// without it, that is now. Returns that time by the sampler's CLOCK_BOOTTIME.
fn begin(parent_instance: u64, began: Option<(u64, u64)>) -> Option<u64> {
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
    let mut length = DESCRIBED.load(Ordering::Relaxed);
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

/// Goes on, or goes to sleep, in the child of a fork.
///
/// Only the forking thread exists here, and locks may be held by threads that do not: nothing below
/// allocates or locks.
pub extern "C" fn after_fork_in_child() {
    restrictions::after_fork_in_child();
    // A confined process must not even ask who it is.
    if !state::is_active() || (!state::is_confined() && state::is_own_process()) {
        return;
    }
    let parent_instance = state::instance();
    // Forgetting the parent's slots comes first: this thread must not write into its ring, and
    // perf events would go on for the parent's thread.
    words::set_slot(std::ptr::null_mut());
    framehop::forget_parents();
    if state::is_confined() {
        state::set(State::Dormant);
        return;
    }
    slots::forget_parents();
    events::forget_parents();
    sources::after_fork_in_child();
    jit::after_fork_in_child();
    if state::settings().follow != FollowChoice::All {
        state::set(State::Dormant);
        return;
    }
    // The child's trace needs every module and code object anew.
    modules::new_generation();
    python::forget_recorded();
    if deferred_start::is_allowed() {
        state::set_pid(sys::getpid());
        state::set(State::Deferred);
        if !deferred_start::defer(parent_instance, true) {
            deferred_start::start();
        }
    } else if begin(parent_instance, None).is_some() {
        threads::begin_current();
    } else {
        state::set(State::Dormant);
    }
}
