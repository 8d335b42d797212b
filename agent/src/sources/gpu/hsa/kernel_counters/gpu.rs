//! The counters of a GPU: which events, and commands for the kernels that are in flight.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rsys_wire::counter_library::{CommandMemory, CommandPackets, Event, RegisteredGpu};
use rsys_wire::kernel_counters::{CounterSet, KernelCounts, MOST_EVENTS};

use crate::events;
use crate::sources::gpu::hsa::abi::{Packet, Signal};
use crate::sources::gpu::hsa::kernel_counters;
use crate::sources::gpu::hsa::kernel_counters::beside::Beside;
use crate::sources::gpu::hsa::kernel_counters::load::{Loaded, zeroed};
use crate::sources::gpu::hsa::kernel_counters::say;
use crate::sources::gpu::hsa::table;
use crate::state;
use crate::sys;
use crate::sys::text::Text;

/// Counted kernels in flight on a GPU, at most.
pub const SLOTS: usize = 256;
/// Instances of all events.
const MOST_INSTANCES: usize = 1024;
/// Maximum time that a launching thread waits for a kernel to end while all commands are in use; halved after each wait in vain.
const PATIENCE_NS: u64 = 40_000_000;
const NAP_NS: u64 = 20_000;

/// An event of the set.
#[derive(Debug, Clone, Copy, Default)]
struct Chosen {
    block: u32,
    number: u32,
    is_counted: bool,
}

/// Commands that count one kernel at a time.
#[derive(Debug)]
struct Slot {
    is_taken: AtomicBool,
    /// Nobody waits for its commands any more, which may still be executed: it is free when its signal is complete.
    is_lost: AtomicBool,
    /// What the library knows the commands by; 0 before there are any.
    handle: AtomicU64,
    /// Written before `handle` is.
    packets: UnsafeCell<CommandPackets>,
    /// Completed when the values are in memory.
    signal: AtomicU64,
    /// When the kernel was first seen complete, CLOCK_BOOTTIME ns; 0 before. Only the collector's.
    ended_ns: AtomicU64,
}

/// The counters of a GPU. Lives for ever.
#[derive(Debug)]
pub struct GpuCounters {
    loaded: Loaded,
    registered: RegisteredGpu,
    memory: CommandMemory,
    /// The place of its set in the settings.
    set: u64,
    chosen: [Chosen; MOST_EVENTS],
    chosen_used: usize,
    /// The events that are counted, one for each instance.
    events: [Event; MOST_INSTANCES],
    events_used: usize,
    slots: [Slot; SLOTS],
    /// How often in a row waiting for a kernel to end was of no use: one takes long.
    waited_in_vain: AtomicU32,
    /// Where to look for a free slot first.
    next: AtomicU32,
    /// Kernels so far that the filter names.
    met: AtomicU64,
    /// Which kernels run beside which.
    pub beside: Beside,
}

// SAFETY: packets of a slot are written by one thread before its handle, and read after that.
unsafe impl Sync for GpuCounters {}

/// A kernel that is counted.
#[derive(Debug, Clone, Copy)]
pub struct Counting {
    gpu: &'static GpuCounters,
    slot: &'static Slot,
}

impl GpuCounters {
    /// Makes a GPU ready to count these events, and says which it cannot count.
    ///
    /// # Errors
    /// Why it cannot count at all.
    pub fn new(
        loaded: Loaded,
        agent: u64,
        address: &[u8],
        (place, set): (u64, CounterSet<'_>),
    ) -> Result<*mut Self, &'static [u8]> {
        let register = || loaded.library.register(&loaded.runtime, agent).ok();
        let registered = kernel_counters::LIBRARY
            .with(register)
            .flatten()
            .ok_or(&b"libhsa-amd-aqlprofile64 does not know GPUs of its kind"[..])?;
        let gpu = zeroed::<Self>().ok_or(&b"no memory"[..])?;
        // SAFETY: mapped with room for it, and nobody else's yet. Zeroes are valid for what is not written here: numbers, atomics, events, packets
        // and locks.
        let this = unsafe {
            (&raw mut (*gpu).loaded).write(loaded);
            (&raw mut (*gpu).registered).write(registered);
            (&raw mut (*gpu).memory).write(CommandMemory {
                runtime: loaded.runtime,
                pool: loaded.pool,
                agent,
            });
            (&raw mut (*gpu).set).write(place);
            &mut *gpu
        };
        for (block, number) in set.events() {
            let chosen = kernel_counters::LIBRARY
                .with(|| this.choose(block, number))
                .unwrap_or(Err(b"a handler of signals made its queue"));
            let chosen = chosen.unwrap_or_else(|why| {
                say_event(address, (block, number), why);
                Chosen::default()
            });
            if let Some(place) = this.chosen.get_mut(this.chosen_used) {
                *place = chosen;
                this.chosen_used = this.chosen_used.wrapping_add(1);
            }
        }
        if this.events_used == 0 {
            return Err(b"none of these can be counted there");
        }
        // SAFETY: it is complete, and lives for ever.
        let this: &'static Self = unsafe { &*gpu };
        let first = this.slots.first().and_then(|slot| this.make(slot));
        first.ok_or(&b"libhsa-amd-aqlprofile64 makes no commands for them"[..])?;
        Ok(gpu)
    }

