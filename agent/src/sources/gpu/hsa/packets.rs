//! Packets on their way from the program to the GPU.
//!
//! A kernel without a completion signal gets one of ours. The signal of one that has its own stays where it is and is watched
//! ([`crate::sources::gpu::hsa::watch`]): programs read times from their signals, and runtimes wait for them in their own handlers, so neither a
//! substitute nor a later completion is right for all of them. The runtime's writer is called once for each call of the handler: later
//! runtimes assert that.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use rsys_wire::event::OpKind;
use rsys_wire::handshake::GpuLevel;
use rsys_wire::layout::Counter;
use rsys_wire::ring::RingCount;

use crate::channel::counters;
use crate::events;
use crate::sources::gpu::hsa::abi::{
    AGENT_DISPATCH, KERNEL_DISPATCH, Layout, Packet, Signal, Writer,
};
use crate::sources::gpu::hsa::collector;
use crate::sources::gpu::hsa::kernel_counters::{self, Counting, GpuCounters};
use crate::sources::gpu::hsa::names;
use crate::sources::gpu::hsa::operations::{self, Operation, Ticket};
use crate::sources::gpu::hsa::queue_depth;
use crate::sources::gpu::hsa::queues::State;
use crate::sources::gpu::hsa::table;
use crate::sources::gpu::hsa::watch::{self, Settled};
use crate::sources::gpu::words;
use crate::state;
use crate::state::pause;
use crate::sys;

/// Number of packets that have room on the stack.
const SMALL_ROOM: usize = 32;
/// Most packets that go on for one: itself and one that follows it; and where kernels are counted, the commands around it, too.
const GROWTH: usize = 2;
const GROWTH_COUNTED: usize = 5;

/// Gets the packets that a program has submitted and writes them on, on the thread that rang the doorbell.
///
/// # Safety
/// As the runtime calls it: `data` is the state that [`crate::sources::gpu::hsa::queues`] registered, and there are `count` packets.
pub unsafe extern "C" fn on_packets(
    packets: *const Packet,
    count: u64,
    first: u64,
    data: *mut c_void,
    writer: Writer,
) {
    // SAFETY: a state, which lives for ever.
    let state = unsafe { &*data.cast::<State>() };
    if !crate::sources::gpu::hsa::is_recording() {
        // SAFETY: what came goes on.
        return unsafe { writer(packets, count) };
    }
    let paused = pause::is_caller_paused();
    // Without a sampler, kernels go on as they are.
    let counters = state
        .counters()
        .filter(|_| kernel_counters::is_on() && state::is_active());
    let growth = match counters {
        None => GROWTH,
        Some(_) => GROWTH_COUNTED,
    };
    let most = (count as usize).saturating_mul(growth);
    let mut small = [const { std::mem::MaybeUninit::<Packet>::uninit() }; SMALL_ROOM];
    let room = if most <= SMALL_ROOM {
        small.as_mut_ptr().cast::<Packet>()
    } else {
        state.room_for(most as u64)
    };
    if room.is_null() {
        counters::count(Counter::GpuSeen, count);
        counters::count(Counter::GpuBatch, count);
        // SAFETY: as above.
        return unsafe { writer(packets, count) };
    }
    let mut batch = Batch {
        room,
        written: 0,
        counted: 0,
    };
    let watched_before = state.depth.watched();
    for index in 0..count as usize {
        // SAFETY: there are `count` packets.
        let mut packet = unsafe { packets.wrapping_add(index).read() };
        state.depth.written();
        if paused {
            // The signal's last kernel is recorded already: these times would be the other's.
            if packet.completion != 0 {
                watch::settle(packet.completion);
            }
            if packet.kind() == KERNEL_DISPATCH {
                state.is_in_flight_unseen(counters);
            }
            batch.put(packet);
            continue;
        }
        let counting = counters
            .filter(|_| packet.kind() == KERNEL_DISPATCH)
            .filter(|_| names::is_counted(packet.kernel_object))
            .and_then(|gpu| gpu.take(batch.counted, collector::wake));
        let seen = state.see(&mut packet, first.wrapping_add(index as u64), counting);
        match counting {
            Some(counting) if seen.is_recorded => {
                packet.wait_for_all();
                let [start, read, stop] = counting.packets();
                for packet in [start, packet, read, stop] {
                    batch.put(packet);
                }
                (0..3).for_each(|_| state.depth.written());
                batch.counted = batch.counted.wrapping_add(1);
            }
            unused => {
                if let Some(counting) = unused {
                    counting.release();
                }
                if packet.kind() == KERNEL_DISPATCH && !seen.is_recorded {
                    state.is_in_flight_unseen(counters);
                }
                batch.put(packet);
            }
        }
        if let Some(follower) = seen.follower {
            batch.put(follower);
            state.depth.written();
        }
    }
    if queue_depth::is_needed() {
        if state.depth.wants_mark()
            && batch.written < most
            && let Some(mark) = state.mark()
        {
            batch.put(mark);
        }
        state.depth.wait(watched_before, collector::wake);
    }
    // SAFETY: so many packets were written there.
    unsafe { writer(room, batch.written as u64) };
}

