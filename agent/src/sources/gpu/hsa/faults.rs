//! What goes wrong on GPUs: recorded in the trace and said on standard error. What becomes of it is left to the runtime and the program.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::events;
use crate::sources::gpu::hsa::abi::{GENERIC_ERROR, SUCCESS, Status, SystemEvent, system_event};
use crate::sources::gpu::hsa::agents;
use crate::sources::gpu::hsa::table;
use crate::state;
use crate::sys::text::Text;

/// Asks the runtime to report faults.
pub fn start() {
    if let Some(register) = table::register_system_event_handler::get() {
        // SAFETY: a function of ours that takes no data.
        unsafe { register(on_event, std::ptr::null_mut()) };
    }
}

/// How many faults are kept apart in the trace; of those after it the last one is kept.
const MOST_FAULTS: u32 = 16;
/// Faults of this process so far.
static FAULTS: AtomicU32 = AtomicU32::new(0);

/// A fork's child has had no faults.
pub fn after_fork_in_child() {
    FAULTS.store(0, Ordering::Relaxed);
}

/// Records a fault, in the trace and for standard error. The first is `gpu fault`, the next `gpu fault 2`: none replaces another.
fn record(text: &Text<'_>) {
    let number = FAULTS.fetch_add(1, Ordering::Relaxed).saturating_add(1);
    let mut buffer = [0_u8; 32];
    let mut key = Text::new(&mut buffer);
    key.put(b"gpu fault");
    if number > 1 {
        key.put(b" ");
        key.number(u64::from(number.min(MOST_FAULTS)));
    }
    events::fact(key.bytes(), text.bytes());
    events::note(text.bytes());
}

fn put_gpu(text: &mut Text<'_>, agent: u64) {
    text.put(b" on GPU ");
    match agents::find(agent) {
        Some(gpu) => text.number(u64::from(gpu.node)),
        None => text.put(b"?"),
    }
}

/// The runtime reports an event. Any answer but success leaves it to the runtime, which ends the process after a fault.
///
/// # Safety
/// As the runtime calls it: the event is null or valid.
unsafe extern "C" fn on_event(event: *const SystemEvent, _: *mut c_void) -> Status {
    // SAFETY: the runtime passes an event.
    let Some(event) = (unsafe { event.as_ref() }) else {
        return GENERIC_ERROR;
    };
    if event.kind == system_event::SHUTDOWN {
        return SUCCESS;
    }
    if !events::is_on() || !state::is_own_process() {
        return GENERIC_ERROR;
    }
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
        system_event::MEMORY_ERROR => {
            text.put(b"memory error");
            put_gpu(&mut text, event.agent);
        }
        kind => {
            // A later runtime may report what is no fault, and which of the fields are valid is not known.
            text.put(b"the HSA runtime reported an event of the unknown kind ");
            text.number(u64::from(kind));
            events::fact(b"gpu event", text.bytes());
            events::note(text.bytes());
            return GENERIC_ERROR;
        }
    }
    record(&text);
    // The runtime ends the process next, by an assertion perhaps, which runs no hook of ours.
    crate::sources::gpu::hsa::before_end();
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
    record(&text);
}
