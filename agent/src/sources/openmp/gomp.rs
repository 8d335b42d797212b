//! gcc's runtime, libgomp, which calls no tool: the functions that gcc makes of OpenMP's constructs are wrapped.
//!
//! What is wrapped is what threads wait in, and what they come to together. A loop with a static schedule is compiled into the program and calls
//! nothing. Where a runtime with an interface for tools answers for these functions (LLVM's does, if it is preloaded), it is the one that
//! records.

use std::ffi::{c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

use rsys_wire::event::{Category, Key, Value};

use super::{begin, end, tool, words};
use crate::events;
use crate::events::texts::StaticText;
use crate::interpose::symbols;
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

/// Where the function that is called returns to: the exported functions leave it here for what they jump to.
mod caller {
    crate::thread_words! {
        pub fn place() -> *mut u64 = "rsys_gomp_caller"
    }

    /// Takes the address; 0 when the call came another way.
    #[inline]
    pub fn take() -> u64 {
        // SAFETY: the thread's own word.
        unsafe { std::mem::take(&mut *place()) }
    }
}

/// Exports wrappers as [`crate::wrap!`] does, but leaves the return address in [`caller`].
macro_rules! wrap_with_caller {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $body:path;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` and what stands in front of it.")]
            #[allow(non_snake_case, reason = "named as the function")]
            pub mod $name {
                #[allow(unused_imports, reason = "not every signature needs them")]
                use super::*;
                /// The signature.
                pub type Function = unsafe extern "C" fn($($type),*) -> $result;
                /// The wrapper at each place.
                pub static WRAPPED: $crate::interpose::wrapped::Wrapped = $crate::interpose::wrapped::Wrapped::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    },
                    $crate::interpose::wrapped::Wrappers([
                        super::$name as *const (),
                        at::<1> as *const (),
                        at::<2> as *const (),
                        at::<3> as *const (),
                    ]),
                );
                /// The wrapper at one place.
                ///
                /// # Safety
                /// As the function itself.
                pub unsafe extern "C" fn at<const PLACE: usize>($($argument: $type),*) -> $result {
                    let real = WRAPPED.real::<PLACE>();
                    // SAFETY: libraries declare the function of this name so; null is None.
                    let real = unsafe { std::mem::transmute::<*mut (), Option<Function>>(real) };
                    $body(real, $($argument),*)
                }
            }

            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the library's name for it")]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    "mov rax, qword ptr [rip + rsys_gomp_caller@GOTTPOFF]",
                    "mov r11, qword ptr [rsp]",
                    "mov qword ptr fs:[rax], r11",
                    "jmp {wrapper}",
                    wrapper = sym $name::at::<0>,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "mrs x16, tpidr_el0",
                    "adrp x17, :gottprel:rsys_gomp_caller",
                    "ldr x17, [x17, :gottprel_lo12:rsys_gomp_caller]",
                    "str x30, [x16, x17]",
                    "b {wrapper}",
                    wrapper = sym $name::at::<0>,
                );
            }
        )*
        /// All that are wrapped here.
        pub static WRAPPED: &[&$crate::interpose::wrapped::Wrapped] = &[$(&$name::WRAPPED),*];
    };
}

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
