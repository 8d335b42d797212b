//! gcc's runtime, libgomp, which calls no tool: the functions that gcc makes of OpenMP's constructs are wrapped.
//!
//! What is wrapped is what threads wait in, and what they come to together. A loop with a static schedule is compiled into the program and calls
//! nothing. Where a runtime with an interface for tools answers for these functions (LLVM's does, if it is preloaded), it is the one that
//! records. What is exported then jumps to it, so that it finds the program where it asks who called.

use std::ffi::{c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use rsys_wire::event::{Category, Key, Value};

use super::exported::{UNDECIDED, WRAPPER, caller, wrap_with_caller};
use super::{begin, end, tool, words};
use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::symbols;
use crate::interpose::wrapped::Wrapped;
use crate::sources::source::Source;

/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Openmp],
    prefix: b"GOMP_",
    wrapped: WRAPPED,
    ..Source::NONE
};

type Body = Option<unsafe extern "C" fn(*mut c_void)>;
type Data = *mut c_void;

wrap_with_caller! {
    fn GOMP_parallel(body: Body, data: Data, threads: c_uint, flags: c_uint) -> () = parallel;
    fn GOMP_parallel_reductions(body: Body, data: Data, threads: c_uint, flags: c_uint) -> c_uint = parallel_reductions;
    fn GOMP_parallel_sections(body: Body, data: Data, threads: c_uint, count: c_uint, flags: c_uint) -> () = parallel_sections;
    fn GOMP_parallel_loop_static(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint) -> () = parallel_loop;
    fn GOMP_parallel_loop_dynamic(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint) -> () = parallel_loop;
    fn GOMP_parallel_loop_guided(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint) -> () = parallel_loop;
    fn GOMP_parallel_loop_nonmonotonic_dynamic(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint) -> () = parallel_loop;
    fn GOMP_parallel_loop_nonmonotonic_guided(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint) -> () = parallel_loop;
    fn GOMP_parallel_loop_runtime(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint) -> () = parallel_loop_runtime;
    fn GOMP_parallel_loop_nonmonotonic_runtime(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint) -> () = parallel_loop_runtime;
    fn GOMP_parallel_loop_maybe_nonmonotonic_runtime(body: Body, data: Data, threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint) -> () = parallel_loop_runtime;
    fn GOMP_loop_end() -> () = end_of_loop;
    fn GOMP_sections_end() -> () = end_of_sections;
    fn GOMP_barrier() -> () = barrier;
    fn GOMP_taskwait() -> () = taskwait;
    fn GOMP_taskgroup_end() -> () = taskgroup;
    fn GOMP_critical_start() -> () = critical_start;
    fn GOMP_critical_end() -> () = construct_end;
    fn GOMP_critical_name_start(lock: *mut Data) -> () = critical_name_start;
    fn GOMP_critical_name_end(lock: *mut Data) -> () = critical_name_end;
    fn GOMP_atomic_start() -> () = atomic_start;
    fn GOMP_atomic_end() -> () = construct_end;
    fn GOMP_ordered_start() -> () = ordered_start;
    fn GOMP_ordered_end() -> () = construct_end;
}

static PARALLEL: StaticText = StaticText::new("parallel");
static IMPLICIT_TASK: StaticText = StaticText::new("implicit task");
static BARRIER: StaticText = StaticText::new("barrier");
static LOOP_BARRIER: StaticText = StaticText::new("implicit barrier");
static TASKWAIT: StaticText = StaticText::new("taskwait");
static TASKGROUP: StaticText = StaticText::new("taskgroup");
static CRITICAL_WAIT: StaticText = StaticText::new("wait for critical");
static CRITICAL: StaticText = StaticText::new("critical");
static ATOMIC_WAIT: StaticText = StaticText::new("wait for atomic");
static ATOMIC: StaticText = StaticText::new("atomic");
static ORDERED_WAIT: StaticText = StaticText::new("wait for ordered");
static ORDERED: StaticText = StaticText::new("ordered");

const UNKNOWN: u8 = 0;
const OURS: u8 = 1;
const NOT_OURS: u8 = 2;
/// Whose functions are behind ours.
static RUNTIME: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether these calls are recorded here: not where the runtime behind them says so itself.
#[inline]
fn is_on() -> bool {
    events::records(Category::Openmp)
        && !tool::is_started()
        && match RUNTIME.load(Ordering::Relaxed) {
            UNKNOWN => find_runtime() == OURS,
            known => known == OURS,
        }
}

