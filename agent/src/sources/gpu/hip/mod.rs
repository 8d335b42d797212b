//! HIP as a source: calls and GPU operations as the runtime reports them to its tracer.
//!
//! HIP (since 5.3) has one place for a function that it asks about every call ([`calls`]) and to which it reports every operation that has ended
//! ([`ops`]). Two things must be found out at run time: where HIP looks for what we put into its record of a call ([`calibrate`]),
//! and which clock a time is of ([`times`]). A call's id travels through HIP to its operations in a [`tag`].

mod arguments;
mod batch_probe;
mod calibrate;
mod calls;
pub mod copies;
mod end;
mod graph_nodes;
pub mod names;
mod ops;
mod painted;
pub mod profiler;
mod streams;
pub mod table;
mod tag;
mod times;
mod unknown;
mod work;

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rsys_wire::gpu::{self, Hip, Recorder};
use rsys_wire::handshake::{GpuLevel, GpuSource};
use rsys_wire::sources::Category;

use crate::events;
use crate::interpose::libraries;
use crate::sources::gpu::hip_functions::{self, Callback};
use crate::sources::gpu::owner;
use crate::sources::gpu::words;
use crate::sources::source::Ending;
use crate::state;

/// HIP was not found yet, or is not wanted.
const ABSENT: u32 = 0;
/// HIP calls us.
const OURS: u32 = 1;
/// HIP is there, but cannot be a source.
const REFUSED: u32 = 2;
/// HIP calls another tool.
const LOST: u32 = 3;
/// This is the child of a fork whose parent had used HIP, which does not survive that.
const FORKED: u32 = 4;
/// As [`FORKED`], after the line that says that calls are missing.
const FORKED_AND_SAID: u32 = 5;
/// HIP's own profiler reports calls and operations.
const BY_PROFILER: u32 = 6;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);
/// Whether HIP has asked us about a call or an operation: it is set up in this process.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Whether another tool has taken the tracer's place before us.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// What HIP calls the things that it reports.
const DOMAIN_OPS: u32 = 2;
const DOMAIN_CALLS: u32 = 3;

/// What the trace says of a HIP without a place for a tracer.
const NO_PLACE: &[u8] = b"has no hipRegisterTracerCallback, as HIP from 5.3 to 7.2 has: operations are recorded at the queues of the HSA runtime, of calls \
    only those that rsys wraps";

/// What the trace says of the source where HIP reports calls and operations.
pub const SOURCE: &[u8] = gpu::choose(GpuSource::Auto, GpuLevel::Standard, Hip::Ready)
    .why
    .as_bytes();

fn ops_wanted() -> bool {
    let settings = state::settings();
    let choice = gpu::choose(settings.gpu_source, settings.gpu_level, Hip::Ready);
    settings.events.gpu && !owner::is_hsa() && choice.recorder == Recorder::Hip
}

/// Takes the tracer's place in HIP, if HIP is loaded and that was not done yet.
pub fn start() {
    if STATE.load(Ordering::Acquire) != ABSENT
        || !(state::settings().events.has(Category::Hip) || ops_wanted())
        || !hip_functions::look_up()
    {
        return;
    }
    if profiler::is_wanted() && start_profiler() {
        return;
    }
    let (state, source): (u32, &[u8]) = match hip_functions::register_callback::get() {
        None => (REFUSED, NO_PLACE),
        Some(_) if IS_TAKEN.load(Ordering::Acquire) => {
            (REFUSED, b"another tool has taken the place for its tracer")
        }
        Some(_) if ops_wanted() => (OURS, SOURCE),
        Some(_) => (
            OURS,
            b"HIP for calls only: operations by HIP are not asked for",
        ),
    };
    if STATE
        .compare_exchange(ABSENT, state, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return;
    }
    if state != OURS {
        events::fact(b"hip", source);
        if IS_TAKEN.load(Ordering::Acquire) {
            events::note(
                b"another tool has taken the place for HIP's tracer: HIP's calls are not recorded",
            );
        } else if !libraries::is_loaded(b"/libamdhip64.so.5") {
            // HIP 5.2 never had one.
            events::note(
                b"this HIP has no place for a tracer (hipRegisterTracerCallback): operations are recorded at the queues of the HSA runtime, of its calls only those that rsys wraps",
            );
        }
        return;
    }
    events::fact(b"gpu source", source);
    for tool in [b"/libroctracer64.so" as &[u8], b"/librocprofiler64.so"] {
        if libraries::is_loaded(tool) {
            events::fact(b"gpu rival", tool);
        }
    }
    owner::set_hip(ops_wanted());
    if let Some(register) = hip_functions::register_callback::get() {
        // SAFETY: our function has the signature that HIP calls.
        unsafe { register(Some(on_event)) };
    }
    // Runs before what HIP registered when it was loaded.
    // SAFETY: a function that may be called at the end.
    unsafe { libc::atexit(at_exit) };
}

