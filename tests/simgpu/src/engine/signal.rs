//! How completion is told: by signals in memory, and events for whoever sleeps.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::context::Context;
use crate::memory::Unmapped;

/// `amd_signal_t`: offsets of its fields, and its size. The same in all versions of the runtime.
mod field {
    pub const VALUE: usize = 8;
    pub const MAILBOX: usize = 16;
    pub const EVENT_ID: usize = 24;
    pub const START: usize = 32;
    pub const END: usize = 40;
    pub const BYTES: u64 = 64;
}

/// Completes a signal: stamps it if there are times, counts it down, and raises its event. No signal: nothing.
///
/// # Errors
/// When it is not in memory.
pub fn complete(
    context: &mut Context,
    handle: u64,
    ticks: Option<(u64, u64)>,
) -> Result<(), Unmapped> {
    if handle == 0 {
        return Ok(());
    }
    let signal = context.view.pointer(handle, field::BYTES)?;
    // SAFETY: a signal in memory, aligned as the runtime does. The fields beside the value are not written by anybody
    // else while the packet is in flight.
    let (value, mailbox, event_id) = unsafe {
        if let Some((start, end)) = ticks {
            signal.add(field::START).cast::<u64>().write(start);
            signal.add(field::END).cast::<u64>().write(end);
        }
        (
            AtomicI64::from_ptr(signal.add(field::VALUE).cast()),
            signal.add(field::MAILBOX).cast::<u64>().read(),
            signal.add(field::EVENT_ID).cast::<u32>().read(),
        )
    };
    // Whoever waits may free the signal at once: nothing of it is read after this.
    value.fetch_sub(1, Ordering::AcqRel);
    if mailbox != 0 {
        let place = context.view.pointer(mailbox, 8)?.cast::<u64>();
        // SAFETY: the mailbox is a word of the runtime's event page.
        unsafe { AtomicU64::from_ptr(place) }.store(event_id.into(), Ordering::Release);
        raise(context, event_id);
    }
    Ok(())
}

/// Raises an event, unless events are configured to stay silent.
pub fn raise(context: &Context, event_id: u32) {
    if !context.process.simulation.machine.faults.silent_events {
        context.process.events.set(event_id);
    }
}

/// Only stamps a signal.
///
/// # Errors
/// When it is not in memory.
pub fn stamp(context: &mut Context, handle: u64, (start, end): (u64, u64)) -> Result<(), Unmapped> {
    let signal = context.view.pointer(handle, field::BYTES)?;
    // SAFETY: a signal in memory.
    unsafe {
        signal.add(field::START).cast::<u64>().write(start);
        signal.add(field::END).cast::<u64>().write(end);
    }
    Ok(())
}

/// A signal's value.
///
/// # Errors
/// When it is not in memory.
pub fn value(context: &mut Context, handle: u64) -> Result<i64, Unmapped> {
    let signal = context.view.pointer(handle, field::BYTES)?;
    // SAFETY: a signal in memory, aligned as the runtime does.
    let value = unsafe { AtomicI64::from_ptr(signal.add(field::VALUE).cast()) };
    Ok(value.load(Ordering::Acquire))
}