/// LLVM's runtime has these functions as well, and calls tools when it has started, which may be in the first of these calls.
#[cold]
fn find_runtime() -> u8 {
    let real = GOMP_parallel::WRAPPED.real::<0>();
    let is_llvm = !real.is_null() && !symbols::beside(real, c"__kmpc_fork_call").is_null();
    let found = if is_llvm { NOT_OURS } else { OURS };
    RUNTIME.store(found, Ordering::Relaxed);
    found
}

/// Decides where an exported function jumps to, as soon as OpenMP is recorded: before, it makes no difference.
#[cold]
fn decide(function: &Wrapped, next: &AtomicUsize) {
    if !events::records(Category::Openmp) {
        return;
    }
    let is_theirs = match RUNTIME.load(Ordering::Relaxed) {
        UNKNOWN => find_runtime() == NOT_OURS,
        known => known == NOT_OURS,
    };
    let real = function.real::<0>();
    let decided = if is_theirs && !real.is_null() {
        real.expose_provenance()
    } else {
        WRAPPER
    };
    next.store(decided, Ordering::Release);
}

/// A region while it is called: what its threads run, and from where.
#[derive(Debug)]
#[repr(C)]
struct Region {
    body: Body,
    data: Data,
    code: u64,
}

/// What each thread of a region runs in place of its body.
///
/// # Safety
/// As the runtime calls it, with a [`Region`] that lives until all threads have returned.
unsafe extern "C" fn run_part(region: *mut c_void) {
    // SAFETY: as above; nobody changes it.
    let region = unsafe { &*region.cast::<Region>() };
    begin(&IMPLICIT_TASK, region.code, &[]);
    if let Some(body) = region.body {
        // SAFETY: the program's own body and data.
        unsafe { body(region.data) };
    }
    end();
}

/// What names a region: the beginning of its body, for gcc gives the call itself the line of whatever stands in front of it. An address one
/// further, as all places are what a call returns to.
fn region_code(body: Body) -> u64 {
    let caller = caller::take();
    body.map_or(caller, |body| (body as *const ()).addr() as u64 + 1)
}

/// Calls the runtime with a body that records the parts of threads.
fn region<R>(body: Body, data: Data, threads: c_uint, call: impl FnOnce(Body, Data) -> R) -> R {
    let code = region_code(body);
    if !is_on() {
        return call(body, data);
    }
    let mut region = Region { body, data, code };
    let args = [(Key::Threads, Value::Uint(u64::from(threads)))];
    let count = usize::from(threads != 0);
    begin(&PARALLEL, code, args.get(..count).unwrap_or(&[]));
    let result = call(Some(run_part), (&raw mut region).cast());
    end();
    result
}

/// Without the library the program would not have found the function; the thread alone is a region then.
fn alone(body: Body, data: Data) {
    if let Some(body) = body {
        // SAFETY: the program's own.
        unsafe { body(data) };
    }
}

fn parallel(
    real: Option<GOMP_parallel::Function>,
    body: Body,
    data: Data,
    threads: c_uint,
    flags: c_uint,
) {
    region(body, data, threads, |body, data| match real {
        // SAFETY: the caller's own arguments, or a body that does what the caller's does. So below.
        Some(real) => unsafe { real(body, data, threads, flags) },
        None => alone(body, data),
    });
}

fn parallel_reductions(
    real: Option<GOMP_parallel_reductions::Function>,
    body: Body,
    data: Data,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    // The runtime reads the reductions from the data: the body stays, and so the parts of threads are not seen.
    let code = region_code(body);
    let is_on = is_on();
    if is_on {
        begin(&PARALLEL, code, &[]);
    }
    let result = match real {
        // SAFETY: the caller's own arguments.
        Some(real) => unsafe { real(body, data, threads, flags) },
        None => {
            alone(body, data);
            1
        }
    };
    if is_on {
        end();
    }
    result
}

