//! What the GPUs do, and the calls that make them do it.
//!
//! Two sources tell of it. [`hip`] is told by the HIP runtime itself, which has a slot for a tracer. [`hsa`] stands between a
//! program and the HSA runtime below HIP: for programs without HIP, and where HIP's slot is taken. A queue has one source.
//!
//! Nothing here loads a library or calls a runtime before the program does. The agent learns that a runtime is there when
//! the program's first use of a GPU leads into `hsa_init`, which is wrapped ([`init`]), and when the HSA runtime
//! calls the tool's entry point ([`tool`]).

pub mod devices;
pub mod helper;
pub mod hip;
pub mod hsa;
pub mod init;
pub mod library;
pub mod text;
pub mod threads;
mod tool;
pub mod words;
mod wrappers;

use crate::events;
use crate::process;

/// A GPU runtime has been set up: looks for HIP, and takes the place of its tracer if that is wished and free.
///
/// May be called as often as there is a reason to think that something has changed; costs a look at the list of libraries
/// as long as there is no HIP. Not for signal handlers.
pub fn runtime_is_up() {
    if !events::is_on() || process::is_confined() {
        return;
    }
    devices::learn();
    hip::start();
}

/// The process ends: gets what the runtimes have not told yet. May hold the caller for two seconds if a GPU hangs.
/// Not for signal handlers.
pub fn at_end() {
    if process::is_active() && !process::is_confined() && process::is_own_process() {
        hip::at_end();
        hsa::at_exit();
    }
}

/// CPU time that threads of ours have used: it is none of the program's.
pub fn helpers_cpu_ns() -> u64 {
    helper::cpu_ns()
        .saturating_add(hip::helpers_cpu_ns())
        .saturating_add(threads::unsampled_cpu_ns())
}

/// The process becomes another program, unless that fails. As [`at_end`].
pub fn before_exec() {
    if process::is_active() && !process::is_confined() && process::is_own_process() {
        hip::at_end();
        hsa::before_exec();
    }
}

/// The process is about to abort itself.
pub fn at_abort() {
    if process::is_own_process() {
        hip::at_abort();
        hsa::before_end();
    }
}

/// A fork's child begins: GPU runtimes do not survive a fork, and so do not our records of them.
pub fn after_fork_in_child() {
    threads::after_fork_in_child();
    wrappers::after_fork_in_child();
    helper::after_fork_in_child();
    hip::after_fork_in_child();
    hsa::after_fork_in_child();
}
