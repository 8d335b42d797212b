//! Asynchronous copies: three functions that end with a signal of the program's.

use std::ffi::c_void;

use rsys_wire::event::{Key, OpKind, Value};
use rsys_wire::layout::Counter;
use rsys_wire::ring::RingCount;

use crate::channel::counters;
use crate::events;
use crate::events::texts::StaticText;
use crate::sources::gpu::hsa::abi::{GENERIC_ERROR, Pitched, SUCCESS, Signal, Size3, Status};
use crate::sources::gpu::hsa::agents;
use crate::sources::gpu::hsa::calls;
use crate::sources::gpu::hsa::collector;
use crate::sources::gpu::hsa::operations::{self, Operation, Phase, Ticket};
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::hsa::watch::{self, Settled};
use crate::sources::gpu::words;
use crate::state::pause;
use crate::sys;

/// What a copy is, as far as its arguments say.
#[derive(Debug, Clone, Copy)]
struct Copy {
    bytes: u64,
    from: u64,
    to: u64,
    signal: u64,
}

/// The directions that copies have.
static DIRECTIONS: [StaticText; 4] = [
    StaticText::new("CopyHostToDevice"),
    StaticText::new("CopyDeviceToHost"),
    StaticText::new("CopyDeviceToDevice"),
    StaticText::new("CopyHostToHost"),
];

fn key(names: &[StaticText; 4], kind: usize) -> u64 {
    names.get(kind).map_or(0, StaticText::key)
}

/// Follows a copy that `submit` submits.
fn follow(name: &StaticText, copy: Copy, submit: impl FnOnce() -> Status) -> Status {
    if pause::is_caller_paused() {
        return submit();
    }
    let (source, target) = (agents::find(copy.from), agents::find(copy.to));
    let kind = match (source, target) {
        (None, Some(_)) => 0,
        (Some(_), None) => 1,
        (Some(_), Some(_)) => 2,
        (None, None) => 3,
    };
    let direction = key(&DIRECTIONS, kind);
    let args = [
        (Key::Bytes, Value::Uint(copy.bytes)),
        (Key::Direction, Value::Known(direction)),
        (Key::Signal, Value::Pointer(copy.signal)),
    ];
    calls::launching(name, &args, || {
        let gpu = target.or(source);
        let (Some(gpu), true) = (gpu, crate::sources::gpu::hsa::is_recording()) else {
            return submit();
        };
        let ticket = prepare(copy, gpu, kind);
        let status = submit();
        match (ticket, status) {
            (Some(_), SUCCESS) => {
                events::count(RingCount::GpuSeen);
                collector::wake();
            }
            (None, SUCCESS) => {
                events::count(RingCount::GpuSeen);
                counters::count(Counter::GpuPool, 1);
            }
            (Some(ticket), _) => cancel(ticket, copy.signal),
            (None, _) => {}
        }
        status
    })
}

/// Watches the copy's signal. `None` when it does not carry the copy's times.
fn prepare(copy: Copy, gpu: agents::Gpu, kind: usize) -> Option<Ticket> {
    // SAFETY: the program submits a copy with it, so it exists.
    let signal = unsafe { Signal::new(copy.signal) }?;
    if watch::settle(copy.signal) == Settled::Shared || signal.value() > 1 {
        return None;
    }
    let ticket = operations::take()?;
    if !watch::note(copy.signal, ticket) {
        operations::give_back(ticket);
        return None;
    }
    // SAFETY: the thread's own words.
    let words = unsafe { &*words::words() };
    let operation = Operation {
        beside: 0,
        counting: None,
        kind: OpKind::Copy,
        signal: copy.signal,
        own: false,
        value: signal.value(),
        queue: 0,
        agent: gpu.handle,
        device: gpu.node,
        queue_number: 0,
        submitted_ns: sys::boottime_ns(),
        correlation: words.correlation,
        launch_stack: 0,
        name: key(&DIRECTIONS, kind),
        source: 0,
        grid: [0; 3],
        workgroup: [0; 3],
        memory: [0; 2],
        bytes: copy.bytes,
        direction: key(&DIRECTIONS, kind),
        number: 0,
    };
    operations::submit(ticket, operation);
    Some(ticket)
}

/// The copy was refused.
fn cancel(ticket: Ticket, signal: u64) {
    watch::done(signal, ticket);
    let Some(node) = operations::node(ticket) else {
        return;
    };
    let mut round = 0;
    while node.change(ticket, Phase::Pending, Phase::Cancelled) == Err(true) {
        sys::back_off(&mut round);
    }
}

