//! A queue of AQL packets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::arrivals::Arrivals;
use super::context::Context;
use super::counters;
use super::scratch::Scratch;
use super::worker::Step;
use super::{fault, signal};
use crate::board::Collective;
use crate::clock::boottime_ns;
use crate::kernels::Kernel;
use crate::memory::Unmapped;
use crate::packet::{Dispatch, INVALID, PACKET_BYTES, Packet, Request};
use crate::process::queues::NewQueue;
use crate::settings::KernelFault;
use crate::timing;
use crate::truth::{BarrierRecord, DispatchRecord};
use crate::watch;

/// `amd_queue_t`: offsets of the fields that the hardware knows. The same in all versions of the runtime.
mod field {
    pub const WRITE_DISPATCH_ID: u64 = 0x38;
    pub const READ_DISPATCH_ID: u64 = 0x80;
    pub const QUEUE_PROPERTIES: u64 = 0xb4;
    pub const INACTIVE_SIGNAL: u64 = 0xc0;
    pub const BYTES: u64 = 0x100;
    /// In the properties: signals are stamped.
    pub const PROFILING: u32 = 1 << 3;
}

/// A packet whose doorbell never rang is executed after this time all the same, unless doorbells are strict.
const FORGOTTEN_DOORBELL_NS: u64 = 200_000_000;

/// How often a kernel of a collective looks for those of the other GPUs. When it ended is known exactly all the same.
const OTHERS_ARE_LOOKED_AT_NS: u64 = 100_000;

/// A queue of AQL packets.
#[derive(Debug)]
pub struct PacketQueue {
    id: u32,
    gpu: usize,
    ring_address: u64,
    packets: u64,
    queue_address: u64,
    save_area_address: u64,
    doorbell: &'static AtomicU64,
    arrivals: Arrivals,
    /// Index of the next packet to look at, and whether its producer was seen to be late: another one has rung already.
    next: u64,
    is_late: bool,
    /// Kernels so far.
    kernels: u64,
    flights: VecDeque<Flight>,
    /// When the last kernel started, and when everything so far has ended.
    last_start_tick: u64,
    last_end_tick: u64,
    /// The end of the kernel that was finished last, and whether the next one waits for a place.
    last_finished_tick: u64,
    found_no_place: bool,
    /// Since when there are packets without a doorbell.
    unrung_since_ns: Option<u64>,
    /// Signals to stamp after they completed: when, which, with what.
    late: Vec<(u64, u64, (u64, u64))>,
    /// The queue had an error.
    halted: bool,
    scratch: Scratch,
}

/// A kernel that runs.
#[derive(Debug)]
struct Flight {
    index: u64,
    dispatch: Dispatch,
    kernel: Arc<Kernel>,
    completion: u64,
    ticks: (u64, u64),
    end_ns: u64,
    fault: Option<KernelFault>,
    /// The collective that it is a part of, until all parts have started.
    waits_for: Option<Part>,
}

/// What a kernel that waits for those of other GPUs knows of their collective.
#[derive(Debug, Clone, Copy)]
struct Part {
    collective: &'static Collective,
    kernels: u32,
    duration_ticks: u64,
}

impl PacketQueue {
    /// A queue that is empty so far.
    ///
    /// # Errors
    /// When its parts are not in memory.
    pub fn new(id: u32, new: NewQueue, context: &mut Context) -> Result<Self, Unmapped> {
        let queue_address = new
            .read_pointer_address
            .wrapping_sub(field::READ_DISPATCH_ID);
        context.view.pointer(queue_address, field::BYTES)?;
        context.view.pointer(new.ring_address, new.ring_bytes)?;
        Ok(Self {
            id,
            gpu: new.gpu,
            ring_address: new.ring_address,
            packets: new.ring_bytes / PACKET_BYTES,
            queue_address,
            save_area_address: new.save_area_address,
            doorbell: new.doorbell,
            arrivals: Arrivals::default(),
            next: 0,
            is_late: false,
            kernels: 0,
            flights: VecDeque::new(),
            last_start_tick: 0,
            last_end_tick: 0,
            last_finished_tick: 0,
            found_no_place: false,
            unrung_since_ns: None,
            late: Vec::new(),
            halted: false,
            scratch: Scratch::default(),
        })
    }

