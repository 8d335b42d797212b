//! Events: what interceptions record about the program, in rings beside those of the samples.
//!
//! A sample's signal may come in the midst of an event, so the two never share a ring. A thread gets its ring with its first event
//! ([`rings`]) and gives it back when it ends. Where a ring is full, the event's source says whether its thread waits, so that nothing is
//! lost while the sampler lives, or the event is dropped and counted ([`Category::when_full`]). Signal handlers must not record events.

mod interrupted;
mod places;
mod rings;
mod stacks;
pub mod texts;

use std::sync::atomic::{AtomicU64, Ordering};

use rsys_wire::event::{self, Arg, ArgWords, Category, Encode, GpuOp, Labelled};
use rsys_wire::layout::Counter;
use rsys_wire::ring::RingCount;
use rsys_wire::sources::WhenFull;

use crate::channel::counters;
pub use crate::events::places::place;
pub use crate::events::rings::{count, give_back, make_room_for_key, prepare, register_hook};
#[cfg(any(feature = "locks", test))]
pub use crate::events::stacks::launch_stack_with;
pub use crate::events::stacks::{callers, launch_stack};
use crate::state;
use crate::sys;
use crate::sys::apart::Apart;

/// Whether this process records what runtimes do.
#[inline]
pub fn is_on() -> bool {
    state::is_active() && state::settings().events.any_of_runtimes()
}

/// Whether the events of this source are recorded.
#[inline]
pub fn records(category: Category) -> bool {
    state::is_active() && state::settings().events.has(category)
}

/// Numbers of texts, correlations and ranges.
static NEXT: Apart<AtomicU64> = Apart(AtomicU64::new(1));

/// A number that no call of this process has had.
#[inline]
pub fn next_correlation() -> u64 {
    NEXT.0.fetch_add(1, Ordering::Relaxed)
}

/// A call or range begins now. Returns whether that was recorded; if not, nor may its end be where the source drops what finds no room.
#[inline]
pub fn begin(category: Category, name: u64, correlation: u64, args: &[Arg<'_>]) -> bool {
    begin_at(
        sys::boottime_ns(),
        category,
        name,
        (correlation, false),
        args,
    )
}

/// The same with arguments that are put together already.
#[inline]
pub fn begin_with(category: Category, name: u64, correlation: u64, args: &ArgWords) -> bool {
    begin_at(
        sys::boottime_ns(),
        category,
        name,
        (correlation, false),
        args,
    )
}

/// A call or range began at a time (CLOCK_BOOTTIME ns). With `awaited`, operations of it are recorded later, perhaps much later.
#[inline]
pub fn begin_at(
    time_ns: u64,
    category: Category,
    name: u64,
    correlation: (u64, bool),
    args: &(impl Encode + ?Sized),
) -> bool {
    let write = |ring: &_| event::put_begin(ring, time_ns, category, name, correlation, args);
    rings::put(category.when_full(), write)
}

/// The innermost call or range of the category ends now.
#[inline]
pub fn end(category: Category, args: &[Arg<'_>]) {
    end_at(sys::boottime_ns(), category, args);
}

/// The innermost call or range of the category ended at a time (CLOCK_BOOTTIME ns).
#[inline]
pub fn end_at(time_ns: u64, category: Category, args: &[Arg<'_>]) {
    rings::put(WhenFull::Wait, |ring| {
        event::put_end(ring, time_ns, category, args)
    });
}

/// The same with arguments that are put together already.
#[inline]
pub fn end_with(category: Category, args: &ArgWords) {
    let time_ns = sys::boottime_ns();
    rings::put(WhenFull::Wait, |ring| {
        event::put_end(ring, time_ns, category, args)
    });
}

/// Something that is over: both its times (CLOCK_BOOTTIME ns) are recorded, or neither.
#[cfg(any(feature = "locks", test))]
pub fn slice(when_ns: [u64; 2], category: Category, name: u64, args: &[Arg<'_>]) -> bool {
    rings::put(category.when_full(), |ring| {
        event::put_slice(ring, when_ns, category, name, args)
    })
}

/// Something that is over, and that no thread did: both its times (CLOCK_BOOTTIME ns). Its arguments say where it is drawn.
pub fn span(when_ns: [u64; 2], category: Category, name: u64, args: &ArgWords) -> bool {
    rings::put(category.when_full(), |ring| {
        event::put_span(ring, when_ns, category, name, args)
    })
}

/// Something happens now, and is recorded as long as the sampler reads, whatever its source says.
#[cfg(any(feature = "locks", test))]
pub fn mark_surely(category: Category, name: u64, args: &[Arg<'_>]) {
    let time_ns = sys::boottime_ns();
    rings::put(WhenFull::Wait, |ring| {
        event::put_mark(ring, time_ns, category, name, 0, args)
    });
}

/// Something happens now.
pub fn mark(category: Category, name: u64, correlation: u64, args: &[Arg<'_>]) {
    let time_ns = sys::boottime_ns();
    rings::put(category.when_full(), |ring| {
        event::put_mark(ring, time_ns, category, name, correlation, args)
    });
}

/// A range begins now that any thread may end. Returns whether that was recorded.
pub fn async_begin(category: Category, id: u64, name: u64, args: &[Arg<'_>]) -> bool {
    let time_ns = sys::boottime_ns();
    rings::put(category.when_full(), |ring| {
        event::put_async_begin(ring, time_ns, category, id, name, args)
    })
}

/// Such a range ends now.
pub fn async_end(category: Category, id: u64) {
    let time_ns = sys::boottime_ns();
    rings::put(WhenFull::Wait, |ring| {
        event::put_async_end(ring, time_ns, category, id)
    });
}

/// Changes with each fork: what was recorded once for the parent's trace, the child's has not.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A number that is another one in a fork's child.
#[inline]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Forgets the parent's rings and what was recorded once, in the child of a fork. Allocates and locks nothing.
pub fn forget_parents() {
    rings::forget_parents();
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A GPU did something, which was counted as seen. Counts it as recorded, or as lost.
#[inline]
pub fn gpu(op: &GpuOp, args: &(impl Encode + ?Sized)) {
    if rings::put(WhenFull::Wait, |ring| event::put_gpu(ring, op, args)) {
        count(RingCount::GpuRecorded);
    } else {
        counters::count(Counter::GpuLostAtEnd, 1);
    }
}

/// Records a text and returns the key by which other events refer to it. The caller keeps the key: the same text recorded again gets another.
pub fn text(text: &[u8]) -> u64 {
    let key = next_correlation();
    rings::put(WhenFull::Wait, |ring| event::put_text(ring, key, text));
    key
}

/// Names a device, queue, stream or thread.
pub fn label(what: Labelled, id: u64, text: &[u8], args: &[Arg<'_>]) {
    rings::put(WhenFull::Wait, |ring| {
        event::put_label(ring, what, id, text, args)
    });
}

/// Says something about the process.
pub fn fact(key: &[u8], value: &[u8]) {
    rings::put(WhenFull::Wait, |ring| event::put_fact(ring, key, value));
}

/// Says a line that the user should see on standard error.
pub fn note(text: &[u8]) {
    fact(b"note", text);
}
