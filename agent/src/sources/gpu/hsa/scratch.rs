//! Scratch memory that a queue had to be given, which stops it for milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{ArgWords, GpuOp, Key, OpKind, Value};
use rsys_wire::ring::RingCount;

use crate::events;
use crate::events::texts::StaticText;
use crate::sources::gpu::hsa::abi::{SUCCESS, ScratchEvent, Status};
use crate::sources::gpu::hsa::queues;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::owner;
use crate::state::pause;
use crate::sys;

/// When the allocation or return that goes on began; the runtime does one after another.
static SINCE: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static NAMES: [StaticText; 3] = [
    StaticText::new("ScratchAllocate"),
    StaticText::new("ScratchFree"),
    StaticText::new("ScratchReclaim"),
];

fn is_wanted() -> bool {
    (crate::sources::gpu::hsa::is_recording() || owner::is_hip()) && !pause::is_caller_paused()
}

fn begin(what: usize) {
    if let Some(since) = SINCE.get(what) {
        since.store(sys::boottime_ns(), Ordering::Relaxed);
    }
}

fn end(what: usize, event: &ScratchEvent) {
    let (Some(since), Some(name)) = (SINCE.get(what), NAMES.get(what)) else {
        return;
    };
    let start_ns = since.swap(0, Ordering::Relaxed);
    let Some((device, queue)) = queues::identity(event.queue).filter(|_| start_ns != 0) else {
        return;
    };
    events::count(RingCount::GpuSeen);
    let op = GpuOp {
        kind: OpKind::Scratch,
        start_ns,
        end_ns: sys::boottime_ns(),
        correlation: 0,
        device,
        queue: u64::from(queue),
        stream: 0,
        name: name.key(),
    };
    let bytes = if what == 0 { event.bytes as u64 } else { 0 };
    let mut args = ArgWords::new();
    args.push(Key::Bytes, Value::Uint(bytes));
    events::gpu(&op, &args);
}

macro_rules! scratch {
    ($($start:ident, $end:ident = $what:literal;)*) => {
        $(
            extern "C" fn $start(event: *const ScratchEvent) -> Status {
                if is_wanted() {
                    begin($what);
                }
                match table::$start::get() {
                    // SAFETY: the runtime's own argument.
                    Some(real) => unsafe { real(event) },
                    None => SUCCESS,
                }
            }

            /// # Safety
            /// As the runtime calls it: the event is null or valid.
            unsafe extern "C" fn $end(event: *const ScratchEvent) -> Status {
                // SAFETY: the runtime passes an event.
                if let Some(event) = unsafe { event.as_ref() } && is_wanted() {
                    end($what, event);
                }
                match table::$end::get() {
                    // SAFETY: the runtime's own argument.
                    Some(real) => unsafe { real(event) },
                    None => SUCCESS,
                }
            }
        )*

        /// Puts ours in front of the functions that tell tools of it, where there are such.
        pub fn start(tables: &table::Tables) {
            $(
                table::$start::wrap(tables, $start);
                table::$end::wrap(tables, $end);
            )*
        }
    };
}

scratch! {
    scratch_alloc_start, scratch_alloc_end = 0;
    scratch_free_start, scratch_free_end = 1;
    scratch_reclaim_start, scratch_reclaim_end = 2;
}
