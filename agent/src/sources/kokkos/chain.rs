//! The program's own tool of Kokkos, and what Kokkos finds where it asks for a tool's functions.
//!
//! The variable that names the agent names the other tool behind it, after a semicolon: Kokkos looks at the first name only.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use rsys_wire::event::Category;

use crate::events;
use crate::interpose::libraries;
use crate::interpose::symbols;
use crate::sources::source::Answer;
use crate::target::environment::agent_in;

/// The variables, the newer first: Kokkos from 3.7 on prefers it.
const VARIABLES: [&CStr; 2] = [c"KOKKOS_TOOLS_LIBS", c"KOKKOS_PROFILE_LIBRARY"];

const UNKNOWN: u8 = 0;
const LOADED: u8 = 1;
const IS_LOADING: u8 = 2;
/// Whether the other tool was looked for.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The other tool's library, or null.
static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The other tool's library, loaded as Kokkos would, or null: also while it is being loaded and asks itself for functions.
fn handle() -> *mut c_void {
    let is_first = STATE.load(Ordering::Acquire) == UNKNOWN
        && STATE
            .compare_exchange(UNKNOWN, IS_LOADING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    if is_first {
        HANDLE.store(load(), Ordering::Release);
        STATE.store(LOADED, Ordering::Release);
    }
    HANDLE.load(Ordering::Acquire)
}

fn load() -> *mut c_void {
    for variable in VARIABLES {
        // SAFETY: a name; what it returns is read at once.
        let list = unsafe { libc::getenv(variable.as_ptr()) };
        if list.is_null() {
            continue;
        }
        // SAFETY: a variable of the environment.
        let mut entries = unsafe { CStr::from_ptr(list) }
            .to_bytes()
            .split(|byte| *byte == b';');
        if entries.next().and_then(agent_in).is_none() {
            continue;
        }
        let Some(other) = entries.next() else {
            continue;
        };
        let mut path = [0_u8; libraries::MOST_PATH];
        let Some(room) = path
            .get_mut(..other.len())
            .filter(|_| !other.is_empty() && other.len() < libraries::MOST_PATH)
        else {
            continue;
        };
        room.copy_from_slice(other);
        // SAFETY: a path with its NUL.
        let handle =
            unsafe { libc::dlopen(path.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: no arguments.
            unsafe { libc::dlerror() };
            events::note(b"the Kokkos tool that the environment names cannot be loaded; rsys records without it");
        }
        return handle;
    }
    std::ptr::null_mut()
}

/// A function of the other tool, or null.
pub fn find(name: &CStr) -> *mut () {
    let handle = handle();
    if handle.is_null() {
        return std::ptr::null_mut();
    }
    let found = libraries::symbol(handle, name);
    if symbols::is_ours(found) {
        return std::ptr::null_mut();
    }
    found
}

/// A function of the other tool that is looked up once.
#[derive(Debug)]
pub struct Other {
    name: &'static CStr,
    is_known: AtomicU8,
    function: AtomicPtr<()>,
}

impl Other {
    /// Not looked up yet.
    pub const fn new(name: &'static CStr) -> Self {
        Other {
            name,
            is_known: AtomicU8::new(UNKNOWN),
            function: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address, or null.
    #[inline]
    pub fn get(&self) -> *mut () {
        if self.is_known.load(Ordering::Acquire) == UNKNOWN {
            self.look_up();
        }
        self.function.load(Ordering::Relaxed)
    }

    #[cold]
    fn look_up(&self) {
        self.function.store(find(self.name), Ordering::Relaxed);
        self.is_known.store(LOADED, Ordering::Release);
    }
}

/// Kokkos asks a library for one of a tool's functions. `found` is ours where the library is the agent, or null where we have none.
fn decide(found: *const (), name: &'static CStr) -> *const () {
    if found.is_null() || symbols::is_ours(found) {
        let other = find(name);
        if found.is_null() || other.is_null() && !events::records(Category::Kokkos) {
            return other;
        }
    }
    found
}

macro_rules! answers {
    ($($name:literal)*) => {
        /// Answers to `dlsym`: what we do not have ourselves, the other tool may have.
        pub const ANSWERS: &[(&CStr, Answer)] = &[$(($name, |found, _| decide(found, $name))),*];
    };
}

answers! {
    c"kokkosp_init_library" c"kokkosp_finalize_library" c"kokkosp_request_tool_settings"
    c"kokkosp_begin_parallel_for" c"kokkosp_end_parallel_for" c"kokkosp_begin_parallel_reduce" c"kokkosp_end_parallel_reduce"
    c"kokkosp_begin_parallel_scan" c"kokkosp_end_parallel_scan" c"kokkosp_begin_fence" c"kokkosp_end_fence"
    c"kokkosp_push_profile_region" c"kokkosp_pop_profile_region" c"kokkosp_create_profile_section"
    c"kokkosp_destroy_profile_section" c"kokkosp_start_profile_section" c"kokkosp_stop_profile_section" c"kokkosp_profile_event"
    c"kokkosp_allocate_data" c"kokkosp_deallocate_data" c"kokkosp_begin_deep_copy" c"kokkosp_end_deep_copy"
    c"kokkosp_dual_view_sync" c"kokkosp_dual_view_modify" c"kokkosp_declare_metadata" c"kokkosp_parse_args" c"kokkosp_print_help"
    c"kokkosp_provide_tool_programming_interface" c"kokkosp_declare_output_type" c"kokkosp_declare_input_type"
    c"kokkosp_request_values" c"kokkosp_begin_context" c"kokkosp_end_context" c"kokkosp_declare_optimization_goal"
}

/// The process ends: says so where Kokkos has loaded another tool instead of us.
pub fn say_why_nothing() {
    if !events::records(Category::Kokkos) || super::hooks::is_started() {
        return;
    }
    let other = symbols::behind(c"kokkosp_init_library");
    if !other.is_null() && !symbols::is_ours(other) {
        events::note(
            b"nothing of Kokkos was recorded: another tool was chosen by the program's arguments (--kokkos-tools-libs) or after its start",
        );
    }
}
