//! The entry points by which the HSA runtime knows a tool (`HSA_TOOLS_LIB`).

use std::ffi::{c_char, c_void};

use crate::gpu::{self, hip, hsa};
use crate::process;

/// Set up, with the table of functions that every call goes through.
///
/// # Safety
/// Called by the HSA runtime, with its table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OnLoad(
    table: *mut c_void,
    runtime_version: u64,
    _failed_count: u64,
    _failed_names: *const *const c_char,
) -> bool {
    if process::is_active() && !process::is_confined() {
        // HIP first: what it tells, queues need not.
        gpu::runtime_is_up();
        hsa::on_load(table, runtime_version);
    }
    // With `false` the runtime would unload us.
    true
}

/// The runtime ends: nothing of it may be called any more.
#[unsafe(no_mangle)]
pub extern "C" fn OnUnload() {
    hip::is_over();
    hsa::on_unload();
}