    /// Does what can be done at this time.
    pub fn step(&mut self, context: &mut Context, now_ns: u64) -> Step {
        if self.halted {
            return Step::Idle;
        }
        match self.advance(context, now_ns) {
            Ok(step) => step,
            Err(unmapped) => {
                self.halted = true;
                fault::memory(context, self.gpu, unmapped);
                Step::Worked
            }
        }
    }

    fn advance(&mut self, context: &mut Context, now_ns: u64) -> Result<Step, Unmapped> {
        self.look_at_doorbell(context, now_ns)?;
        let mut worked = self.stamp_late(context, now_ns)?;
        worked |= self.end_waiting(context, now_ns);
        loop {
            // Starting comes first: what has ended by now, but not yet when the next packet came, is still in its way.
            let started = !self.halted && self.start_one(context)?;
            let ended = !self.halted && self.finish_one(context, now_ns)?;
            if !ended && !started {
                break;
            }
            worked = true;
        }
        let ends = self.flights.iter().map(|flight| match flight.waits_for {
            Some(_) => now_ns + OTHERS_ARE_LOOKED_AT_NS,
            None => flight.end_ns,
        });
        let deadline = ends.chain(self.late.iter().map(|(due, ..)| *due)).min();
        Ok(match deadline {
            _ if worked => Step::Worked,
            Some(time) if time < u64::MAX => Step::Until(time),
            _ => Step::Idle,
        })
    }

    fn look_at_doorbell(&mut self, context: &mut Context, now_ns: u64) -> Result<(), Unmapped> {
        // The doorbell tells the index of the last packet.
        let limit = self.doorbell.load(Ordering::Acquire).wrapping_add(1);
        self.arrivals.note(limit, boottime_ns);
        if self.next < self.arrivals.limit()
            || context.process.simulation.machine.queues.strict_doorbell
        {
            self.unrung_since_ns = None;
            return Ok(());
        }
        let written = self
            .word(context, field::WRITE_DISPATCH_ID)?
            .load(Ordering::Acquire);
        if written <= self.arrivals.limit() {
            self.unrung_since_ns = None;
        } else if now_ns - *self.unrung_since_ns.get_or_insert(now_ns) > FORGOTTEN_DOORBELL_NS {
            // Producers may ring in any order, and looking may have missed the highest value.
            self.arrivals.note(written, boottime_ns);
            self.unrung_since_ns = None;
        }
        Ok(())
    }

    /// Starts the next packet, if it may start; returns whether it did.
    fn start_one(&mut self, context: &mut Context) -> Result<bool, Unmapped> {
        if self.next >= self.arrivals.limit() {
            return Ok(false);
        }
        let Some(packet) = self.read_packet(context)? else {
            self.is_late = true;
            return Ok(false);
        };
        if std::mem::take(&mut self.is_late) {
            self.arrivals.late(boottime_ns());
        }
        if packet.barrier && !self.flights.is_empty() {
            return Ok(false);
        }
        let queues = &context.process.simulation.machine.queues;
        let clock = &context.process.simulation.clock;
        let seen_tick = clock.ticks_after(self.arrivals.time_of(self.next));
        let mut ready_tick = seen_tick.max(self.last_start_tick);
        if packet.barrier {
            ready_tick = ready_tick.max(self.last_end_tick);
        }
        match packet.request {
            Request::Dispatch(dispatch) => {
                if self.flights.len() >= queues.concurrent_kernels {
                    self.found_no_place = true;
                    return Ok(false);
                }
                if queues.scratch
                    && !self.scratch.suffices(
                        context,
                        self.queue_address,
                        dispatch.private_bytes,
                    )?
                {
                    return Ok(false);
                }
                if std::mem::take(&mut self.found_no_place) {
                    ready_tick = ready_tick.max(self.last_finished_tick);
                }
                self.retire(context)?;
                self.start_kernel(context, &packet, dispatch, ready_tick)?;
            }
            Request::Commands { address, words } => {
                counters::execute(context, self.gpu, (address, words), ready_tick)?;
                self.retire(context)?;
                self.pass(context, &packet, "commands", (ready_tick, ready_tick))?;
            }
            Request::Unsupported(kind) => {
                crate::simulation::log(&format!(
                    "queue {}: packets of type {kind} cannot be executed",
                    self.id
                ));
                self.fail(context, fault::INVALID_PACKET)?;
            }
            Request::And(_) | Request::Or(_) | Request::Value { .. } => {
                let (name, waits, satisfied) = judge(context, &packet.request)?;
                if !satisfied {
                    return Ok(false);
                }
                let end_tick = if waits {
                    // What it waited for happened just before it was looked at, nobody knows when exactly.
                    ready_tick.max(context.process.simulation.clock.ticks_after(boottime_ns()))
                } else {
                    ready_tick
                };
                self.retire(context)?;
                self.pass(context, &packet, name, (ready_tick, end_tick))?;
            }
        }
        Ok(true)
    }

