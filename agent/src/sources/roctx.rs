//! roctx: ranges and marks.
//!
//! The same functions come from `libroctx64` and, with some more, from `librocprofiler-sdk-roctx`. Without either, they return what these
//! libraries return: levels count from 0, a pop without a push is -1, ranges are numbered from 1.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rsys_wire::event::{Category, Labelled};
use rsys_wire::layout::Counter;

use crate::channel::counters;
use crate::events;
use crate::events::texts::{self, StaticText};
use crate::signals::faults;
use crate::sources::gpu::devices;
use crate::sources::gpu::hsa;
use crate::sources::marker_words::words;
use crate::sources::source::Source;
use crate::state::pause;
use crate::sys;

crate::wrap! {
    fn roctxMarkA(message: *const c_char) -> () = mark;
    fn roctxRangePushA(message: *const c_char) -> c_int = push;
    fn roctxRangePop() -> c_int = pop;
    fn roctxRangeStartA(message: *const c_char) -> u64 = start;
    fn roctxRangeStop(id: u64) -> () = stop;
    fn roctxGetThreadId(thread: *mut u64) -> c_int = thread_id;
    fn roctxProfilerPause(thread: u64) -> c_int = pause;
    fn roctxProfilerResume(thread: u64) -> c_int = resume;
    fn roctxNameOsThread(name: *const c_char) -> c_int = name_thread;
    fn roctxNameHsaAgent(name: *const c_char, agent: *const u64) -> c_int = name_agent;
    fn roctxNameHipDevice(name: *const c_char, device: c_int) -> c_int = name_device;
    fn roctxNameHipStream(name: *const c_char, stream: *const c_void) -> c_int = name_stream;
}

/// Ids of ranges that are handed out when no library does.
static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);
/// What the rest of the agent sees of it.
pub static SOURCE: Source = Source {
    categories: &[Category::Roctx],
    prefix: b"roctx",
    wrapped: WRAPPED,
    is_always_there: true,
    // The child does not end what its parent began.
    after_fork_in_child: || words().forget_ranges(),
    ..Source::NONE
};

static PAUSED: StaticText = StaticText::new("collection paused");
static RESUMED: StaticText = StaticText::new("collection resumed");

/// Calls the real function. Returns whether the call is the program's own and to be recorded, beside what it returned.
#[inline]
fn through<R>(real: impl FnOnce() -> R) -> (bool, R) {
    let state = words();
    let outermost = state.in_roctx == 0 && state.in_rccl == 0 && events::records(Category::Roctx);
    state.in_roctx = state.in_roctx.wrapping_add(1);
    let result = real();
    let state = words();
    state.in_roctx = state.in_roctx.wrapping_sub(1);
    (outermost, result)
}

fn mark(real: Option<roctxMarkA::Function>, _place: usize, message: *const c_char) {
    let (recorded, ()) = through(|| {
        if let Some(real) = real {
            // SAFETY: the caller's own argument.
            unsafe { real(message) }
        }
    });
    if recorded && !pause::is_caller_paused() {
        texts::named(message, |name, args| {
            events::mark(Category::Roctx, name, 0, args);
        });
    }
}

fn push(real: Option<roctxRangePushA::Function>, _place: usize, message: *const c_char) -> c_int {
    let (recorded, level) = through(|| match real {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(message) },
        None => {
            let state = words();
            let level = state.level;
            state.level = level.wrapping_add(1);
            level.cast_signed()
        }
    });
    if recorded {
        let skipped = pause::is_caller_paused() && words().may_skip();
        words().open_range(!skipped);
        if !skipped {
            texts::named(message, |name, args| {
                events::begin(Category::Roctx, name, 0, args);
            });
        }
    }
    level
}

fn pop(real: Option<roctxRangePop::Function>, _place: usize) -> c_int {
    let state = words();
    // The range ends before the library's part of the pop, as it began behind that of the push.
    if state.in_roctx == 0 && state.in_rccl == 0 && events::records(Category::Roctx) {
        match state.close_range() {
            Some(true) => events::end(Category::Roctx, &[]),
            Some(false) => {}
            None => counters::count(Counter::UnmatchedPops, 1),
        }
    }
    let (_, level) = through(|| match real {
        // SAFETY: no arguments.
        Some(real) => unsafe { real() },
        None => {
            let state = words();
            match state.level.checked_sub(1) {
                None => -1,
                Some(level) => {
                    state.level = level;
                    level.cast_signed()
                }
            }
        }
    });
    level
}

/// Ranges of several libraries must not meet under one number.
fn range(id: u64, place: usize) -> u64 {
    id ^ (place as u64) << 60
}

/// Ranges that were started in a pause, and how many: their ends are not recorded either.
static SKIPPED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
static SKIPPED_COUNT: AtomicUsize = AtomicUsize::new(0);

fn place_of(range: u64) -> Option<&'static AtomicU64> {
    SKIPPED.get(range as usize % SKIPPED.len())
}

