//! Queues whose packets are seen.
//!
//! A queue of the program's becomes an intercept queue of the runtime ([`create()`]): each packet comes to [`super::packets`] on the thread that
//! submits it and goes on from there.

mod create;

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub use self::create::{Wish, create, create_intercepted};
use super::abi::{Packet, Queue, QueueCallback, SUCCESS, Status};
use super::operations::List;
use super::room::Room;
use super::tags::Tags;
use super::{agents, collector, faults, table};

const MOST: usize = 1024;

/// A queue, or an empty place. The first place is that of copies.
#[derive(Debug)]
pub struct State {
    used: AtomicBool,
    queue: AtomicPtr<Queue>,
    /// The GPU, as the runtime calls it.
    pub agent: AtomicU64,
    /// The GPU's number in the trace.
    pub device: AtomicU32,
    /// The queue's number in the trace.
    pub number: AtomicU32,
    callback: UnsafeCell<QueueCallback>,
    callback_data: AtomicPtr<c_void>,
    /// Only the collector's.
    list: UnsafeCell<List>,
    /// Memory for so many packets of one doorbell; under the queue's lock.
    pub batch: AtomicPtr<Packet>,
    /// How many.
    pub batch_room: AtomicU32,
    /// Who wrote the packets that are on their way.
    pub tags: Tags,
    /// How full the queue is.
    pub room: Room,
}

// SAFETY: the callback is written before the queue exists, the list belongs to whoever holds the collector's lock.
unsafe impl Sync for State {}

static STATES: [State; MOST] = [const {
    State {
        used: AtomicBool::new(false),
        queue: AtomicPtr::new(std::ptr::null_mut()),
        agent: AtomicU64::new(0),
        device: AtomicU32::new(0),
        number: AtomicU32::new(0),
        callback: UnsafeCell::new(None),
        callback_data: AtomicPtr::new(std::ptr::null_mut()),
        list: UnsafeCell::new(List::EMPTY),
        batch: AtomicPtr::new(std::ptr::null_mut()),
        batch_room: AtomicU32::new(0),
        tags: Tags::none(),
        room: Room::none(),
    }
}; MOST];
/// Queues that were made in this process.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// One past the last place that was ever used.
static HIGHEST: AtomicU32 = AtomicU32::new(1);

/// The operations of a queue by its place; 0 is that of copies.
///
/// Only for whoever holds the collector's lock.
pub fn list(place: u32) -> Option<*mut List> {
    STATES.get(place as usize).map(|state| state.list.get())
}

/// A packet is over, by its queue's place and its number among those that were written there.
pub fn is_over(place: u32, number: u64) {
    if let Some(state) = STATES.get(place as usize) {
        state.room.is_over(number);
    }
}

/// Does something with the operations of each queue. Only for whoever holds the collector's lock.
pub fn for_each_list(mut what: impl FnMut(*mut List)) {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    for state in STATES.iter().take(highest) {
        what(state.list.get());
    }
}

fn claim() -> Option<&'static State> {
    let (place, state) = STATES
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, state)| !state.used.swap(true, Ordering::AcqRel))?;
    HIGHEST.fetch_max(place as u32 + 1, Ordering::AcqRel);
    Some(state)
}

unsafe extern "C" fn on_error(status: Status, source: *mut Queue, data: *mut c_void) {
    // SAFETY: `create` passes its state, which lives for ever.
    let state = unsafe { &*data.cast::<State>() };
    faults::queue_failed(state.number.load(Ordering::Relaxed), status);
    collector::flush(false);
    // SAFETY: written before the queue existed.
    let callback = unsafe { *state.callback.get() };
    let known = state.queue.load(Ordering::Acquire);
    // The program knows the queue in front of the one that failed.
    let queue = if known.is_null() { source } else { known };
    if let Some(callback) = callback {
        // SAFETY: the program's own callback and data.
        unsafe { callback(status, queue, state.callback_data.load(Ordering::Relaxed)) };
    }
}

fn find(queue: *const Queue) -> Option<(u32, &'static State)> {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    STATES
        .iter()
        .enumerate()
        .take(highest)
        .find(|(_, state)| std::ptr::eq(state.queue.load(Ordering::Acquire), queue))
        .map(|(place, state)| (place as u32, state))
        .filter(|_| !queue.is_null())
}

/// The GPU and number of a queue that the runtime speaks of. It knows the one behind ours, whose number we cannot tell: then the number is 0,
/// and the GPU is known only where all queues are of one, or there is but one.
pub fn identity(queue: *const Queue) -> Option<(u32, u32)> {
    let identity = |state: &State| {
        (
            state.device.load(Ordering::Relaxed),
            state.number.load(Ordering::Relaxed),
        )
    };
    if let Some((_, state)) = find(queue) {
        return Some(identity(state));
    }
    let mut devices = STATES
        .iter()
        .filter(|state| !state.queue.load(Ordering::Acquire).is_null())
        .map(|state| identity(state).0);
    let known = match devices.next() {
        Some(first) => devices.all(|device| device == first).then_some(first),
        // None of them is seen: HIP tells of their operations.
        None => agents::only().map(|gpu| gpu.node),
    };
    known.map(|device| (device, 0))
}

/// Who wrote the packets of a queue, if it is seen.
pub fn tags(queue: *const Queue) -> Option<&'static Tags> {
    find(queue).map(|(_, state)| &state.tags)
}

/// Whether a queue is seen.
pub fn is_seen(queue: *const Queue) -> bool {
    find(queue).is_some()
}

/// Destroys a queue.
///
/// # Safety
/// As `hsa_queue_destroy`.
pub unsafe fn destroy(queue: *mut Queue) -> Status {
    let Some(real) = table::queue_destroy::get() else {
        return super::abi::GENERIC_ERROR;
    };
    let seen = find(queue);
    if let Some((_, state)) = seen {
        collector::flush(false);
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
    }
    // SAFETY: the caller's own argument.
    let status = unsafe { real(queue) };
    if let Some((place, state)) = seen {
        if status == SUCCESS {
            collector::give_up(place);
            state.used.store(false, Ordering::Release);
        } else {
            state.queue.store(queue, Ordering::Release);
        }
    }
    status
}

impl State {
    /// Its place among the queues.
    pub fn place(&self) -> u32 {
        let first = STATES.as_ptr().addr();
        let offset = (&raw const *self).addr().wrapping_sub(first);
        offset.checked_div(size_of::<State>()).unwrap_or(0) as u32
    }
}

/// Forgets all queues: their runtime is gone.
pub fn forget() {
    for state in STATES.iter().skip(1) {
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
        state.used.store(false, Ordering::Release);
    }
}
