//! The tool's start and end: `ompt_start_tool`, which runtimes look for when they start.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rsys_wire::event::Category;

use super::abi::{self, Data, Finalize, Lookup, StartResult, StartTool};
use super::{callbacks, chain, data, mutexes, target, tasks};
use crate::events;
use crate::interpose::libraries;
use crate::interpose::symbols;
use crate::sys::text::Text;

const START: &CStr = c"ompt_start_tool";

/// What we hand to a runtime.
static RESULT: StartResultCell = StartResultCell(std::cell::UnsafeCell::new(StartResult {
    initialize: Some(initialize),
    finalize: Some(finalize),
    tool_data: 0,
}));

#[derive(Debug)]
struct StartResultCell(std::cell::UnsafeCell<StartResult>);

// SAFETY: only the runtime writes into it, into the word for its tool.
unsafe impl Sync for StartResultCell {}

/// What the program's own tool wants to be started by, or null.
static OTHER: AtomicPtr<StartResult> = AtomicPtr::new(std::ptr::null_mut());
/// Whether it was started and works.
static OTHER_WORKS: AtomicBool = AtomicBool::new(false);
/// Whether a runtime has started us, in this process or in its parent.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// A runtime of OpenMP starts, and asks for its tool.
///
/// # Safety
/// As the runtime calls it: the version is a C string.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ompt_start_tool(
    openmp: c_uint,
    runtime: *const c_char,
) -> *mut StartResult {
    // SAFETY: the caller's own arguments.
    let behind = unsafe { start_behind(openmp, runtime) };
    if !events::records(Category::Openmp) {
        // The runtime itself goes on to the libraries that the environment names.
        return behind;
    }
    let other = if behind.is_null() {
        // SAFETY: as above.
        unsafe { start_named(openmp, runtime) }
    } else {
        behind
    };
    OTHER.store(other, Ordering::Release);
    if !runtime.is_null() {
        // SAFETY: as above.
        events::fact(
            b"openmp runtime",
            unsafe { CStr::from_ptr(runtime) }.to_bytes(),
        );
    }
    RESULT.0.get()
}

/// Calls a tool's start.
///
/// # Safety
/// The function must be an `ompt_start_tool`, or null.
unsafe fn start(function: *mut (), openmp: c_uint, runtime: *const c_char) -> *mut StartResult {
    if symbols::is_ours(function) {
        return std::ptr::null_mut();
    }
    // SAFETY: as the caller says; null is None.
    let start = unsafe { std::mem::transmute::<*mut (), Option<StartTool>>(function) };
    // SAFETY: the runtime's own arguments.
    start.map_or(std::ptr::null_mut(), |start| unsafe {
        start(openmp, runtime)
    })
}

/// Starts the tool that the runtime would have found without us: of the next library that has one. The runtime has a function of this
/// name, too, which looks further.
///
/// # Safety
/// As [`ompt_start_tool`].
unsafe fn start_behind(openmp: c_uint, runtime: *const c_char) -> *mut StartResult {
    // SAFETY: the function of this name.
    unsafe { start(symbols::behind(START), openmp, runtime) }
}

