//! Calls of the HSA runtime, recorded as slices of the threads that make them.

use std::ffi::{c_char, c_void};

use rsys_wire::event::{Arg, ArgWords, Category, Key, Value};
use rsys_wire::ring::RingCount;

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::gpu::hsa::abi::{GENERIC_ERROR, Queue, QueueCallback, SUCCESS, Signal, Status};
use crate::sources::gpu::hsa::loader;
use crate::sources::gpu::hsa::names;
use crate::sources::gpu::hsa::queue_calls;
use crate::sources::gpu::hsa::queues;
use crate::sources::gpu::hsa::table::{self, Tables};
use crate::sources::gpu::hsa::watch;
use crate::sources::gpu::kernel_lines;
use crate::sources::gpu::words;
use crate::state;
use crate::sys;

/// What a function returned, as far as it is worth telling.
pub trait Outcome {
    /// The error, or 0.
    fn error(&self) -> u64;
}

impl Outcome for Status {
    fn error(&self) -> u64 {
        u64::from(*self)
    }
}

/// A signal's value is no error.
impl Outcome for i64 {
    fn error(&self) -> u64 {
        0
    }
}

/// Records a call around `call`.
#[inline]
pub fn around<R: Outcome>(name: &StaticText, args: &[Arg<'_>], call: impl FnOnce() -> R) -> R {
    if !crate::sources::gpu::hsa::records_calls() {
        return call();
    }
    events::count(RingCount::Calls);
    events::begin(Category::Hsa, name.key(), 0, args);
    let result = call();
    end(result.error());
    result
}

/// Records a call that may block its thread, with the call stack from which it was made, unless a call of HIP around it has that.
#[inline]
fn blocking<R: Outcome>(name: &StaticText, args: &[Arg<'_>], call: impl FnOnce() -> R) -> R {
    if !crate::sources::gpu::hsa::records_calls() {
        return call();
    }
    events::count(RingCount::Calls);
    // SAFETY: the thread's own words.
    let is_outermost = unsafe { (*words::words()).correlation == 0 };
    let launch_stack = if is_outermost {
        events::launch_stack().id
    } else {
        0
    };
    begin(name, 0, args, launch_stack);
    let result = call();
    end(result.error());
    result
}

/// Records the beginning of a call, with its stack if there is one.
fn begin(name: &StaticText, correlation: u64, args: &[Arg<'_>], launch_stack: u64) {
    let mut all = ArgWords::new();
    all.extend(args);
    if launch_stack != 0 {
        all.push(Key::LaunchStack, Value::Uint(launch_stack));
    }
    let begin_ns = sys::boottime_ns();
    words::set_asked_ns(begin_ns);
    let correlation = (correlation, false);
    events::begin_at(begin_ns, Category::Hsa, name.key(), correlation, &all);
}

fn end(error: u64) {
    let result = [(Key::Result, Value::Uint(error))];
    let args: &[Arg<'_>] = if error == 0 { &[] } else { &result };
    events::end(Category::Hsa, args);
}

/// Records a call that makes a GPU do something. It is tied to that unless a call of HIP around it is.
pub fn launching(name: &StaticText, args: &[Arg<'_>], call: impl FnOnce() -> Status) -> Status {
    if !crate::sources::gpu::hsa::records_calls() {
        return call();
    }
    events::count(RingCount::Calls);
    // SAFETY: the thread's own words.
    let outer = unsafe { (*words::words()).correlation };
    let (mut correlation, mut launch_stack) = (0, 0);
    if outer == 0 {
        correlation = events::next_correlation();
        launch_stack = events::launch_stack().id;
        // SAFETY: as above.
        unsafe { (*words::words()).correlation = correlation };
    }
    begin(name, correlation, args, launch_stack);
    let result = call();
    // SAFETY: as above.
    unsafe { (*words::words()).correlation = outer };
    end(result.error());
    result
}

/// Functions that are only recorded: how, their arguments, and which of them are shown.
macro_rules! told {
    ($($name:ident = $how:ident $text:literal ($($argument:ident: $type:ty),*) -> $result:ty, $missing:expr,
        [$($shown:expr),*];)*) => {
        $(
            /// # Safety
            /// As the runtime's function of this name has it.
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                static NAME: StaticText = StaticText::new($text);
                let Some(real) = table::$name::get() else {
                    return $missing;
                };
                // SAFETY: the caller's own arguments.
                $how(&NAME, &[$($shown),*], || unsafe { real($($argument),*) })
            }
        )*

        fn wrap_told(tables: &Tables) {
            $( table::$name::wrap(tables, $name); )*
        }
    };
}

fn bytes(count: usize) -> Arg<'static> {
    (Key::Bytes, Value::Uint(count as u64))
}

fn pointer<T>(key: Key, pointer: *const T) -> Arg<'static> {
    (key, Value::Pointer(pointer.addr() as u64))
}

told! {
    memory_allocate = blocking "hsa_memory_allocate"(region: u64, size: usize, place: *mut *mut c_void) -> Status, GENERIC_ERROR, [bytes(size)];
    memory_free = blocking "hsa_memory_free"(memory: *mut c_void) -> Status, GENERIC_ERROR, [pointer(Key::Address, memory)];
    memory_copy = blocking "hsa_memory_copy"(to: *mut c_void, from: *const c_void, size: usize) -> Status, GENERIC_ERROR,
        [bytes(size), pointer(Key::Destination, to), pointer(Key::Source, from)];
    signal_create = around "hsa_signal_create"(value: i64, count: u32, consumers: *const u64, signal: *mut u64) -> Status, GENERIC_ERROR, [];
    memory_pool_allocate = blocking "hsa_amd_memory_pool_allocate"(pool: u64, size: usize, flags: u32, place: *mut *mut c_void) -> Status, GENERIC_ERROR, [bytes(size)];
    memory_pool_free = blocking "hsa_amd_memory_pool_free"(memory: *mut c_void) -> Status, GENERIC_ERROR, [pointer(Key::Address, memory)];
    agents_allow_access = around "hsa_amd_agents_allow_access"(count: u32, agents: *const u64, flags: *const u32, memory: *const c_void) -> Status, GENERIC_ERROR,
        [pointer(Key::Address, memory)];
    memory_lock = blocking "hsa_amd_memory_lock"(memory: *mut c_void, size: usize, agents: *const u64, count: i32, place: *mut *mut c_void) -> Status, GENERIC_ERROR,
        [bytes(size), pointer(Key::Address, memory)];
    memory_unlock = blocking "hsa_amd_memory_unlock"(memory: *mut c_void) -> Status, GENERIC_ERROR, [pointer(Key::Address, memory)];
    memory_fill = blocking "hsa_amd_memory_fill"(memory: *mut c_void, value: u32, count: usize) -> Status, GENERIC_ERROR,
        [bytes(count.wrapping_mul(4)), pointer(Key::Address, memory), (Key::Value, Value::Uint(u64::from(value)))];
}

/// Whether a wait would return at once: there is nothing to see then.
///
/// # Safety
/// The signal is null or exists.
unsafe fn is_over(signal: u64, condition: u32, value: i64, timeout: u64) -> bool {
    // SAFETY: the program waits for it, so it exists.
    let Some(signal) = (unsafe { Signal::new(signal) }) else {
        return true;
    };
    let now = signal.value();
    timeout == 0
        || match condition {
            0 => now == value,
            1 => now != value,
            2 => now < value,
            _ => now >= value,
        }
}

/// Waits: those that return at once are not recorded.
macro_rules! waits {
    ($($name:ident = $text:literal;)*) => {
        $(
            /// # Safety
            /// As the runtime's function of this name has it.
            unsafe extern "C" fn $name(signal: u64, condition: u32, value: i64, timeout: u64, state: u32) -> i64 {
                static NAME: StaticText = StaticText::new($text);
                let Some(real) = table::$name::get() else {
                    return 0;
                };
                // SAFETY: the caller's own arguments.
                let wait = || unsafe { real(signal, condition, value, timeout, state) };
                // SAFETY: as above.
                if !crate::sources::gpu::hsa::records_calls() || unsafe { is_over(signal, condition, value, timeout) } {
                    return wait();
                }
                blocking(&NAME, &[(Key::Signal, Value::Pointer(signal))], wait)
            }
        )*
    };
}

waits! {
    signal_wait_relaxed = "hsa_signal_wait_relaxed";
    signal_wait_scacquire = "hsa_signal_wait_scacquire";
}

/// Functions that make queues.
macro_rules! makers {
    ($($name:ident = $text:literal, $seen:path;)*) => {
        $(
            /// # Safety
            /// As the runtime's function of this name has it.
            #[allow(
                clippy::too_many_arguments,
                reason = "the runtime's function has as many"
            )]
            unsafe extern "C" fn $name(
                agent: u64,
                size: u32,
                kind: u32,
                callback: QueueCallback,
                data: *mut c_void,
                private_bytes: u32,
                group_bytes: u32,
                queue: *mut *mut Queue,
            ) -> Status {
                static NAME: StaticText = StaticText::new($text);
                let Some(real) = table::$name::get() else {
                    return GENERIC_ERROR;
                };
                let args = [(Key::Count, Value::Uint(u64::from(size)))];
                around(&NAME, &args, || {
                    if crate::sources::gpu::hsa::is_recording() {
                        let wish = queue_calls::Wish {
                            agent,
                            size,
                            kind,
                            callback,
                            data,
                            private_bytes,
                            group_bytes,
                        };
                        // SAFETY: the caller's own arguments; so below.
                        return unsafe { $seen(&wish, queue) };
                    }
                    // SAFETY: as above.
                    unsafe {
                        real(agent, size, kind, callback, data, private_bytes, group_bytes, queue)
                    }
                })
            }
        )*
    };
}

