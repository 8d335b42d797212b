//! Code that was made at run time and whose unwind tables the program registered.
//!
//! Run-time compilers (LLVM's, and with it Numba and XLA; LuaJIT; wasmtime) tell the C++ runtime of the tables for their code with
//! `__register_frame`, either all of an `.eh_frame` or one FDE at a time. The hooks here listen in, and the handler finds the
//! code's tables in [`table`]. Names are another matter: the sampler takes them from `/tmp/perf-PID.map`.

pub mod table;

use rsys_unwind::ModuleTables;

/// The tables of the generated code at `pc`.
///
/// # Signal safety
/// As [`table::find`].
#[inline]
pub fn find(pc: u64) -> Option<ModuleTables> {
    table::find(pc).map(|function| ModuleTables {
        range: function.start..function.end,
        eh_frame_hdr: 0,
        eh_frame: function.description,
    })
}

/// Goes on in the child of a fork, where a thread that was changing the table may be missing.
pub fn after_fork_in_child() {
    table::after_fork_in_child();
}

// libgcc's functions call one another through the PLT, and so these hooks: a registration may be noted twice.
