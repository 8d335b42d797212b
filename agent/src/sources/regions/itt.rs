//! ITT (Intel's instrumentation and tracing technology): tasks, frames, marks, pause and resume.
//!
//! A program carries a small static part of it (`ittnotify_static.c`), which opens the library that `INTEL_LIBITTNOTIFY64` names, the agent, and has
//! it fill in the functions that are called from then on. What is not in the table below stays without effect. (Interface of ITT 3.0 to 3.26.)

use std::ffi::{CStr, c_char, c_int, c_void};

use rsys_wire::event::Category;

use super::handles::{self, Domain, StringHandle};
use super::values::Values;
use super::{NO_DOMAIN, mark_of, name_thread, pop_of, push_of, set_paused, start_of, stop_of};
use crate::events::texts;

/// One function that the program's part of ITT calls through a pointer (`__itt_api_info`).
#[derive(Debug)]
#[repr(C)]
struct Function {
    name: *const c_char,
    called: *mut *const c_void,
    /// What the pointer leads to before the first call.
    first: *const c_void,
    /// What it leads to without a tool.
    none: *const c_void,
    group: c_int,
}

/// The beginning of `__itt_global`.
#[derive(Debug)]
#[repr(C)]
pub struct Global {
    magic: [u8; 8],
    version: [usize; 3],
    states: [usize; 3],
    lock: libc::pthread_mutex_t,
    library: *const c_void,
    error_handler: *const c_void,
    path: *const c_void,
    functions: *const Function,
}

/// `__itt_id`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Id([u64; 3]);

impl Id {
    /// A number for the range of this id in this domain.
    fn range(self, domain: *const Domain) -> u64 {
        let Id([first, second, third]) = self;
        let words = [first, second, third, domain.addr() as u64].map(u64::to_le_bytes);
        texts::hash(words.as_flattened()) | 1
    }
}

/// The program's part of ITT asks for functions. What was filled in before stays, for a program may have several such parts.
///
/// # Safety
/// As `ittnotify_static.c` calls it: with its own `__itt_global`, locked.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __itt_api_init(global: *const Global, _groups: c_int) {
    // SAFETY: as the caller says.
    let Some(global) = (unsafe { global.as_ref() }) else {
        return;
    };
    let mut next = global.functions;
    // SAFETY: the list ends with a function without a name.
    while let Some(function) = unsafe { next.as_ref() }.filter(|one| !one.name.is_null()) {
        // SAFETY: a name of the program's part of ITT.
        let name = unsafe { CStr::from_ptr(function.name) };
        let ours = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let called = ours.map_or(function.none, |(_, Code(code))| *code);
        if !function.called.is_null() {
            // SAFETY: the pointer through which the program calls it.
            unsafe { *function.called = called };
        }
        next = next.wrapping_add(1);
    }
}

/// The address of one of the functions.
#[derive(Debug)]
struct Code(*const c_void);

// SAFETY: addresses of code, which never change.
unsafe impl Sync for Code {}

static FUNCTIONS: [(&CStr, Code); 15] = [
    (c"__itt_domain_create", Code(domain_create as *const c_void)),
    (
        c"__itt_string_handle_create",
        Code(string_handle_create as *const c_void),
    ),
    (c"__itt_task_begin", Code(task_begin as *const c_void)),
    (c"__itt_task_begin_fn", Code(task_begin_fn as *const c_void)),
    (c"__itt_task_end", Code(task_end as *const c_void)),
    (
        c"__itt_task_begin_overlapped",
        Code(task_begin_overlapped as *const c_void),
    ),
    (
        c"__itt_task_end_overlapped",
        Code(task_end_overlapped as *const c_void),
    ),
    (
        c"__itt_region_begin",
        Code(task_begin_overlapped as *const c_void),
    ),
    (
        c"__itt_region_end",
        Code(task_end_overlapped as *const c_void),
    ),
    (c"__itt_frame_begin_v3", Code(frame_begin as *const c_void)),
    (c"__itt_frame_end_v3", Code(frame_end as *const c_void)),
    (c"__itt_marker", Code(marker as *const c_void)),
    (
        c"__itt_thread_set_name",
        Code(thread_set_name as *const c_void),
    ),
    (c"__itt_pause", Code(pause as *const c_void)),
    (c"__itt_resume", Code(resume as *const c_void)),
];

