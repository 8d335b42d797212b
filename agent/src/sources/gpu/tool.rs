//! The entry points by which the HSA runtime knows a tool (`HSA_TOOLS_LIB`).

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use rsys_wire::handshake::GpuSource;

use rsys_wire::sources::Category;

use crate::events;
use crate::sources::gpu;
use crate::sources::gpu::hip;
use crate::sources::gpu::hsa;
use crate::sources::gpu::owner;
use crate::state;
use crate::sys::text::Text;

/// Whether the runtime that is up has loaded us. A fork's child has its parent's runtime, loaded or not.
static IS_LOADED: AtomicBool = AtomicBool::new(false);
/// Whether the line that says that it has not was recorded.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// `hsa_init` has succeeded: says so if the runtime has not loaded us, for then much is missing that would otherwise look as if it had not
/// happened. AMD's builds load no tool where another one has registered with rocprofiler-register; and HSA_TOOLS_LIB may be gone.
pub fn check_is_loaded() {
    let settings = state::settings();
    let wished = settings.events.has(Category::Hsa)
        || settings.events.gpu && settings.gpu_source != GpuSource::Off;
    if !wished || IS_LOADED.load(Ordering::Acquire) || IS_SAID.swap(true, Ordering::AcqRel) {
        return;
    }
    const WHY: &[u8] = b"the HSA runtime did not load rsys as a tool (another tool took precedence, or HSA_TOOLS_LIB was removed): \
        only what HIP reports is recorded, no HSA calls, kernels of programs without HIP, or GPU faults";
    let mut buffer = [0_u8; 384];
    let mut text = Text::new(&mut buffer);
    if owner::is_hip() {
        text.put(hip::SOURCE);
        text.put(b"; ");
    }
    text.put(WHY);
    events::fact(b"gpu source", text.bytes());
    events::note(WHY);
}

/// Set up, with the table of functions that every call goes through.
///
/// # Safety
/// Called by the HSA runtime, with its table.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn OnLoad(
    table: *mut c_void,
    runtime_version: u64,
    _failed_count: u64,
    _failed_names: *const *const c_char,
) -> bool {
    IS_LOADED.store(true, Ordering::Release);
    hip::is_back();
    if state::is_active() && !state::is_confined() {
        // HIP first: what it reports need not be seen in queues.
        gpu::runtime_is_up();
        hsa::on_load(table, runtime_version);
    }
    // With `false` the runtime would unload us.
    true
}

/// The runtime ends: nothing of it may be called any more.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn OnUnload() {
    IS_LOADED.store(false, Ordering::Release);
    hip::is_over();
    hsa::on_unload();
}