makers! {
    queue_create = "hsa_queue_create", queue_calls::create;
    queue_intercept_create = "hsa_amd_queue_intercept_create", queue_calls::create_intercepted;
}

/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn queue_destroy(queue: *mut Queue) -> Status {
    static NAME: StaticText = StaticText::new("hsa_queue_destroy");
    // SAFETY: the caller's own argument.
    around(&NAME, &[], || unsafe { queue_calls::destroy(queue) })
}

/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn signal_destroy(signal: u64) -> Status {
    static NAME: StaticText = StaticText::new("hsa_signal_destroy");
    let Some(real) = table::signal_destroy::get() else {
        return GENERIC_ERROR;
    };
    watch::leave(signal);
    // SAFETY: the caller's own argument.
    around(&NAME, &[], || unsafe { real(signal) })
}

/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn executable_load_agent_code_object(
    executable: u64,
    agent: u64,
    reader: u64,
    options: *const c_char,
    loaded: *mut u64,
) -> Status {
    static NAME: StaticText = StaticText::new("hsa_executable_load_agent_code_object");
    let Some(real) = table::executable_load_agent_code_object::get() else {
        return GENERIC_ERROR;
    };
    let mut ours = 0;
    let place = if loaded.is_null() {
        &raw mut ours
    } else {
        loaded
    };
    // SAFETY: the caller's own arguments, or room of ours for the result.
    let load = || unsafe { real(executable, agent, reader, options, place) };
    let status = around(&NAME, &[], load);
    if status == SUCCESS && state::settings().events.gpu {
        // SAFETY: the runtime has just loaded it, with the caller's reader.
        if let Some(file) = unsafe { loader::image(place.read()) } {
            kernel_lines::learn(executable, file);
        }
    }
    status
}

