//! A queue of a copy engine.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::arrivals::Arrivals;
use super::context::Context;
use super::copy_packet::{CopyRequest, compares, words_of};
use super::worker::Step;
use super::{fault, signal};
use crate::clock::boottime_ns;
use crate::memory::Unmapped;
use crate::process::queues::NewQueue;
use crate::timing;
use crate::truth::CopyRecord;

/// Words of the longest packet but a write.
const MOST_WORDS: usize = 16;

/// A queue of a copy engine.
#[derive(Debug)]
pub struct CopyQueue {
    id: u32,
    gpu: usize,
    ring_address: u64,
    ring_bytes: u64,
    read_pointer_address: u64,
    doorbell: &'static AtomicU64,
    arrivals: Arrivals,
    /// Byte index of the next packet.
    next: u64,
    /// When the packets so far have ended.
    tick: u64,
    /// The copy that is going on: its end.
    copying_until_ns: Option<u64>,
    /// What was copied since the last other packet: one copy of the program comes in several packets.
    copied: Option<CopyRecord>,
    copies: u64,
    halted: bool,
}

impl CopyQueue {
    /// A queue that is empty so far.
    ///
    /// # Errors
    /// When its parts are not in memory.
    pub fn new(id: u32, new: NewQueue, context: &mut Context) -> Result<Self, Unmapped> {
        context.view.pointer(new.ring_address, new.ring_bytes)?;
        context.view.pointer(new.read_pointer_address, 8)?;
        Ok(Self {
            id,
            gpu: new.gpu,
            ring_address: new.ring_address,
            ring_bytes: new.ring_bytes,
            read_pointer_address: new.read_pointer_address,
            doorbell: new.doorbell,
            arrivals: Arrivals::default(),
            next: 0,
            tick: 0,
            copying_until_ns: None,
            copied: None,
            copies: 0,
            halted: false,
        })
    }

    /// Does what can be done at this time.
    pub fn step(&mut self, context: &mut Context, now_ns: u64) -> Step {
        if self.halted {
            return Step::Idle;
        }
        // The doorbell tells the byte index of the end.
        self.arrivals
            .note(self.doorbell.load(Ordering::Acquire), boottime_ns);
        let mut worked = false;
        while self.next < self.arrivals.limit() {
            match self.advance(context, now_ns) {
                Ok(Step::Worked) => worked = true,
                Ok(_) if worked => break,
                Ok(other) => return other,
                Err(unmapped) => {
                    self.halted = true;
                    fault::memory(context, self.gpu, unmapped);
                    return Step::Worked;
                }
            }
        }
        if worked { Step::Worked } else { Step::Idle }
    }

