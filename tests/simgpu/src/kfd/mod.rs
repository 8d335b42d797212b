//! The compute driver: what `ioctl` on `/dev/kfd` does.
//!
//! Every call takes one structure, reads and changes it, and returns 0 or an error number, as the kernel's does. The
//! runtimes repeat calls that were interrupted.

mod memory;
mod queues;

use std::ffi::{c_int, c_ulong, c_void};

use crate::abi::{
    Apertures, CreateEvent, GetApertures, GetClockCounters, GetTileConfig, GetVersion, OneEvent,
    SetXnackMode, SmiEvents, WaitEvents, number,
};
use crate::process::events::Waited;
use crate::process::{self, Process, doorbells};
use crate::{clock, faults, simulation, sys, watch};

/// Success, or an error number.
type Answer = Result<(), c_int>;

/// Answers a call; as `ioctl`, 0 or -1 with `errno`.
///
/// # Safety
/// `argument` must point to the structure that belongs to the call.
pub unsafe fn call(request: c_ulong, argument: *mut c_void) -> c_int {
    let Some(process) = process::current() else {
        return sys::fail(libc::ENODEV);
    };
    if faults::interrupts_call(process) {
        return sys::fail(libc::EINTR);
    }
    let number = request as u8;
    // SAFETY: the caller says so.
    match unsafe { dispatch(process, number, argument) } {
        Ok(()) => 0,
        Err(error) => {
            simulation::log(&format!(
                "compute call {number:#04x} fails with error {error}"
            ));
            sys::fail(error)
        }
    }
}

/// # Safety
/// As [`call`].
unsafe fn dispatch(process: &'static Process, call: u8, argument: *mut c_void) -> Answer {
    /// The call's structure.
    macro_rules! structure {
        () => {
            // SAFETY: the caller of the driver passes the structure that belongs to the number, and nobody else uses
            // it during the call.
            unsafe { &mut *argument.cast() }
        };
    }
    match call {
        number::GET_VERSION => get_version(process, structure!()),
        number::GET_CLOCK_COUNTERS => get_clock_counters(process, structure!()),
        number::GET_PROCESS_APERTURES_NEW => {
            let arguments = structure!();
            // SAFETY: the structure names an array of the caller.
            unsafe { get_apertures(process, arguments) }
        }
        number::GET_TILE_CONFIG => {
            let arguments = structure!();
            // SAFETY: the structure names an array of the caller.
            unsafe { get_tile_config(arguments) }
        }
        number::CREATE_EVENT => create_event(process, structure!()),
        number::DESTROY_EVENT => one_event(structure!(), |id| process.events.destroy(id)),
        number::SET_EVENT => one_event(structure!(), |id| process.events.set(id)),
        number::RESET_EVENT => one_event(structure!(), |id| process.events.reset(id)),
        number::WAIT_EVENTS => {
            let arguments = structure!();
            // SAFETY: the structure names an array of the caller.
            unsafe { wait_events(process, arguments) }
        }
        number::CREATE_QUEUE => queues::create(process, structure!()),
        number::DESTROY_QUEUE => queues::destroy(process, structure!()),
        number::UPDATE_QUEUE => queues::update(process, structure!()),
        number::ALLOC_QUEUE_GWS => queues::allocate_gws(structure!()),
        number::ALLOC_MEMORY => memory::allocate(process, structure!()),
        number::FREE_MEMORY => memory::free(process, structure!()),
        number::MAP_MEMORY | number::UNMAP_MEMORY => memory::map(process, structure!()),
        number::AVAILABLE_MEMORY => memory::available(process, structure!()),
        number::IPC_EXPORT => memory::export(process, structure!()),
        number::IPC_IMPORT => memory::import(process, structure!()),
        number::EXPORT_DMABUF => memory::export_dmabuf(process, structure!()),
        number::IMPORT_DMABUF => memory::import_dmabuf(process, structure!()),
        number::GET_DMABUF_INFO => memory::dmabuf_info(process, structure!()),
        number::SMI_EVENTS => smi_events(process, structure!()),
        number::SET_XNACK_MODE => set_xnack_mode(structure!()),
        // Nothing that could be seen follows from these.
        number::SET_MEMORY_POLICY
        | number::SET_SCRATCH_BACKING_VA
        | number::SET_TRAP_HANDLER
        | number::ACQUIRE_VM
        | number::SET_CU_MASK
        | number::RUNTIME_ENABLE => Ok(()),
        _ => Err(libc::ENOTTY),
    }
}

/// The GPU with this identifier.
fn gpu_index(process: &Process, gpu_id: u32) -> Result<usize, c_int> {
    let gpus = &process.simulation.machine.gpus;
    let index = gpus.iter().position(|gpu| gpu.gpu_id == gpu_id);
    let index = index.ok_or(libc::EINVAL)?;
    if faults::is_gone(process.simulation, index) {
        return Err(libc::ENODEV);
    }
    Ok(index)
}

