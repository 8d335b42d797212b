//! The plug-in that the user has chosen, and what the library finds where it asks for one.
//!
//! Where `NCCL_PROFILER_PLUGIN` names a plug-in, the library opens it by its own rules, and what it finds there by `dlsym` is replaced by ours, which passes on
//! everything. Where it names none, `rsys-sample` has it name the agent. Where it is `none`, the same, and the plug-in that the library opens by itself stays closed.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rsys_wire::event::Category;

use crate::events;
use crate::interpose::libraries;
use crate::sources::rccl::profiler::abi::{Plugin, VERSIONS};
use crate::sources::rccl::profiler::plugin;
use crate::sources::source::Answer;
use crate::state;
use crate::target::environment::agent_in;

const VARIABLE: &CStr = c"NCCL_PROFILER_PLUGIN";

/// What RCCL opens if the variable names nothing.
const DEFAULT: &CStr = c"librccl-profiler.so";

/// The user's plug-in behind ours, of a version, or null.
static THEIRS: [AtomicPtr<Plugin>; 7] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 7];
/// How many communicators each of them is set up for.
static USERS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// The user's plug-in of a version.
pub fn theirs(version: usize) -> Option<&'static Plugin> {
    let plugin = THEIRS.get(version)?.load(Ordering::Acquire);
    // SAFETY: null, or what a library exports under this name; it stays loaded as long as RCCL has communicators.
    unsafe { plugin.as_ref() }
}

/// One more communicator, or one less, has this version's plug-in.
pub fn count(version: usize, is_more: bool) {
    if let Some(users) = USERS.get(version) {
        let step = if is_more { 1 } else { usize::MAX };
        users.fetch_add(step, Ordering::AcqRel);
    }
}

/// Whether `rsys-sample` has chosen the agent as the plug-in.
fn is_chosen() -> bool {
    // SAFETY: a name; what it returns is read at once.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    // SAFETY: a variable of the environment.
    !value.is_null() && agent_in(unsafe { CStr::from_ptr(value) }.to_bytes()).is_some()
}

/// The plug-in that the library would have opened without us, if there is one: the handle of its library.
fn by_default() -> *mut c_void {
    static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    if ASKED.swap(1, Ordering::AcqRel) == 0 {
        // SAFETY: a name with its NUL; RCCL would open it in this way.
        let handle = unsafe { libc::dlopen(DEFAULT.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: no arguments. The failure is not the program's.
            unsafe { libc::dlerror() };
        }
        HANDLE.store(handle, Ordering::Release);
    }
    HANDLE.load(Ordering::Acquire)
}

/// The names of the plug-ins' versions.
const NAMES: [&CStr; 7] = [
    c"ncclProfiler_v0",
    c"ncclProfiler_v1",
    c"ncclProfiler_v2",
    c"ncclProfiler_v3",
    c"ncclProfiler_v4",
    c"ncclProfiler_v5",
    c"ncclProfiler_v6",
];

/// What the library gets that asks for this version, where its own plug-in has `found`.
fn decide(version: usize, found: *const ()) -> *const () {
    if !events::records(Category::RcclProxy) {
        return found;
    }
    let mut theirs = found;
    if found.is_null() {
        if !is_chosen() {
            return found;
        }
        let library = match state::settings().rccl_default_plugin {
            true => by_default(),
            false => std::ptr::null_mut(),
        };
        if !library.is_null() {
            let of = |version: usize| match NAMES.get(version) {
                Some(name) => libraries::symbol(library, name).cast_const(),
                None => std::ptr::null(),
            };
            // The library takes the newest that both have.
            let newest = VERSIONS.rev().find(|version| !of(*version).is_null());
            match newest {
                Some(newest) if newest != version => return std::ptr::null(),
                Some(newest) => theirs = of(newest),
                None => {}
            }
        }
    }
    let Some(ours) = plugin(version) else {
        return found;
    };
    let ours_at = std::ptr::from_ref(ours).cast::<()>();
    if std::ptr::eq(found, ours_at) {
        return found;
    }
    let (Some(place), Some(users)) = (THEIRS.get(version), USERS.get(version)) else {
        return found;
    };
    let known = place.load(Ordering::Acquire);
    let is_known = std::ptr::eq(known.cast_const().cast(), theirs);
    if !is_known && users.load(Ordering::Acquire) != 0 {
        events::note(
            b"two libraries of this process have profiler plug-ins of the same version of NCCL's interface: of the second, proxies are not recorded",
        );
        return found;
    }
    place.store(theirs.cast::<Plugin>().cast_mut(), Ordering::Release);
    ours_at
}

/// A version that is not known: such a plug-in is left to RCCL alone.
fn unknown(found: *const (), _ask_next: &dyn Fn() -> *const ()) -> *const () {
    if !found.is_null() && events::records(Category::RcclProxy) {
        events::note(
            b"the plug-in that NCCL_PROFILER_PLUGIN names has a version of the interface that rsys does not know: proxies of RCCL are not recorded",
        );
    }
    found
}

macro_rules! answers {
    ($($version:literal),*) => {
        /// What `dlsym` answers with.
        pub const ANSWERS: &[(&CStr, Answer)] = &[
            $((NAMES[$version], |found, _| decide($version, found)),)*
            (c"ncclProfiler_v7", unknown),
            (c"ncclProfiler_v8", unknown),
            (c"ncclProfiler_v9", unknown),
        ];
    };
}

answers!(1, 2, 3, 4, 5, 6);
