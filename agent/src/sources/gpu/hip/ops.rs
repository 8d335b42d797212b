//! GPU operations, from HIP's records.
//!
//! Records come when HIP finds out that an operation has ended: on HIP 5 when the program synchronises, on HIP 6 on a thread of the runtime's, in
//! lumps; minutes late and in any order.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, GpuOp, Key, OpKind, Value};
use rsys_wire::layout::Counter;
use rsys_wire::ring::RingCount;

use crate::channel::counters;
use crate::events;
use crate::sources::gpu::devices;
use crate::sources::gpu::hip::batch_probe;
use crate::sources::gpu::hip::copies::{self, Direction};
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hip::tag::Tag;
use crate::sources::gpu::hip::times;
use crate::sources::gpu::hip::unknown;
use crate::sources::gpu::hip_functions;
use crate::sources::gpu::instant;
use crate::sources::gpu::kernel_lines;
use crate::sources::gpu::words;
use crate::sys;
use crate::sys::apart::Apart;
use crate::sys::recent::Recent;

/// A record as HIP 5.3 to 6.4 hand it out.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Record {
    domain: u32,
    kind: u32,
    op: u32,
    _pad: u32,
    correlation: u64,
    start_ns: u64,
    end_ns: u64,
    device: i32,
    _pad2: u32,
    queue: u64,
    /// Bytes of a copy or fill, or the address of a kernel's name.
    what: u64,
}

const _: () = assert!(size_of::<Record>() == 64);

/// What HIP wants to hear if an operation is of no interest.
const NOT_WANTED: c_int = 1;

/// What `op` says of a record.
const DISPATCH: u32 = 0;

/// Kinds of commands.
const KERNEL: u32 = 0x11f0;
const KERNEL_OF_GRAPH: u32 = 0x11f1;
const READ: u32 = 0x11f3;
const WRITE: u32 = 0x11f4;
const COPY: u32 = 0x11f5;
const MARKER: u32 = 0x11fe;
const READ_RECTANGLE: u32 = 0x1201;
const WRITE_RECTANGLE: u32 = 0x1202;
const COPY_RECTANGLE: u32 = 0x1203;
const FILL: u32 = 0x1207;

/// Kernels that were launched, one by one, and counted then.
static LAUNCHED: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// Those of them whose records have come.
static RETURNED: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// Records of any kind.
static RECORDS: Apart<AtomicU64> = Apart(AtomicU64::new(0));

/// Graphs that were launched.
static GRAPHS: AtomicU64 = AtomicU64::new(0);
/// Launches of graphs of which a record has come.
static GRAPHS_TOLD: AtomicU64 = AtomicU64::new(0);
/// The latest launches of graphs of which records have come, by their correlations.
static LATEST_GRAPHS: Recent<1024> = Recent::new();

/// A graph is launched. How many kernels it has is not known.
pub fn graph_is_launched() {
    GRAPHS.fetch_add(1, Ordering::AcqRel);
}

/// A record has come of a launch of a graph.
fn graph_is_told(correlation: u64) {
    if LATEST_GRAPHS.put(correlation) {
        GRAPHS_TOLD.fetch_add(1, Ordering::AcqRel);
    }
}

/// Whether graphs were launched, and how many of the launches have no operation reported.
pub fn graphs() -> (bool, u64) {
    let launched = GRAPHS.load(Ordering::Acquire);
    let missing = launched.saturating_sub(GRAPHS_TOLD.load(Ordering::Acquire));
    (launched > 0, missing)
}

/// Kernels whose records have not come, as far as they were counted.
pub fn outstanding() -> u64 {
    LAUNCHED
        .0
        .load(Ordering::Acquire)
        .saturating_sub(RETURNED.0.load(Ordering::Acquire))
}

/// Kernels that are outstanding, which are not from now on: they are not waited for any more.
pub fn give_up() -> u64 {
    let missing = outstanding();
    RETURNED.0.fetch_add(missing, Ordering::AcqRel);
    missing
}

/// Records that have come so far.
pub fn records() -> u64 {
    RECORDS.0.load(Ordering::Acquire)
}

/// HIP asks whether to report an operation.
fn on_question(op: u32) {
    if let Some(call) = words::unknown_call() {
        unknown::works(call);
    }
    if op == DISPATCH && words::set_uncounted(false) {
        LAUNCHED.0.fetch_add(1, Ordering::AcqRel);
        events::count(RingCount::GpuSeen);
    }
}