const ITT: Category = Category::Itt;

/// The name of a domain.
///
/// # Safety
/// Null, or a domain. So below.
unsafe fn domain_name(domain: *const Domain) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { domain.as_ref() }.map_or(NO_DOMAIN, |domain| domain.name)
}

/// What a handle says.
///
/// # Safety
/// Null, or a handle.
unsafe fn text_of(handle: *const StringHandle) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { handle.as_ref() }.map_or(c"task".as_ptr(), |handle| handle.text)
}

extern "C" fn domain_create(name: *const c_char) -> *mut Domain {
    let handle = handles::of(name);
    // SAFETY: a handle of ours; nothing is read.
    unsafe { &raw mut (*handle).domain }
}

extern "C" fn string_handle_create(text: *const c_char) -> *mut StringHandle {
    let handle = handles::of(text);
    // SAFETY: as above.
    unsafe { &raw mut (*handle).string }
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn task_begin(
    domain: *const Domain,
    _task: Id,
    _parent: Id,
    name: *const StringHandle,
) {
    // SAFETY: the program's domain and handle. So below.
    let (name, domain) = unsafe { (text_of(name), domain_name(domain)) };
    push_of(ITT, name, domain, &Values::None);
}

/// The task is named by a function's address, which the sampler does not resolve here.
///
/// # Safety
/// As programs call it.
unsafe extern "C" fn task_begin_fn(
    domain: *const Domain,
    _task: Id,
    _parent: Id,
    _function: *const c_void,
) {
    // SAFETY: as above.
    let domain = unsafe { domain_name(domain) };
    push_of(ITT, c"task".as_ptr(), domain, &Values::None);
}

extern "C" fn task_end(_domain: *const Domain) {
    pop_of(ITT, &Values::None);
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn task_begin_overlapped(
    domain: *const Domain,
    task: Id,
    _parent: Id,
    name: *const StringHandle,
) {
    let range = task.range(domain);
    // SAFETY: as above.
    let (name, domain) = unsafe { (text_of(name), domain_name(domain)) };
    start_of(ITT, range, name, domain, &Values::None);
}

extern "C" fn task_end_overlapped(domain: *const Domain, task: Id) {
    stop_of(ITT, task.range(domain));
}

/// The number of a frame's range: frames without an id follow one another.
///
/// # Safety
/// Null, or an id.
unsafe fn frame_range(domain: *const Domain, id: *const Id) -> u64 {
    // SAFETY: as the caller says.
    let id = unsafe { id.as_ref() }.map_or(Id([0, 0, 1]), |id| *id);
    id.range(domain)
}

/// A frame has the name of its domain.
///
/// # Safety
/// As programs call it.
unsafe extern "C" fn frame_begin(domain: *const Domain, id: *const Id) {
    // SAFETY: as above.
    let (range, name) = unsafe { (frame_range(domain, id), domain_name(domain)) };
    start_of(ITT, range, name, NO_DOMAIN, &Values::None);
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn frame_end(domain: *const Domain, id: *const Id) {
    // SAFETY: as above.
    stop_of(ITT, unsafe { frame_range(domain, id) });
}

/// # Safety
/// As programs call it.
unsafe extern "C" fn marker(
    domain: *const Domain,
    _id: Id,
    name: *const StringHandle,
    _scope: c_int,
) {
    // SAFETY: as above.
    let (name, domain) = unsafe { (text_of(name), domain_name(domain)) };
    mark_of(ITT, name, domain, &Values::None);
}

extern "C" fn thread_set_name(name: *const c_char) {
    name_thread(ITT, name);
}

extern "C" fn pause() {
    set_paused(ITT, 0, true);
}

extern "C" fn resume() {
    set_paused(ITT, 0, false);
}