    /// The packet at the read index; none: its producer has not finished it.
    fn read_packet(&self, context: &mut Context) -> Result<Option<Packet>, Unmapped> {
        let slot = context.view.pointer(self.slot_address(), PACKET_BYTES)?;
        // SAFETY: a slot of the ring, aligned; producers write the header last, atomically.
        let header = unsafe { AtomicU16::from_ptr(slot.cast()) }.load(Ordering::Acquire);
        if header as u8 == INVALID as u8 {
            return Ok(None);
        }
        // SAFETY: the header is valid, so the packet belongs to the queue until it is retired.
        Ok(Some(Packet::parse(unsafe { &*slot.cast() })))
    }

    /// Takes the next packet out of the ring: its slot is free for another one.
    fn retire(&mut self, context: &mut Context) -> Result<(), Unmapped> {
        let slot = context.view.pointer(self.slot_address(), PACKET_BYTES)?;
        // SAFETY: as in `read_packet`.
        unsafe { AtomicU16::from_ptr(slot.cast()) }.store(INVALID, Ordering::Release);
        self.next += 1;
        self.word(context, field::READ_DISPATCH_ID)?
            .store(self.next, Ordering::Release);
        Ok(())
    }

    fn start_kernel(
        &mut self,
        context: &mut Context,
        packet: &Packet,
        dispatch: Dispatch,
        start_tick: u64,
    ) -> Result<(), Unmapped> {
        let simulation = context.process.simulation;
        let kernel = context
            .kernels
            .find(&mut context.view, dispatch.kernel_object)?;
        let work = timing::Work {
            gpu: self.gpu,
            queue: self.id,
            index: self.kernels,
        };
        let (duration_ns, fault) = timing::of_kernel(
            &simulation.machine,
            &mut context.view,
            &kernel,
            &dispatch,
            work,
        );
        self.kernels += 1;
        let duration_ticks = simulation.clock.duration_ticks(duration_ns);
        let end_tick = start_tick + duration_ticks;
        let waits_for = self.join(context, &kernel, start_tick, duration_ticks);
        let start_ns = simulation.clock.nanoseconds(start_tick);
        let mut end_ns = simulation.clock.nanoseconds(end_tick);
        let board = &simulation.board.gpus[self.gpu];
        let dispatches = board.dispatches.fetch_add(1, Ordering::Relaxed) + 1;
        watch::at_dispatch(simulation, self.gpu, dispatches);
        let vanish = simulation.machine.faults.vanish_after_dispatches;
        if vanish > 0 && self.gpu == 0 && dispatches > vanish {
            self.halted = true;
            fault::vanish(context, self.gpu);
            return Ok(());
        }
        self.last_start_tick = start_tick;
        self.last_end_tick = self.last_end_tick.max(end_tick);
        match fault {
            _ if waits_for.is_some() => end_ns = u64::MAX,
            Some(KernelFault::Hang) => {
                end_ns = u64::MAX;
                board.hung.fetch_add(1, Ordering::Relaxed);
            }
            Some(KernelFault::QueueError) => {
                return self.fail(context, fault::ILLEGAL_INSTRUCTION);
            }
            _ => context.account(self.gpu, start_ns, end_ns),
        }
        let flight = Flight {
            index: self.next - 1,
            dispatch,
            kernel,
            completion: packet.completion,
            ticks: (start_tick, end_tick),
            end_ns,
            fault,
            waits_for,
        };
        self.insert(flight);
        Ok(())
    }