/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn executable_freeze(executable: u64, options: *const c_char) -> Status {
    static NAME: StaticText = StaticText::new("hsa_executable_freeze");
    let Some(real) = table::executable_freeze::get() else {
        return GENERIC_ERROR;
    };
    // SAFETY: the caller's own arguments.
    let status = around(&NAME, &[], || unsafe { real(executable, options) });
    if status == SUCCESS && crate::sources::gpu::hsa::is_recording() {
        names::learn(executable);
    }
    status
}

/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn executable_destroy(executable: u64) -> Status {
    static NAME: StaticText = StaticText::new("hsa_executable_destroy");
    let Some(real) = table::executable_destroy::get() else {
        return GENERIC_ERROR;
    };
    if crate::sources::gpu::hsa::is_recording() {
        names::forget(executable);
    }
    kernel_lines::forget(executable);
    // SAFETY: the caller's own argument.
    around(&NAME, &[], || unsafe { real(executable) })
}

/// Programs that switch the times of kernels off keep them on.
///
/// # Safety
/// As the runtime's function has it.
unsafe extern "C" fn set_profiler_enabled(queue: *mut Queue, enable: i32) -> Status {
    match table::profiling_set_profiler_enabled::get() {
        Some(_) if enable == 0 && queues::is_seen(queue) => SUCCESS,
        // SAFETY: the caller's own arguments.
        Some(real) => unsafe { real(queue, enable) },
        None => GENERIC_ERROR,
    }
}

/// Replaces the functions whose calls are recorded, and no others.
pub fn start(tables: &Tables) {
    wrap_told(tables);
    table::signal_wait_relaxed::wrap(tables, signal_wait_relaxed);
    table::signal_wait_scacquire::wrap(tables, signal_wait_scacquire);
}

/// Puts ours in front of the function that loads code, which says where kernels came from.
pub fn start_code(tables: &Tables) {
    table::executable_load_agent_code_object::wrap(tables, executable_load_agent_code_object);
}

/// Puts ours in front of the functions that queues, signals and kernels' names need.
pub fn start_queues(tables: &Tables) {
    table::queue_create::wrap(tables, queue_create);
    table::queue_intercept_create::wrap(tables, queue_intercept_create);
    table::queue_destroy::wrap(tables, queue_destroy);
    table::signal_destroy::wrap(tables, signal_destroy);
    table::executable_freeze::wrap(tables, executable_freeze);
    table::executable_destroy::wrap(tables, executable_destroy);
    table::profiling_set_profiler_enabled::wrap(tables, set_profiler_enabled);
}
