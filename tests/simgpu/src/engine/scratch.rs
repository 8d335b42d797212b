//! Scratch memory: what a kernel's work-items have for themselves is lent to a queue by the runtime, when a kernel needs more than there is.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use super::context::Context;
use super::signal;
use crate::memory::Unmapped;

/// `amd_queue_t`: bytes of scratch for each lane of a wave of 64, and the signal by which the queue tells that it has stopped.
const LANE_BYTES: u64 = 0xb0;
const INACTIVE_SIGNAL: u64 = 0xc0;
/// What the queue tells: too little scratch for a wave of 64.
const TOO_LITTLE: i64 = 1;

/// What is asked for on behalf of one queue.
#[derive(Debug, Default)]
pub struct Scratch {
    is_asked: bool,
}

impl Scratch {
    /// Whether a kernel with so many bytes for each work-item can start. If not, the runtime is asked for more, and answers by setting
    /// the signal to zero. The packet must still be the queue's next: the runtime looks at it.
    ///
    /// # Errors
    /// When the queue is not in memory.
    pub fn suffices(
        &mut self,
        context: &mut Context,
        queue_address: u64,
        bytes: u32,
    ) -> Result<bool, Unmapped> {
        let place = context.view.pointer(queue_address + LANE_BYTES, 4)?;
        // SAFETY: a word of the queue's structure, which the runtime keeps until the queue is destroyed; so below.
        let lane_bytes = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire);
        if bytes <= lane_bytes && !self.is_asked {
            return Ok(true);
        }
        let handle = context.view.read_u64(queue_address + INACTIVE_SIGNAL)?;
        let place = context.view.pointer(handle, 64)?;
        // SAFETY: a signal: the value is at 8.
        let value = unsafe { AtomicI64::from_ptr(place.add(8).cast()) };
        if !self.is_asked {
            self.is_asked = true;
            value.store(TOO_LITTLE, Ordering::Release);
            let mailbox = context.view.read_u64(handle + 16)?;
            let event_id = context.view.read_u64(handle + 24)?;
            if mailbox != 0 {
                signal::raise(context, event_id as u32);
            }
            return Ok(false);
        }
        let is_answered = value.load(Ordering::Acquire) == 0;
        self.is_asked = !is_answered;
        Ok(is_answered)
    }
}