/// Starts the first tool of those that `OMP_TOOL_LIBRARIES` names, as the runtime would.
///
/// # Safety
/// As [`ompt_start_tool`].
unsafe fn start_named(openmp: c_uint, runtime: *const c_char) -> *mut StartResult {
    // SAFETY: a name; what it returns is read at once.
    let list = unsafe { libc::getenv(c"OMP_TOOL_LIBRARIES".as_ptr()) };
    if list.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a variable of the environment.
    let list = unsafe { CStr::from_ptr(list) }.to_bytes();
    for entry in list.split(|byte| *byte == b':') {
        let mut path = [0_u8; libraries::MOST_PATH];
        let Some(room) = path.get_mut(..entry.len()).filter(|_| !entry.is_empty()) else {
            continue;
        };
        room.copy_from_slice(entry);
        // SAFETY: a path with its NUL: shorter than the buffer, or `dlopen` says no.
        let handle = unsafe { libc::dlopen(path.as_ptr().cast(), libc::RTLD_LAZY) };
        if handle.is_null() {
            // SAFETY: no arguments. Without us the runtime passes over it silently, too.
            unsafe { libc::dlerror() };
            continue;
        }
        // SAFETY: the function of this name.
        let found = unsafe { start(libraries::symbol(handle, START), openmp, runtime) };
        if !found.is_null() {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// # Safety
/// As the runtime calls it.
unsafe extern "C" fn initialize(lookup: Lookup, device: c_int, _data: Data) -> c_int {
    IS_STARTED.store(true, Ordering::Release);
    chain::keep_lookup(lookup);
    let ours: [(c_int, *const ()); 15] = [
        (
            abi::PARALLEL_BEGIN,
            callbacks::on_parallel_begin as *const (),
        ),
        (abi::PARALLEL_END, callbacks::on_parallel_end as *const ()),
        (abi::IMPLICIT_TASK, callbacks::on_implicit_task as *const ()),
        (abi::WORK, callbacks::on_work as *const ()),
        (abi::MASKED, callbacks::on_masked as *const ()),
        (abi::SYNC_REGION, callbacks::on_sync_region as *const ()),
        (abi::REDUCTION, callbacks::on_reduction as *const ()),
        (abi::CANCEL, callbacks::on_cancel as *const ()),
        (abi::TASK_CREATE, tasks::on_task_create as *const ()),
        (abi::TASK_SCHEDULE, tasks::on_task_schedule as *const ()),
        (abi::MUTEX_ACQUIRE, mutexes::on_mutex_acquire as *const ()),
        (abi::MUTEX_ACQUIRED, mutexes::on_mutex_acquired as *const ()),
        (abi::MUTEX_RELEASED, mutexes::on_mutex_released as *const ()),
        (abi::NEST_LOCK, mutexes::on_nest_lock as *const ()),
        (abi::CANCEL, callbacks::on_cancel as *const ()),
    ];
    let other = OTHER.load(Ordering::Acquire);
    if !other.is_null() {
        data::share();
    }
    for (event, callback) in ours {
        chain::set_ours(event, callback);
    }
    target::set();
    // SAFETY: null, or what the other tool has returned for this call.
    if let Some(other) = unsafe { other.as_mut() }
        && let Some(initialize) = other.initialize
    {
        // SAFETY: as the runtime would call it.
        let works = unsafe { initialize(chain::lookup, device, &raw mut other.tool_data) } != 0;
        OTHER_WORKS.store(works, Ordering::Release);
        if !works {
            chain::forget_other();
        }
    }
    1
}

/// # Safety
/// As the runtime calls it. Nothing of ours ends here: what is recorded is with the sampler already.
unsafe extern "C" fn finalize(_data: Data) {
    let other = OTHER.load(Ordering::Acquire);
    let works = OTHER_WORKS.swap(false, Ordering::AcqRel);
    // SAFETY: as in `initialize`.
    if let Some(other) = unsafe { other.as_mut() }
        && works
        && let Some(finalize) = other.finalize
    {
        let finalize: Finalize = finalize;
        // SAFETY: as the runtime would call it.
        unsafe { finalize(&raw mut other.tool_data) };
    }
}

/// Whether a runtime calls us.
#[inline]
pub fn is_started() -> bool {
    IS_STARTED.load(Ordering::Relaxed)
}

/// The process ends: says why nothing was recorded where a runtime is loaded that would have had something to say.
pub fn say_why_nothing() {
    if !events::records(Category::Openmp) || IS_STARTED.load(Ordering::Acquire) {
        return;
    }
    let Some(runtime) = ["/libomp.so", "/libiomp5.so", "/libomp-"]
        .into_iter()
        .find(|name| libraries::is_loaded(name.as_bytes()))
    else {
        return;
    };
    // SAFETY: a name; what it returns is read at once.
    let choice = unsafe { libc::getenv(c"OMP_TOOL".as_ptr()) };
    // SAFETY: null, or a variable of the environment.
    let is_off = !choice.is_null() && unsafe { CStr::from_ptr(choice) } == c"disabled";
    let mut buffer = [0_u8; 256];
    let mut text = Text::new(&mut buffer);
    text.put(b"nothing of OpenMP was recorded: ");
    if is_off {
        text.put(b"OMP_TOOL=disabled is set, by which ");
        text.put(runtime.trim_start_matches('/').as_bytes());
        text.put(b" starts no tool");
    } else {
        let first = symbols::first(START);
        if first.is_null() || symbols::is_ours(first) {
            // The runtime was not used.
            return;
        }
        text.put(
            b"the program has an OpenMP tool of its own (ompt_start_tool), which comes before rsys",
        );
    }
    events::note(text.bytes());
}
