//! The program's own OpenMP tool, which gets whatever it would get without us.
//!
//! It is started as the runtime would have started it, with entry points of ours: where both want an event, our callback calls its own.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::abi::{self, CALLBACKS, Function, GetCallback, Lookup, SetCallback};

/// The other tool's callbacks, where ours stand in the runtime.
static OTHERS: [AtomicPtr<()>; CALLBACKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CALLBACKS];
/// What the runtime has said to ours (`ompt_set_result_t`); 0 where we have none.
static OURS: [AtomicI32; CALLBACKS] = [const { AtomicI32::new(0) }; CALLBACKS];

/// The runtime's entry points.
static LOOKUP: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

fn at<T>(table: &'static [T; CALLBACKS], event: c_int) -> Option<&'static T> {
    table.get(usize::try_from(event).ok()?)
}

/// Keeps the runtime's entry points.
pub fn keep_lookup(lookup: Lookup) {
    LOOKUP.store((lookup as *const ()).cast_mut(), Ordering::Release);
}

fn real(name: &CStr) -> Function {
    let lookup = LOOKUP.load(Ordering::Acquire);
    // SAFETY: null, or what the runtime passed as its lookup function.
    let lookup = unsafe { std::mem::transmute::<*mut (), Option<Lookup>>(lookup) };
    // SAFETY: a name, as the interface has it.
    lookup.map_or(std::ptr::null(), |lookup| unsafe { lookup(name.as_ptr()) })
}

/// Sets a callback of the runtime. Returns its answer, `ompt_set_error` without an entry point.
pub fn set_real(event: c_int, callback: Function) -> c_int {
    let set = real(c"ompt_set_callback");
    // SAFETY: null, or the entry point of this name.
    let set = unsafe { std::mem::transmute::<Function, Option<SetCallback>>(set) };
    // SAFETY: a callback of the event's type.
    set.map_or(0, |set| unsafe { set(event, callback) })
}

/// Sets one of ours. Returns whether the runtime will call it.
pub fn set_ours(event: c_int, callback: Function) -> bool {
    let answer = set_real(event, callback);
    let is_called = answer >= abi::SET_SOMETIMES;
    if let Some(ours) = at(&OURS, event).filter(|_| is_called) {
        ours.store(answer, Ordering::Release);
    }
    is_called
}

/// The other tool's callback for an event, if it has one.
#[inline]
pub fn other(event: c_int) -> Option<Function> {
    let found = at(&OTHERS, event)?.load(Ordering::Acquire);
    (!found.is_null()).then_some(found.cast_const())
}

/// The other tool has refused to work.
pub fn forget_other() {
    for callback in &OTHERS {
        callback.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// `ompt_function_lookup_t` for the other tool.
///
/// # Safety
/// As the interface has it: a C string.
pub unsafe extern "C" fn lookup(name: *const c_char) -> Function {
    if name.is_null() {
        return std::ptr::null();
    }
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"ompt_set_callback" => set_other as *const (),
        b"ompt_get_callback" => get_other as *const (),
        _ => real(name),
    }
}

/// # Safety
/// As `ompt_set_callback`.
unsafe extern "C" fn set_other(event: c_int, callback: Function) -> c_int {
    super::target::make_way(event);
    let ours = at(&OURS, event).map_or(0, |ours| ours.load(Ordering::Acquire));
    match at(&OTHERS, event) {
        Some(others) if ours != 0 => {
            others.store(callback.cast_mut(), Ordering::Release);
            ours
        }
        _ => set_real(event, callback),
    }
}

/// # Safety
/// As `ompt_get_callback`.
unsafe extern "C" fn get_other(event: c_int, callback: *mut Function) -> c_int {
    let ours = at(&OURS, event).map_or(0, |ours| ours.load(Ordering::Acquire));
    if ours != 0 {
        let Some(found) = other(event) else { return 0 };
        // SAFETY: where the caller wants it.
        unsafe { *callback = found };
        return 1;
    }
    let get = real(c"ompt_get_callback");
    // SAFETY: null, or the entry point of this name.
    let get = unsafe { std::mem::transmute::<Function, Option<GetCallback>>(get) };
    // SAFETY: the caller's own arguments.
    get.map_or(0, |get| unsafe { get(event, callback) })
}

/// Ours for this event stands in the runtime no more.
pub fn forget_ours(event: c_int) {
    set_real(event, std::ptr::null());
    if let Some(ours) = at(&OURS, event) {
        ours.store(0, Ordering::Release);
    }
}

/// Whether ours stands in the runtime for this event.
pub fn has_ours(event: c_int) -> bool {
    at(&OURS, event).is_some_and(|ours| ours.load(Ordering::Acquire) != 0)
}

/// Defines callbacks: what we do, then what the other tool does.
macro_rules! callbacks {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),*) = $event:ident as $function:ident, $body:path;)*) => {
        $(
            $(#[$about])*
            ///
            /// # Safety
            /// As the runtime calls it.
            pub unsafe extern "C" fn $name($($argument: $type),*) {
                $body($($argument),*);
                if let Some(other) = $crate::sources::openmp::chain::other($crate::sources::openmp::abi::$event) {
                    // SAFETY: the other tool has set it for this event, whose type this is.
                    let other = unsafe {
                        std::mem::transmute::<*const (), $crate::sources::openmp::abi::$function>(other)
                    };
                    // SAFETY: the runtime's own arguments.
                    unsafe { other($($argument),*) };
                }
            }
        )*
    };
}
pub(super) use callbacks;
