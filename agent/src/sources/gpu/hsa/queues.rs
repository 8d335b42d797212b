//! The queues whose packets are seen, and what is known of each; [`crate::sources::gpu::hsa::queue_calls`] makes and destroys them.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::sources::gpu::hsa::abi::{Packet, Queue, QueueCallback};
use crate::sources::gpu::hsa::agents;
use crate::sources::gpu::hsa::kernel_counters::GpuCounters;
use crate::sources::gpu::hsa::operations::List;
use crate::sources::gpu::hsa::queue_depth::QueueDepth;
use crate::sources::gpu::hsa::tags::Tags;
use crate::sys::apart::Apart;
use crate::sys::lock::Lock;

const MOST: usize = 1024;

/// A queue, or an empty place. The first place is that of copies.
#[derive(Debug)]
pub struct State {
    /// Whether the place is taken.
    pub used: AtomicBool,
    /// The queue, as the program knows it; null while there is none.
    pub queue: AtomicPtr<Queue>,
    /// The GPU, as the runtime calls it.
    pub agent: AtomicU64,
    /// The GPU's number in the trace.
    pub device: AtomicU32,
    /// The queue's number in the trace.
    pub number: AtomicU32,
    /// The program's callback for errors; written before the queue exists.
    pub callback: UnsafeCell<QueueCallback>,
    /// What the callback gets.
    pub callback_data: AtomicPtr<c_void>,
    /// Only the collector's.
    list: Apart<UnsafeCell<List>>,
    /// Memory for the packets of one doorbell; under the queue's lock.
    pub batch: AtomicPtr<Packet>,
    /// How many.
    pub batch_room: AtomicU32,
    /// The counters of its GPU, if kernels are counted there; else null.
    pub counters: AtomicPtr<GpuCounters>,
    /// Who wrote the packets that are on their way.
    pub tags: Tags,
    /// How full the queue is.
    pub depth: QueueDepth,
    /// The signal by which programs say that there are packets; 0 while there is no queue.
    pub doorbell: AtomicU64,
    /// Held by the thread that rings, where one at a time may.
    pub bell: Lock,
}

// SAFETY: the callback is written before the queue exists, the list belongs to the holder of the collector's lock.
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
        list: Apart(UnsafeCell::new(List::EMPTY)),
        batch: AtomicPtr::new(std::ptr::null_mut()),
        batch_room: AtomicU32::new(0),
        counters: AtomicPtr::new(std::ptr::null_mut()),
        tags: Tags::none(),
        depth: QueueDepth::none(),
        doorbell: AtomicU64::new(0),
        bell: Lock::new(),
    }
}; MOST];
/// Queues that were made in this process.
pub static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// One past the last place that was ever used.
static HIGHEST: AtomicU32 = AtomicU32::new(1);

/// The operations of a queue by its place; 0 is that of copies.
///
/// Only for the holder of the collector's lock.
pub fn list(place: u32) -> Option<*mut List> {
    STATES.get(place as usize).map(|state| state.list.0.get())
}

/// A packet is over, by its queue's place and its number among those that were written there.
pub fn is_over(place: u32, number: u64) {
    if let Some(state) = STATES.get(place as usize) {
        state.depth.is_over(number);
    }
}

/// Does something with the operations of each queue. Only for the holder of the collector's lock.
pub fn for_each_list(mut what: impl FnMut(*mut List)) {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    for state in STATES.iter().take(highest) {
        what(state.list.0.get());
    }
}

/// Takes an empty place.
pub fn claim() -> Option<&'static State> {
    let (place, state) = STATES
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, state)| !state.used.swap(true, Ordering::AcqRel))?;
    HIGHEST.fetch_max(place as u32 + 1, Ordering::AcqRel);
    Some(state)
}

/// The queue that the program knows by this address, and its place.
pub fn find(queue: *const Queue) -> Option<(u32, &'static State)> {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    STATES
        .iter()
        .enumerate()
        .take(highest)
        .find(|(_, state)| std::ptr::eq(state.queue.load(Ordering::Acquire), queue))
        .map(|(place, state)| (place as u32, state))
        .filter(|_| !queue.is_null())
}

/// The queue with this doorbell, if it is seen.
pub fn with_doorbell(signal: u64) -> Option<(&'static State, &'static Queue)> {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    let state = STATES
        .iter()
        .take(highest)
        .find(|state| state.doorbell.load(Ordering::Acquire) == signal)
        .filter(|_| signal != 0)?;
    // SAFETY: it exists as long as programs may ring for it.
    let queue = unsafe { state.queue.load(Ordering::Acquire).as_ref() }?;
    Some((state, queue))
}

/// The GPU and number of a queue that the runtime speaks of. It knows the one behind ours, whose number is not known: then the number is 0,
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
        // None of them is seen: HIP reports their operations.
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

impl State {
    /// The counters of its GPU, if kernels are counted there.
    pub fn counters(&self) -> Option<&'static GpuCounters> {
        // SAFETY: null, or one that lives for ever.
        unsafe { self.counters.load(Ordering::Acquire).as_ref() }
    }

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
        state.doorbell.store(0, Ordering::Release);
        state
            .counters
            .store(std::ptr::null_mut(), Ordering::Release);
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
        state.used.store(false, Ordering::Release);
    }
}
