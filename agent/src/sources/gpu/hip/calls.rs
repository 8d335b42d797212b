//! Calls of HIP's, from HIP's own tracing of them.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{Arg, ArgWords, Category, Key, Value};
use rsys_wire::ring::RingCount;

use crate::events;
use crate::signals::faults;
use crate::sources::gpu::hip::arguments::{Arguments, decode};
use crate::sources::gpu::hip::calibrate;
use crate::sources::gpu::hip::copies::{self, Direction, Said};
use crate::sources::gpu::hip::end;
use crate::sources::gpu::hip::graph_nodes;
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hip::ops;
use crate::sources::gpu::hip::painted;
use crate::sources::gpu::hip::streams;
use crate::sources::gpu::hip::table::{CALLS, Does, MOST_CALLS, SKIPPED, find};
use crate::sources::gpu::hip::tag::Tag;
use crate::sources::gpu::hip::unknown;
use crate::sources::gpu::hip::work;
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::owner;
use crate::sources::gpu::words;
use crate::state;
use crate::state::pause;
use crate::sys;

/// What is known of each number: 0 when it was not asked for yet.
static KNOWN: [AtomicU64; MOST_CALLS] = [const { AtomicU64::new(0) }; MOST_CALLS];

const ASKED: u64 = 1;
const SKIP: u64 = 2;
/// `hipSetDevice`: not worth an event, but the thread's work goes to another GPU from then on.
const DEVICE: u64 = 4;
/// `hipModuleUnload`: kernels known by their addresses may be others afterwards.
const UNLOAD: u64 = 8;
/// The names of a graph's kernels go, or become others.
const GRAPH_GOES: u64 = 16;
/// `hipStreamDestroy`.
const STREAM_GOES: u64 = 32;
/// `hipDeviceReset`.
const STREAMS_GO: u64 = 64;
/// `hipGraphExecKernelNodeSetParams`.
const NODE_CHANGES: u64 = 128;
const CALL_SHIFT: u32 = 8;
const CALL_MASK: u64 = 0x3ff;
const NAME_SHIFT: u32 = 18;
const NO_CALL: u64 = CALL_MASK;
const _: () = assert!(CALLS.len() < NO_CALL as usize);

/// A call by its number.
#[derive(Debug, Clone, Copy)]
struct Known(u64);

impl Known {
    fn of(op: u32) -> Option<Known> {
        let place = KNOWN.get(op as usize)?;
        let known = place.load(Ordering::Relaxed);
        if known != 0 {
            return Some(Known(known));
        }
        let learnt = learn(op);
        place.store(learnt, Ordering::Relaxed);
        Some(Known(learnt))
    }

    fn is_skipped(self) -> bool {
        self.0 & SKIP != 0
    }

    fn name(self) -> u64 {
        self.0 >> NAME_SHIFT
    }

    fn call(self) -> Option<&'static crate::sources::gpu::hip::table::Call> {
        CALLS.get((self.0 >> CALL_SHIFT & CALL_MASK) as usize)
    }

    /// What is to be done before the call, with its arguments.
    fn before(self) -> Option<Phase> {
        match self.0 & (STREAM_GOES | NODE_CHANGES) {
            STREAM_GOES => Some(on_stream_goes),
            NODE_CHANGES => Some(on_node_changes),
            _ => None,
        }
    }

    fn does(self) -> Does {
        self.call().map_or(Does::Nothing, |call| call.does)
    }
}

#[cold]
fn learn(op: u32) -> u64 {
    let Some(api_name) = hip_functions::api_name::get() else {
        return ASKED | SKIP;
    };
    // SAFETY: takes any number and returns null or a constant.
    let name = unsafe { api_name(op) };
    if name.is_null() {
        return ASKED | SKIP;
    }
    // SAFETY: a constant string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let call = find(name);
    let causes = call
        .and_then(|at| CALLS.get(at))
        .is_some_and(|call| call.does.works());
    if name == b"hipSetDevice" {
        return ASKED | DEVICE;
    }
    let goes = match name {
        b"hipGraphExecDestroy" | b"hipGraphExecUpdate" => GRAPH_GOES,
        b"hipGraphExecKernelNodeSetParams" => NODE_CHANGES,
        b"hipStreamDestroy" => STREAM_GOES,
        b"hipDeviceReset" => STREAMS_GO,
        _ => 0,
    };
    // Calls that were not asked for are recorded if they cause operations, which refer to them.
    if SKIPPED.contains(&name) || (!state::settings().events.has(Category::Hip) && !causes) {
        return ASKED | SKIP | goes;
    }
    let number = call.map_or(NO_CALL, |at| at as u64);
    let unload = if name == b"hipModuleUnload" {
        UNLOAD
    } else {
        0
    };
    ASKED | unload | goes | number << CALL_SHIFT | names::key(name) << NAME_SHIFT
}

