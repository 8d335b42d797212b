//! HIP's own profiler as a source, experimental: from HIP 7.14 on, HIP keeps a record of each call with all that it made GPUs do, and hands out ten thousand
//! of them at a time.
//!
//! It needs no tracer slot and reports sizes, addresses, grids and the single operations of a graph. But there is no callback when a call begins: there are no
//! launch stacks, and calls have no thread but a number of HIP's. So it is taken only where it is chosen.
//!
//! Source: `hip_profiler_ext.h` 0.1.0 of ROCm/rocm-systems (pull request 5215 and later), whose records have fixed sizes. Times are of the Unix epoch by that
//! header; those of other clocks are known by their size.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, Category, GpuOp, Key, OpKind, Value};
use rsys_wire::handshake::GpuSource;
use rsys_wire::ring::RingCount;

use crate::events;
use crate::sources::gpu::devices;
use crate::sources::gpu::helper::{self, Work};
use crate::sources::gpu::hip::copies::Direction;
use crate::sources::gpu::hip::end;
use crate::sources::gpu::hip::names;
use crate::sources::gpu::hip_functions as hip;
use crate::sources::gpu::kernel_lines;
use crate::sources::source::Ending;
use crate::state;
use crate::sys;
use crate::sys::guard;
use crate::sys::lock::Lock;

/// What the trace says of this source.
pub const SOURCE: &[u8] =
    b"HIP's own profiler: chosen (experimental: no launch stacks, calls without their threads)";

const OFF: u8 = 0;
const ON: u8 = 1;
const OVER: u8 = 2;
/// What there is is taken, because the program is about to become another one.
const BEFORE_EXEC: u8 = 3;
static STATE: AtomicU8 = AtomicU8::new(OFF);

/// Records that have come: the number of the next one.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Records with smaller numbers were taken from HIP's list. HIP hands them out all the same, when their chunk is full or at its own end.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Held while records are taken, which HIP frees when their chunk was handed out.
static TAKING: Lock = Lock::new();
/// Calls that had not returned when HIP's list was taken, as their numbers and one: HIP hands them out when they are complete.
static UNDER_WAY: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Longest end of the process that waits for HIP.
const PATIENCE_NS: u64 = 2_000_000_000;

/// What a GPU did: `hipGpuActivityExt`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Activity {
    /// Operation (0–2), of a graph (3), kind of a copy (4–7), GPU (16–31), queue (32–47).
    flags: u64,
    begin_ns: u64,
    end_ns: u64,
    /// Bytes of a copy, or the address of a kernel's name.
    what: u64,
    operations: u32,
    _reserved: u32,
    next: *const Activity,
    /// Of a kernel: grid and work-group, three numbers each; of a copy: where it reads and where it writes.
    payload: [u64; 5],
    _pad: [u8; 40],
}

/// A call: `hipApiRecordExt`.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    name: *const c_char,
    /// Whether there is an activity (0).
    flags: u64,
    thread: u64,
    start_ns: u64,
    end_ns: u64,
    stream: u64,
    _tail: u64,
    to: u64,
    from: u64,
    bytes: u64,
    number: u32,
    _pad: [u8; 44],
    activity: Activity,
}

const _: () = assert!(size_of::<Activity>() == 128 && size_of::<Record>() == 256);

/// Calls that are made very often and only ask, as [`super::calls`] leaves them out.
const NOT_SHOWN: [&[u8]; 9] = [
    b"hipGetDevice",
    b"hipSetDevice",
    b"hipGetLastError",
    b"hipPeekAtLastError",
    b"hipEventQuery",
    b"hipPointerGetAttributes",
    b"hipDeviceGetAttribute",
    b"__hipPushCallConfiguration",
    b"__hipPopCallConfiguration",
];

static BEGIN: Work = Work::new(begin);
static END: Work = Work::new(take);
static AGAIN: Work = Work::new(take_and_go_on);

/// The thread that took records at the fork is not in the child.
pub fn after_fork_in_child() {
    TAKING.break_open();
}

/// Whether it is asked for.
pub fn is_wanted() -> bool {
    state::settings().gpu_source == GpuSource::HipProfiler
}

/// Switches it on, if this HIP has it. On a thread of ours: HIP is being set up, and its callers wait for that.
pub fn start() -> bool {
    let has_it = hip::register_chunks::get().is_some()
        && hip::enable_profiler::get().is_some()
        && hip::disable_profiler::get().is_some()
        && hip::profiler_records::get().is_some();
    if has_it {
        helper::park();
    }
    has_it && BEGIN.begin()
}

fn begin() {
    let mut count = 0;
    // It answers when HIP is set up.
    if let Some(ask) = hip::device_count::get() {
        // SAFETY: a valid place.
        unsafe { ask(&raw mut count) };
    }
    if let (Some(register), Some(enable)) =
        (hip::register_chunks::get(), hip::enable_profiler::get())
    {
        // SAFETY: our function has the signature that HIP calls; null is allowed.
        let result = unsafe {
            register(Some(on_chunk), std::ptr::null_mut());
            enable(std::ptr::null_mut(), 0)
        };
        if result == 0 {
            STATE.store(ON, Ordering::Release);
        } else {
            events::note(b"HIP's own profiler cannot be switched on: HIP's calls and GPU operations are not recorded");
        }
    }
}