/// The packets that go on.
struct Batch {
    /// Has room for as many as there can be.
    room: *mut Packet,
    written: usize,
    /// Kernels among them that are counted.
    counted: usize,
}

impl Batch {
    fn put(&mut self, packet: Packet) {
        // SAFETY: no packet brings more with it than there is room for ([`GROWTH`], [`GROWTH_COUNTED`]); a mark comes only where room is left.
        unsafe { self.room.wrapping_add(self.written).write(packet) };
        self.written = self.written.wrapping_add(1);
    }
}

/// What became of a packet that was seen.
#[derive(Default)]
struct Seen {
    /// It is followed to its end.
    is_recorded: bool,
    /// Has to go on behind it.
    follower: Option<Packet>,
}

impl State {
    /// Memory for `count` packets, or null. Under the queue's lock, as all calls of the handler.
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

    /// Sees one packet before it goes on; may give it a signal of ours.
    fn see(&self, packet: &mut Packet, index: u64, counting: Option<Counting>) -> Seen {
        if packet.kind() != KERNEL_DISPATCH {
            if packet.completion != 0 {
                watch::settle(packet.completion);
            }
            // Barriers and the runtimes' own commands are no work of the program's.
            if packet.kind() == AGENT_DISPATCH {
                events::count(RingCount::GpuSeen);
                counters::count(Counter::GpuNotKernel, 1);
            }
            return Seen::default();
        }
        events::count(RingCount::GpuSeen);
        let lite = state::settings().gpu_level == GpuLevel::Lite;
        let has_signal = packet.completion != 0;
        if has_signal {
            let settled = watch::settle(packet.completion);
            // SAFETY: the program submits a packet with it, so it exists.
            let signal = unsafe { Signal::new(packet.completion) };
            if let Some(signal) = signal
                && settled == Settled::Free
                && signal.value() <= 1
            {
                return Seen {
                    is_recorded: self.watch(packet, (index, counting), signal),
                    follower: None,
                };
            }
            // Several kernels complete it: it has the times of none of them.
            if lite || crate::sources::gpu::hsa::layout() == Layout::UpTo55 {
                counters::count(Counter::GpuPool, 1);
                return Seen::default();
            }
        } else if lite {
            counters::count(Counter::GpuPool, 1);
            return Seen::default();
        }
        let barrier = has_signal.then(|| Packet::barrier_after(packet));
        let is_recorded = self.lend(packet, (index, counting));
        Seen {
            is_recorded,
            follower: barrier.filter(|_| is_recorded),
        }
    }

    /// A ticket with a signal of ours that is armed.
    fn take(&self) -> Option<(Ticket, u64)> {
        let ticket = operations::take()?;
        let Some((handle, signal)) = operations::node(ticket)?.own_signal(table::make_signal)
        else {
            operations::give_back(ticket);
            return None;
        };
        signal.arm();
        Some((ticket, handle))
    }

