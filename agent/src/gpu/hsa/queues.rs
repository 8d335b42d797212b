//! Queues whose packets are seen.
//!
//! A queue of the program's becomes an intercept queue of the runtime: each packet comes to [`on_packets`] on the thread that submits it
//! and goes on from there. A kernel without a completion signal gets one of ours. The signal of one that has its own stays where it
//! is and is watched ([`super::watch`]): programs read times from their signals, and runtimes wait for them in their own handlers, so neither a
//! substitute nor a later completion is right for all of them. The runtime's writer is called once for each call of the handler, and up to 5.5
//! with as many packets as came: it stands still for ever when it has no room for one more, and later ones assert that it
//! is called once.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rsys_wire::event::{Key, Labelled, OpKind, Value};
use rsys_wire::handshake::GpuLevel;
use rsys_wire::layout::Counter;

use super::abi::{
    AGENT_DISPATCH, KERNEL_DISPATCH, Layout, Packet, Queue, QueueCallback, SUCCESS, Signal, Status,
    Writer,
};
use super::operations::{self, List, Operation};
use super::room::{self, Room};
use super::watch::{self, Settled};
use super::{agents, collector, names, table};
use crate::events;
use crate::gpu::words;
use crate::markers::gate;
use crate::process;
use crate::slots;
use crate::sys;

const MOST: usize = 1024;
/// Batches up to this size are copied on the stack.
const SMALL_BATCH: usize = 16;

/// A queue, or an empty place. The first place is that of copies.
#[derive(Debug)]
pub struct State {
    used: AtomicBool,
    queue: AtomicPtr<Queue>,
    agent: AtomicU64,
    device: AtomicU32,
    number: AtomicU32,
    callback: UnsafeCell<QueueCallback>,
    callback_data: AtomicPtr<c_void>,
    /// Only the collector's.
    list: UnsafeCell<List>,
    batch: AtomicPtr<Packet>,
    batch_room: AtomicU32,
    /// Who wrote the packets that are on their way, by their index.
    tags: AtomicPtr<Tag>,
    tag_room: AtomicU32,
    room: Room,
}

/// The call that took a packet's place. The runtime may look at the packet later, on a thread of its own.
#[derive(Debug)]
struct Tag {
    /// The packet's index plus one.
    index: AtomicU64,
    correlation: AtomicU64,
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
        tags: AtomicPtr::new(std::ptr::null_mut()),
        tag_room: AtomicU32::new(0),
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

fn claim() -> Option<(u32, &'static State)> {
    let (place, state) = STATES
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, state)| !state.used.swap(true, Ordering::AcqRel))?;
    HIGHEST.fetch_max(place as u32 + 1, Ordering::AcqRel);
    Some((place as u32, state))
}