/// The process ends: HIP waits for the GPUs, and hands out the chunk that is not full. Before the process becomes another program it is switched on again, for
/// that may fail: numbers go on where they were (as AMD's own `hip_clr_profiler` does it, and RPD's tracer counts on).
pub fn at_end(ending: Ending) {
    let (next, work) = match ending {
        Ending::Exec => (BEFORE_EXEC, &AGAIN),
        Ending::Exit | Ending::Abort => (OVER, &END),
    };
    if end::is_over() || !BEGIN.is_done() {
        return;
    }
    let is_on = STATE.compare_exchange(ON, next, Ordering::AcqRel, Ordering::Relaxed);
    if is_on.is_ok() {
        let deadline = sys::boottime_ns().saturating_add(PATIENCE_NS);
        if !(work.begin_parked() && work.wait_until(deadline)) {
            events::note(b"HIP's own profiler does not end, perhaps because a GPU hangs: the last calls and GPU operations are not recorded");
        }
    }
}

fn take_and_go_on() {
    take();
    if let Some(enable) = hip::enable_profiler::get() {
        // SAFETY: null is allowed.
        if unsafe { enable(std::ptr::null_mut(), 0) } == 0 {
            return STATE.store(ON, Ordering::Release);
        }
    }
    events::note(b"HIP's own profiler cannot be switched on again: HIP's calls and GPU operations are not recorded any more");
}

/// Switches it off, and takes what was not handed out yet.
fn take() {
    if let Some(disable) = hip::disable_profiler::get() {
        // SAFETY: null is allowed.
        unsafe { disable(std::ptr::null_mut()) };
    }
    TAKING.with(take_list);
}

/// Takes what is on HIP's list: chunks of which [`on_chunk`] has not returned, and so none that HIP has freed.
fn take_list() {
    let (mut chunks, mut count, mut size, mut total) = (std::ptr::null(), 0, 0, 0);
    if let Some(get) = hip::profiler_records::get() {
        // SAFETY: valid places.
        let result = unsafe {
            get(
                &raw mut chunks,
                &raw mut count,
                &raw mut size,
                &raw mut total,
            )
        };
        if result == 0 && !chunks.is_null() && size != 0 {
            while (NEXT.load(Ordering::Acquire) as usize) < total {
                let next = NEXT.load(Ordering::Acquire) as usize;
                let (place, first) = (next / size, next % size);
                if place >= count {
                    break;
                }
                let until = total.wrapping_sub(place.wrapping_mul(size)).min(size);
                // SAFETY: HIP's list of this many chunks, of which this one was not handed out.
                let chunk = unsafe { *chunks.add(place) }.cast::<Record>();
                if chunk.is_null() {
                    break;
                }
                for number in first..until {
                    // SAFETY: within the chunk.
                    let one = unsafe { &*chunk.add(number) };
                    if one.end_ns == 0 {
                        is_under_way(place * size + number);
                    } else {
                        record(one);
                    }
                }
                NEXT.store((place * size + until) as u64, Ordering::Release);
            }
        }
    }
    TAKEN.store(NEXT.load(Ordering::Acquire), Ordering::Release);
}

/// A call has not returned.
fn is_under_way(number: usize) {
    let number = number as u64 + 1;
    for place in &UNDER_WAY {
        let free = place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        if free.is_ok() {
            return;
        }
    }
}

/// Whether a call was under way when its record was taken: then it is complete now, and is recorded once.
fn was_under_way(number: u64) -> bool {
    UNDER_WAY.iter().any(|place| {
        let order = Ordering::Relaxed;
        place.compare_exchange(number + 1, 0, order, order).is_ok()
    })
}

/// What HIP calls with a chunk of records that are complete.
///
/// # Safety
/// As HIP calls it.
pub unsafe extern "C" fn on_chunk(
    records: *const c_void,
    count: u32,
    _chunk: u32,
    _data: *mut c_void,
) {
    TAKING.with(|| {
        for place in 0..count as usize {
            // SAFETY: this many, which stay until we return.
            let one = unsafe { &*records.cast::<Record>().add(place) };
            let number = u64::from(one.number);
            if number >= TAKEN.load(Ordering::Acquire) || was_under_way(number) {
                record(one);
            }
            // Two threads may hand out chunks at a time.
            NEXT.fetch_max(number.wrapping_add(1), Ordering::AcqRel);
        }
    });
}

/// Two clocks at the same time: CLOCK_BOOTTIME, and how far CLOCK_REALTIME is ahead of it.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    now_ns: u64,
    ahead_ns: u64,
}