    /// In the order of their ends: short kernels pass long ones.
    fn insert(&mut self, flight: Flight) {
        let is_before = |other: &Flight| other.end_ns <= flight.end_ns;
        let position = self.flights.partition_point(is_before);
        self.flights.insert(position, flight);
    }

    /// Says that a kernel of a collective has started, if it is one.
    fn join(
        &self,
        context: &Context,
        kernel: &Kernel,
        start_tick: u64,
        duration_ticks: u64,
    ) -> Option<Part> {
        let simulation = context.process.simulation;
        let rules = kernel.rules.iter();
        let mut rules = rules.map(|index| &simulation.machine.kernels[*index]);
        let kernels = rules.find_map(|rule| rule.together)?.get();
        let gpu = &simulation.board.gpus[self.gpu];
        let number = gpu.collectives.fetch_add(1, Ordering::Relaxed) as usize;
        let collective = simulation.board.collectives.get(number)?;
        collective
            .last_start_tick
            .fetch_max(start_tick, Ordering::Relaxed);
        collective.started.fetch_add(1, Ordering::Release);
        Some(Part {
            collective,
            kernels,
            duration_ticks,
        })
    }

    /// Gives kernels of collectives their end once all parts have started; returns whether there was one.
    fn end_waiting(&mut self, context: &Context, now_ns: u64) -> bool {
        let clock = &context.process.simulation.clock;
        let mut any = false;
        while let Some((index, part)) = self.first_complete() {
            let Some(mut flight) = self.flights.remove(index) else {
                break;
            };
            let last_start_tick = part.collective.last_start_tick.load(Ordering::Relaxed);
            flight.ticks.1 = last_start_tick + part.duration_ticks;
            flight.end_ns = clock.nanoseconds(flight.ticks.1);
            flight.waits_for = None;
            self.last_end_tick = self.last_end_tick.max(flight.ticks.1);
            let start_ns = clock.nanoseconds(flight.ticks.0);
            context.account(self.gpu, start_ns, flight.end_ns);
            self.insert(flight);
            any = true;
        }
        // A GPU is busy while it waits.
        for flight in self.flights.iter().filter(|one| one.waits_for.is_some()) {
            let start_ns = clock.nanoseconds(flight.ticks.0);
            context.account(self.gpu, start_ns, now_ns);
        }
        any
    }

    fn first_complete(&self) -> Option<(usize, Part)> {
        self.flights.iter().enumerate().find_map(|(index, flight)| {
            let part = flight.waits_for?;
            let started = part.collective.started.load(Ordering::Acquire);
            (started >= part.kernels).then_some((index, part))
        })
    }

    /// Finishes the kernel that ends first, if its time has come; returns whether it did.
    fn finish_one(&mut self, context: &mut Context, now_ns: u64) -> Result<bool, Unmapped> {
        if self
            .flights
            .front()
            .is_none_or(|flight| flight.end_ns > now_ns)
        {
            return Ok(false);
        }
        let Some(flight) = self.flights.pop_front() else {
            return Ok(false);
        };
        if flight.fault == Some(KernelFault::MemoryFault) {
            return Err(Unmapped(fault::NOWHERE));
        }
        flight.kernel.apply(&mut context.view, &flight.dispatch)?;
        counters::count(context, self.gpu, &flight.dispatch);
        let profiled = self.is_profiled(context)?;
        context.truth.dispatch(&DispatchRecord {
            gpu: self.gpu,
            queue: self.id,
            index: flight.index,
            kernel: &flight.kernel.name,
            grid: flight.dispatch.grid,
            workgroup: flight.dispatch.workgroup,
            ticks: flight.ticks,
            signal: flight.completion != 0,
            profiled,
        });
        let (start, end) = flight.ticks;
        self.last_finished_tick = end;
        let stamps = match flight.fault {
            Some(KernelFault::ZeroTimes) => Some((0, 0)),
            Some(KernelFault::BackwardTimes) => Some((end, start)),
            Some(KernelFault::LateTimes) => None,
            _ => Some((start, end)),
        };
        signal::complete(context, flight.completion, stamps.filter(|_| profiled))?;
        if flight.fault == Some(KernelFault::LateTimes) && profiled && flight.completion != 0 {
            self.late
                .push((now_ns + fault::LATE_NS, flight.completion, flight.ticks));
        }
        Ok(true)
    }