/// Makes a queue that is seen; where that cannot be, an ordinary one.
///
/// # Safety
/// As `hsa_queue_create`.
#[allow(
    clippy::too_many_arguments,
    reason = "the runtime's function has as many"
)]
pub unsafe fn create(
    agent: u64,
    size: u32,
    kind: u32,
    callback: QueueCallback,
    data: *mut c_void,
    private_bytes: u32,
    group_bytes: u32,
    queue: *mut *mut Queue,
) -> Status {
    let plain = || match table::queue_create::get() {
        // SAFETY: the caller's own arguments.
        Some(real) => unsafe {
            real(
                agent,
                size,
                kind,
                callback,
                data,
                private_bytes,
                group_bytes,
                queue,
            )
        },
        None => super::abi::GENERIC_ERROR,
    };
    let (Some(gpu), Some(make), Some(register)) = (
        agents::find(agent),
        table::queue_intercept_create::get(),
        table::queue_intercept_register::get(),
    ) else {
        return plain();
    };
    let Some((_, state)) = claim() else {
        return plain();
    };
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    state.agent.store(agent, Ordering::Relaxed);
    state.device.store(gpu.node, Ordering::Relaxed);
    state.number.store(number, Ordering::Relaxed);
    // SAFETY: the place is ours, and the queue does not exist yet.
    unsafe { *state.callback.get() = callback };
    state.callback_data.store(data, Ordering::Relaxed);
    let size = room::size(size);
    let told: QueueCallback = callback.map(|_| on_error as _);
    let ours = (&raw const *state).cast_mut().cast::<c_void>();
    // SAFETY: the caller's own arguments, but for the callback, which passes on to theirs.
    let status = unsafe {
        make(
            agent,
            size,
            kind,
            told,
            ours,
            private_bytes,
            group_bytes,
            queue,
        )
    };
    if status != SUCCESS {
        state.used.store(false, Ordering::Release);
        return plain();
    }
    // SAFETY: the runtime has just made it.
    let made = unsafe { *queue };
    // SAFETY: as above.
    let size = unsafe { (*made).size };
    state.room.reset(size);
    state.make_tags(size);
    state.queue.store(made, Ordering::Release);
    if let Some(enable) = table::profiling_set_profiler_enabled::get() {
        // SAFETY: the queue exists.
        unsafe { enable(made, 1) };
    }
    // SAFETY: the state lives for ever.
    if unsafe { register(made, on_packets, ours) } != SUCCESS {
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
        state.used.store(false, Ordering::Release);
        if let Some(destroy) = table::queue_destroy::get() {
            // SAFETY: nobody else knows it yet.
            unsafe { destroy(made) };
        }
        return plain();
    }
    let mut text = [0_u8; 20];
    let digits = sys::decimal(u64::from(number), &mut text);
    let mut name = *b"Queue                     ";
    let room = name.get_mut(6..).unwrap_or(&mut []);
    for (to, from) in room.iter_mut().zip(digits) {
        *to = *from;
    }
    events::label(
        Labelled::Queue,
        u64::from(number),
        name.get(..digits.len().saturating_add(6))
            .unwrap_or(b"Queue"),
        &[(Key::Device, Value::Uint(u64::from(gpu.node)))],
    );
    SUCCESS
}