impl Clocks {
    /// Reads both. A thread that loses the processor in between reads them again: by that time, operations would begin before their calls.
    fn read() -> Self {
        const NEAR_NS: u64 = 2_000;
        let mut nearest_ns = u64::MAX;
        let mut clocks = Self {
            now_ns: 0,
            ahead_ns: 0,
        };
        for _ in 0..8 {
            let before = sys::boottime_ns();
            let epoch = sys::realtime_ns();
            let apart = sys::boottime_ns().saturating_sub(before);
            if apart < nearest_ns {
                nearest_ns = apart;
                let now_ns = before.saturating_add(apart / 2);
                clocks = Self {
                    now_ns,
                    ahead_ns: epoch.saturating_sub(now_ns),
                };
            }
            if apart < NEAR_NS {
                break;
            }
        }
        clocks
    }

    /// A time of HIP's in CLOCK_BOOTTIME. What lies far in the future is of the Unix epoch.
    fn boottime(self, time_ns: u64) -> u64 {
        const FAR_NS: u64 = 3_600_000_000_000;
        match time_ns > self.now_ns.saturating_add(FAR_NS) {
            true => time_ns.saturating_sub(self.ahead_ns),
            false => time_ns,
        }
    }
}

/// Records a call with what it made GPUs do.
fn record(one: &Record) {
    if !state::is_active() || one.name.is_null() {
        return;
    }
    let correlation = events::next_correlation();
    let clocks = Clocks::read();
    // SAFETY: HIP's own name of the function, which stays.
    let name = unsafe { CStr::from_ptr(one.name) }.to_bytes();
    if events::records(Category::Hip) && !NOT_SHOWN.contains(&name) {
        let mut args = ArgWords::new();
        args.push(Key::ThreadHash, Value::Pointer(one.thread));
        args.push(Key::Correlation, Value::Uint(correlation));
        for (key, value) in [
            (Key::Stream, one.stream),
            (Key::Destination, one.to),
            (Key::Source, one.from),
        ] {
            if value != 0 {
                args.push(key, Value::Pointer(value));
            }
        }
        if one.bytes != 0 {
            args.push(Key::Bytes, Value::Uint(one.bytes));
        }
        events::count(RingCount::Calls);
        let when_ns = [one.start_ns, one.end_ns].map(|time_ns| clocks.boottime(time_ns));
        events::span(when_ns, Category::Hip, names::key(name), &args);
    }
    if one.flags & 1 == 0 || !state::settings().events.gpu {
        return;
    }
    let mut activity = one.activity;
    // HIP says how many there are; the list ends by itself.
    for _ in 0..one.activity.operations.max(1) {
        tell(&activity, one.stream, correlation, clocks);
        if activity.next.is_null() {
            break;
        }
        // SAFETY: an entry of HIP's list, which stays until the chunk was handed out.
        activity = unsafe { *activity.next };
    }
}

fn direction(kind: u64) -> Direction {
    match kind {
        1..=3 => Direction::HostToDevice,
        4..=6 => Direction::DeviceToHost,
        7..=11 => Direction::DeviceToDevice,
        _ => Direction::Unknown,
    }
}

/// Records an operation of a GPU. Barriers are not the GPU's time.
fn tell(activity: &Activity, stream: u64, correlation: u64, clocks: Clocks) {
    const FILL: u64 = 12;
    let copy = activity.flags >> 4 & 15;
    let kind = match (activity.flags & 7, copy) {
        (0, _) => OpKind::Kernel,
        (1, FILL) => OpKind::Fill,
        (1, _) => OpKind::Copy,
        _ => return,
    };
    let mut args = ArgWords::new();
    let [first, second, third, ..] = activity.payload;
    let name = match kind {
        OpKind::Kernel => {
            let half = |word: u64, place: u32| (word >> (32 * place)) as u32;
            let grid = [half(first, 0), half(first, 1), half(second, 0)];
            let group = [half(second, 1), half(third, 0), half(third, 1)];
            for (key, size) in [(Key::Grid, grid), (Key::Workgroup, group)] {
                if size != [0; 3] {
                    args.push(key, Value::Size3(size));
                }
            }
            let mut text = [0_u8; 512];
            let bytes = guard::copy_c_string(activity.what, &mut text);
            match text.get(..bytes) {
                Some(text) if !text.is_empty() => {
                    let source = kernel_lines::of_name(text);
                    if source != 0 {
                        args.push(Key::SourceLine, Value::Known(source));
                    }
                    names::key(text)
                }
                _ => names::key(b"kernel"),
            }
        }
        OpKind::Fill => names::key(b"FillBuffer"),
        _ => names::key(direction(copy).name()),
    };
    if kind != OpKind::Kernel {
        args.push(Key::Bytes, Value::Uint(activity.what));
        for (key, address) in [(Key::Source, first), (Key::Destination, second)] {
            if address != 0 {
                args.push(key, Value::Pointer(address));
            }
        }
    }
    events::count(RingCount::GpuSeen);
    let op = GpuOp {
        kind,
        start_ns: clocks.boottime(activity.begin_ns),
        end_ns: clocks.boottime(activity.end_ns),
        correlation,
        device: devices::number_of_node((activity.flags >> 16) as u32 & 0xffff),
        queue: activity.flags >> 32 & 0xffff,
        stream,
        name,
    };
    events::gpu(&op, &args);
}