fn get_version(process: &Process, version: &mut GetVersion) -> Answer {
    version.major = 1;
    version.minor = process.simulation.machine.interface_minor;
    Ok(())
}

fn get_clock_counters(process: &Process, counters: &mut GetClockCounters) -> Answer {
    counters.cpu_clock_counter = clock::monotonic_raw_ns();
    counters.system_clock_counter = clock::boottime_ns();
    counters.system_clock_freq = 1_000_000_000;
    counters.gpu_clock_counter = process
        .simulation
        .clock
        .ticks(counters.system_clock_counter);
    Ok(())
}

/// # Safety
/// The structure must name an array of the length that it tells.
unsafe fn get_apertures(process: &Process, arguments: &mut GetApertures) -> Answer {
    const LDS_BASE: u64 = 1 << 48;
    const SCRATCH_BASE: u64 = 1 << 49;
    let gpus = &process.simulation.machine.gpus;
    if arguments.num_of_nodes == 0 {
        arguments.num_of_nodes = gpus.len() as u32;
        return Ok(());
    }
    let wanted = gpus.len().min(arguments.num_of_nodes as usize);
    let array: *mut Apertures = std::ptr::with_exposed_provenance_mut(arguments.apertures as usize);
    for (index, gpu) in gpus.iter().take(wanted).enumerate() {
        let apertures = Apertures {
            lds_base: LDS_BASE,
            lds_limit: LDS_BASE + u64::from(u32::MAX),
            scratch_base: SCRATCH_BASE,
            scratch_limit: SCRATCH_BASE + u64::from(u32::MAX),
            gpuvm_base: 0x4000,
            // All addresses of a process: the runtime then uses the same ones for both sides.
            gpuvm_limit: (1 << 47) - 1,
            gpu_id: gpu.gpu_id,
            pad: 0,
        };
        // SAFETY: within the array.
        unsafe { array.add(index).write_unaligned(apertures) };
    }
    arguments.num_of_nodes = wanted as u32;
    Ok(())
}

/// # Safety
/// The structure must name arrays of the lengths that it tells.
unsafe fn get_tile_config(arguments: &mut GetTileConfig) -> Answer {
    for (array, count) in [
        (arguments.tile_config, arguments.num_tile_configs),
        (
            arguments.macro_tile_config,
            arguments.num_macro_tile_configs,
        ),
    ] {
        if array != 0 {
            let array: *mut u32 = std::ptr::with_exposed_provenance_mut(array as usize);
            // SAFETY: the caller says so.
            unsafe { array.write_bytes(0, count as usize) };
        }
    }
    arguments.gb_addr_config = 0x2a11_4042;
    arguments.num_banks = 0;
    arguments.num_ranks = 0;
    Ok(())
}

fn create_event(process: &Process, arguments: &mut CreateEvent) -> Answer {
    let id = process
        .events
        .create(arguments.event_type, arguments.auto_reset != 0)
        .ok_or(libc::ENOSPC)?;
    arguments.event_id = id;
    arguments.event_trigger_data = id;
    arguments.event_slot_index = id;
    // Never zero: without a page the runtime asks for no events at all, and its waits end by timeout only.
    if arguments.event_page_offset == 0 {
        arguments.event_page_offset = doorbells::registers_offset(0);
    }
    Ok(())
}

fn one_event(arguments: &OneEvent, action: impl FnOnce(u32) -> bool) -> Answer {
    if action(arguments.event_id) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// # Safety
/// The structure must name an array of the length that it tells.
unsafe fn wait_events(process: &Process, arguments: &mut WaitEvents) -> Answer {
    const COMPLETE: u32 = 0;
    const TIMEOUT: u32 = 1;
    const FAIL: u32 = 2;
    let array = std::ptr::with_exposed_provenance_mut(arguments.events as usize);
    // SAFETY: the caller says so.
    let wanted = unsafe { std::slice::from_raw_parts_mut(array, arguments.num_events as usize) };
    let all = arguments.wait_for_all != 0;
    match process.events.wait(wanted, all, arguments.timeout) {
        Waited::Complete => arguments.wait_result = COMPLETE,
        Waited::Timeout => arguments.wait_result = TIMEOUT,
        Waited::Unknown => {
            arguments.wait_result = FAIL;
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

fn smi_events(process: &'static Process, arguments: &mut SmiEvents) -> Answer {
    gpu_index(process, arguments.gpu_id)?;
    arguments.anon_fd = watch::open(arguments.gpu_id).map_err(|_| libc::ENOMEM)?;
    Ok(())
}

fn set_xnack_mode(arguments: &mut SetXnackMode) -> Answer {
    // Negative: a question.
    if arguments.xnack_enabled > 0 {
        return Err(libc::EPERM);
    }
    arguments.xnack_enabled = 0;
    Ok(())
}