    fn advance(&mut self, context: &mut Context, now_ns: u64) -> Result<Step, Unmapped> {
        let position = self.next % self.ring_bytes;
        let address = self.ring_address + position;
        let left = ((self.ring_bytes - position) / 4) as usize;
        let ring = context.view.pointer(address, 4 * left as u64)?;
        let word = |index: usize| {
            // SAFETY: within the ring; aligned; the doorbell said that it is written.
            unsafe { ring.cast::<u32>().add(index).read() }
        };
        let fourth = if left > 3 { word(3) } else { 0 };
        let Some(words) = words_of(word(0), fourth).filter(|words| *words <= left) else {
            return Ok(self.give_up(context, word(0)));
        };
        let mut packet = [0; MOST_WORDS];
        let held = words.min(MOST_WORDS);
        for (index, place) in packet[..held].iter_mut().enumerate() {
            *place = word(index);
        }
        let mut request = CopyRequest::parse(&packet[..held]);
        if let CopyRequest::Write { words: count, .. } = &mut request {
            *count = words - 4;
        }
        let seen_ns = self.arrivals.time_of(self.next);
        let clock = &context.process.simulation.clock;
        self.tick = self.tick.max(clock.ticks_after(seen_ns));
        if let Some((from, to, bytes)) = extent(&request) {
            if let Some(until_ns) = self.wait_for_copy(context, (from, to, bytes), now_ns) {
                return Ok(Step::Until(until_ns));
            }
        } else {
            self.record(context);
        }
        match request {
            CopyRequest::Poll {
                address,
                value,
                mask,
                function,
            } => {
                let place = context.view.pointer(address, 4)?;
                // SAFETY: a word in memory that others change.
                let seen = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire);
                if !compares(function, seen & mask, value) {
                    return Ok(Step::Idle);
                }
                // What it waited for happened just before it was looked at, nobody knows when exactly.
                let clock = &context.process.simulation.clock;
                self.tick = self.tick.max(clock.ticks_after(boottime_ns()));
            }
            CopyRequest::Unknown(first) => return Ok(self.give_up(context, first)),
            CopyRequest::Write { to, .. } => {
                context
                    .view
                    .copy(to, address + 16, 4 * (words as u64 - 4))?
            }
            other => self.execute(context, other)?,
        }
        self.next += 4 * words as u64;
        let read_pointer = context.view.pointer(self.read_pointer_address, 8)?;
        // SAFETY: a word of the runtime for this.
        unsafe { AtomicU64::from_ptr(read_pointer.cast()) }.store(self.next, Ordering::Release);
        Ok(Step::Worked)
    }

    fn execute(&self, context: &mut Context, request: CopyRequest) -> Result<(), Unmapped> {
        match request {
            CopyRequest::Linear { from, to, bytes } => context.view.copy(to, from, bytes),
            CopyRequest::Rect(rect) => {
                let [width, height, depth] = rect.size;
                for z in 0..depth {
                    for y in 0..height {
                        let from = rect.from.address(rect.element_bytes, [0, y, z]);
                        let to = rect.to.address(rect.element_bytes, [0, y, z]);
                        context.view.copy(to, from, width * rect.element_bytes)?;
                    }
                }
                Ok(())
            }
            CopyRequest::Fill {
                to,
                value,
                value_bytes,
                bytes,
            } => context.view.fill(to, &value[..value_bytes], bytes),
            CopyRequest::Fence { to, value } => {
                let place = context.view.pointer(to, 4)?;
                // SAFETY: a word in memory that others read.
                unsafe { AtomicU32::from_ptr(place.cast()) }.store(value, Ordering::Release);
                Ok(())
            }
            CopyRequest::Add { to, value } => {
                let place = context.view.pointer(to, 8)?;
                // SAFETY: as above.
                unsafe { AtomicU64::from_ptr(place.cast()) }.fetch_add(value, Ordering::AcqRel);
                Ok(())
            }
            CopyRequest::Timestamp { to } => {
                let place = context.view.pointer(to, 8)?;
                // SAFETY: as above.
                unsafe { AtomicU64::from_ptr(place.cast()) }.store(self.tick, Ordering::Release);
                Ok(())
            }
            CopyRequest::Trap { event_id } => {
                signal::raise(context, event_id);
                Ok(())
            }
            CopyRequest::Nothing
            | CopyRequest::Poll { .. }
            | CopyRequest::Write { .. }
            | CopyRequest::Unknown(_) => Ok(()),
        }
    }

    /// Lets the time of a copy pass; returns when it ends, if that is still to come.
    fn wait_for_copy(
        &mut self,
        context: &mut Context,
        (from, to, bytes): (u64, u64, u64),
        now_ns: u64,
    ) -> Option<u64> {
        let simulation = context.process.simulation;
        let until_ns = match self.copying_until_ns {
            Some(until_ns) => until_ns,
            None => {
                let first = self.copied.is_none();
                let duration_ns = timing::of_copy(
                    &simulation.machine,
                    &mut context.view,
                    (from, to, bytes),
                    first,
                );
                let start_tick = self.tick;
                self.tick += simulation.clock.duration_ticks(duration_ns);
                let until_ns = simulation.clock.nanoseconds(self.tick);
                self.copying_until_ns = Some(until_ns);
                if let Some(account) = context.process.account() {
                    account.copied(self.gpu, duration_ns);
                }
                context.account(self.gpu, simulation.clock.nanoseconds(start_tick), until_ns);
                let record = self.copied.get_or_insert(CopyRecord {
                    gpu: self.gpu,
                    queue: self.id,
                    index: self.copies,
                    from,
                    to,
                    bytes: 0,
                    ticks: (start_tick, start_tick),
                });
                record.bytes += bytes;
                record.ticks.1 = self.tick;
                until_ns
            }
        };
        if until_ns > now_ns {
            return Some(until_ns);
        }
        self.copying_until_ns = None;
        let board = &simulation.board.gpus[self.gpu];
        board.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        None
    }

    /// Writes down what was copied.
    fn record(&mut self, context: &mut Context) {
        if let Some(record) = self.copied.take() {
            self.copies += 1;
            context.truth.copy(&record);
        }
    }

    fn give_up(&mut self, context: &mut Context, first: u32) -> Step {
        self.halted = true;
        crate::simulation::log(&format!(
            "copy queue {} of GPU {}: unknown packet {first:#010x}",
            self.id, self.gpu
        ));
        fault::memory(
            context,
            self.gpu,
            Unmapped(self.ring_address + self.next % self.ring_bytes),
        );
        Step::Worked
    }
}

/// Source, target and bytes of what takes time.
fn extent(request: &CopyRequest) -> Option<(u64, u64, u64)> {
    match request {
        CopyRequest::Linear { from, to, bytes } => Some((*from, *to, *bytes)),
        CopyRequest::Rect(rect) => {
            let bytes = rect.size.iter().product::<u64>() * rect.element_bytes;
            let start = [0; 3];
            Some((
                rect.from.address(rect.element_bytes, start),
                rect.to.address(rect.element_bytes, start),
                bytes,
            ))
        }
        CopyRequest::Fill { to, bytes, .. } => Some((*to, *to, *bytes)),
        _ => None,
    }
}