    /// Completes a packet that takes no time of its own.
    fn pass(
        &mut self,
        context: &mut Context,
        packet: &Packet,
        kind: &'static str,
        ticks: (u64, u64),
    ) -> Result<(), Unmapped> {
        self.last_start_tick = self.last_start_tick.max(ticks.1);
        self.last_end_tick = self.last_end_tick.max(ticks.1);
        let profiled = self.is_profiled(context)?;
        context.truth.barrier(&BarrierRecord {
            gpu: self.gpu,
            queue: self.id,
            index: self.next - 1,
            kind,
            ticks,
            signal: packet.completion != 0,
        });
        signal::complete(context, packet.completion, profiled.then_some(ticks))
    }

    fn stamp_late(&mut self, context: &mut Context, now_ns: u64) -> Result<bool, Unmapped> {
        let mut any = false;
        while let Some(index) = self.late.iter().position(|(due, ..)| *due <= now_ns) {
            let (_, handle, ticks) = self.late.swap_remove(index);
            signal::stamp(context, handle, ticks)?;
            any = true;
        }
        Ok(any)
    }

    fn slot_address(&self) -> u64 {
        self.ring_address + self.next % self.packets * PACKET_BYTES
    }

    fn word(&self, context: &mut Context, offset: u64) -> Result<&'static AtomicU64, Unmapped> {
        let place = context.view.pointer(self.queue_address + offset, 8)?;
        // SAFETY: a word of the queue's structure, which the runtime keeps until the queue is destroyed.
        Ok(unsafe { AtomicU64::from_ptr(place.cast()) })
    }

    fn is_profiled(&self, context: &mut Context) -> Result<bool, Unmapped> {
        let place = context
            .view
            .pointer(self.queue_address + field::QUEUE_PROPERTIES, 4)?;
        // SAFETY: as in `word`; the runtime changes it at any time.
        let properties = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Relaxed);
        Ok(properties & field::PROFILING != 0)
    }

    /// Stops for good, and tells why.
    fn fail(&mut self, context: &mut Context, code: u32) -> Result<(), Unmapped> {
        self.halted = true;
        let inactive_signal = self
            .word(context, field::INACTIVE_SIGNAL)?
            .load(Ordering::Relaxed);
        fault::queue(
            context,
            self.gpu,
            self.save_area_address,
            inactive_signal,
            code,
        );
        Ok(())
    }
}

/// What a waiting packet is called, whether it waits for anything, and whether that has happened.
fn judge(context: &mut Context, request: &Request) -> Result<(&'static str, bool, bool), Unmapped> {
    let mut waits = false;
    match request {
        Request::And(signals) => {
            for handle in signals.iter().filter(|handle| **handle != 0) {
                waits = true;
                if signal::value(context, *handle)? != 0 {
                    return Ok(("and", waits, false));
                }
            }
            Ok(("and", waits, true))
        }
        Request::Or(signals) => {
            for handle in signals.iter().filter(|handle| **handle != 0) {
                waits = true;
                if signal::value(context, *handle)? == 0 {
                    return Ok(("or", waits, true));
                }
            }
            Ok(("or", waits, !waits))
        }
        Request::Value { signal: 0, .. } => Ok(("value", false, true)),
        Request::Value {
            signal: handle,
            value,
            mask,
            condition,
        } => {
            let seen = signal::value(context, *handle)? & mask;
            let satisfied = match condition {
                0 => seen == *value,
                1 => seen != *value,
                2 => seen < *value,
                _ => seen >= *value,
            };
            Ok(("value", true, satisfied))
        }
        Request::Dispatch(_) | Request::Commands { .. } | Request::Unsupported(_) => {
            Ok(("none", false, true))
        }
    }
}
