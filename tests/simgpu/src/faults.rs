//! Faults of the driver itself; those of kernels are in `engine`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::process::Process;
use crate::simulation::Simulation;

/// What happens to an open of a device, of a GPU or of all: an error number, or none after the configured delay.
pub fn of_open(simulation: &Simulation, gpu: Option<usize>) -> Option<i32> {
    static OPENS: AtomicU64 = AtomicU64::new(0);
    let faults = &simulation.machine.faults;
    let earlier = OPENS.fetch_add(1, Ordering::Relaxed);
    if earlier == 0 && faults.open_delay_ms > 0 {
        std::thread::sleep(Duration::from_millis(faults.open_delay_ms));
    }
    if let Some(gpu) = gpu
        && is_gone(simulation, gpu)
    {
        return Some(libc::ENODEV);
    }
    (earlier < faults.interrupt_opens).then_some(libc::EINTR)
}

/// Whether this call of the driver is interrupted.
pub fn interrupts_call(process: &Process) -> bool {
    let every = process.simulation.machine.faults.interrupt_every;
    every > 0 && (process.calls.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every)
}

/// Whether this allocation of device memory fails.
pub fn fails_allocation(process: &Process) -> bool {
    let number = process.allocations.fetch_add(1, Ordering::Relaxed) + 1;
    let failing = &process.simulation.machine.faults.failing_allocations;
    failing.contains(&number)
}

/// Whether a GPU vanished.
pub fn is_gone(simulation: &Simulation, gpu: usize) -> bool {
    simulation.board.gpus[gpu].vanished.load(Ordering::Relaxed) != 0
}