/// What HIP says of operations. Returns what HIP wants to hear: 0, they are wanted.
///
/// # Safety
/// As HIP calls it.
pub unsafe fn on_op(op: u32, data: *mut c_void) -> c_int {
    match data.addr() {
        0 if op == DISPATCH && batch_probe::is_about_batch() => return NOT_WANTED,
        0 => on_question(op),
        // Not a record: newer versions say so that a batch is complete.
        1 => {}
        _ => {
            // SAFETY: a record, of at least this size in all versions.
            let record = unsafe { data.cast::<Record>().read_unaligned() };
            on_record(&record);
        }
    }
    0
}

fn direction_of(kind: u32) -> Direction {
    match kind {
        READ | READ_RECTANGLE => Direction::DeviceToHost,
        WRITE | WRITE_RECTANGLE => Direction::HostToDevice,
        COPY | COPY_RECTANGLE => Direction::DeviceToDevice,
        _ => Direction::Unknown,
    }
}

fn on_record(record: &Record) {
    RECORDS.0.fetch_add(1, Ordering::AcqRel);
    let tag = Tag::from_bits(record.correlation);
    if tag.is_paused() {
        return;
    }
    let kind = match record.kind {
        KERNEL | KERNEL_OF_GRAPH => OpKind::Kernel,
        READ | WRITE | COPY | READ_RECTANGLE | WRITE_RECTANGLE | COPY_RECTANGLE => OpKind::Copy,
        FILL => OpKind::Fill,
        // Not the GPU's time: from the call to the host's notice.
        MARKER => return,
        _ => OpKind::Other,
    };
    let is_counted = kind == OpKind::Kernel && tag.is_counted();
    if tag.is_graph() {
        graph_is_told(tag.correlation());
    }
    if !is_counted {
        events::count(RingCount::GpuSeen);
    }
    tell(record, tag, kind);
    if is_counted {
        RETURNED.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn tell(record: &Record, tag: Tag, kind: OpKind) {
    let correlation = tag.correlation();
    let now_ns = sys::boottime_ns();
    let span = times::place(record.start_ns, record.end_ns, tag.asked_ns(now_ns), now_ns);
    let said = match kind {
        OpKind::Copy | OpKind::Fill => copies::recall(correlation),
        _ => None,
    };
    let direction = match said.map(|said| said.direction) {
        None | Some(Direction::Unknown) => direction_of(record.kind),
        Some(direction) => direction,
    };
    let mut source = 0;
    let name = match kind {
        OpKind::Kernel => {
            instant::look(span.start_ns, span.end_ns);
            let name: *const c_char = std::ptr::with_exposed_provenance(record.what as usize);
            // SAFETY: HIP's record of a kernel has its name, valid during this call.
            let name = unsafe { names::text_of(name) };
            source = kernel_lines::of_name(name);
            match name {
                b"" => 0,
                name => names::key(name),
            }
        }
        OpKind::Copy => names::key(direction.name()),
        OpKind::Fill => names::key(b"FillBuffer"),
        _ => name_of_kind(record.kind),
    };
    let bytes = said.map_or(record.what, |said| said.bytes);
    let op = GpuOp {
        kind,
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        correlation,
        device: devices::number_of_node(record.device.unsigned_abs()),
        queue: record.queue,
        stream: 0,
        name,
    };
    let mut args = ArgWords::new();
    if matches!(kind, OpKind::Copy | OpKind::Fill) && bytes != 0 {
        args.push(Key::Bytes, Value::Uint(bytes));
    }
    if kind == OpKind::Copy && direction != Direction::Unknown {
        args.push(Key::Direction, Value::Known(names::key(direction.text())));
    }
    if source != 0 {
        args.push(Key::SourceLine, Value::Known(source));
    }
    if let Some(moved) = span.moved {
        counters::count(Counter::GpuClamped, 1);
        args.push(Key::Clamped, Value::Known(names::key(moved)));
    }
    events::gpu(&op, &args);
}

fn name_of_kind(kind: u32) -> u64 {
    hip_functions::command_name::get().map_or(0, |name| {
        // SAFETY: takes any number and returns null or a constant.
        unsafe { names::key_of(name(kind)) }
    })
}
