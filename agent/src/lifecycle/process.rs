//! The agent in one process: its start, a fork, and when it does nothing.

use std::ffi::{CStr, c_char, c_int};

use rsys_wire::event::Category;
use rsys_wire::handshake::{AgentSettings, ENV_SESSION, ENV_SETTINGS, FollowChoice};

use crate::channel::announce::{self, SessionName};
use crate::clocks::clock;
use crate::clocks::perf;
use crate::code::jit;
use crate::code::modules;
use crate::code::rules;
use crate::code::snapshot;
use crate::events;
use crate::interpose::symbols;
use crate::lifecycle::announcement;
use crate::lifecycle::deferred_start;
use crate::lifecycle::dormancy;
use crate::lifecycle::exec;
use crate::lifecycle::own_runtime;
use crate::lifecycle::restrictions;
use crate::lifecycle::threads;
use crate::sampling::python;
use crate::sampling::words;
use crate::sampling::{handler, slots, stack_room};
use crate::signals::{self, held};
use crate::sources;
use crate::state::{self, State, deferred, departure};
use crate::sys;
use crate::target::debugger;
use crate::target::environment::Environment;
use crate::target::other_libc;
use crate::target::real;

#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// Runs when the library was loaded; glibc passes the program's arguments.
#[unsafe(link_section = "rsys_start")]
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

/// A line as text; nothing if it is none. (The standard library's check is code elsewhere: a page more for a short process.)
fn text(line: &CStr) -> &str {
    let bytes = line.to_bytes();
    if bytes.iter().all(u8::is_ascii) {
        // SAFETY: ASCII is UTF-8.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    } else {
        line.to_str().unwrap_or("")
    }
}

/// Starts sampling. `None` when there is nothing to do or it cannot be done: the program then runs
/// as without the agent.
#[unsafe(link_section = "rsys_start")]
fn start(environment: &Environment<'_>) -> Option<()> {
    let session = environment
        .get(ENV_SESSION)
        .filter(|session| !session.is_empty())?;
    if environment.is_launcher() {
        return None;
    }
    let line = environment.get(ENV_SETTINGS).map_or("", text);
    let settings = AgentSettings::from_line(line);
    let name = SessionName::new(session.to_bytes())?;
    // SAFETY: the constructor runs once, and no thread reads before it is done.
    unsafe {
        state::set_settings(settings);
        announce::set_session_name(name);
    }
    // SAFETY: what the name says.
    unsafe { sys::set_clock(symbols::in_c_library(c"clock_gettime")) };
    deferred::set_start(deferred_start::start);
    departure::set_leave(dormancy::leave);
    if settings.follow == FollowChoice::None {
        environment.stop_following();
    }
    let deferred = deferred_start::is_allowed();
    // A debugger marks its children in their settings, as does one that traces the sampler, or a program that starts this one.
    if debugger::is_this() {
        environment.defer_no_start();
    }
    if !deferred && debugger::is_debugged() {
        environment.defer_no_start();
        announce::announce_failure(libc::EBUSY);
        return None;
    }
    if debugger::is_emulated(environment) {
        announce::announce_failure(libc::EBUSY);
        return None;
    }
    if own_runtime::is_programs_own() {
        announce::announce_failure(libc::ENOEXEC);
        return None;
    }
    if !deferred {
        real::resolve_all();
    }
    // The standard library asks in our handler, too.
    real::pthread_getspecific::get();
    exec::begin(environment);
    if deferred && !settings.events.any_of_gpus() {
        clock::is_one_of_many();
    }
    if clock::may_use_perf() {
        perf::choose_delivery();
    }
    snapshot::start(environment.get(snapshot::ENV_FORCE).is_some());
    announcement::describe(environment);
    if deferred {
        state::set_pid(sys::getpid());
    } else {
        rules::map_rules();
        announcement::begin(0, None)?;
    }
    threads::register_hooks();
    if settings.events.any() || settings.events.has(Category::User) {
        events::register_hook();
    }
    // SAFETY: the handler needs nothing that is not set up by now.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    stack_room::learn_frame_size();
    install_handlers();
    if deferred {
        deferred::set();
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

/// Puts our handlers in front of those of the program.
pub fn install_handlers() {
    sys::thread_pointer::learn();
    signals::install(handler::on_sample);
}

/// What the program asks for its signals is kept in this process as well, though it is not sampled.
fn note_own_process() {
    if !state::is_confined() {
        state::set_pid(sys::getpid());
    }
}

/// Continues, or does nothing from now on, in the child of a fork.
///
/// Only the forking thread exists here, and locks may be held by threads that do not: nothing below
/// allocates or locks.
pub extern "C" fn after_fork_in_child() {
    restrictions::after_fork_in_child();
    // A confined process must not ask for its id.
    if !state::is_confined() && state::is_own_process() {
        return;
    }
    held::after_fork_in_child();
    if !state::is_active() {
        note_own_process();
        return;
    }
    let parent_instance = state::instance();
    // Forgetting the parent's slots comes first: this thread must not write into its ring, and
    // perf events would go on for the parent's thread.
    words::set_slot(std::ptr::null_mut());
    if state::is_confined() {
        state::set(State::Dormant);
        return;
    }
    slots::forget_parents();
    events::forget_parents();
    sources::after_fork_in_child();
    jit::after_fork_in_child();
    snapshot::after_fork_in_child();
    if state::settings().follow != FollowChoice::All {
        state::set(State::Dormant);
        note_own_process();
        return;
    }
    // The child's trace needs every module and code object anew.
    modules::new_generation();
    python::forget_recorded();
    if deferred_start::is_allowed() {
        state::set_pid(sys::getpid());
        deferred::set();
        if !deferred_start::defer(parent_instance, true) {
            deferred_start::start();
        }
    } else if announcement::begin(parent_instance, None).is_some() {
        threads::begin_current();
    } else {
        state::set(State::Dormant);
    }
}
