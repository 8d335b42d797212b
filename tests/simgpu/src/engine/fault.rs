//! What goes wrong on a GPU, and how the driver tells.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::context::Context;
use super::signal;
use crate::abi::event;
use crate::memory::Unmapped;
use crate::simulation;
use crate::watch;

/// The address of a configured memory fault.
pub const NOWHERE: u64 = 0xdead_0000_0000;
/// How much later a signal with late times is stamped.
pub const LATE_NS: u64 = 2_000_000;

/// Queue errors, as in the kernel's `kfd_ioctl.h` (exception codes).
pub const ILLEGAL_INSTRUCTION: u32 = 4;
/// A packet that the processor does not understand.
pub const INVALID_PACKET: u32 = 20;

/// In the header of a queue's save area: where errors are told, and by which event.
const ERROR_PAYLOAD: u64 = 24;
const ERROR_EVENT: u64 = 32;

/// A memory fault: every event of that kind is raised, with the address.
pub fn memory(context: &mut Context, gpu: usize, unmapped: Unmapped) {
    simulation::log(&format!("GPU {gpu}: memory fault at {:#x}", unmapped.0));
    let gpu_id = context.process.simulation.machine.gpus[gpu].gpu_id;
    watch::memory_fault(gpu_id);
    let gpu_id = u64::from(gpu_id);
    // NotPresent, ReadOnly, NoExecute, imprecise; address; GPU and kind of error.
    let page = unmapped.0 & !0xfff;
    context
        .process
        .events
        .raise_exception(event::MEMORY, [1, 0, page, gpu_id]);
}

/// A queue error: newer runtimes are told in the save area, older ones by the queue's own signal.
pub fn queue(context: &mut Context, gpu: usize, save_area: u64, inactive_signal: u64, code: u32) {
    simulation::log(&format!("GPU {gpu}: queue error {code}"));
    if save_area != 0
        && let Ok(payload) = context.view.read_u64(save_area + ERROR_PAYLOAD)
        && payload != 0
        && let Ok(event_id) = context.view.read_u64(save_area + ERROR_EVENT)
        && let Ok(place) = context.view.pointer(payload, 8)
    {
        // SAFETY: a word that the runtime set aside for this.
        unsafe { AtomicU64::from_ptr(place.cast()) }.fetch_or(1 << (code - 1), Ordering::Release);
        context.process.events.set(event_id as u32);
        return;
    }
    // Error numbers of older runtimes: 1 << 5 is an illegal instruction, 1 << 3 an invalid packet.
    let error: i64 = if code == ILLEGAL_INSTRUCTION {
        1 << 5
    } else {
        1 << 3
    };
    if let Ok(place) = context.view.pointer(inactive_signal, 64) {
        // SAFETY: a signal: the value is at 8.
        unsafe { AtomicI64::from_ptr(place.add(8).cast()) }.store(error, Ordering::Release);
        let mailbox = context.view.read_u64(inactive_signal + 16);
        if let (Ok(1..), Ok(event_id)) = (mailbox, context.view.read_u64(inactive_signal + 24)) {
            signal::raise(context, event_id as u32);
        }
    }
}

/// The GPU is gone: driver calls about it fail, and whoever watches the hardware is told of a reset.
pub fn vanish(context: &mut Context, gpu: usize) {
    simulation::log(&format!("GPU {gpu}: vanished"));
    let simulation = context.process.simulation;
    simulation.board.gpus[gpu]
        .vanished
        .store(1, Ordering::Relaxed);
    let gpu_id = simulation.machine.gpus[gpu].gpu_id;
    watch::reset(gpu_id);
    let gpu_id = u64::from(gpu_id);
    // reset_type 0 (whole GPU), reset_cause 0 (hang); memory_lost 1, GPU.
    let data = [0, 1 | gpu_id << 32, 0, 0];
    context
        .process
        .events
        .raise_exception(event::HW_EXCEPTION, data);
}
