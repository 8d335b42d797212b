//! Calls about queues.

use super::{Answer, gpu_index};
use crate::abi::{AllocQueueGws, CreateQueue, DestroyQueue, UpdateQueue};
use crate::engine;
use crate::process::Process;
use crate::process::queues::{NewQueue, QueueKind};

/// A new queue, executed from now on.
pub fn create(process: &'static Process, arguments: &mut CreateQueue) -> Answer {
    let gpu = gpu_index(process, arguments.gpu_id)?;
    let kind = match arguments.queue_type {
        1 | 3 | 4 => QueueKind::Copy,
        2 => QueueKind::Packets,
        _ => return Err(libc::EINVAL),
    };
    if !arguments.ring_size.is_power_of_two() {
        return Err(libc::EINVAL);
    }
    // The first value must mean that nothing was submitted: packet rings count from 0, so it is the one before.
    let first_value = match kind {
        QueueKind::Packets => u64::MAX,
        QueueKind::Copy => 0,
    };
    let (doorbell, offset) = process
        .doorbells
        .take(gpu, first_value)
        .ok_or(libc::ENOSPC)?;
    arguments.queue_id = process.queues.create(
        NewQueue {
            kind,
            gpu,
            ring_address: arguments.ring_base_address,
            ring_bytes: arguments.ring_size.into(),
            read_pointer_address: arguments.read_pointer_address,
            save_area_address: arguments.ctx_save_restore_address,
            doorbell,
        },
        || engine::start(process),
    );
    arguments.doorbell_offset = offset;
    if let Some(account) = process.account() {
        account.queue(
            arguments.queue_id,
            gpu,
            arguments.ring_size.into(),
            arguments.queue_type,
        );
    }
    Ok(())
}

/// The end of a queue, whatever it is doing.
pub fn destroy(process: &Process, arguments: &DestroyQueue) -> Answer {
    if process.queues.destroy(arguments.queue_id) {
        if let Some(account) = process.account() {
            account.end_queue(arguments.queue_id);
        }
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// Another share of the GPU: zero means that the queue pauses.
pub fn update(process: &Process, arguments: &UpdateQueue) -> Answer {
    let paused = arguments.queue_percentage == 0;
    if process.queues.pause(arguments.queue_id, paused) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// Global wave sync for cooperative kernels.
pub fn allocate_gws(arguments: &mut AllocQueueGws) -> Answer {
    arguments.first_gws = 0;
    Ok(())
}