unsafe extern "C" fn on_error(status: Status, source: *mut Queue, data: *mut c_void) {
    // SAFETY: `create` passes its state, which lives for ever.
    let state = unsafe { &*data.cast::<State>() };
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
/// and the GPU is known only where all queues are of one.
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
    let first = devices.next()?;
    devices.all(|device| device == first).then_some((first, 0))
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

/// Gets the packets that a program has submitted and writes them on, on the thread that rang the doorbell.
unsafe extern "C" fn on_packets(
    packets: *const Packet,
    count: u64,
    first: u64,
    data: *mut c_void,
    writer: Writer,
) {
    // SAFETY: `create` passes its state, which lives for ever.
    let state = unsafe { &*data.cast::<State>() };
    if !super::is_recording() || gate::is_caller_paused() {
        // SAFETY: what came goes on.
        return unsafe { writer(packets, count) };
    }
    let settings = process::settings();
    let batch = count > 1;
    let follow = !batch || settings.gpu_level == GpuLevel::Full;
    let mut small = [const { std::mem::MaybeUninit::<Packet>::uninit() }; 2 * SMALL_BATCH];
    let room = if count as usize <= SMALL_BATCH {
        small.as_mut_ptr().cast::<Packet>()
    } else {
        state.room_for(count.saturating_mul(2))
    };
    if room.is_null() {
        slots::count(Counter::GpuSeen, count);
        slots::count(Counter::GpuBatch, count);
        // SAFETY: as above.
        return unsafe { writer(packets, count) };
    }
    let mut written = 0_usize;
    for index in 0..count as usize {
        // SAFETY: there are `count` packets, and room for twice as many.
        unsafe {
            let packet = room.wrapping_add(written);
            packet.write(packets.wrapping_add(index).read());
            written = written.wrapping_add(1);
            if let Some(barrier) = state.see(&mut *packet, first.wrapping_add(index as u64), follow)
            {
                room.wrapping_add(written).write(barrier);
                written = written.wrapping_add(1);
            }
        }
    }
    if super::layout() == Layout::UpTo55 {
        state.room.wait();
    }
    // SAFETY: so many packets were put there.
    unsafe { writer(room, written as u64) };
}

/// Notes which call took the places of packets.
#[inline]
fn tag(queue: *const Queue, index: u64, count: u64) {
    // SAFETY: the thread's own words.
    let correlation = unsafe { (*words::words()).correlation };
    if correlation == 0 || !super::is_recording() {
        return;
    }
    if let Some((_, state)) = find(queue) {
        for index in index..index.wrapping_add(count.min(u64::from(u16::MAX))) {
            if let Some(tag) = state.tag_at(index) {
                tag.correlation.store(correlation, Ordering::Relaxed);
                tag.index.store(index.wrapping_add(1), Ordering::Release);
            }
        }
    }
}

macro_rules! write_indices {
    ($($name:ident;)*) => {
        $(
            unsafe extern "C" fn $name(queue: *const Queue, count: u64) -> u64 {
                let Some(real) = table::$name::get() else {
                    return 0;
                };
                // SAFETY: the caller's own arguments.
                let index = unsafe { real(queue, count) };
                tag(queue, index, count);
                index
            }
        )*

        /// Puts ours in front of the functions by which programs take places for packets.
        pub fn start(tables: &table::Tables) {
            $( table::$name::wrap(tables, $name); )*
        }
    };
}

write_indices! {
    add_write_index_scacq_screl;
    add_write_index_scacquire;
    add_write_index_relaxed;
    add_write_index_screlease;
}

impl State {
    /// Room for a tag of each packet; kept when the place is used again.
    fn make_tags(&self, size: u32) {
        for index in 0..self.tag_room.load(Ordering::Relaxed) {
            if let Some(tag) = self.tag_at(u64::from(index)) {
                tag.index.store(0, Ordering::Relaxed);
            }
        }
        if self.tag_room.load(Ordering::Relaxed) >= size || !size.is_power_of_two() {
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        if let Ok(memory) = sys::mmap(size as usize * size_of::<Tag>(), flags, -1) {
            // What was there before stays mapped: it is small, and somebody may look at it.
            self.tags.store(memory.cast(), Ordering::Relaxed);
            self.tag_room.store(size, Ordering::Release);
        }
    }

    fn tag_at(&self, index: u64) -> Option<&Tag> {
        let room = self.tag_room.load(Ordering::Acquire);
        let place = index as usize & (room.checked_sub(1)? as usize);
        // SAFETY: there is memory for so many; zeros are valid.
        unsafe {
            self.tags
                .load(Ordering::Relaxed)
                .wrapping_add(place)
                .as_ref()
        }
    }

    /// The call that took a packet's place, or 0.
    fn tag(&self, index: u64) -> u64 {
        self.tag_at(index)
            .filter(|tag| tag.index.load(Ordering::Acquire) == index.wrapping_add(1))
            .map_or(0, |tag| tag.correlation.load(Ordering::Relaxed))
    }

    /// Memory for so many packets, or null. Under the queue's lock, as all calls of the handler.
    fn room_for(&self, count: u64) -> *mut Packet {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        if self.batch_room.load(Ordering::Relaxed) < wanted {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let bytes = wanted as usize * size_of::<Packet>();
            let Ok(memory) = sys::mmap(bytes, flags, -1) else {
                return std::ptr::null_mut();
            };
            let before = self.batch.swap(memory.cast(), Ordering::Relaxed);
            let before_bytes =
                self.batch_room.swap(wanted, Ordering::Relaxed) as usize * size_of::<Packet>();
            if !before.is_null() {
                // SAFETY: only calls of the handler use it, which come one after another.
                unsafe { sys::munmap(before.cast(), before_bytes) };
            }
        }
        self.batch.load(Ordering::Relaxed)
    }

    fn place(&self) -> u32 {
        let first = STATES.as_ptr().addr();
        let offset = (&raw const *self).addr().wrapping_sub(first);
        offset.checked_div(size_of::<State>()).unwrap_or(0) as u32
    }

    /// Sees one packet before it goes on; may give it a signal of ours. Returns a packet that has to follow it.
    fn see(&self, packet: &mut Packet, index: u64, follow: bool) -> Option<Packet> {
        self.room.written();
        if packet.kind() != KERNEL_DISPATCH {
            if packet.completion != 0 {
                watch::settle(packet.completion);
            }
            // Barriers and the runtimes' own commands are no work of the program's.
            if packet.kind() == AGENT_DISPATCH {
                slots::count(Counter::GpuSeen, 1);
                slots::count(Counter::GpuNotKernel, 1);
            }
            return None;
        }
        slots::count(Counter::GpuSeen, 1);
        let lite = process::settings().gpu_level == GpuLevel::Lite;
        let has_signal = packet.completion != 0;
        if has_signal {
            let settled = watch::settle(packet.completion);
            // SAFETY: the program submits a packet with it, so it exists.
            let signal = unsafe { Signal::new(packet.completion) };
            if let Some(signal) = signal
                && settled == Settled::Free
                && signal.value() <= 1
            {
                self.watch(packet, index, signal);
                return None;
            }
            // Several kernels complete it: it can tell the times of none of them.
            if lite || super::layout() == Layout::UpTo55 || !follow {
                slots::count(Counter::GpuPool, 1);
                return None;
            }
        } else if lite {
            slots::count(Counter::GpuPool, 1);
            return None;
        } else if !follow {
            slots::count(Counter::GpuBatch, 1);
            return None;
        }
        let barrier = has_signal.then(|| Packet::barrier_after(packet));
        self.lend(packet, index).then_some(barrier).flatten()
    }

    /// Gives a kernel a signal of ours. Returns whether there was one.
    fn lend(&self, packet: &mut Packet, index: u64) -> bool {
        let lent = operations::take().and_then(|ticket| {
            let node = operations::node(ticket)?;
            let signal = node.own_signal(make_signal);
            if signal.is_none() {
                operations::give_back(ticket);
            }
            Some((ticket, signal?))
        });
        let Some((ticket, (handle, signal))) = lent else {
            slots::count(Counter::GpuPool, 1);
            return false;
        };
        signal.arm();
        packet.completion = handle;
        operations::submit(ticket, self.operation(packet, index, true, 1));
        collector::wake();
        true
    }

    /// Watches a kernel's own signal.
    fn watch(&self, packet: &Packet, index: u64, signal: Signal) {
        let Some(ticket) = operations::take() else {
            slots::count(Counter::GpuPool, 1);
            return;
        };
        // The ticket must be complete when another thread finds it.
        signal.clear_ticks();
        let operation = self.operation(packet, index, false, signal.value());
        if !watch::note(packet.completion, ticket) {
            operations::give_back(ticket);
            slots::count(Counter::GpuPool, 1);
            return;
        }
        operations::submit(ticket, operation);
        collector::wake();
    }

    fn operation(&self, packet: &Packet, index: u64, own: bool, value: i64) -> Operation {
        // SAFETY: the thread's own words.
        let words = unsafe { &*words::words() };
        let on_time = words.of_runtime == 0;
        let correlation = match self.tag(index) {
            0 if on_time => words.correlation,
            tagged => tagged,
        };
        let launch_stack = if on_time && correlation == 0 {
            events::launch_stack()
        } else {
            0
        };
        let number = self.room.watched();
        Operation {
            kind: OpKind::Kernel,
            signal: packet.completion,
            own,
            value,
            queue: self.place(),
            agent: self.agent.load(Ordering::Relaxed),
            device: self.device.load(Ordering::Relaxed),
            queue_number: self.number.load(Ordering::Relaxed),
            submitted_ns: sys::boottime_ns(),
            correlation,
            launch_stack,
            name: names::of(packet.kernel_object),
            grid: packet.grid,
            workgroup: packet.workgroup,
            memory: [packet.group_bytes, packet.private_bytes],
            bytes: 0,
            direction: 0,
            number,
        }
    }
}

/// A signal that only GPUs complete: none of the kernel's events is spent on it. 0 when there is none.
fn make_signal() -> u64 {
    const GPU_ONLY: u64 = 1;
    let mut handle = 0;
    let Some(make) = table::amd_signal_create::get() else {
        return 0;
    };
    // SAFETY: no consumers are named, and there is room for the handle.
    let made = unsafe { make(1, 0, std::ptr::null(), GPU_ONLY, &raw mut handle) };
    if made == SUCCESS { handle } else { 0 }
}

/// Forgets all queues: their runtime is gone.
pub fn forget() {
    for state in STATES.iter().skip(1) {
        state.queue.store(std::ptr::null_mut(), Ordering::Release);
        state.used.store(false, Ordering::Release);
    }
}