    /// Gives a kernel a signal of ours. Returns whether there was one.
    fn lend(&self, packet: &mut Packet, which: (u64, Option<Counting>)) -> bool {
        let Some((ticket, handle)) = self.take() else {
            counters::count(Counter::GpuPool, 1);
            return false;
        };
        packet.completion = handle;
        self.submit(ticket, self.operation(packet, which, true, 1));
        true
    }

    /// A packet that waits for nothing and shows that those before it have left the queue.
    fn mark(&self) -> Option<Packet> {
        let (ticket, handle) = self.take()?;
        let mark = Packet::mark(handle);
        self.depth.written();
        let operation = Operation {
            kind: OpKind::Barrier,
            correlation: 0,
            launch_stack: 0,
            ..self.operation(&mark, (u64::MAX, None), true, 1)
        };
        self.submit(ticket, operation);
        Some(mark)
    }

    /// Watches a kernel's own signal. Returns whether that can be.
    fn watch(&self, packet: &Packet, which: (u64, Option<Counting>), signal: Signal) -> bool {
        let Some(ticket) = operations::take() else {
            counters::count(Counter::GpuPool, 1);
            return false;
        };
        // The ticket must be complete when another thread finds it.
        signal.clear_ticks();
        let operation = self.operation(packet, which, false, signal.value());
        if !watch::note(packet.completion, ticket) {
            operations::give_back(ticket);
            counters::count(Counter::GpuPool, 1);
            return false;
        }
        self.submit(ticket, operation);
        true
    }

    /// Hands an operation over to the collector.
    fn submit(&self, ticket: Ticket, mut operation: Operation) {
        let counters = self.counters().filter(|_| kernel_counters::is_on());
        if operation.kind == OpKind::Kernel
            && let Some(gpu) = counters
        {
            operation.beside = gpu.beside.submit(operation.queue_number);
        }
        self.depth.is_watched(operation.number);
        operations::submit(ticket, operation);
        collector::wake();
    }

    /// A kernel is not recorded: nothing will say when it has ended.
    fn is_in_flight_unseen(&self, counters: Option<&'static GpuCounters>) {
        if let Some(gpu) = counters {
            gpu.beside.submit(self.number.load(Ordering::Relaxed));
        }
    }

    /// What is known of a packet: `which` is its index and what counts it.
    fn operation(
        &self,
        packet: &Packet,
        (index, counting): (u64, Option<Counting>),
        own: bool,
        value: i64,
    ) -> Operation {
        // SAFETY: the thread's own words.
        let words = unsafe { &*words::words() };
        let on_time = words.of_runtime == 0;
        let correlation = match self.tags.get(index) {
            0 if on_time => words.correlation,
            tagged => tagged,
        };
        let kernel = packet.kind() == KERNEL_DISPATCH;
        let launch_stack = if on_time && correlation == 0 && kernel {
            events::launch_stack().id
        } else {
            0
        };
        let number = self.depth.number();
        let [name, source] = if kernel {
            names::of(packet.kernel_object)
        } else {
            [0; 2]
        };
        Operation {
            kind: OpKind::Kernel,
            signal: packet.completion,
            own,
            value,
            queue: self.place(),
            agent: self.agent.load(Ordering::Relaxed),
            device: self.device.load(Ordering::Relaxed),
            queue_number: self.number.load(Ordering::Relaxed),
            submitted_ns: if on_time && words.correlation != 0 {
                words.asked_ns
            } else {
                sys::boottime_ns()
            },
            correlation,
            launch_stack,
            name,
            source,
            grid: packet.grid,
            workgroup: packet.workgroup,
            memory: [packet.group_bytes, packet.private_bytes],
            bytes: 0,
            direction: 0,
            number,
            beside: 0,
            counting,
        }
    }
}