static MEMORY_ASYNC_COPY: StaticText = StaticText::new("hsa_amd_memory_async_copy");
static MEMORY_ASYNC_COPY_ON_ENGINE: StaticText =
    StaticText::new("hsa_amd_memory_async_copy_on_engine");
static MEMORY_ASYNC_COPY_RECT: StaticText = StaticText::new("hsa_amd_memory_async_copy_rect");

/// # Safety
/// As the runtime's function has it.
#[allow(
    clippy::too_many_arguments,
    reason = "the runtime's function has as many"
)]
unsafe extern "C" fn async_copy(
    to: *mut c_void,
    to_agent: u64,
    from: *const c_void,
    from_agent: u64,
    bytes: usize,
    count: u32,
    before: *const u64,
    signal: u64,
) -> Status {
    let Some(real) = table::memory_async_copy::get() else {
        return GENERIC_ERROR;
    };
    let copy = Copy {
        bytes: bytes as u64,
        from: from_agent,
        to: to_agent,
        signal,
    };
    follow(&MEMORY_ASYNC_COPY, copy, || {
        // SAFETY: the caller's own arguments.
        unsafe { real(to, to_agent, from, from_agent, bytes, count, before, signal) }
    })
}

/// # Safety
/// As the runtime's function has it.
#[allow(
    clippy::too_many_arguments,
    reason = "the runtime's function has as many"
)]
unsafe extern "C" fn async_copy_on_engine(
    to: *mut c_void,
    to_agent: u64,
    from: *const c_void,
    from_agent: u64,
    bytes: usize,
    count: u32,
    before: *const u64,
    signal: u64,
    engine: u32,
    force: bool,
) -> Status {
    let Some(real) = table::memory_async_copy_on_engine::get() else {
        return GENERIC_ERROR;
    };
    let copy = Copy {
        bytes: bytes as u64,
        from: from_agent,
        to: to_agent,
        signal,
    };
    follow(&MEMORY_ASYNC_COPY_ON_ENGINE, copy, || {
        // SAFETY: the caller's own arguments.
        unsafe {
            real(
                to, to_agent, from, from_agent, bytes, count, before, signal, engine, force,
            )
        }
    })
}

/// # Safety
/// As the runtime's function has it.
#[allow(
    clippy::too_many_arguments,
    reason = "the runtime's function has as many"
)]
unsafe extern "C" fn async_copy_rect(
    to: *const Pitched,
    to_offset: *const Size3,
    from: *const Pitched,
    from_offset: *const Size3,
    range: *const Size3,
    agent: u64,
    direction: u32,
    count: u32,
    before: *const u64,
    signal: u64,
) -> Status {
    const HOST_TO_DEVICE: u32 = 1;
    const DEVICE_TO_HOST: u32 = 2;
    let Some(real) = table::memory_async_copy_rect::get() else {
        return GENERIC_ERROR;
    };
    // SAFETY: the program passes a range or null.
    let bytes = unsafe { range.as_ref() }.map_or(0, |range| {
        u64::from(range.x)
            .wrapping_mul(u64::from(range.y))
            .wrapping_mul(u64::from(range.z))
    });
    let copy = Copy {
        bytes,
        from: if direction == HOST_TO_DEVICE {
            0
        } else {
            agent
        },
        to: if direction == DEVICE_TO_HOST {
            0
        } else {
            agent
        },
        signal,
    };
    follow(&MEMORY_ASYNC_COPY_RECT, copy, || {
        // SAFETY: the caller's own arguments.
        unsafe {
            real(
                to,
                to_offset,
                from,
                from_offset,
                range,
                agent,
                direction,
                count,
                before,
                signal,
            )
        }
    })
}

/// Programs that switch the times of copies off keep them on.
extern "C" fn async_copy_enable(enable: bool) -> Status {
    match table::profiling_async_copy_enable::get() {
        // SAFETY: no pointers.
        Some(real) if enable => unsafe { real(true) },
        Some(_) => SUCCESS,
        None => GENERIC_ERROR,
    }
}

/// Puts ours in front of the three.
pub fn start(tables: &table::Tables) {
    table::memory_async_copy::wrap(tables, async_copy);
    table::memory_async_copy_on_engine::wrap(tables, async_copy_on_engine);
    table::memory_async_copy_rect::wrap(tables, async_copy_rect);
}

/// Has copies timed.
pub fn start_timing(tables: &table::Tables) {
    table::profiling_async_copy_enable::wrap(tables, async_copy_enable);
    if let Some(enable) = table::profiling_async_copy_enable::get() {
        // SAFETY: no pointers.
        unsafe { enable(true) };
    }
}