/// HIP is about to do a call. Returns what HIP wants to hear: 0, the call is traced, and the record says by whom.
///
/// # Safety
/// As HIP calls it.
pub unsafe fn on_call(op: u32, data: *mut c_void) -> c_int {
    const SKIPPED: c_int = 1;
    if words::is_helper() {
        // SAFETY: as HIP called us.
        return unsafe { painted::on_call(data) };
    }
    if words::is_asking() {
        return SKIPPED;
    }
    let Some(layout) = calibrate::layout() else {
        return SKIPPED;
    };
    let Some(known) = Known::of(op) else {
        return SKIPPED;
    };
    if known.0 & GRAPH_GOES != 0 && owner::is_hip() {
        graph_nodes::forget();
        end::before_graph_goes();
    }
    if known.0 & STREAMS_GO != 0 {
        streams::before_all_go();
    }
    let ask_only = |tag: u64, enter: Phase| {
        // SAFETY: as below; HIP does not call a null function.
        unsafe {
            data.cast::<u64>().write(tag);
            data.byte_add(layout.enter).cast::<Phase>().write(enter);
            data.byte_add(layout.exit)
                .cast::<Option<Phase>>()
                .write(None);
        }
        0
    };
    if known.is_skipped() {
        return match known.before() {
            None => SKIPPED,
            Some(before) => ask_only(0, before),
        };
    }
    if known.0 & DEVICE != 0 {
        return ask_only(0, on_set_device);
    }
    if pause::is_caller_paused() {
        // The tag comes back with the operations, which are then left alone too.
        return ask_only(Tag::PAUSED.bits(), known.before().unwrap_or(on_paused));
    }
    // The clock is a good part of what a launch costs: one look serves the tag and the event, which HIP asks for next.
    let now_ns = sys::boottime_ns();
    words::set_asked_ns(now_ns);
    let tag = Tag::new(events::next_correlation(), known.does(), now_ns);
    let enter: Phase = on_enter;
    let exit: Phase = on_exit;
    // SAFETY: the record is HIP's, as large as calibration has seen it.
    unsafe {
        data.cast::<u64>().write(tag.bits());
        data.byte_add(layout.enter).cast::<Phase>().write(enter);
        data.byte_add(layout.exit).cast::<Phase>().write(exit);
    }
    0
}

/// What HIP calls before and after a call.
type Phase = unsafe extern "C" fn(op: u32, data: *const c_void);

/// # Safety
/// Always safe.
unsafe extern "C" fn on_paused(_op: u32, _data: *const c_void) {}

/// # Safety
/// Always safe.
unsafe extern "C" fn on_set_device(_op: u32, _data: *const c_void) {
    work::note_switch();
}

/// # Safety
/// As HIP calls it, with the record of `hipStreamDestroy`.
unsafe extern "C" fn on_stream_goes(_op: u32, data: *const c_void) {
    work::note_destroyed();
    if let Some(stream) = Arguments::Record(data).u64(16) {
        streams::before_one_goes(stream);
    }
}

/// # Safety
/// As HIP calls it, with the record of `hipGraphExecKernelNodeSetParams`.
unsafe extern "C" fn on_node_changes(_op: u32, data: *const c_void) {
    if owner::is_hip() {
        graph_nodes::before_change(data);
    }
}

/// # Safety
/// As HIP calls it, with the record of a call that is traced.
unsafe extern "C" fn on_enter(op: u32, data: *const c_void) {
    let Some(known) = Known::of(op) else {
        return;
    };
    // SAFETY: the record begins with what we wrote.
    let tag = Tag::from_bits(unsafe { data.cast::<u64>().read() });
    let correlation = tag.correlation();
    let mut args = ArgWords::new();
    let mut begin_ns = words::asked_ns();
    let does = known.does();
    if let Some(before) = known.before() {
        // SAFETY: as HIP called us. The wait is not part of the call.
        unsafe { before(op, data) };
        begin_ns = sys::boottime_ns();
    }
    let mut work_of = 0;
    if let Some(call) = known.call() {
        let mut said = Said {
            bytes: 0,
            direction: Direction::Unknown,
        };
        let mut operations = 1;
        for (key, form) in call.begin {
            if let Some(value) = decode(Arguments::Record(data), *form, &mut said) {
                match (*key, value) {
                    (Key::Bytes, Value::Uint(bytes)) => said.bytes = bytes,
                    (Key::Operations, Value::Uint(count)) => operations = count,
                    (Key::Stream, Value::Pointer(stream)) => {
                        work_of = stream;
                        streams::note_use(stream);
                    }
                    _ => {}
                }
                args.push(*key, value);
            }
        }
        // What a batch copies as a whole says nothing of its parts.
        if does == Does::Work && said.bytes != 0 && operations == 1 {
            copies::keep(correlation, said);
        }
    }
    let unknown = known.call().is_none().then_some(op);
    if does.wants_stack() || unknown.is_some_and(unknown::may_work) {
        if does.works() {
            work::note_work(work_of);
        }
        if does == Does::Graph {
            ops::graph_is_launched();
        }
        let stack = events::launch_stack();
        if stack.id != 0 {
            args.push(Key::LaunchStack, Value::Uint(stack.id));
        }
        // The walk is not part of the call.
        if stack.id != 0 && !stack.was_last {
            begin_ns = sys::boottime_ns();
        }
    }
    events::count(RingCount::Calls);
    words::set_call(correlation);
    words::set_uncounted(does == Does::Launch);
    words::set_unknown_call(unknown);
    // A call that HIP did not report may still cause operations, if it is not in the table.
    let awaited = (does.works() || known.call().is_none()) && owner::is_hip();
    events::begin_at(
        begin_ns,
        Category::Hip,
        known.name(),
        (correlation, awaited),
        &args,
    );
}

/// # Safety
/// As HIP calls it, with the record of a call that is traced.
unsafe extern "C" fn on_exit(op: u32, data: *const c_void) {
    let Some(known) = Known::of(op) else {
        return;
    };
    let result: Option<Arg<'_>> = known.call().and_then(|call| {
        let (key, at) = call.end?;
        // Where the call failed, the pointer need not be valid.
        let result = faults::read_u64(Arguments::Record(data).u64(at)?)?;
        Some((key, Value::Pointer(result)))
    });
    events::end(Category::Hip, result.as_slice());
    // HIP itself forgets the outer call's id here, too.
    words::set_call(0);
    words::set_uncounted(false);
    words::set_unknown_call(None);
    streams::after_use();
    if known.0 & UNLOAD != 0 {
        names::new_generation();
    }
}