/// Has HIP's own profiler record, if this HIP has one; a line says so if not.
fn start_profiler() -> bool {
    let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
    if STATE
        .compare_exchange(ABSENT, BY_PROFILER, before, after)
        .is_err()
    {
        return true;
    }
    // No other source may record from now on.
    owner::set_hip(state::settings().events.gpu);
    if profiler::start() {
        events::fact(b"gpu source", profiler::SOURCE);
        // SAFETY: a function that may be called at the end.
        unsafe { libc::atexit(at_exit) };
        return true;
    }
    owner::set_hip(false);
    STATE.store(ABSENT, Ordering::Release);
    events::note(
        b"this HIP has no profiler of its own (it comes with 7.14): --gpu-source hip-profiler records as auto does",
    );
    false
}

/// What HIP calls.
///
/// # Safety
/// As HIP calls its tracer: `data` is null or what belongs to the domain.
unsafe extern "C" fn on_event(domain: u32, op: u32, data: *mut c_void) -> c_int {
    const NOT_WANTED: c_int = 1;
    if !IS_USED.load(Ordering::Relaxed) {
        IS_USED.store(true, Ordering::Relaxed);
    }
    match domain {
        DOMAIN_OPS if owner::is_hip() => {
            // SAFETY: as HIP calls us.
            unsafe { ops::on_op(op, data) }
        }
        DOMAIN_CALLS if STATE.load(Ordering::Relaxed) == OURS => {
            // SAFETY: as above.
            unsafe { calls::on_call(op, data) }
        }
        DOMAIN_CALLS => {
            say_if_forked();
            NOT_WANTED
        }
        _ => NOT_WANTED,
    }
}

/// HIP is called in a fork's child where it was used before the fork: says once that this is not recorded.
#[cold]
fn say_if_forked() {
    let said = STATE.compare_exchange(FORKED, FORKED_AND_SAID, Ordering::AcqRel, Ordering::Relaxed);
    if said.is_ok() && state::is_active() && !state::is_confined() {
        const WHY: &[u8] = b"this process was forked after HIP was used, and calls it: HIP does not survive a fork, its calls and GPU operations are not recorded";
        events::fact(b"gpu source", WHY);
        events::note(WHY);
    }
}

extern "C" fn at_exit() {
    at_end(Ending::Exit);
}

/// The process ends, or becomes another program.
pub fn at_end(ending: Ending) {
    if STATE.load(Ordering::Acquire) == BY_PROFILER {
        profiler::at_end(ending);
    }
    if STATE.load(Ordering::Acquire) == OURS && owner::is_hip() {
        end::collect();
    }
}

/// CPU time of threads of ours that are still at work.
pub fn helpers_cpu_ns() -> u64 {
    end::cpu_ns()
}

/// The process is about to abort itself, perhaps because a GPU failed: what HIP has not reported by now is lost.
pub fn at_abort() {
    if STATE.load(Ordering::Acquire) == OURS && owner::is_hip() {
        end::at_abort();
    }
}

/// The runtime below HIP is gone.
pub fn is_over() {
    end::set_over(true);
}

/// The runtime below HIP is set up, perhaps after it was gone.
pub fn is_back() {
    end::set_over(false);
}

/// A fork's child has no HIP where its parent had used it. Where the parent had only set up the runtime below, as programs do that count
/// GPUs first, HIP works in the child: its place for a tracer is taken anew, when it sets up the runtime.
pub fn after_fork_in_child() {
    // HIP's own profiler has no callback at the first call: it is in use as soon as it is switched on.
    let by_profiler = STATE.load(Ordering::Acquire) == BY_PROFILER;
    let next = if by_profiler || IS_USED.load(Ordering::Acquire) {
        FORKED
    } else {
        ABSENT
    };
    if matches!(STATE.load(Ordering::Acquire), OURS | BY_PROFILER) {
        STATE.store(next, Ordering::Release);
    }
    profiler::after_fork_in_child();
    owner::set_hip(false);
    words::set_call(0);
}

/// The name of [`hipRegisterTracerCallback`].
pub const TAKE_TRACER: &CStr = c"hipRegisterTracerCallback";

/// A tool that takes the place of HIP's tracer shall not find that we have it.
pub fn answer(found: *const (), _ask_next: &dyn Fn() -> *const ()) -> *const () {
    if found.is_null() {
        found
    } else {
        hipRegisterTracerCallback as *const ()
    }
}

/// Takes HIP's place for a tracer for a tool of the program's. There is one place, and the program comes first.
///
/// # Safety
/// As HIP has it: null, or a function with HIP's signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn hipRegisterTracerCallback(callback: Option<Callback>) {
    let found = libraries::next_or_in(TAKE_TRACER, hip_functions::PATH);
    // SAFETY: HIP has this signature for this name; null is None.
    let real = unsafe {
        std::mem::transmute::<*mut (), Option<unsafe extern "C" fn(Option<Callback>)>>(found)
    };
    let ours = STATE.load(Ordering::Acquire) == OURS;
    if callback.is_none() && ours {
        return;
    }
    IS_TAKEN.store(callback.is_some(), Ordering::Release);
    if ours {
        end::before_loss();
        STATE.store(LOST, Ordering::Release);
        owner::set_hip(false);
        end::after_loss();
        const LOST_TO: &[u8] =
            b"a tool of the program took the place for HIP's tracer: from then on HIP's calls and GPU operations are not recorded";
        events::fact(b"gpu lost", LOST_TO);
        events::note(LOST_TO);
    }
    if let Some(real) = real {
        // SAFETY: the caller's own argument.
        unsafe { real(callback) };
    }
}