    /// What the runtime calls the GPU.
    pub fn agent(&self) -> u64 {
        self.registered.agent
    }

    /// Takes an event in, if it can be counted beside those before.
    fn choose(&mut self, block_name: &str, number: u32) -> Result<Chosen, &'static [u8]> {
        let mut buffer = [0_u8; 32];
        let mut text = Text::new(&mut buffer);
        text.put(block_name.as_bytes());
        text.put(b"\0");
        let name = CStr::from_bytes_until_nul(text.into_bytes())
            .map_err(|_| &b"the name of its block is too long"[..])?;
        let library = self.loaded.library;
        let (block, instances) = library
            .block(&self.registered, name)
            .ok_or(&b"this GPU has no such block"[..])?;
        let event = |instance| Event {
            instance,
            number,
            flags: 0,
            block,
        };
        let room = library
            .room(&self.registered, event(0))
            .ok_or(&b"its block has no such event"[..])?;
        let of_block = |one: &&Chosen| one.is_counted && one.block == block;
        let before = self.chosen.iter().filter(of_block).count();
        if before >= room as usize {
            return Err(b"its block has no room for it beside the others; name fewer of this block at a time");
        }
        let places = self
            .events
            .get_mut(self.events_used..)
            .and_then(|free| free.get_mut(..instances as usize))
            .ok_or(&b"there are too many; name fewer at a time"[..])?;
        for (place, instance) in places.iter_mut().zip(0..) {
            *place = event(instance);
        }
        self.events_used = self.events_used.wrapping_add(instances as usize);
        Ok(Chosen {
            block,
            number,
            is_counted: true,
        })
    }

    /// Makes the commands of a slot, if it has none. Returns whether it has.
    fn make(&'static self, slot: &'static Slot) -> Option<()> {
        if slot.handle.load(Ordering::Acquire) != 0 {
            return Some(());
        }
        let events = self.events.get(..self.events_used)?;
        let made = kernel_counters::LIBRARY.with(|| {
            if !kernel_counters::is_on() {
                return None;
            }
            let signal = table::make_signal();
            let library = &self.loaded.library;
            let (handle, commands) = library
                .commands(&self.registered, events, &self.memory)
                .ok()?;
            if handle == 0 || signal == 0 {
                return None;
            }
            // SAFETY: the slot is the caller's, and nobody reads it before there is a handle.
            unsafe { slot.packets.get().write(commands) };
            slot.signal.store(signal, Ordering::Relaxed);
            slot.handle.store(handle, Ordering::Release);
            Some(())
        });
        made.flatten()
    }

    /// Commands for a kernel that is about to be submitted, if it is to be counted. `in_batch` are those for kernels that are submitted together with it.
    pub fn take(&'static self, in_batch: usize, wake: impl Fn()) -> Option<Counting> {
        let settings = state::settings();
        if in_batch >= SLOTS {
            return None;
        }
        let met = self.met.fetch_add(1, Ordering::Relaxed);
        if !met.is_multiple_of(u64::from(settings.counted_every.max(1))) {
            return None;
        }
        let Some(slot) = self.free_slot().or_else(|| self.wait_for_slot(wake)) else {
            say_none_free();
            return None;
        };
        if self.make(slot).is_none() {
            slot.is_taken.store(false, Ordering::Release);
            return None;
        }
        slot.ended_ns.store(0, Ordering::Relaxed);
        Some(Counting { gpu: self, slot })
    }

    fn free_slot(&'static self) -> Option<&'static Slot> {
        let from = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let places = (0..SLOTS).map(|step| from.wrapping_add(step) % SLOTS);
        places
            .filter_map(|place| self.slots.get(place))
            .find(|slot| slot.take())
    }

    /// Destroys its signals: the runtime is about to go.
    pub fn drop_signals(&self, destroy: impl Fn(u64)) {
        for slot in &self.slots {
            let signal = slot.signal.swap(0, Ordering::Relaxed);
            if signal != 0 {
                destroy(signal);
            }
        }
    }

    /// A program that launches faster than kernels run waits here, as it does when its queue is full; but not for long: a kernel may wait for this thread.
    fn wait_for_slot(&'static self, wake: impl Fn()) -> Option<&'static Slot> {
        let in_vain = self.waited_in_vain.load(Ordering::Relaxed);
        let patience_ns = PATIENCE_NS.checked_shr(in_vain).unwrap_or(0);
        let since = sys::boottime_ns();
        while sys::boottime_ns().saturating_sub(since) < patience_ns
            && crate::sources::gpu::hsa::is_recording()
        {
            wake();
            sys::nap(NAP_NS);
            let free = self.free_slot();
            if free.is_some() {
                self.waited_in_vain.store(0, Ordering::Relaxed);
                return free;
            }
        }
        let more = in_vain.saturating_add(1);
        self.waited_in_vain.store(more, Ordering::Relaxed);
        None
    }
}

impl Slot {
    /// Takes it, if it is free. Returns whether it was.
    fn take(&self) -> bool {
        if !self.is_taken.load(Ordering::Relaxed) {
            return !self.is_taken.swap(true, Ordering::AcqRel);
        }
        self.is_lost.load(Ordering::Relaxed)
            && self.stopped().is_some()
            && self.is_lost.swap(false, Ordering::AcqRel)
    }

    fn stopped(&self) -> Option<u64> {
        // SAFETY: a signal of ours, which lives as long as the runtime.
        let signal = unsafe { Signal::new(self.signal.load(Ordering::Relaxed)) }?;
        (signal.value() < 1).then(|| signal.ticks().1)
    }
}

impl Counting {
    /// The packet that starts the counters, and those that read and stop them. The last one has a signal of ours.
    pub fn packets(&self) -> [Packet; 3] {
        let signal = self.slot.signal.load(Ordering::Relaxed);
        // SAFETY: a signal of ours, which lives as long as the runtime.
        if let Some(signal) = unsafe { Signal::new(signal) } {
            signal.arm();
        }
        // SAFETY: written before the slot could be taken.
        let commands = unsafe { *self.slot.packets.get() };
        [
            Packet::of_commands(commands.start.with_signal(0)),
            Packet::of_commands(commands.read.with_signal(0)),
            Packet::of_commands(commands.stop.with_signal(signal)),
        ]
    }

    /// The GPU that counts.
    pub fn gpu(&self) -> &'static GpuCounters {
        self.gpu
    }

    /// When the kernel was first seen complete: now, if it is for the first time.
    pub fn ended(&self, now_ns: u64) -> u64 {
        match self.slot.ended_ns.load(Ordering::Relaxed) {
            0 => self.slot.ended_ns.store(now_ns, Ordering::Relaxed),
            before => return before,
        }
        now_ns
    }

    /// Whether the kernel was seen complete already.
    pub fn has_ended(&self) -> bool {
        self.slot.ended_ns.load(Ordering::Relaxed) != 0
    }

    /// When the counters were stopped, in ticks of the GPU or 0 if that is not known; `None` as long as they were not.
    pub fn stopped(&self) -> Option<u64> {
        self.slot.stopped()
    }

    /// What was counted. Only when the counters were stopped.
    pub fn counts(&self) -> KernelCounts {
        let gpu = self.gpu;
        let RegisteredGpu {
            units,
            engines,
            simds,
            dies,
            ..
        } = gpu.registered;
        let properties = [units, engines, simds, dies].map(u64::from);
        let mut counts = KernelCounts::new(gpu.set, properties, gpu.chosen_used);
        let handle = self.slot.handle.load(Ordering::Acquire);
        let add = |event: Event, value| {
            let is_it = |one: &Chosen| {
                one.is_counted && (one.block, one.number) == (event.block, event.number)
            };
            let place = gpu.chosen.iter().position(is_it);
            if let Some(counted) = place.and_then(|place| counts.event(place)) {
                counted.add(value);
            }
        };
        kernel_counters::LIBRARY.with(|| gpu.loaded.library.values(handle, add));
        counts
    }

    /// The commands are free for another kernel: they were executed, or never will be.
    pub fn release(&self) {
        self.slot.is_taken.store(false, Ordering::Release);
    }

    /// The values are not wanted any more: the commands are free as soon as they were executed.
    pub fn release_when_stopped(&self) {
        self.slot.is_lost.store(true, Ordering::Release);
    }
}

/// Says once that kernels are not counted for want of commands.
fn say_none_free() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        events::note(b"counters of some kernels are left out: those of 256 kernels in flight on a GPU are the most that are counted at a time");
    }
}

fn say_event(address: &[u8], (block, number): (&str, u32), why: &[u8]) {
    let mut buffer = [0_u8; 64];
    let mut text = Text::new(&mut buffer);
    text.put(block.as_bytes());
    text.put(b":");
    text.number(u64::from(number));
    say(&[
        b"for ",
        text.bytes(),
        b" on the GPU at ",
        address,
        b": ",
        why,
    ]);
}
