//! The start in a process that runs.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::attach::Request;
use rsys_wire::handshake::AgentSettings;

use super::threads;
use crate::channel::announce::{self, SessionName};
use crate::code::{modules, rules, snapshot};
use crate::events;
use crate::interpose::late::Hooks;
use crate::interpose::symbols;
use crate::lifecycle::threads as own_threads;
use crate::lifecycle::{announcement, exec, own_runtime, process};
use crate::sampling::{python, stack_room};
use crate::signals;
use crate::state::{self, State, departure};
use crate::sys;
use crate::target::environment::Environment;
use crate::target::{other_libc, real};

/// Whether what the C library keeps for ever was registered.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Begins to record. Returns the functions that stand in front of the program's from now on.
///
/// # Errors
/// The kernel's error number; `ENOEXEC` for a program whose own runtime makes its system calls, `ENOSYS` on another C library.
pub fn begin(request: &Request) -> Result<Hooks, i32> {
    if !other_libc::is_glibc() {
        return Err(libc::ENOSYS);
    }
    let session = text(&request.session);
    let settings = AgentSettings::from_line(text(&request.settings).to_str().unwrap_or(""));
    let name = SessionName::new(session.to_bytes()).ok_or(libc::EINVAL)?;
    // SAFETY: no thread samples or calls a hook that reads them: the process is dormant, and the last sample is over; see `detach`.
    unsafe {
        state::set_settings(settings);
        announce::set_session_name(name);
    }
    // SAFETY: what the name says.
    unsafe { sys::set_clock(symbols::in_c_library(c"clock_gettime")) };
    if own_runtime::is_programs_own() {
        return Err(libc::ENOEXEC);
    }
    let environment = Environment::find();
    // Before the hooks are there: they must look nothing up in a handler.
    real::resolve_all();
    real::pthread_getspecific::get();
    // From here on reads are guarded: in this thread, too, which has all signals blocked.
    process::install_handlers();
    sys::sigmask(
        libc::SIG_UNBLOCK,
        sys::bit(libc::SIGSEGV) | sys::bit(libc::SIGBUS),
    );
    let hooks = Hooks::find();
    exec::begin(&environment);
    snapshot::start(environment.get(snapshot::ENV_FORCE).is_some());
    announcement::describe(&environment);
    rules::map_rules();
    register_once();
    stack_room::learn_frame_size();
    modules::new_generation();
    python::forget_recorded();
    if announcement::begin(0, None).is_none() {
        signals::uninstall();
        return Err(libc::ECONNREFUSED);
    }
    state::set(State::Active);
    threads::adopt_all();
    hooks.set();
    Ok(hooks)
}

/// What the C library keeps to the end of the process.
fn register_once() {
    departure::set_leave(super::leave);
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    own_threads::register_hooks();
    events::register_hook();
    // SAFETY: the handler needs nothing that is not set up by now.
    unsafe { libc::pthread_atfork(None, None, Some(process::after_fork_in_child)) };
}

fn text(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
}