fn parallel_sections(
    real: Option<GOMP_parallel_sections::Function>,
    body: Body,
    data: Data,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    region(body, data, threads, |body, data| match real {
        // SAFETY: as above.
        Some(real) => unsafe { real(body, data, threads, count, flags) },
        None => alone(body, data),
    });
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn parallel_loop(
    real: Option<GOMP_parallel_loop_static::Function>,
    body: Body,
    data: Data,
    threads: c_uint,
    start: c_long,
    end: c_long,
    step: c_long,
    chunk: c_long,
    flags: c_uint,
) {
    region(body, data, threads, |body, data| match real {
        // SAFETY: as above.
        Some(real) => unsafe { real(body, data, threads, start, end, step, chunk, flags) },
        None => alone(body, data),
    });
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn parallel_loop_runtime(
    real: Option<GOMP_parallel_loop_runtime::Function>,
    body: Body,
    data: Data,
    threads: c_uint,
    start: c_long,
    end: c_long,
    step: c_long,
    flags: c_uint,
) {
    region(body, data, threads, |body, data| match real {
        // SAFETY: as above.
        Some(real) => unsafe { real(body, data, threads, start, end, step, flags) },
        None => alone(body, data),
    });
}

/// A call in which the thread waits for others.
fn wait(real: Option<unsafe extern "C" fn()>, what: &'static StaticText) {
    let code = caller::take();
    let is_on = is_on();
    if is_on {
        begin(what, code, &[]);
    }
    if let Some(real) = real {
        // SAFETY: no arguments.
        unsafe { real() };
    }
    if is_on {
        end();
    }
}

fn barrier(real: Option<GOMP_barrier::Function>) {
    wait(real, &BARRIER);
}

fn end_of_loop(real: Option<GOMP_loop_end::Function>) {
    wait(real, &LOOP_BARRIER);
}

fn end_of_sections(real: Option<GOMP_sections_end::Function>) {
    wait(real, &LOOP_BARRIER);
}

fn taskwait(real: Option<GOMP_taskwait::Function>) {
    wait(real, &TASKWAIT);
}

fn taskgroup(real: Option<GOMP_taskgroup_end::Function>) {
    wait(real, &TASKGROUP);
}

/// A construct that one thread at a time may be in: waiting to be let in, then being in.
fn enter(waiting: &'static StaticText, being: &'static StaticText, lock: u64, call: impl FnOnce()) {
    let code = caller::take();
    if !is_on() {
        return call();
    }
    let args = [(Key::Lock, Value::Pointer(lock))];
    begin(waiting, code, &args);
    call();
    end();
    begin(being, code, &args);
    words().constructs = words().constructs.saturating_add(1);
}

/// Such a construct is left.
fn leave() {
    let words = words();
    if let Some(rest) = words.constructs.checked_sub(1) {
        words.constructs = rest;
        end();
    }
}

fn construct_start(
    real: Option<unsafe extern "C" fn()>,
    waiting: &'static StaticText,
    being: &'static StaticText,
) {
    enter(waiting, being, 0, || {
        if let Some(real) = real {
            // SAFETY: no arguments.
            unsafe { real() };
        }
    });
}

fn critical_start(real: Option<GOMP_critical_start::Function>) {
    construct_start(real, &CRITICAL_WAIT, &CRITICAL);
}

fn atomic_start(real: Option<GOMP_atomic_start::Function>) {
    construct_start(real, &ATOMIC_WAIT, &ATOMIC);
}

fn ordered_start(real: Option<GOMP_ordered_start::Function>) {
    construct_start(real, &ORDERED_WAIT, &ORDERED);
}

fn construct_end(real: Option<unsafe extern "C" fn()>) {
    leave();
    if let Some(real) = real {
        // SAFETY: no arguments.
        unsafe { real() };
    }
}

fn critical_name_start(real: Option<GOMP_critical_name_start::Function>, lock: *mut Data) {
    enter(&CRITICAL_WAIT, &CRITICAL, lock.addr() as u64, || {
        if let Some(real) = real {
            // SAFETY: the caller's own argument.
            unsafe { real(lock) };
        }
    });
}

fn critical_name_end(real: Option<GOMP_critical_name_end::Function>, lock: *mut Data) {
    leave();
    if let Some(real) = real {
        // SAFETY: the caller's own argument.
        unsafe { real(lock) };
    }
}