/// Remembers that a range is left out. False when there is no room, and it has to be recorded.
fn skip(range: u64) -> bool {
    let kept = place_of(range).is_some_and(|place| {
        place
            .compare_exchange(0, range, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    });
    if kept {
        SKIPPED_COUNT.fetch_add(1, Ordering::Relaxed);
    }
    kept
}

/// Whether a range was left out. It is forgotten.
fn was_skipped(range: u64) -> bool {
    let found = SKIPPED_COUNT.load(Ordering::Relaxed) != 0
        && place_of(range).is_some_and(|place| {
            place
                .compare_exchange(range, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
    if found {
        SKIPPED_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    found
}

fn start(real: Option<roctxRangeStartA::Function>, place: usize, message: *const c_char) -> u64 {
    let (recorded, id) = through(|| match real {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(message) },
        None => NEXT_RANGE.fetch_add(1, Ordering::Relaxed),
    });
    if recorded && !(pause::is_caller_paused() && skip(range(id, place))) {
        texts::named(message, |name, args| {
            events::async_begin(Category::Roctx, range(id, place), name, args);
        });
    }
    id
}

fn stop(real: Option<roctxRangeStop::Function>, place: usize, id: u64) {
    let (recorded, ()) = through(|| {
        if let Some(real) = real {
            // SAFETY: the caller's own argument.
            unsafe { real(id) }
        }
    });
    if recorded && !was_skipped(range(id, place)) {
        events::async_end(Category::Roctx, range(id, place));
    }
}

fn thread_id(real: Option<roctxGetThreadId::Function>, _place: usize, thread: *mut u64) -> c_int {
    match real {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(thread) },
        None => {
            // SAFETY: null, or where the caller wants the number.
            if let Some(thread) = unsafe { thread.as_mut() } {
                *thread = u64::from(sys::gettid());
            }
            0
        }
    }
}

fn pause(real: Option<roctxProfilerPause::Function>, _place: usize, thread: u64) -> c_int {
    let (recorded, result) = through(|| match real {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(thread) },
        None => 0,
    });
    if recorded {
        let was_paused = pause::is_caller_paused();
        if pause::pause(thread) && !was_paused {
            events::mark(Category::Profiler, PAUSED.key(), 0, &[]);
        }
    }
    result
}

fn resume(real: Option<roctxProfilerResume::Function>, _place: usize, thread: u64) -> c_int {
    let (recorded, result) = through(|| match real {
        // SAFETY: the caller's own argument.
        Some(real) => unsafe { real(thread) },
        None => 0,
    });
    if recorded && pause::resume(thread) && !pause::is_caller_paused() {
        events::mark(Category::Profiler, RESUMED.key(), 0, &[]);
    }
    result
}

/// Calls the real function and records the name.
fn name(
    real: Option<impl FnOnce() -> c_int>,
    what: Labelled,
    id: u64,
    name: *const c_char,
) -> c_int {
    let (recorded, result) = through(|| real.map_or(0, |real| real()));
    if recorded {
        events::label(what, id, texts::bytes_of(name), &[]);
    }
    result
}

fn name_thread(
    real: Option<roctxNameOsThread::Function>,
    _place: usize,
    text: *const c_char,
) -> c_int {
    // SAFETY: the caller's own argument; so in the functions below.
    let real = real.map(|real| move || unsafe { real(text) });
    name(real, Labelled::Thread, u64::from(sys::gettid()), text)
}

fn name_agent(
    real: Option<roctxNameHsaAgent::Function>,
    _place: usize,
    text: *const c_char,
    agent: *const u64,
) -> c_int {
    let (recorded, result) = through(|| match real {
        // SAFETY: as above.
        Some(real) => unsafe { real(text, agent) },
        None => 0,
    });
    if recorded {
        // The handle stands where the argument points.
        let handle = faults::read_u64(agent.addr() as u64);
        if let Some(number) = handle.and_then(hsa::number_of_agent) {
            events::label(
                Labelled::NamedDevice,
                u64::from(number),
                texts::bytes_of(text),
                &[],
            );
        }
    }
    result
}

fn name_device(
    real: Option<roctxNameHipDevice::Function>,
    _place: usize,
    text: *const c_char,
    device: c_int,
) -> c_int {
    // SAFETY: as above.
    let real = real.map(|real| move || unsafe { real(text, device) });
    let what = if devices::sees_all() {
        Labelled::NamedDevice
    } else {
        Labelled::NamedOrdinal
    };
    name(real, what, u64::from(device.cast_unsigned()), text)
}

fn name_stream(
    real: Option<roctxNameHipStream::Function>,
    _place: usize,
    text: *const c_char,
    stream: *const c_void,
) -> c_int {
    // SAFETY: as above.
    let real = real.map(|real| move || unsafe { real(text, stream) });
    name(real, Labelled::Stream, stream.addr() as u64, text)
}
