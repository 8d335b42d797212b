//! Calls of HIP up to 5.2, which has no tracer: wrappers in front of the functions that matter.
//!
//! They are exported under HIP's names, so they stand in front of every HIP; with one that has a tracer they pass calls through. Which it
//! is, is looked at once.

mod functions;
mod kernels;

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rsys_wire::event::{Arg, ArgWords, Category, Key, Value};
use rsys_wire::ring::RingCount;

use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::libraries;
use crate::sources::gpu::hip::table::Does;
use crate::sources::gpu::words;
use crate::state;
use crate::state::pause;
use crate::sys;

const HIP: &[u8] = b"/libamdhip64.so";
/// Returned to a program when no library has the function: hipErrorNoDevice.
const MISSING: c_int = 100;

const UNKNOWN: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;

/// Whether calls are recorded from here.
static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// One function of HIP.
#[derive(Debug)]
pub struct Function {
    symbol: &'static CStr,
    name: StaticText,
    real: AtomicPtr<()>,
}

impl Function {
    /// A function that was not called yet.
    #[must_use]
    pub const fn new(symbol: &'static CStr, name: &'static str) -> Self {
        Function {
            symbol,
            name: StaticText::new(name),
            real: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Where HIP has it, or null.
    #[inline]
    pub fn address(&self) -> *mut () {
        let known = self.real.load(Ordering::Relaxed);
        if known.is_null() {
            self.look_up()
        } else {
            known
        }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self) -> *mut () {
        let found = libraries::next_or_in(self.symbol, HIP);
        self.real.store(found, Ordering::Relaxed);
        found
    }
}

/// Whether calls are recorded from here.
#[inline]
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        UNKNOWN => find_out(),
        state => state == ON && !pause::is_caller_paused(),
    }
}

#[cold]
#[inline(never)]
fn find_out() -> bool {
    if !state::is_active() || !state::is_own_process() {
        return false;
    }
    let wished = events::is_on() && state::settings().events.has(Category::Hip);
    let on = wished
        && libraries::symbol(libraries::handle(HIP), c"hipRegisterTracerCallback").is_null()
        && libraries::is_loaded(HIP);
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
    if on {
        events::fact(b"hip.calls", b"by wrappers: this HIP has no tracer");
    }
    on
}

/// A fork's child has no working HIP where its parent had called it.
pub fn after_fork_in_child() {
    if STATE.load(Ordering::Relaxed) == ON {
        STATE.store(OFF, Ordering::Relaxed);
    }
}

/// Records a call around `call`. Only while [`is_on`].
pub fn tell(
    function: &Function,
    does: Does,
    args: &[Arg<'_>],
    call: impl FnOnce() -> c_int,
    after: impl FnOnce() -> Option<Arg<'static>>,
) -> c_int {
    let outer = begin(function, does, args);
    let result = call();
    // SAFETY: the thread's own words.
    unsafe { (*words::words()).correlation = outer };
    end(result, if result == 0 { after() } else { None });
    result
}

/// Records the beginning of a call. Returns the correlation of the one around it.
#[inline(never)]
fn begin(function: &Function, does: Does, args: &[Arg<'_>]) -> u64 {
    events::count(RingCount::Calls);
    let correlation = events::next_correlation();
    let mut all = ArgWords::new();
    all.extend(args);
    if does.wants_stack() {
        let launch_stack = events::launch_stack().id;
        if launch_stack != 0 {
            all.push(Key::LaunchStack, Value::Uint(launch_stack));
        }
    }
    let begin_ns = sys::boottime_ns();
    words::set_asked_ns(begin_ns);
    events::begin_at(
        begin_ns,
        Category::Hip,
        function.name.key(),
        (correlation, false),
        &all,
    );
    words::set_call(correlation)
}

/// Records the end of a call, with what it made or the error that it returned.
#[inline(never)]
fn end(result: c_int, more: Option<Arg<'static>>) {
    let error = (result != 0).then(|| (Key::Result, Value::Int(i64::from(result))));
    events::end(Category::Hip, error.or(more).as_slice());
}
