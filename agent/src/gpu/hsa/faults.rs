//! What goes wrong on GPUs: told in the trace and on standard error. What becomes of it is left to the runtime and the program.

use std::ffi::c_void;

use super::abi::{GENERIC_ERROR, Status, SystemEvent, system_event};
use super::{agents, table};
use crate::events;
use crate::gpu::text::Text;
use crate::process;

/// Asks the runtime to tell of faults.
pub fn start() {
    if let Some(register) = table::register_system_event_handler::get() {
        // SAFETY: a function of ours that takes no data.
        unsafe { register(on_event, std::ptr::null_mut()) };
    }
}

fn tell(text: &Text<'_>) {
    events::fact(b"gpu fault", text.bytes());
    events::note(text.bytes());
}

fn put_gpu(text: &mut Text<'_>, agent: u64) {
    text.put(b" on GPU ");
    match agents::find(agent) {
        Some(gpu) => text.number(u64::from(gpu.node)),
        None => text.put(b"?"),
    }
}

/// The runtime tells of a fault of a GPU. Any answer but success leaves it to the runtime, which ends the process.
unsafe extern "C" fn on_event(event: *const SystemEvent, _: *mut c_void) -> Status {
    // SAFETY: the runtime passes an event.
    let event = unsafe { event.as_ref() };
    if let Some(event) = event
        && events::is_on()
        && process::is_own_process()
    {
        let mut buffer = [0_u8; 192];
        let mut text = Text::new(&mut buffer);
        match event.kind {
            system_event::MEMORY_FAULT => {
                text.put(b"memory fault");
                put_gpu(&mut text, event.agent);
                text.put(b" at address 0x");
                text.hex(event.address, 1);
            }
            system_event::HARDWARE_EXCEPTION => {
                text.put(b"the hardware failed and was reset, or is gone,");
                put_gpu(&mut text, event.agent);
            }
            _ => {
                text.put(b"memory error");
                put_gpu(&mut text, event.agent);
            }
        }
        tell(&text);
        // The runtime ends the process next, by an assertion perhaps, of which nobody is told.
        super::before_end();
    }
    GENERIC_ERROR
}

/// A queue has failed: its number in the trace, and why.
pub fn queue_failed(number: u32, status: Status) {
    let why: &[u8] = match status {
        41 => b"memory aperture violation",
        42 => b"illegal instruction",
        43 => b"memory fault",
        // Fewer compute units than were asked for: the queue works.
        44 => return,
        0x1008 => b"out of resources",
        0x1009 => b"invalid packet format",
        0x1016 => b"exception",
        _ => b"error",
    };
    let mut buffer = [0_u8; 192];
    let mut text = Text::new(&mut buffer);
    text.put(b"queue ");
    text.number(u64::from(number));
    text.put(b" of the GPU failed: ");
    text.put(why);
    text.put(b" (status 0x");
    text.hex(u64::from(status), 1);
    text.put(b")");
    tell(&text);
}
